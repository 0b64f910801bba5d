//! Eviction: checks and charges the pod's disruption budget, adds the DisruptionTarget condition, and deletes the pod.

use std::sync::Arc;

use async_trait::async_trait;
use kinds::core::pod::{Eviction, evict, mark_evicted};
use object::{Cursor, Errors, GroupKind, GroupResource, Meta, Reason, Status, Value};
use registry::{Action, ActionCall, Context, Error, Mismatch, ResourceStorage, UpdateOptions};
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
    fn writes(&self) -> bool {
        true
    }

    async fn check(&self, call: &mut ActionCall<'_>) -> Result<(), Status> {
        if call.body.name() != call.name {
            return Err(Status::bad_request("name in URL does not match name in Eviction object"));
        }
        delete_options(call).map(drop)
    }

    async fn create(&self, call: ActionCall<'_>) -> Result<Value, Status> {
        let options = delete_options(&call)?;
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
            let marked = self.mark(options.field("preconditions")).await?;
            if !options.at(&wanted).is_null() {
                options.set(&wanted, marked.resource_version());
            }
        }
        self.pods.delete(&self.cx, self.call.name, &options).await?;
        Ok(())
    }

    /// Puts the condition on the pod that tells why it goes.
    async fn mark(&self, preconditions: &Value) -> Result<Value, Status> {
        let cx = Context { subresource: "status", ..self.cx };
        let mut write = self.pods.begin(&cx, self.call.name, &UpdateOptions::STATUS).await?;
        loop {
            let pod = write.existing().await?;
            let given = |field: &str| preconditions.field(field).as_str().filter(|text| !text.is_empty());
            if let Some(mismatch) = Mismatch::of(given("uid"), given("resourceVersion"), &pod) {
                return Err(Status::conflict(&GroupResource::new("", "Pod"), pod.name(), mismatch.to_string()));
            }
            let mut marked = pod.clone();
            mark_evicted(cx.now, &mut marked);
            if let Some(outcome) = write.store(marked, Some(&pod)).await? {
                return Ok(outcome.object);
            }
        }
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
        let cx = Context { group: "policy", subresource: "status", warnings: None, ..self.cx };
        let tracked = ManagedKind {
            kind: &resource.kind,
            form: &resource.form,
            subresource: "status",
            resets: storage.strategy.facts().reset_fields("status"),
        };
        match charge(&cx, storage, &tracked, budget).await {
            Ok(()) => Ok(true),
            Err(error) if error.reason() == Reason::Conflict => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}

fn is_over(pod: &Value) -> bool {
    matches!(pod.str_at(&["status", "phase"]), "Succeeded" | "Failed") || pod.is_deleting()
}

/// Stores the budget as it was found, with one disruption less; it must not have changed since.
async fn charge(
    cx: &Context<'_>,
    storage: &ResourceStorage,
    tracked: &ManagedKind<'_>,
    budget: &Value,
) -> Result<(), Error> {
    let mut write = storage.begin(cx, budget.name(), &UpdateOptions::STATUS).await?;
    loop {
        let live = write.existing().await?;
        let charged = rest::track(tracked, &live, budget.clone(), "kube-apiserver", cx.now).await;
        if write.store(charged, Some(&live)).await?.is_some() {
            return Ok(());
        }
    }
}
