//! [`Context`]: what a strategy may know about the request it works for.

use std::sync::Arc;

use async_trait::async_trait;
use object::{Timestamp, Value};
use request::{Access, User};

use crate::{Catalog, Features};

/// Passed to every strategy hook. It holds everything that would otherwise be a global.
#[derive(Clone, Copy)]
pub struct Context<'a> {
    pub now: Timestamp,
    pub user: &'a User,
    /// "" for cluster-scoped requests.
    pub namespace: &'a str,
    /// The group in the request's path, "" for the core group.
    pub group: &'a str,
    /// The version in the request's path, `v1` or `v2beta1`; objects themselves are of the storage version.
    pub version: &'a str,
    /// "" for the object itself, else `status`, `scale`, …
    pub subresource: &'a str,
    /// The request's verb, `update` or `patch`; "" where the server acts for itself.
    pub verb: &'a str,
    pub dry_run: bool,
    pub features: &'a Features,
    /// What the server served when the request began.
    pub catalog: &'a Catalog,
    pub lookup: &'a dyn Lookup,
}

/// What strategies may ask of the rest of the server.
#[async_trait]
pub trait Lookup: Send + Sync {
    /// Reads another object from the cache: as current as a list without resourceVersion, in the storage version.
    fn get(&self, group: &str, resource: &str, namespace: &str, name: &str) -> Option<Arc<Value>>;
    /// All objects of a namespace, or of all namespaces if it is "".
    fn list(&self, group: &str, resource: &str, namespace: &str) -> Vec<Arc<Value>>;
    /// Whether a user may do something besides what the request asks for; the authorizer's reason if not, which may be "".
    async fn may(&self, _access: &Access<'_>) -> Result<(), String> {
        Ok(())
    }
}

/// A server without other objects, for tests and for writes that look at nothing else.
pub struct NoLookup;

#[async_trait]
impl Lookup for NoLookup {
    fn get(&self, _: &str, _: &str, _: &str, _: &str) -> Option<Arc<Value>> {
        None
    }

    fn list(&self, _: &str, _: &str, _: &str) -> Vec<Arc<Value>> {
        Vec::new()
    }
}
