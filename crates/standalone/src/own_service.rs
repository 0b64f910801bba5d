//! The `kubernetes` Service, through which the cluster finds its API servers: the default ServiceCIDR it has its address from,
//! the Service itself, and Endpoints with an EndpointSlice that name the servers that are running.

mod endpoints;
mod range;
mod slices;

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use object::{Value, value};
use rest::Api;
use storage::Store;
use tokio::sync::Mutex;
use tokio::task::JoinSet;

use endpoints::Reconciler;
use rest::client::{Client, Collection, Failure};

/// How often the objects are looked at.
const INTERVAL: Duration = Duration::from_secs(10);
/// A server that is shutting down does not wait longer than this for its endpoint to be removed.
const LEAVE_TIMEOUT: Duration = Duration::from_secs(20);

static SERVICES: Collection = Collection::new("", "v1", "services");
/// Where the Service and its Endpoints are.
const NAMESPACE: &str = "default";
const NAME: &str = "kubernetes";

/// Where the server can be reached from inside the cluster.
#[derive(Clone, Debug)]
pub struct Advertised {
    pub address: IpAddr,
    pub port: u16,
    /// The first address of the first service range.
    pub service_address: IpAddr,
    /// The networks of `--service-cluster-ip-range`: one, or one of each IP family.
    pub service_ranges: Vec<String>,
    /// `--kubernetes-service-node-port`: the node port of the Service; 0 makes it a ClusterIP Service.
    pub node_port: u16,
}

/// `--endpoint-reconciler-type`: how servers agree on the Endpoints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndpointReconciler {
    /// Each server renews a key that expires; the Endpoints name the servers whose keys are there.
    Lease,
    /// Each server adds itself, and removes others when there are more than so many.
    MasterCount(usize),
    /// The Endpoints are not written.
    None,
}

/// Keeps the Service and what belongs to it.
pub struct OwnService {
    client: Client,
    advertised: Advertised,
    reconciler: Reconciler,
    /// Held while the Endpoints are written; true once the server has removed itself.
    left: Mutex<bool>,
}

impl OwnService {
    /// `storage_prefix` is what all keys of the store begin with, `/registry`.
    pub fn new(
        api: Arc<Api>,
        advertised: Advertised,
        kind: EndpointReconciler,
        store: Arc<dyn Store>,
        storage_prefix: &str,
    ) -> OwnService {
        let client = Client::new(api, "kube-apiserver");
        let reconciler = Reconciler::new(kind, &advertised, client.clone(), store, storage_prefix);
        OwnService { client, advertised, reconciler, left: Mutex::new(false) }
    }

    /// Creates the range and the Service, and removes the endpoint that an earlier run of this server has left behind. To be
    /// called before the server is ready; failures are logged and tried again by [`OwnService::run`].
    pub fn prepare(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            if let Err(failure) = self.keep_service().await {
                tracing::error!(%failure, "the kubernetes Service cannot be created");
            }
            if let Err(failure) = self.reconciler.remove().await {
                tracing::error!(%failure, "old endpoints of the kubernetes Service cannot be removed");
            }
        })
    }

    /// Names this server in the Endpoints, and keeps everything as it should be from then on. To be called as the last thing
    /// before the server answers, when it listens already: clients that are sent to it wait in the listener's queue.
    pub fn run<'a>(self: &'a Arc<Self>, tasks: &'a mut JoinSet<()>) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            self.sync().await;
            tasks.spawn(self.clone().keep());
        })
    }

    /// Looks at everything once.
    async fn sync(&self) {
        let left = self.left.lock().await;
        if *left {
            return;
        }
        let kept = self.keep_service().await;
        let reconciled = self.reconciler.reconcile().await;
        for failure in [kept, reconciled].into_iter().filter_map(Result::err) {
            tracing::error!(%failure, "unable to sync the kubernetes Service");
        }
    }

    async fn keep(self: Arc<Self>) {
        loop {
            tokio::time::sleep(INTERVAL).await;
            self.sync().await;
        }
    }

    /// Removes this server from the Endpoints, so that clients do not wait for it.
    pub fn stop(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            let leaving = async {
                *self.left.lock().await = true;
                self.reconciler.remove().await
            };
            match tokio::time::timeout(LEAVE_TIMEOUT, leaving).await {
                Ok(Ok(())) => {}
                Ok(Err(failure)) => tracing::error!(%failure, "unable to remove endpoints from the kubernetes Service"),
                Err(_) => tracing::warn!("removing the endpoint from the kubernetes Service timed out"),
            }
        })
    }

    async fn keep_service(&self) -> Result<(), Failure> {
        range::keep(&self.client, &self.advertised.service_ranges).await?;
        let services = SERVICES.within(NAMESPACE);
        match self.client.get(&services.item(NAME)).await {
            // What an administrator has changed about it stays.
            Ok(_) => Ok(()),
            Err(failure) if failure.is_not_found() => {
                let created = self.client.create(&services, &service(&self.advertised)).await;
                created.map(drop).or_else(Failure::unless_exists)
            }
            Err(failure) => Err(failure),
        }
    }
}

fn service(advertised: &Advertised) -> Value {
    let mut port =
        value!({"name": "https", "port": 443, "protocol": "TCP", "targetPort": (i64::from(advertised.port))});
    let mut kind = "ClusterIP";
    if advertised.node_port > 0 {
        port.set(&["nodePort"], i64::from(advertised.node_port));
        kind = "NodePort";
    }
    value!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {
            "name": NAME, "namespace": NAMESPACE,
            "labels": {"component": "apiserver", "provider": "kubernetes"}
        },
        "spec": {
            "clusterIP": (advertised.service_address.to_string()), "ipFamilyPolicy": "SingleStack",
            "ports": [(port)], "sessionAffinity": "None", "type": kind
        }
    })
}
