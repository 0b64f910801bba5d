use async_trait::async_trait;
use object::Value;
use request::User;
use storage::Revision;
use tokio::sync::watch;

use crate::Strategy;

/// A resource whose objects are not stored but made when they are asked for.
#[async_trait]
pub trait Report: Send + Sync + 'static {
    /// All that the user sees in a namespace, or in all of them if it is "", sorted by namespace and name. Those of built-in kinds have no
    /// apiVersion and kind.
    async fn objects(&self, user: &User, namespace: &str) -> Vec<Value>;

    /// The one with this name.
    async fn object(&self, user: &User, namespace: &str, name: &str) -> Option<Value>;

    /// Tells when objects may be others, by a number that only grows and is the resourceVersion of all of them. None where nothing tells, so that
    /// they cannot be watched.
    fn changes(&self) -> Option<watch::Receiver<Revision>> {
        None
    }

    /// How they are printed.
    fn strategy(&self) -> &dyn Strategy;
}
