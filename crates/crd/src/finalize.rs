//! Deletion of a definition: deletes its objects, then removes its finalizer.

use std::sync::Arc;
use std::time::Duration;

use object::{GroupVersionKind, Meta, Reason, Status, Value, value};
use registry::{Context, Error, ResourceStorage, UpdateOptions};
use request::User;
use rest::ManagedKind;

use crate::Definitions;
use crate::definitions::GROUP;
use crate::status::{self, Condition};

/// Holds a definition until its objects are gone.
pub const FINALIZER: &str = "customresourcecleanup.apiextensions.k8s.io";
/// How long objects with finalizers of their own are waited for before the condition says so.
const WAIT_MAX: Duration = Duration::from_secs(60);
const FIRST_RETRY: Duration = Duration::from_millis(50);
const RETRY_MAX: Duration = Duration::from_secs(60);

/// Built-in resources that are stored where custom resources of the same name would be.
const OVERLAPPING: [&str; 2] = ["apiservices.apiregistration.k8s.io", "customresourcedefinitions.apiextensions.k8s.io"];

/// Deletes the objects of a definition, then removes its finalizer; retries until the definition is gone.
pub async fn run(definitions: &Definitions, name: &str, storage: Option<Arc<ResourceStorage>>) {
    let mut pause = FIRST_RETRY;
    loop {
        match finalize(definitions, name, storage.as_deref()).await {
            Ok(()) => return,
            Err(status) if status.reason == Reason::NotFound => return,
            Err(status) => {
                tracing::warn!(name, message = status.message, "objects of a definition are not all deleted")
            }
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(RETRY_MAX);
    }
}

async fn finalize(definitions: &Definitions, name: &str, storage: Option<&ResourceStorage>) -> Result<(), Status> {
    let now = || definitions.api.clock.now();
    let terminating =
        |status: bool, reason: &'static str, message: String| Condition::new("Terminating", status, reason, message);
    let mut established = false;
    let began = terminating(true, "InstanceDeletionInProgress", "CustomResource deletion is in progress".to_string());
    update(definitions, name, &mut |object| {
        established = status::is_true(object, "Established");
        status::set(object, &began, now());
        true
    })
    .await?;
    let condition = match storage.filter(|_| established) {
        _ if OVERLAPPING.contains(&name) => {
            let why = "instances overlap with built-in resources in storage".to_string();
            terminating(false, "OverlappingBuiltInResource", why)
        }
        None => terminating(false, "NeverEstablished", "resource was never established".to_string()),
        Some(storage) => match delete_objects(definitions, storage).await {
            Ok(()) => terminating(false, "InstanceDeletionCompleted", "removed all instances".to_string()),
            Err((reason, message)) => {
                let failed = terminating(true, reason, message.clone());
                update(definitions, name, &mut |object| {
                    status::set(object, &failed, now());
                    true
                })
                .await?;
                return Err(Status::internal(message));
            }
        },
    };
    update(definitions, name, &mut |object| {
        status::set(object, &condition, now());
        let left: Vec<Value> = object.finalizers().filter(|held| *held != FINALIZER).map(Value::from).collect();
        if left.is_empty() {
            object.metadata_mut().remove("finalizers");
        } else {
            object.metadata_mut().insert("finalizers", left);
        }
        true
    })
    .await
}

/// Deletes every object and waits until all of them are gone.
async fn delete_objects(definitions: &Definitions, storage: &ResourceStorage) -> Result<(), (&'static str, String)> {
    let failed = |error: String| ("InstanceDeletionFailed", error);
    storage.cache.fresh().await.map_err(|error| failed(format!("could not list instances: {error}")))?;
    let user = User::loopback();
    let api = definitions.api.snapshot();
    let objects = storage.cache.snapshot(&storage.range("").into()).objects;
    let mut errors: Vec<String> = Vec::new();
    for object in &objects {
        let header = object.header(storage.cache.describe());
        let cx = api.context(&user, &header.namespace, "v1", "", false);
        let options = value!({"kind": "DeleteOptions", "apiVersion": "v1"});
        match storage.delete(&cx, &header.name, &options).await {
            Err(error) if error.reason() != Reason::NotFound => errors.push(Status::from(error).message),
            _ => {}
        }
    }
    if !errors.is_empty() {
        return Err(failed(format!("could not issue all deletes: {}", object::aggregate(errors))));
    }
    let gone = async {
        while !storage.cache.is_empty() {
            let seen = storage.cache.revision();
            let _ = storage.cache.wait_for(seen + 1).await;
        }
    };
    let waited = tokio::time::timeout(WAIT_MAX, gone).await;
    waited.map_err(|_| {
        let why = "could not confirm zero CustomResources remaining: timed out waiting for the condition";
        ("InstanceDeletionCheck", why.to_string())
    })
}

/// Changes the status of a definition, unless `change` says no. It sees the definition in the form of v1 and without its
/// spec, which a write of the status leaves alone.
pub async fn update(
    definitions: &Definitions,
    name: &str,
    change: &mut (dyn FnMut(&mut Value) -> bool + Send),
) -> Result<(), Status> {
    let user = User::loopback();
    let api = definitions.api.snapshot();
    let cx = Context { group: GROUP, ..api.context(&user, "", "v1", "status", false) };
    match write_status(definitions, &cx, name, change).await {
        Ok(()) => Ok(()),
        Err(error) if error.reason() == Reason::Conflict => Ok(()),
        Err(error) => Err(error.into()),
    }
}

async fn write_status(
    definitions: &Definitions,
    cx: &Context<'_>,
    name: &str,
    change: &mut (dyn FnMut(&mut Value) -> bool + Send),
) -> Result<(), Error> {
    let storage = &definitions.followed.storage;
    let kind = GroupVersionKind::new(GROUP, "v1", "CustomResourceDefinition");
    let tracked = ManagedKind {
        kind: &kind,
        form: &definitions.form,
        subresource: "status",
        resets: storage.strategy.facts().reset_fields("status"),
    };
    let mut write = storage.begin(cx, name, &UpdateOptions::STATUS).await?;
    loop {
        let stored = write.existing().await?;
        let mut live = kinds::apiextensions::to_v1(stored.clone());
        // Schemas are large, and nothing below looks at them.
        let spec = live.remove(&["spec"]).unwrap_or_default();
        let mut changed = live.clone();
        if !change(&mut changed) {
            return Err(Status::conflict(&storage.resource, live.name(), registry::MODIFIED).into());
        }
        let mut changed = rest::track(&tracked, &live, changed, "kube-apiserver", cx.now).await;
        changed.set(&["spec"], spec);
        if write.store(kinds::apiextensions::to_stored(changed), Some(&stored)).await?.is_some() {
            return Ok(());
        }
    }
}
