//! [`Followed`]: a graph that is as new as the caches it is made from.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Instant;

use cache::Object;
use object::{Str, Value};
use parking_lot::{Mutex, RwLock, RwLockReadGuard};
use registry::DirectStorage;
use request::Access;
use storage::{Key, Revision};

use super::graph::Graph;
use super::references::{POD_PATHS, PodReferences, VolumeReferences};
use crate::AuthzMeters;

/// Where the objects are stored that relate others to nodes. None if a resource is not served.
pub struct Sources {
    pub pods: DirectStorage,
    pub persistent_volumes: DirectStorage,
    pub volume_attachments: Option<DirectStorage>,
    pub resource_slices: Option<DirectStorage>,
    pub pod_certificate_requests: Option<DirectStorage>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    Pods,
    Volumes,
    Attachments,
    Slices,
    Certificates,
}

pub struct Followed {
    graph: RwLock<Graph>,
    feeds: Vec<Feed>,
    /// Held by the one that brings the graph up to date.
    catching_up: Mutex<()>,
    meters: Arc<AuthzMeters>,
}

struct Feed {
    source: Source,
    storage: DirectStorage,
    paths: Vec<Str>,
    /// All changes up to this revision are in the graph.
    applied: AtomicI64,
}

/// What an object means for the graph, decoded before the graph is locked.
enum GraphChange {
    Pod(Key, Option<PodReferences>),
    Volume(Key, Option<VolumeReferences>),
    Owner(Key, String),
}

impl GraphChange {
    /// Upstream's name for it.
    fn operation(&self, source: Source) -> &'static str {
        let stays = match self {
            GraphChange::Pod(_, references) => references.is_some(),
            GraphChange::Volume(_, references) => references.is_some(),
            GraphChange::Owner(_, node) => !node.is_empty(),
        };
        match (source, stays) {
            (Source::Pods, true) => "AddPod",
            (Source::Pods, false) => "DeletePod",
            (Source::Volumes, true) => "AddPV",
            (Source::Volumes, false) => "DeletePV",
            (Source::Attachments, true) => "AddVolumeAttachment",
            (Source::Attachments, false) => "DeleteVolumeAttachment",
            (Source::Slices, true) => "AddResourceSlice",
            (Source::Slices, false) => "DeleteResourceSlice",
            (Source::Certificates, true) => "AddPodCertificateRequest",
            (Source::Certificates, false) => "DeletePodCertificateRequest",
        }
    }
}

impl Followed {
    pub fn new(sources: Sources, meters: Arc<AuthzMeters>) -> Followed {
        let node_name = &["spec.nodeName"][..];
        let feeds = [
            (Source::Pods, Some(sources.pods), POD_PATHS),
            (Source::Volumes, Some(sources.persistent_volumes), &["spec"]),
            (Source::Attachments, sources.volume_attachments, node_name),
            (Source::Slices, sources.resource_slices, node_name),
            (Source::Certificates, sources.pod_certificate_requests, node_name),
        ];
        let feed = |(source, storage, paths): (Source, Option<DirectStorage>, &[&str])| {
            let paths = paths.iter().map(|path| Str::from(*path)).collect();
            Some(Feed { source, storage: storage?, paths, applied: AtomicI64::new(0) })
        };
        let feeds = feeds.into_iter().filter_map(feed).collect();
        Followed { graph: RwLock::default(), feeds, catching_up: Mutex::new(()), meters }
    }

    /// The graph with everything that the caches know by now.
    pub fn read(&self) -> RwLockReadGuard<'_, Graph> {
        if self.is_behind() {
            self.catch_up();
        }
        self.graph.read()
    }

    pub fn is_behind(&self) -> bool {
        self.feeds.iter().any(Feed::is_behind)
    }

    pub fn catch_up(&self) {
        let _one_at_a_time = self.catching_up.lock();
        for feed in self.feeds.iter().filter(|feed| feed.is_behind()) {
            let (changes, revision) = feed.changes(&self.graph);
            let mut graph = self.graph.write();
            for change in changes {
                let (operation, began) = (change.operation(feed.source), Instant::now());
                match change {
                    GraphChange::Pod(key, references) => graph.set_pod(&key, references),
                    GraphChange::Volume(key, references) => graph.set_volume(&key, references),
                    GraphChange::Owner(key, node) => graph.set_owner(&key, &node),
                }
                self.meters.graph_seconds.with(&[operation]).observe(began.elapsed().as_secs_f64());
            }
            drop(graph);
            feed.applied.store(revision, Ordering::Release);
        }
    }

    pub fn is_bound(&self, graph: &Graph, access: &Access<'_>, node: &str) -> bool {
        self.key(Source::Pods, access).is_some_and(|pod| graph.is_bound(&pod, node))
    }

    pub fn uses_volume(&self, graph: &Graph, access: &Access<'_>, node: &str) -> bool {
        self.key(Source::Volumes, access).is_some_and(|volume| graph.uses_volume(&volume, node))
    }

    pub fn owns(&self, graph: &Graph, source: Source, access: &Access<'_>, node: &str) -> bool {
        self.key(source, access).is_some_and(|object| graph.owns(&object, node))
    }

    /// The key of the object that an access is about. Names come from requests, so one with a slash is no key.
    fn key(&self, source: Source, access: &Access<'_>) -> Option<Key> {
        let storage = &self.feeds.iter().find(|feed| feed.source == source)?.storage;
        let is_one = |name: &str| !name.contains('/');
        // A namespace on a cluster-scoped object is a mistake that upstream's graph does not find either.
        let fits = storage.namespaced != access.namespace.is_empty();
        (fits && is_one(access.namespace) && is_one(access.name)).then(|| storage.key(access.namespace, access.name))
    }
}

impl Feed {
    fn is_behind(&self) -> bool {
        self.storage.cache.last_change() > self.applied.load(Ordering::Acquire)
    }

    /// What happened since the graph was brought up to date, and up to which revision that is.
    fn changes(&self, graph: &RwLock<Graph>) -> (Vec<GraphChange>, Revision) {
        let cache = &self.storage.cache;
        let applied = self.applied.load(Ordering::Acquire);
        if applied > 0
            && let Some((events, revision)) = cache.events_after(applied)
        {
            let changed = |event: &Arc<cache::Event>| match &event.object {
                Some(object) => Some(self.change(object)),
                None => event.previous.as_ref().map(|previous| self.removal(previous.key())),
            };
            return (events.iter().filter_map(changed).collect(), revision);
        }
        // Too many events have happened: everything is looked at, and what has not changed since is not decoded.
        let snapshot = cache.snapshot(&self.storage.range("").into());
        let present: hashbrown::HashSet<&Key> = snapshot.objects.iter().map(|object| object.key()).collect();
        let known = graph.read();
        let is_ours = |key: &&Key| key.as_bytes().starts_with(self.storage.prefix.as_bytes());
        let gone = known.keys().filter(is_ours).filter(|key| !present.contains(*key));
        let mut changes: Vec<GraphChange> = gone.map(|key| self.removal(key)).collect();
        drop(known);
        let changed = snapshot.objects.iter().filter(|object| object.revision() > applied);
        changes.extend(changed.map(|object| self.change(object)));
        (changes, snapshot.revision)
    }

    fn change(&self, object: &Object) -> GraphChange {
        let key = object.key().clone();
        // An object that cannot be read relates nothing to a node.
        let value = self.storage.read_paths(object.entry(), &self.paths).unwrap_or(Value::Null);
        match self.source {
            Source::Pods => GraphChange::Pod(key, PodReferences::of(&value)),
            Source::Volumes => GraphChange::Volume(key, VolumeReferences::of(&value)),
            _ => GraphChange::Owner(key, value.str_at(&["spec", "nodeName"]).to_string()),
        }
    }

    fn removal(&self, key: &Key) -> GraphChange {
        match self.source {
            Source::Pods => GraphChange::Pod(key.clone(), None),
            Source::Volumes => GraphChange::Volume(key.clone(), None),
            _ => GraphChange::Owner(key.clone(), String::new()),
        }
    }
}
