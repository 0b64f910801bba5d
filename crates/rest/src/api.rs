//! [`Api`]: what all requests share, and [`Snapshot`]: what one request sees of it.

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use admission::Chain;
use async_trait::async_trait;
use futures::future::BoxFuture;
use object::{Clock, GroupResource, Randomness, Value};
use registry::{Catalog, Context, Features, LiveCatalog, Lookup};
use request::{Access, User};

use crate::{Accept, Call, Media, Reply};

/// The gate for CBOR as a media type.
pub const CBOR: &str = "CBORServingAndStorage";

/// The serving side of the API.
pub struct Api {
    /// What is served now. Requests use the catalog of their [`Snapshot`] instead.
    pub catalog: Arc<LiveCatalog>,
    pub admission: Chain,
    pub authorizer: Arc<dyn authz::Authorizer>,
    pub clock: Arc<dyn Clock>,
    /// For uids, generated names and audit ids.
    pub randomness: Arc<dyn Randomness>,
    pub features: Arc<Features>,
    pub limits: Limits,
    /// What a column of a built-in kind's table shows: (kind, column) → text. Asked for when a table is, not before.
    pub describe_column: fn(&str, &str) -> &'static str,
    pub meters: crate::WatchMeters,
    /// How kubelets, pods and services are reached; None in a server that makes no connections.
    pub dial: Option<Arc<dyn crate::ForwardClient>>,
    /// Counts what goes over those connections.
    pub streams: Arc<crate::StreamMeters>,
    pub recent: Arc<crate::Recent>,
    /// Counts the answers that clients have not read yet.
    pub answers: Arc<crate::Answers>,
    /// Says how far the catalog has followed the definitions of custom resources; None where there are none.
    pub definitions: Option<Arc<dyn DefinitionBarrier>>,
    /// Records what is changed; None where no history is kept.
    pub history: Option<Arc<history::Recorder>>,
    /// Runs writes in a server for tests; None in every other.
    pub writes: Option<Arc<dyn RunWrite>>,
}

/// Runs writes. A server for tests, which can be emptied while it serves, knows by this which of them began before.
pub trait RunWrite: Send + Sync {
    /// `is_own` says that the server makes the request itself.
    fn run(&self, is_own: bool, write: BoxFuture<'static, Reply>) -> BoxFuture<'static, Reply>;
}

/// Keeps the catalog in line with the stored definitions of custom resources.
#[async_trait]
pub trait DefinitionBarrier: Send + Sync {
    /// Waits until every definition that was written before this call is in the catalog, on whatever server it was
    /// written.
    async fn caught_up(&self);
}

/// Bounds on what a client can make the server hold.
#[derive(Clone, Debug)]
pub struct Limits {
    /// The largest request body: 3 MiB, as upstream.
    pub body_bytes: usize,
    /// Watches without a timeout end at a random time between this and twice this.
    pub watch_min_timeout: Duration,
    /// How often an idle watch that asked for bookmarks gets one.
    pub bookmark_interval: Duration,
    pub watch_cache: WatchCache,
    /// How many objects of one DELETECOLLECTION are deleted at the same time: `--delete-collection-workers`.
    pub delete_collection_workers: usize,
    /// Groups whose members see Secrets without their values: `--redact-secrets-for`.
    pub redact_secrets_for: Vec<String>,
    /// Groups whose members get what they may see of a list that they may not see as a whole: `--authorized-lists-for`.
    pub authorized_lists_for: Vec<String>,
}

/// Which resources upstream would serve from a watch cache. Here all of them are; lists of the others are limited as upstream
/// limits what it reads from etcd.
#[derive(Clone, Debug)]
pub struct WatchCache {
    /// `--watch-cache`.
    pub enabled: bool,
    /// Resources whose `--watch-cache-sizes` is zero.
    pub without: Vec<GroupResource>,
}

impl Default for WatchCache {
    fn default() -> WatchCache {
        let without = ["", "events.k8s.io"].map(|group| GroupResource::new(group, "events")).to_vec();
        WatchCache { enabled: true, without }
    }
}

impl WatchCache {
    pub fn has(&self, resource: &GroupResource) -> bool {
        self.enabled && !self.without.contains(resource)
    }
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            body_bytes: 3 * 1024 * 1024,
            watch_min_timeout: Duration::from_secs(1800),
            bookmark_interval: Duration::from_secs(60),
            watch_cache: WatchCache::default(),
            delete_collection_workers: 1,
            redact_secrets_for: Vec::new(),
            authorized_lists_for: Vec::new(),
        }
    }
}

impl Api {
    /// The API with the catalog that is served now, which stays the same however long the snapshot is kept.
    pub fn snapshot(self: &Arc<Api>) -> Snapshot {
        Snapshot { catalog: self.catalog.load_full(), api: self.clone() }
    }

    /// How a Status that has nothing to do with a resource is written.
    pub fn accept_of_status(&self, call: &Call) -> Accept {
        let Call { headers, query, .. } = call;
        if self.features.enabled(CBOR) {
            return Accept::of_status_in(headers, query, &[Media::Json, Media::Yaml, Media::Proto, Media::Cbor]);
        }
        Accept::of_status(headers, query)
    }
}

/// The API as one request sees it: `catalog` is the one that was served when the request began.
#[derive(Clone)]
pub struct Snapshot {
    pub catalog: Arc<Catalog>,
    api: Arc<Api>,
}

impl Deref for Snapshot {
    type Target = Api;

    fn deref(&self) -> &Api {
        &self.api
    }
}

impl Snapshot {
    /// What strategies may know about a write that the server makes for itself.
    pub fn context<'a>(
        &'a self,
        user: &'a User,
        namespace: &'a str,
        version: &'a str,
        subresource: &'a str,
        dry_run: bool,
    ) -> Context<'a> {
        Context {
            namespace,
            version,
            subresource,
            dry_run,
            catalog: &self.catalog,
            lookup: self,
            randomness: &*self.api.randomness,
            ..Context::of_server(self.clock.now(), user, &self.api.features)
        }
    }
}

#[async_trait]
impl Lookup for Snapshot {
    fn get(&self, group: &str, resource: &str, namespace: &str, name: &str) -> Option<Arc<Value>> {
        self.recent.find(&self.catalog, group, resource, namespace, name)
    }

    fn list(&self, group: &str, resource: &str, namespace: &str) -> Vec<Arc<Value>> {
        self.recent.list(&self.catalog, group, resource, namespace)
    }

    async fn may(&self, access: &Access<'_>) -> Result<(), String> {
        self.authorizer.decide(access).await.allowed().map(drop)
    }
}
