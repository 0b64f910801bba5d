//! What an API server creates and keeps up by itself: system namespaces, default roles and bindings, priority classes and
//! flow schemas, and the Service through which the cluster finds it.
//!
//! Everything goes through the registry as any write does, by the server's own user.

mod objects;
mod own_service;
mod reconcile;

use std::sync::Arc;

use object::Meta;
use rest::Api;

pub use own_service::Advertised;

/// Creates what is missing and brings default roles up to date. What is already there and was changed on purpose stays.
/// One object that cannot be created does not keep the others from being: the answer is how many could not.
pub async fn run(api: &Arc<Api>, advertised: &Advertised) -> usize {
    let own = own_service::objects(advertised);
    let mut failed = 0;
    for (resource, object) in objects::defaults().chain(own) {
        let name = object.name().to_string();
        if let Err(status) = reconcile::ensure(api, resource, object).await {
            tracing::error!(resource, name, %status, "a default object cannot be created");
            failed += 1;
        }
    }
    failed
}
