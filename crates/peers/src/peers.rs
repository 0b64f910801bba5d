//! [`Peers`]: follows the identity leases of other servers and asks each what it serves.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use aggregator::follow::{self, Batch, name_of};
use arc_swap::ArcSwap;
use codec::Notes;
use futures::future::BoxFuture;
use futures::future::join_all;
use hashbrown::HashSet;
use http::{HeaderMap, HeaderValue, Method, Request, StatusCode, header};
use object::{GroupVersionKind, GroupVersionResource, Meta, Value};
use outbound::{Address, Certificate, Client, ClientOptions, Credentials, Dial, Roots};
use parking_lot::Mutex;
use registry::DirectStorage;
use request::User;
use rest::{Api, NoHeader};
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::claims::{self, Claims};
use crate::proxy::PEER_PROXIED;
use crate::{Leases, PeerMeters, Place};

/// The label that tells the leases of API servers from others, and its value.
const IDENTITY_LABEL: &str = "apiserver.kubernetes.io/identity";
const COMPONENT: &str = "kube-apiserver";
/// The name in peers' serving certificates.
const SERVER_NAME: &str = "kubernetes.default.svc";

const DISCOVERY_TIMEOUT: Duration = Duration::from_secs(5);
/// How long starting waits for what peers serve: one that does not answer is asked again later.
const START_TIMEOUT: Duration = Duration::from_secs(2);
/// The largest discovery document that is read.
const DOCUMENT_BYTES_MAX: usize = 8 * 1024 * 1024;
/// What a peer serves itself; one that does not know `profile` answers with the same document.
const ACCEPT: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList;profile=nopeer,\
                      application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
/// A peer that could not be asked is asked again after the first pause, then after twice as long, and so often at most.
const FIRST_RETRY: Duration = Duration::from_millis(5);
const LAST_RETRY: Duration = Duration::from_secs(30);
const RETRIES_MAX: u32 = 20;

/// How this server calls peers.
pub struct PeerSettings {
    pub api: Arc<Api>,
    /// This server's identity: the name of its lease.
    pub server: String,
    pub leases: Leases,
    /// `--peer-ca-file`: who signs peers' serving certificates.
    pub authority: PathBuf,
    /// How this server proves to peers that it may speak for its users: `--proxy-client-cert-file`.
    pub certificate: Certificate,
    pub dial: Arc<dyn Dial>,
}

/// The resources that one peer serves.
#[derive(Clone, Debug, Default)]
pub struct Peer {
    pub resources: HashSet<GroupVersionResource>,
    /// As in an APIGroupDiscoveryList, without the core group.
    pub groups: Vec<Value>,
}

/// The other servers on the same store.
pub struct Peers {
    pub server: String,
    pub meters: PeerMeters,
    pub(crate) api: Arc<Api>,
    pub(crate) leases: Leases,
    pub(crate) client: Arc<Client>,
    /// The holders of identity leases, by the lease's name: a peer that was restarted has another.
    holders: Mutex<BTreeMap<String, String>>,
    claims: Mutex<Claims>,
    discovered: ArcSwap<BTreeMap<String, Arc<Peer>>>,
    /// The discovered resources, without those that this server knows from the store.
    served: ArcSwap<BTreeMap<String, Arc<Peer>>>,
    /// Counts changes of `served`.
    generation: AtomicU64,
    /// Whether peers must be asked again.
    is_stale: AtomicBool,
    wake: Notify,
}

impl Peers {
    /// Err says what is wrong with the certificates.
    pub fn new(settings: PeerSettings) -> Result<Arc<Peers>, String> {
        let options = ClientOptions {
            roots: Roots::File(settings.authority.clone()),
            server_name: Some(SERVER_NAME.into()),
            credentials: Credentials { certificate: Some(settings.certificate.clone()), ..Credentials::default() },
            dial: settings.dial.clone(),
            ..ClientOptions::default()
        };
        let client = Client::new(&options).map_err(|error| format!("failed to create proxy transport: {error}"))?;
        Ok(Arc::new(Peers {
            client: Arc::new(client),
            server: settings.server,
            meters: PeerMeters::default(),
            api: settings.api,
            leases: settings.leases,
            holders: Mutex::default(),
            claims: Mutex::default(),
            discovered: ArcSwap::default(),
            served: ArcSwap::default(),
            generation: AtomicU64::new(0),
            is_stale: AtomicBool::new(true),
            wake: Notify::new(),
        }))
    }

    /// Follows peers until the tasks end. Returns when the peers that have a lease were asked what they serve.
    pub fn run<'a>(self: &'a Arc<Self>, tasks: &'a mut JoinSet<()>) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            let catalog = self.api.catalog.load_full();
            let storage = |group: &str, resource: &str| {
                catalog.get(group, "v1", resource).and_then(|resource| resource.storage.as_ref()?.direct())
            };
            let (seen, is_seen) = tokio::sync::oneshot::channel();
            match storage("coordination.k8s.io", "leases") {
                Some(leases) => drop(tasks.spawn(self.clone().follow_leases(leases, seen))),
                None => drop(seen),
            }
            for (group, resource, versions_of) in [
                ("apiextensions.k8s.io", "customresourcedefinitions", claims::of_definition as fn(&Value) -> _),
                ("apiregistration.k8s.io", "apiservices", claims::of_service),
            ] {
                let Some(storage) = storage(group, resource) else { continue };
                let peers = self.clone();
                tasks.spawn(async move {
                    let followed = (*storage).clone();
                    follow::follow(followed, "", move |batch| {
                        peers.claims.lock().apply(&storage, &batch, versions_of);
                        peers.filter();
                        peers.wake.notify_one();
                    })
                    .await;
                });
            }
            // The sender is dropped without a message only where there are no leases.
            let _ = is_seen.await;
            self.is_stale.store(false, Ordering::Release);
            if !matches!(tokio::time::timeout(START_TIMEOUT, self.sync()).await, Ok(Ok(()))) {
                self.is_stale.store(true, Ordering::Release);
            }
            tasks.spawn(self.clone().keep_synced());
        })
    }

    /// What peers serve and this server does not know from the store, by their identity.
    pub fn served(&self) -> Arc<BTreeMap<String, Arc<Peer>>> {
        self.served.load_full()
    }

    /// Grows with every change of [`Peers::served`].
    pub fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    pub fn write_metrics(&self, out: &mut String) -> std::fmt::Result {
        self.meters.write(out)
    }

    async fn follow_leases(self: Arc<Self>, storage: DirectStorage, seen: tokio::sync::oneshot::Sender<()>) {
        let mut seen = Some(seen);
        let followed = (*storage).clone();
        let hear = move |batch: Batch| {
            if self.learn(&storage, &batch) {
                self.is_stale.store(true, Ordering::Release);
                self.wake.notify_one();
            }
            seen.take().map(|seen| seen.send(()));
        };
        follow::follow(followed, "kube-system", hear).await;
    }

    /// Takes over changes of leases; true if a peer came, went or was restarted.
    fn learn(&self, storage: &DirectStorage, batch: &Batch) -> bool {
        let name = |object| name_of(storage, object).split('/').next_back().unwrap_or_default().to_string();
        let mut holders = self.holders.lock();
        let before = holders.clone();
        if batch.complete {
            holders.clear();
        }
        batch.gone.iter().for_each(|object| drop(holders.remove(&name(object))));
        for object in &batch.set {
            let Ok(lease) = storage.read_entry(object.entry()) else { continue };
            let holder = lease.str_at(&["spec", "holderIdentity"]);
            if lease.label(IDENTITY_LABEL) == Some(COMPONENT) && lease.name() != self.server && !holder.is_empty() {
                holders.insert(name(object), holder.to_string());
            }
        }
        *holders != before
    }

    /// Asks peers whenever one came, went or was restarted, and when what was deleted here may be gone there too.
    async fn keep_synced(self: Arc<Self>) {
        let (mut failures, mut retry_at) = (0u32, None);
        loop {
            let next = [self.claims.lock().next_expiry(), retry_at].into_iter().flatten().min();
            let due = async {
                match next {
                    Some(at) => tokio::time::sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            if !self.is_stale.load(Ordering::Acquire) {
                tokio::select! {
                    () = self.wake.notified() => {}
                    () = due => {}
                }
            }
            let is_stale = self.is_stale.swap(false, Ordering::AcqRel);
            if is_stale {
                failures = 0;
            }
            let now = Instant::now();
            let (expired, retries) = (self.claims.lock().expire(now), retry_at.is_some_and(|at| at <= now));
            if !is_stale && !expired && !retries {
                continue;
            }
            retry_at = None;
            if let Err(why) = self.sync().await {
                failures += 1;
                tracing::debug!(why, "a peer does not tell what it serves");
                if failures <= RETRIES_MAX {
                    let pause = FIRST_RETRY.saturating_mul(1 << failures.min(16)).min(LAST_RETRY);
                    retry_at = Some(Instant::now() + pause);
                } else {
                    tracing::warn!(why, "a peer did not tell what it serves; it is not asked any more");
                }
            }
        }
    }

    /// Asks every peer. Those that could not be asked serve nothing as far as this server knows.
    async fn sync(&self) -> Result<(), String> {
        let servers: Vec<String> = self.holders.lock().keys().cloned().collect();
        let asked = join_all(servers.iter().map(|server| self.discover(server))).await;
        let mut outcome = Ok(());
        let mut discovered = BTreeMap::new();
        for (server, (peer, failure)) in servers.into_iter().zip(asked) {
            if let Some(why) = failure {
                outcome = Err(why);
            }
            if !peer.resources.is_empty() || !peer.groups.is_empty() {
                discovered.insert(server, Arc::new(peer));
            }
        }
        self.discovered.store(Arc::new(discovered));
        self.filter();
        outcome
    }

    /// What a peer serves, as far as it said, and why not more.
    async fn discover(&self, server: &str) -> (Peer, Option<String>) {
        let mut peer = Peer::default();
        let address = match self.addresses(&[server]).await {
            Ok(addresses) if !addresses.is_empty() => addresses[0].clone(),
            other => {
                self.meters.sync_failed("hostport_resolution");
                let why = other.err().unwrap_or_else(|| "it has no address".into());
                return (peer, Some(format!("cannot find the server {server}: {why}")));
            }
        };
        let mut failure = None;
        for path in ["/api", "/apis"] {
            match self.document(&address, path).await {
                Ok(document) => peer.learn(&document),
                Err(why) => {
                    self.meters.sync_failed("fetch_discovery");
                    failure = Some(format!("{path} of {server}: {why}"));
                }
            }
        }
        (peer, failure)
    }

    async fn document(&self, address: &Address, path: &str) -> Result<Value, String> {
        let request = Request::builder().method(Method::GET).uri(format!("https://{address}{path}"));
        let mut request = request.body(outbound::body("")).map_err(|error| error.to_string())?;
        *request.headers_mut() = own_headers().map_err(|error| error.to_string())?;
        let fetching = async {
            let sent = self.client.send(request).await;
            let status = sent.as_ref().map_or(StatusCode::SERVICE_UNAVAILABLE, |response| response.status());
            self.meters.rerouted(status.as_u16(), ["", "", ""]);
            let body = sent.map_err(|error| error.to_string())?.into_body();
            if status != StatusCode::OK {
                return Err(format!("discovery request failed with status: {}", status.as_u16()));
            }
            outbound::read(body, DOCUMENT_BYTES_MAX).await.map_err(|error| error.to_string())
        };
        let fetched = tokio::time::timeout(DISCOVERY_TIMEOUT, fetching).await;
        let body = fetched.map_err(|_| "context deadline exceeded".to_string())??;
        let kind = GroupVersionKind::new("apidiscovery.k8s.io", "v2", "APIGroupDiscoveryList");
        let decoded = codec::json::decode(&body, schema::builtin().schema(&kind), &mut Notes::ignore());
        decoded.map_err(|error| format!("error decoding discovery response: {error}"))
    }

    /// Where those of the servers that have a lease can be reached.
    pub(crate) async fn addresses(&self, servers: &[&str]) -> Result<Vec<Address>, String> {
        let places = self.leases.list().await.map_err(|failure| failure.message)?.into_iter();
        let is_wanted = |place: &Place| servers.contains(&place.server.as_str());
        let usable = places.filter(|place| is_wanted(place) && !place.address.is_empty() && place.port > 0);
        Ok(usable.map(|place| Address { host: place.address, port: place.port }).collect())
    }

    /// Leaves out of what was discovered what this server knows itself.
    fn filter(&self) {
        let claims = self.claims.lock();
        let discovered = self.discovered.load();
        let served = discovered.iter().map(|(server, peer)| (server.clone(), without(peer, &claims))).collect();
        self.served.store(Arc::new(served));
        self.generation.fetch_add(1, Ordering::AcqRel);
    }
}

impl Peer {
    /// Takes over one discovery document.
    fn learn(&mut self, document: &Value) {
        let mut known: HashSet<String> =
            self.groups.iter().map(|group| group.str_at(&["metadata", "name"]).to_string()).collect();
        for group in document.list_at(&["items"]) {
            let name = group.str_at(&["metadata", "name"]);
            for version in group.list_at(&["versions"]) {
                let resources = version.list_at(&["resources"]).iter();
                self.resources.extend(resources.map(|resource| {
                    GroupVersionResource::new(name, version.str_at(&["version"]), resource.str_at(&["resource"]))
                }));
            }
            // The core group is not below /apis.
            if !name.is_empty() && known.insert(name.to_string()) {
                self.groups.push(group.clone());
            }
        }
    }
}

fn without(peer: &Arc<Peer>, claims: &Claims) -> Arc<Peer> {
    let is_kept = |resource: &&GroupVersionResource| !claims.contains(&resource.group_version());
    let resources: HashSet<GroupVersionResource> = peer.resources.iter().filter(is_kept).cloned().collect();
    if resources.len() == peer.resources.len() {
        return peer.clone();
    }
    let mut groups = peer.groups.clone();
    for group in &mut groups {
        let name = group.str_at(&["metadata", "name"]).to_string();
        let versions = group.slot(&["versions"]).make_list();
        versions.retain(|version| !claims.contains(&object::GroupVersion::new(&*name, version.str_at(&["version"]))));
    }
    groups.retain(|group| !group.list_at(&["versions"]).is_empty());
    Arc::new(Peer { resources, groups })
}

/// The headers of a request that this server makes for itself.
fn own_headers() -> Result<HeaderMap, NoHeader> {
    let name = User::loopback().name;
    let user = User { uid: name.clone(), name, groups: vec![User::AUTHENTICATED.into()], ..User::default() };
    let mut headers = HeaderMap::new();
    headers.insert(header::ACCEPT, HeaderValue::from_static(ACCEPT));
    headers.insert(&PEER_PROXIED, HeaderValue::from_static("true"));
    aggregator::proxy::set_identity(&mut headers, &user, &user.uid)?;
    Ok(headers)
}

#[cfg(test)]
mod tests {
    use object::value;

    use super::*;

    #[test]
    fn peers_tell_what_they_serve() {
        let mut peer = Peer::default();
        peer.learn(&value!({"items": [
            {"metadata": {}, "versions": [{"version": "v1", "resources": [{"resource": "pods"}]}]},
            {"metadata": {"name": "batch"}, "versions": [{"version": "v1", "resources": [{"resource": "jobs"}]}]},
        ]}));
        for (resource, want) in [
            (GroupVersionResource::new("", "v1", "pods"), true),
            (GroupVersionResource::new("batch", "v1", "jobs"), true),
            (GroupVersionResource::new("batch", "v2", "jobs"), false),
        ] {
            assert_eq!(peer.resources.contains(&resource), want, "{resource:?}");
        }
        assert_eq!(peer.groups.len(), 1, "the core group is not below /apis");
    }

    #[test]
    fn documents_that_lie_do_no_harm() {
        // Not lists, not texts, groups that come twice or have no name: what makes no sense is left out.
        for (document, groups) in [
            (value!({"items": "none"}), 0),
            (value!({"items": [1, null, "batch", {"metadata": 7, "versions": {}}]}), 0),
            (
                value!({"items": [{"metadata": {"name": ["batch"]}, "versions": [{"resources": [null, {"resource": 1}]}]}]}),
                0,
            ),
            (value!({"items": [{"metadata": {"name": "a.io"}}, {"metadata": {"name": "a.io"}}]}), 1),
        ] {
            let mut peer = Peer::default();
            peer.learn(&document);
            peer.learn(&document);
            assert_eq!(peer.groups.len(), groups, "{document:?}");
            let merged = crate::merge("own", &[], &BTreeMap::from([("peer".to_string(), peer.groups.clone())]));
            assert!(merged.is_none_or(|merged| merged.len() == groups), "{document:?}");
        }
    }
}
