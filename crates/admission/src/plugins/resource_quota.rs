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
use tokio::sync::Mutex;

use self::check::Request;
use self::evaluator::Evaluator;
use self::limited::Limited;
use super::resources;
use crate::{Attributes, Configuration, Plugin};

/// Reads and charges quotas in the store.
#[async_trait]
pub trait QuotaWriter: Send + Sync + 'static {
    /// The quotas of a namespace as they are in the store now, not in a cache.
    async fn quotas(&self, namespace: &str) -> Result<Vec<Arc<Value>>, Status>;

    /// Sets `status.used` of a quota that still has this resource version; false if it has another one or is gone.
    async fn update_used(
        &self,
        namespace: &str,
        name: &str,
        resource_version: &str,
        used: Value,
    ) -> Result<bool, Status>;
}

pub struct ResourceQuota {
    writer: Arc<dyn QuotaWriter>,
    /// What may not be used at all where no quota covers it.
    limited: Vec<Limited>,
    /// Requests of one namespace are charged one after the other, or they would mostly undo each other's work.
    turns: Vec<Mutex<()>>,
}

const TURNS: usize = 64;

/// How often other servers may come first before the client has to try again.
const ATTEMPTS: usize = 16;

impl ResourceQuota {
    pub fn new(writer: Arc<dyn QuotaWriter>, config: &Configuration) -> Result<ResourceQuota, String> {
        let limited = Limited::configured(config)?;
        Ok(ResourceQuota { writer, limited, turns: (0..TURNS).map(|_| Mutex::new(())).collect() })
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
            let mut quotas = self.writer.quotas(namespace).await?;
            if let Some(left) = &left {
                quotas.retain(|quota| left.iter().any(|name| name == quota.name()));
            }
            let charges = request.check(&quotas)?;
            if attributes.cx.dry_run {
                return Ok(());
            }
            let mut lost = Vec::new();
            for (quota, used) in charges {
                let (name, version) = (quota.name(), quota.resource_version());
                let used = resources::to_value(&used);
                if !self.writer.update_used(namespace, name, version, used).await? {
                    lost.push(name.to_string());
                }
            }
            if lost.is_empty() {
                return Ok(());
            }
            left = Some(lost);
        }
        let name = left.and_then(|names| names.into_iter().next()).unwrap_or_default();
        let why = "the object has been modified; please apply your changes to the latest version and try again";
        Err(Status::conflict(&GroupResource::new("", "resourcequotas"), &name, why))
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
        let quotas = attributes.cx.lookup.list("", "resourcequotas", namespace);
        if self.limited.is_empty() && !quotas.iter().any(|quota| request.concerns(quota)) {
            return Ok(());
        }
        let _turn = self.turn(namespace).lock().await;
        self.charge(attributes, &request).await
    }
}
