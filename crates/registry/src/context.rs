//! [`Context`]: what a strategy may know about the request it works for.

use std::sync::Arc;

use async_trait::async_trait;
use object::{Timestamp, Value};
use request::User;

use crate::Features;

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
    pub lookup: &'a dyn Lookup,
}

/// What strategies may ask of the world outside.
#[async_trait]
pub trait Lookup: Send + Sync {
    /// Reads another object from the cache: as current as a list without resourceVersion, in the storage version.
    fn get(&self, group: &str, resource: &str, namespace: &str, name: &str) -> Option<Arc<Value>>;
    /// All objects of a namespace, or of all namespaces if it is "".
    fn list(&self, group: &str, resource: &str, namespace: &str) -> Vec<Arc<Value>>;
    /// Whether somebody may do something else than what they asked for, or the words to refuse it with.
    async fn may(&self, _user: &User, _act: &Act<'_>) -> Result<(), String> {
        Ok(())
    }
}

/// Something that is done to a resource, as authorizers see it.
#[derive(Clone, Copy, Debug)]
pub struct Act<'a> {
    pub verb: &'a str,
    pub group: &'a str,
    pub version: &'a str,
    pub resource: &'a str,
    pub subresource: &'a str,
    /// "" for all of them.
    pub namespace: &'a str,
    pub name: &'a str,
}

/// A world without other objects, for tests of rules.
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
