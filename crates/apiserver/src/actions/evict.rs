//! Eviction: checks and charges the pod's disruption budget, adds the DisruptionTarget condition, and deletes the pod.

use std::sync::Arc;

use async_trait::async_trait;
use kinds::core::pod::{Eviction, evict, mark_evicted};
use object::{Cursor, Errors, GroupKind, GroupResource, Meta, Reason, Status, Value};
use registry::{
    Action, ActionCall, AdmitAll, Context, Resource, ResourceStorage, UpdateOptions, UpdateScope, UpdatedObject,
};
use rest::ManagedKind;

use super::pods::{pods, success};
use super::token::strings;

/// How often an eviction starts over because the pod or its budget changed meanwhile.
const TRIES: usize = 20;
/// When to try again after that.
const RETRY_SECONDS: u32 = 10;

pub struct Evict;

#[async_trait]
impl Action for Evict {
    async fn create(&self, call: ActionCall<'_>) -> Result<Value, Status> {
        if call.body.name() != call.name {
            return Err(Status::bad_request("name in URL does not match name in Eviction object"));
        }
        let options = delete_options(&call)?;
        call.admit.validate(Some(&call.body), None).await?;
        let dry_run = !strings(options.field("dryRun")).is_empty();
        let evicting = Evicting { cx: Context { dry_run, ..call.cx }, pods: pods(&call)?, call: &call, options };
        evicting.run().await?;
        Ok(success())
    }
}

/// The options to delete the pod with. A dry run may be asked for in the request or in the eviction.
fn delete_options(call: &ActionCall<'_>) -> Result<Value, Status> {
    let given = Cursor::root(&call.body).field("deleteOptions");
    let breaking = given.field("ignoreStoreReadErrorWithClusterBreakingPotential");
    if breaking.bool() {
        let mut errors = Errors::new();
        breaking.invalid(&mut errors, "can not be set for pod eviction, try after removing the option");
        return Err(Status::invalid(&GroupKind::new("policy", "Eviction"), call.name, &errors));
    }
    let mut options = if given.is_set() { given.value().clone() } else { Value::map() };
    let (asked, inside) = (strings(call.options.field("dryRun")), strings(options.field("dryRun")));
    if inside.is_empty() && !asked.is_empty() {
        options.set(&["dryRun"], asked);
    } else if !asked.is_empty() && asked != inside {
        let message = format!(
            "Non-matching dry-run options in request and content: [{}] and [{}]",
            asked.join(" "),
            inside.join(" ")
        );
        return Err(Status::unknown(500, message));
    }
    Ok(options)
}

struct Evicting<'a> {
    call: &'a ActionCall<'a>,
    /// As in the call, but a dry run may have been asked for by the eviction.
    cx: Context<'a>,
    pods: &'a Arc<ResourceStorage>,
    options: Value,
}

impl Evicting<'_> {
    async fn run(&self) -> Result<(), Status> {
        let names_version = !self.options.at(&["preconditions", "resourceVersion"]).is_null();
        let mut refused = None;
        for _ in 0..TRIES {
            let pod = self.pods.get(self.cx.namespace, self.call.name).await?;
            registry::validate_options(&self.options)?;
            let budgets = self.budgets().await?;
            match evict(&pod, budgets.iter().map(Arc::as_ref), self.cx.now)? {
                Eviction::Delete { same_version, on_conflict } => {
                    let version = (same_version && !names_version).then(|| pod.resource_version());
                    match self.delete(version).await {
                        // Only what the request itself did not ask for is tried again.
                        Err(status) if status.reason == Reason::Conflict && version.is_some() => {
                            if let Some(answer) = on_conflict {
                                return Err(answer);
                            }
                            refused = Some(status);
                        }
                        Err(status) if status.reason == Reason::Conflict && !names_version && is_over(&pod) => {
                            refused = Some(status);
                        }
                        result => return result,
                    }
                }
                Eviction::DeleteAfter { budget } => {
                    if self.store_budget(&budget).await? {
                        return self.delete(None).await;
                    }
                    let name = object::quote(budget.name());
                    let why = format!("couldn't update PodDisruptionBudget {name} due to conflicts");
                    refused = Some(Status::timeout(why, RETRY_SECONDS));
                }
            }
        }
        Err(refused.unwrap_or_else(|| Status::internal("an eviction was not tried")))
    }

    /// All budgets of the namespace, as they are now.
    async fn budgets(&self) -> Result<Vec<Arc<Value>>, Status> {
        let Some(storage) = self.call.cx.catalog.stored("policy", "poddisruptionbudgets") else {
            return Ok(Vec::new());
        };
        storage.cache.fresh().await.map_err(|error| storage.read_failed(error, "list"))?;
        Ok(self.cx.lookup.list("policy", "poddisruptionbudgets", self.cx.namespace))
    }

    /// Marks the pod and deletes it, if it is still in the version that the options or the caller name.
    async fn delete(&self, version: Option<&str>) -> Result<(), Status> {
        let mut options = self.options.clone();
        let wanted = ["preconditions", "resourceVersion"];
        if let Some(version) = version {
            options.set(&wanted, version);
        }
        if !self.cx.dry_run {
            let update = UpdateOptions { scope: UpdateScope::Status, ..UpdateOptions::default() };
            let cx = Context { subresource: "status", ..self.cx };
            let mut mark = Mark { cx: &cx, preconditions: options.field("preconditions").clone() };
            let marked = self.pods.update(&cx, self.call.name, &mut mark, &AdmitAll, &update).await?;
            if !options.at(&wanted).is_null() {
                options.set(&wanted, marked.object.resource_version());
            }
        }
        self.pods.delete(&self.cx, self.call.name, &options, &AdmitAll).await?;
        Ok(())
    }

    /// Stores the budget with one disruption less; false if it was changed meanwhile.
    async fn store_budget(&self, budget: &Value) -> Result<bool, Status> {
        if self.cx.dry_run {
            return Ok(true);
        }
        let resource = self.call.cx.catalog.get("policy", "v1", "poddisruptionbudgets");
        let Some((resource, storage)) = resource.and_then(|found| Some((found, found.storage.as_ref()?))) else {
            return Ok(true);
        };
        let cx = Context { group: "policy", subresource: "status", ..self.cx };
        let options = UpdateOptions { scope: UpdateScope::Status, ..UpdateOptions::default() };
        let mut charge = Charge { cx: &cx, resource, storage, budget };
        match storage.update(&cx, budget.name(), &mut charge, &AdmitAll, &options).await {
            Ok(_) => Ok(true),
            Err(error) if error.reason() == Reason::Conflict => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}

fn is_over(pod: &Value) -> bool {
    matches!(pod.str_at(&["status", "phase"]), "Succeeded" | "Failed") || pod.is_deleting()
}

/// Puts the condition on the pod that tells why it goes.
struct Mark<'a> {
    cx: &'a Context<'a>,
    preconditions: Value,
}

#[async_trait]
impl UpdatedObject for Mark<'_> {
    async fn wanted(&mut self, existing: Option<&Value>) -> Result<Value, Status> {
        let mut pod = existing.cloned().unwrap_or_default();
        let refuse = |why: String| Err(Status::conflict(&GroupResource::new("", "Pod"), pod.name(), why));
        let uid = self.preconditions.str_at(&["uid"]);
        if !uid.is_empty() && uid != pod.uid() {
            return refuse(format!(
                "the UID in the precondition ({uid}) does not match the UID in record ({}). The object might have been deleted and then recreated",
                pod.uid()
            ));
        }
        let version = self.preconditions.str_at(&["resourceVersion"]);
        if !version.is_empty() && version != pod.resource_version() {
            return refuse(format!(
                "the ResourceVersion in the precondition ({version}) does not match the ResourceVersion in record ({}). The object might have been modified",
                pod.resource_version()
            ));
        }
        mark_evicted(self.cx.now, &mut pod);
        Ok(pod)
    }
}

/// The budget as it was found, with one disruption less; it must not have changed since.
struct Charge<'a> {
    cx: &'a Context<'a>,
    resource: &'a Resource,
    storage: &'a ResourceStorage,
    budget: &'a Value,
}

#[async_trait]
impl UpdatedObject for Charge<'_> {
    async fn wanted(&mut self, existing: Option<&Value>) -> Result<Value, Status> {
        let live = existing.cloned().unwrap_or_default();
        let tracked = ManagedKind {
            kind: &self.resource.kind,
            form: &self.resource.form,
            subresource: "status",
            resets: self.storage.strategy.reset_fields("status"),
        };
        Ok(rest::track(&tracked, &live, self.budget.clone(), "kube-apiserver", self.cx.now))
    }
}
