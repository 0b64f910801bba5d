//! Binding a pod to a node, and evicting it from there.

use std::sync::Arc;

use async_trait::async_trait;
use kinds::core::pod::{Eviction, bind, evict, validate_binding};
use object::{GroupResource, Meta, Reason, Status, Value, value};
use registry::{Action, ActionCall, AdmitAll, Change, Storage, UpdateOptions, UpdateScope};

/// How often an eviction starts over when its budget changes meanwhile.
const TRIES: usize = 8;

pub struct Bind;

#[async_trait]
impl Action for Bind {
    async fn create(&self, call: ActionCall<'_>) -> Result<Value, Status> {
        validate_binding(&call.body)?;
        call.admit.validate(Some(&call.body), None).await?;
        let pods = pods(&call)?;
        let options = UpdateOptions {
            uid: Some(call.body.uid().to_string()).filter(|uid| !uid.is_empty()),
            resource_version: Some(call.body.resource_version().to_string()).filter(|version| !version.is_empty()),
            scope: UpdateScope::Other,
            ..UpdateOptions::default()
        };
        let mut change = Assign { call: &call };
        pods.update(&call.cx, call.name, &mut change, &AdmitAll, &options).await?;
        Ok(success(201))
    }
}

struct Assign<'a> {
    call: &'a ActionCall<'a>,
}

#[async_trait]
impl Change for Assign<'_> {
    async fn apply(&mut self, existing: Option<&Value>) -> Result<Value, Status> {
        let Some(pod) = existing else {
            return Err(Status::not_found(&GroupResource::new("", "pods"), self.call.name));
        };
        bind(&self.call.cx, pod, &self.call.body)
    }
}

pub struct Evict;

#[async_trait]
impl Action for Evict {
    async fn create(&self, call: ActionCall<'_>) -> Result<Value, Status> {
        if call.body.name() != call.name && !call.body.name().is_empty() {
            return Err(Status::bad_request("name in URL does not match name in Eviction object"));
        }
        call.admit.validate(Some(&call.body), None).await?;
        let pods = pods(&call)?;
        for _ in 0..TRIES {
            let pod = pods.get(call.cx.namespace, call.name).await?;
            let budgets = call.cx.lookup.list("policy", "poddisruptionbudgets", call.cx.namespace);
            match evict(&pod, budgets.iter().map(Arc::as_ref), call.cx.now)? {
                Eviction::Delete { same_version, on_conflict } => {
                    match delete(&call, &pods, &pod, same_version).await {
                        Err(status) if status.reason == Reason::Conflict && same_version => {
                            if let Some(answer) = on_conflict {
                                return Err(answer);
                            }
                        }
                        result => return result,
                    }
                }
                Eviction::DeleteAfter { budget } => {
                    if store_budget(&call, &budget).await? {
                        return delete(&call, &pods, &pod, false).await;
                    }
                }
            }
        }
        Err(Status::too_many_requests("Cannot evict pod: its disruption budget keeps changing", 10))
    }
}

/// Deletes the pod as the eviction's own options ask.
async fn delete(call: &ActionCall<'_>, pods: &Storage, pod: &Value, same_version: bool) -> Result<Value, Status> {
    let mut options = call.body.field("deleteOptions").clone();
    if options.is_null() {
        options = Value::map();
    }
    if same_version && options.at(&["preconditions", "resourceVersion"]).is_null() {
        options.set(&["preconditions", "resourceVersion"], pod.resource_version());
    }
    pods.delete(&call.cx, call.name, &options, call.admit).await?;
    Ok(success(201))
}

/// Stores the budget with one disruption less; false if it was changed meanwhile.
async fn store_budget(call: &ActionCall<'_>, budget: &Value) -> Result<bool, Status> {
    if call.cx.dry_run {
        return Ok(true);
    }
    let Some(storage) = call.catalog.stored("policy", "poddisruptionbudgets") else { return Ok(true) };
    let options = UpdateOptions { scope: UpdateScope::Other, ..UpdateOptions::default() };
    let mut change = Replace { budget };
    match storage.update(&call.cx, budget.name(), &mut change, &AdmitAll, &options).await {
        Ok(_) => Ok(true),
        Err(status) if status.reason == Reason::Conflict => Ok(false),
        Err(status) => Err(status),
    }
}

struct Replace<'a> {
    budget: &'a Value,
}

#[async_trait]
impl Change for Replace<'_> {
    async fn apply(&mut self, _: Option<&Value>) -> Result<Value, Status> {
        Ok(self.budget.clone())
    }
}

fn pods<'a>(call: &'a ActionCall<'_>) -> Result<&'a Arc<Storage>, Status> {
    call.catalog.stored("", "pods").ok_or_else(|| Status::internal("pods are not served"))
}

fn success(code: i64) -> Value {
    value!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": code})
}
