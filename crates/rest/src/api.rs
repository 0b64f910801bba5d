//! [`Api`]: what all requests share.

use std::sync::Arc;
use std::time::Duration;

use admission::Chain;
use arc_swap::ArcSwap;
use async_trait::async_trait;
use authz::Decision;
use object::{Clock, Value};
use registry::{Act, Catalog, Context, Features, Lookup};
use request::User;

/// The serving side of the API.
pub struct Api {
    /// Swapped whole; a request works on the snapshot it began with.
    pub catalog: ArcSwap<Catalog>,
    pub admission: Chain,
    pub authorizer: Arc<dyn authz::Authorizer>,
    pub clock: Arc<dyn Clock>,
    pub features: Arc<Features>,
    pub limits: Limits,
    /// What a column of a built-in kind's table shows: (kind, column) → text. Asked for when a table is, not before.
    pub describe_column: fn(&str, &str) -> &'static str,
    pub meters: crate::Meters,
    /// How nodes, pods and services are reached; None where they are not.
    pub dial: Option<Arc<dyn crate::Dial>>,
    pub recent: crate::Recent,
    /// What keeps custom resources in the catalog; empty where there are none.
    pub definitions: std::sync::OnceLock<Arc<dyn Definitions>>,
}

/// Keeps the catalog in line with the stored definitions of custom resources.
#[async_trait]
pub trait Definitions: Send + Sync {
    /// Waits until every definition that was written before this call is in the catalog, on whatever server it was
    /// written.
    async fn caught_up(&self);
}

/// Everything a client can make the server hold has a bound.
#[derive(Clone, Debug)]
pub struct Limits {
    /// The largest request body: 3 MiB, as upstream.
    pub body_bytes: usize,
    /// Watches without a timeout end at a random time between this and twice this.
    pub watch_min_timeout: Duration,
    /// How often an idle watch that asked for bookmarks gets one.
    pub bookmark_interval: Duration,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            body_bytes: 3 * 1024 * 1024,
            watch_min_timeout: Duration::from_secs(1800),
            bookmark_interval: Duration::from_secs(60),
        }
    }
}

impl Api {
    /// What strategies may know about a request.
    pub fn context<'a>(
        &'a self,
        user: &'a User,
        namespace: &'a str,
        version: &'a str,
        subresource: &'a str,
        dry_run: bool,
    ) -> Context<'a> {
        Context {
            now: self.clock.now(),
            user,
            namespace,
            group: "",
            version,
            subresource,
            verb: "",
            dry_run,
            features: &self.features,
            lookup: self,
        }
    }
}

#[async_trait]
impl Lookup for Api {
    fn get(&self, group: &str, resource: &str, namespace: &str, name: &str) -> Option<Arc<Value>> {
        let catalog = self.catalog.load();
        let storage = catalog.stored(group, resource)?;
        self.recent.get(storage, &storage.key(namespace, name))
    }

    fn list(&self, group: &str, resource: &str, namespace: &str) -> Vec<Arc<Value>> {
        let catalog = self.catalog.load();
        let Some(storage) = catalog.stored(group, resource) else { return Vec::new() };
        self.recent.list(storage, storage.range(namespace))
    }

    async fn may(&self, user: &User, act: &Act<'_>) -> Result<(), String> {
        let question = authz::Attributes::about(user, act);
        match self.authorizer.decide(&question).await {
            Decision::Allow(_) => Ok(()),
            Decision::Deny(why) | Decision::NoOpinion(why) => Err(authz::refusal(&question, &why).message),
        }
    }
}
