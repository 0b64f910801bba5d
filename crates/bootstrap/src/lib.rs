//! What an API server creates by itself when it starts: system namespaces, default roles and bindings, priority classes and
//! flow schemas.
//!
//! Everything goes through the registry as any write does, by the server's own user.

mod authentication;
mod flow;
mod gated;
mod migrate;
mod objects;
mod reconcile;

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::future::{BoxFuture, join_all};
use object::{Meta, Status, Value};
use registry::Features;
use rest::Api;

pub use authentication::publish as publish_authentication;

/// Creates what is missing and brings default roles up to date. What is already there and was changed on purpose stays.
/// One object that cannot be created does not keep the others from being: the answer is how many could not.
/// `authentication` is the data of the config map from which extension servers learn how to authenticate.
pub fn run<'a>(api: &'a Arc<Api>, authentication: &'a BTreeMap<String, String>) -> BoxFuture<'a, usize> {
    Box::pin(async move {
        // Namespaces come before what is in them.
        let (namespaces, others): (Vec<_>, Vec<_>) =
            defaults(&api.features).into_iter().partition(|(kind, _)| *kind == "namespaces");
        let mut failed = create(api, namespaces).await;
        if let Err(status) = migrate::run(api).await {
            tracing::error!(%status, "default roles and bindings cannot be copied from their predecessors");
            failed += 1;
        }
        let tracking = authentication::tracking(api.clock.now());
        failed += create(api, others.into_iter().chain([tracking]).collect()).await;
        failed += remove_unwanted(api).await;
        if let Err(status) = authentication::publish(api, authentication).await {
            tracing::error!(%status, "how to authenticate cannot be published");
            failed += 1;
        }
        failed
    })
}

/// Brings back what is created again when somebody deletes it, and what has to stay as the server has it. Answers how many
/// objects could not be.
pub fn keep(api: &Arc<Api>) -> BoxFuture<'_, usize> {
    Box::pin(async move {
        let is_kept = |resource: &str| resource == "namespaces" || flow::RESOURCES.contains(&resource);
        let kept = objects::defaults().filter(|(resource, _)| is_kept(resource)).collect();
        create(api, kept).await + remove_unwanted(api).await
    })
}

async fn remove_unwanted(api: &Arc<Api>) -> usize {
    let outcome = flow::remove_unwanted(api).await;
    outcome.inspect_err(|status| tracing::error!(%status, "a former default object cannot be deleted")).is_err().into()
}

/// The default ClusterRole of this name.
pub fn default_cluster_role(features: &Features, name: &str) -> Option<Value> {
    let is_it = |(resource, object): &(&str, Value)| *resource == "clusterroles" && object.name() == name;
    // Gates are applied to this role alone, and the rest of the table is not read.
    let mut found = objects::defaults().find(is_it).into_iter().collect();
    gated::apply(features, &mut found);
    found.into_iter().find(is_it).map(|(_, role)| role)
}

/// All default objects with these gates.
fn defaults(features: &Features) -> Vec<(&'static str, Value)> {
    let mut objects = objects::defaults().collect();
    gated::apply(features, &mut objects);
    objects
}

/// Creates objects all at once: what waits for the store is committed together, and each commit is a wait for the disk.
async fn create(api: &Arc<Api>, objects: Vec<(&'static str, Value)>) -> usize {
    let creations = objects.into_iter().map(|(kind, object)| create_one(api, kind, object));
    join_all(creations).await.iter().filter(|outcome| outcome.is_err()).count()
}

async fn create_one(api: &Arc<Api>, resource: &'static str, object: Value) -> Result<(), Status> {
    let name = object.name().to_string();
    let outcome = reconcile::ensure(api, resource, object).await;
    outcome.inspect_err(|status| tracing::error!(resource, name, %status, "a default object cannot be created"))
}
