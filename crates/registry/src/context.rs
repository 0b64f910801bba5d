//! [`Context`]: what a strategy may know about the request it works for.

use std::sync::Arc;

use async_trait::async_trait;
use object::{Randomness, ThreadRandomness, Timestamp, Value};
use parking_lot::Mutex;
use request::{Access, User};

use crate::{Catalog, Features};

/// Passed to every strategy hook. It holds everything that would otherwise be a global.
#[derive(Clone, Copy)]
pub struct Context<'a> {
    /// The time that objects are stamped with.
    pub now: Timestamp,
    /// For uids and generated names, and to pick one of several.
    pub randomness: &'a dyn Randomness,
    /// The user of the request.
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
    /// Whether nothing is stored.
    pub dry_run: bool,
    /// The uid of an object that is created; "" for a new one.
    pub new_uid: &'a str,
    /// The feature gates.
    pub features: &'a Features,
    /// The resources that were served when the request began.
    pub catalog: &'a Catalog,
    /// Finds other objects.
    pub lookup: &'a dyn Lookup,
    /// Where warnings go; None where the server acts for itself and nobody is warned.
    pub warnings: Option<&'a Warnings>,
}

impl<'a> Context<'a> {
    /// A write that the server makes for itself, in no namespace and looking at no other object.
    pub fn of_server(now: Timestamp, user: &'a User, features: &'a Features) -> Context<'a> {
        Context {
            now,
            randomness: &ThreadRandomness,
            user,
            namespace: "",
            group: "",
            version: "v1",
            subresource: "",
            verb: "",
            dry_run: false,
            new_uid: "",
            features,
            catalog: Catalog::empty(),
            lookup: &NoLookup,
            warnings: None,
        }
    }

    /// Warns the client, whether its request succeeds or not.
    pub fn warn(&self, warnings: impl IntoIterator<Item = String>) {
        if let Some(holder) = self.warnings {
            holder.add(warnings);
        }
    }
}

/// Warnings for the client of a request, in the order in which they were noticed.
#[derive(Debug, Default)]
pub struct Warnings(Mutex<Vec<String>>);

impl Warnings {
    /// Adds warnings after those that there are.
    pub fn add(&self, warnings: impl IntoIterator<Item = String>) {
        self.0.lock().extend(warnings);
    }

    /// Removes and returns all warnings.
    pub fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock())
    }
}

/// The questions that strategies may ask the rest of the server.
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
