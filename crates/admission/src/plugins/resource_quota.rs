//! ResourceQuota: what the objects of a namespace use together stays below what its quotas allow.
//!
//! A request is charged before its object is stored: the new usage is written to the quota's status if no other request wrote it in
//! between, so concurrent requests, on this server or another, can never use more than there is. A request that fails later has
//! been charged for nothing; the quota controller sets that right when it counts again.

mod check;
mod evaluator;
mod limited;
mod pods;
pub mod recount;
#[cfg(test)]
mod tests;

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use async_trait::async_trait;
use object::{GroupResource, Meta, Status, Value};
use registry::{OwnChange, OwnClient};
use tokio::sync::Mutex;

use self::check::Request;
use self::evaluator::Evaluator;
use self::limited::Limited;
use super::resources;
use crate::{Attributes, Configuration, Plugin};

const RESOURCE: &str = "resourcequotas";

pub struct ResourceQuota {
    client: Arc<dyn OwnClient>,
    /// What may not be used at all where no quota covers it.
    limited: Vec<Limited>,
    /// Requests of one namespace are charged one after the other, or they would mostly undo each other's work.
    turns: Vec<Mutex<()>>,
}

const TURNS: usize = 64;

/// How often other servers may come first before the client has to try again.
const ATTEMPTS: usize = 16;

impl ResourceQuota {
    pub fn new(client: Arc<dyn OwnClient>, config: &Configuration) -> Result<ResourceQuota, String> {
        let limited = Limited::configured(config)?;
        Ok(ResourceQuota { client, limited, turns: (0..TURNS).map(|_| Mutex::new(())).collect() })
    }

    fn turn(&self, namespace: &str) -> &Mutex<()> {
        let mut hasher = DefaultHasher::new();
        namespace.hash(&mut hasher);
        &self.turns[(hasher.finish() % TURNS as u64) as usize]
    }

    /// Checks the request against all quotas and charges those it uses. A quota that another request changed is read and checked
    /// again; those that were charged stay so.
    async fn charge(&self, attributes: &Attributes<'_>, request: &Request<'_>) -> Result<(), Status> {
        let namespace = attributes.cx.namespace;
        let mut left: Option<Vec<String>> = None;
        for _ in 0..ATTEMPTS {
            let mut quotas = self.client.list("", RESOURCE, namespace).await?;
            if let Some(left) = &left {
                quotas.retain(|quota| left.iter().any(|name| name == quota.name()));
            }
            let charges = request.check(&quotas)?;
            if attributes.cx.dry_run {
                return Ok(());
            }
            let mut lost = Vec::new();
            for (quota, used) in charges {
                if !self.store_used(&quota, resources::to_value(&used)).await? {
                    lost.push(quota.name().to_string());
                }
            }
            if lost.is_empty() {
                return Ok(());
            }
            left = Some(lost);
        }
        let name = left.and_then(|names| names.into_iter().next()).unwrap_or_default();
        let why = "the object has been modified; please apply your changes to the latest version and try again";
        Err(Status::conflict(&GroupResource::new("", RESOURCE), &name, why))
    }
}

impl ResourceQuota {
    /// Sets what is used, of the version of the quota that it was worked out from and no other; false if there is another, or none.
    async fn store_used(&self, quota: &Value, used: Value) -> Result<bool, Status> {
        let charged = |stored: &Value| {
            let mut charged = stored.clone();
            charged.set(&["status", "used"], used.clone());
            (stored.resource_version() == quota.resource_version()).then_some(charged)
        };
        let (namespace, name) = (quota.namespace(), quota.name());
        let what = OwnChange { group: "", resource: RESOURCE, subresource: "status", namespace, name, uid: None };
        self.client.change(&what, &charged).await
    }
}

#[async_trait]
impl Plugin for ResourceQuota {
    fn name(&self) -> &'static str {
        "ResourceQuota"
    }

    async fn validate(
        &self,
        attributes: &Attributes<'_>,
        object: Option<&Value>,
        old: Option<&Value>,
    ) -> Result<(), Status> {
        let (namespace, Some(object)) = (attributes.cx.namespace, object) else { return Ok(()) };
        let is_namespace = attributes.resource.group.is_empty() && attributes.resource.resource == "namespaces";
        if namespace.is_empty() || is_namespace {
            return Ok(());
        }
        let Some(evaluator) = Evaluator::of(attributes, object, old) else { return Ok(()) };
        let request = Request { attributes, evaluator, object, old, limited: &self.limited };
        // Most namespaces have no quota, or none for this object: the cache tells without waiting.
        let quotas = attributes.cx.lookup.list("", RESOURCE, namespace);
        if self.limited.is_empty() && !quotas.iter().any(|quota| request.concerns(quota)) {
            return Ok(());
        }
        let _turn = self.turn(namespace).lock().await;
        self.charge(attributes, &request).await
    }
}
