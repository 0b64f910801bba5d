use async_trait::async_trait;
use object::Value;

use crate::Strategy;

/// A resource whose objects are not stored but made when they are asked for.
#[async_trait]
pub trait Report: Send + Sync + 'static {
    /// All there are, sorted by name, without their apiVersion and kind.
    async fn objects(&self) -> Vec<Value>;

    /// The one with this name.
    async fn object(&self, name: &str) -> Option<Value>;

    /// How they are printed.
    fn strategy(&self) -> &dyn Strategy;
}
