//! What a controller manager does that people expect of a server used alone: namespaces that are deleted become empty and
//! go away, objects whose owners are gone are collected, cluster roles are aggregated, quotas are counted, the types of policies' expressions are checked,
//! every namespace has its default service account and the authority's certificate. Besides, what every server does by
//! itself: flow schemas say whether their priority level is there, leases and StorageVersions tell other servers about it.
//!
//! The loops use the public API only: every call is authorized and goes through a REST verb, as if it came over the
//! network. They keep no state that a restart could lose.

mod accounts;
mod elections;
mod flow_schemas;
mod follow;
mod garbage;
mod identity;
mod namespaces;
mod own_service;
mod peer_lease;
mod policies;
mod queue;
mod quotas;
mod resources;
mod roles;
mod storage_versions;

use std::sync::Arc;

use aggregator::Aggregator;
use flow::Flow;
use futures::future::BoxFuture;
use rest::Api;
use rest::client::Client;
use tokio::task::JoinSet;

pub use elections::Leadership;
pub use identity::Identity;
pub use own_service::{Advertised, EndpointReconciler, OwnService};
pub use peer_lease::PeerLease;
pub use queue::Queue;
pub use storage_versions::StorageVersions;

/// The running loops; they end when this is dropped.
pub struct Loops {
    tasks: JoinSet<()>,
}

impl Loops {
    /// Ends the loops and returns when they have let go of everything.
    pub async fn stop(mut self) {
        self.tasks.shutdown().await;
    }
}

/// Begins the loops that every server runs, alone or not.
/// `flow` follows the flow schemas and priority levels, if priority and fairness is on.
pub fn run_own(
    api: Arc<Api>,
    identity: Identity,
    flow: Option<Arc<Flow>>,
    leadership: Leadership,
    storage_versions: Option<Arc<StorageVersions>>,
) -> Loops {
    let client = Client::new(api, "kube-apiserver");
    let mut tasks = JoinSet::new();
    tasks.spawn(flow_schemas::run(client.clone(), flow.clone()));
    if let Some(flow) = flow {
        tasks.spawn(flow_schemas::adjust(flow));
    }
    if client.api.features.enabled("CoordinatedLeaderElection") {
        let elector = format!("{}_{}", identity.hostname, identity.instance);
        tasks.spawn(elections::run(client.clone(), elector, leadership));
    }
    if let Some(versions) = storage_versions {
        tasks.spawn(versions.run(client.clone(), identity.lease_name()));
    }
    if client.api.features.enabled("APIServerIdentity") {
        tasks.spawn(identity::renew(client.clone(), identity));
        tasks.spawn(identity::collect(client));
    }
    Loops { tasks }
}

/// Begins the loops of a server used alone. When this returns, the namespaces that were there have their service account and cluster roles their rules.
pub fn run(aggregator: Arc<Aggregator>, authority_pem: String) -> BoxFuture<'static, Loops> {
    Box::pin(async move {
        let client = Client::new(aggregator.api().clone(), "kube-controller-manager");
        let mut tasks = JoinSet::new();
        let (ready, when_ready) = tokio::sync::oneshot::channel();
        tasks.spawn(accounts::run(client.clone(), authority_pem, ready));
        tasks.spawn(namespaces::run(client.clone(), aggregator));
        let (aggregated, when_aggregated) = tokio::sync::oneshot::channel();
        tasks.spawn(roles::run(client.clone(), aggregated));
        tasks.spawn(quotas::run(client.clone()));
        tasks.spawn(policies::run(client.clone()));
        if client.api.features.enabled("StorageVersionAPI") {
            tasks.spawn(storage_versions::collect::run(client.clone()));
        }
        tasks.spawn(garbage::run(client));
        // The loops answer or are gone: either way there is nothing more to wait for.
        let _ = tokio::join!(when_ready, when_aggregated);
        Loops { tasks }
    })
}
