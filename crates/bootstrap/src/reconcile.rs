//! Making sure that a default object is there and says at least what it should.

use std::sync::Arc;

use async_trait::async_trait;
use object::{GroupVersion, Meta, Reason, Status, Value};
use registry::{AdmitAll, Change, Storage, UpdateOptions, UpdateScope};
use request::User;
use rest::{Api, Snapshot, Tracked};

const AUTOUPDATE: &str = "rbac.authorization.kubernetes.io/autoupdate";

/// Creates the object if it is missing; adds what a default role or binding has lost since.
pub async fn ensure(api: &Arc<Api>, resource: &str, object: Value) -> Result<(), Status> {
    let group = GroupVersion::parse(object.api_version()).map_err(Status::internal)?.group;
    let api = api.snapshot();
    // A group that was turned off has nothing to bootstrap.
    let Some(storage) = api.catalog.stored(&group, resource) else { return Ok(()) };
    let user = User::loopback();
    let namespace = object.namespace().to_string();
    let cx = api.context(&user, &namespace, &storage.kind.version, "", false);
    let mut wanted = object;
    if let Some(schema) = schema::builtin().schema(&storage.kind) {
        schema::default(schema, &mut wanted);
    }
    storage.strategy.default(&mut wanted);
    let wanted = owned(&api, storage, wanted);
    if storage.cache.get(&storage.key(&namespace, wanted.name())).is_none() {
        return match storage.create(&cx, wanted, &AdmitAll).await {
            Ok(_) => Ok(()),
            // Another server was faster.
            Err(status) if status.reason == Reason::AlreadyExists => Ok(()),
            Err(status) => Err(status),
        };
    }
    if group != "rbac.authorization.k8s.io" {
        return Ok(());
    }
    let name = wanted.name().to_string();
    let mut change = AddMissing { wanted };
    storage.update(&cx, &name, &mut change, &AdmitAll, &UpdateOptions::default()).await.map(|_| ())
}

/// Applies the conditions that an object of ours should have, unless it has conditions already.
pub async fn apply_status(api: &Arc<Api>, resource: &str, config: Value, manager: &'static str) -> Result<(), Status> {
    let group = GroupVersion::parse(config.api_version()).map_err(Status::internal)?.group;
    let api = api.snapshot();
    let Some(storage) = api.catalog.stored(&group, resource) else { return Ok(()) };
    let user = User::loopback();
    let cx = api.context(&user, "", &storage.kind.version, "status", false);
    let name = config.name().to_string();
    let mut change = ApplyStatus { api: &api, storage, config, manager };
    let options = UpdateOptions { scope: UpdateScope::Status, ..UpdateOptions::default() };
    storage.update(&cx, &name, &mut change, &AdmitAll, &options).await.map(|_| ())
}

struct ApplyStatus<'a> {
    api: &'a Snapshot,
    storage: &'a Storage,
    config: Value,
    manager: &'static str,
}

#[async_trait]
impl Change for ApplyStatus<'_> {
    async fn wanted(&mut self, existing: Option<&Value>) -> Result<Value, Status> {
        let existing = existing.ok_or_else(|| Status::not_found(&self.storage.resource, self.config.name()))?;
        if !existing.list_at(&["status", "conditions"]).is_empty() {
            return Ok(existing.clone());
        }
        let now = self.api.clock.now();
        let applied = tracked(self.api, self.storage, "status", |tracked| {
            rest::force_apply(tracked, existing, &self.config, self.manager, now)
        });
        applied.unwrap_or_else(|| Ok(existing.clone()))
    }
}

/// The object with the fields it brings as those of the server, under the names that upstream's servers use.
fn owned(api: &Snapshot, storage: &Storage, object: Value) -> Value {
    let manager = match storage.resource.group.as_str() {
        "flowcontrol.apiserver.k8s.io" => "api-priority-and-fairness-config-producer-v1",
        _ => "kube-apiserver",
    };
    let now = api.clock.now();
    let owned = tracked(api, storage, "", |tracked| rest::track(tracked, &Value::map(), object.clone(), manager, now));
    owned.unwrap_or(object)
}

/// Works with what fields of this resource are tracked by; None where its stored version is not served.
fn tracked<T>(
    api: &Snapshot,
    storage: &Storage,
    subresource: &'static str,
    work: impl FnOnce(&Tracked<'_>) -> T,
) -> Option<T> {
    let (id, kind) = (&storage.resource, &storage.kind);
    let resource = api.catalog.of(&kind.group_version()).find(|r| r.resource.resource == id.resource)?;
    let resets = storage.strategy.reset_fields(subresource);
    (resource.kind == *kind).then(|| work(&Tracked { kind, shape: &resource.shape, subresource, resets }))
}

/// Adds rules, subjects, labels and annotations that a default role or binding should have, unless its owner said not to.
struct AddMissing {
    wanted: Value,
}

#[async_trait]
impl Change for AddMissing {
    async fn wanted(&mut self, existing: Option<&Value>) -> Result<Value, Status> {
        let Some(existing) = existing else { return Ok(self.wanted.clone()) };
        let mut object = existing.clone();
        if existing.annotation(AUTOUPDATE) == Some("false") {
            return Ok(object);
        }
        for list in ["rules", "subjects"] {
            let missing: Vec<Value> = self
                .wanted
                .list_at(&[list])
                .iter()
                .filter(|item| !existing.list_at(&[list]).contains(item))
                .cloned()
                .collect();
            if !missing.is_empty() {
                object.slot(&[list]).make_list().extend(missing);
            }
        }
        for field in ["labels", "annotations"] {
            let wanted = self.wanted.metadata().field(field).as_map();
            for (key, value) in wanted.into_iter().flat_map(|map| map.iter()) {
                object.set_default(&["metadata", field, key], value.clone());
            }
        }
        Ok(object)
    }
}
