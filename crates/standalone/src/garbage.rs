//! Objects whose owners are gone are collected; owners that are deleted in the foreground wait for those they own, and
//! those that orphan are forgotten by them first. The rules are those of the garbage collector in a controller manager.

mod graph;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use hashbrown::HashMap;
use memchr::memmem;
use object::{GroupVersion, GroupVersionKind, Meta, Value, value};
use registry::Resource;
use tokio::task::{AbortHandle, JoinSet};

use crate::follow::{Delta, follow};
use crate::queue::Queue;
use crate::resources::{collection_of, deletable};
use graph::{FOREGROUND, Graph, ORPHAN, Seen, Uid};
use rest::client::{Client, Collection, Failure, Item};

/// How often the catalog is compared with what is followed: new kinds may have come.
const CATALOG_CHECK: Duration = Duration::from_secs(5);

struct Collector {
    client: Client,
    graph: Mutex<Graph>,
    queue: Queue<Uid>,
}

/// Collects until it is dropped.
pub async fn run(client: Client) {
    let collector = Arc::new(Collector { client, graph: Mutex::new(Graph::default()), queue: Queue::new() });
    tokio::join!(collector.follow_everything(), collector.work());
}

impl Collector {
    /// Follows every resource in the catalog, also those that come later.
    async fn follow_everything(self: &Arc<Self>) {
        let mut tasks = JoinSet::new();
        let mut followed: HashMap<Collection, AbortHandle> = HashMap::new();
        loop {
            let wanted: HashMap<Collection, Arc<Resource>> = deletable(&self.client.api)
                .into_iter()
                .map(|resource| (collection_of(&resource, ""), resource))
                .collect();
            followed.retain(|collection, task| {
                wanted.contains_key(collection) || {
                    task.abort();
                    false
                }
            });
            for (collection, resource) in wanted {
                if !followed.contains_key(&collection) {
                    let task = tasks.spawn(self.clone().follow_one(collection.clone(), resource));
                    followed.insert(collection, task);
                }
            }
            tokio::time::sleep(CATALOG_CHECK).await;
        }
    }

    async fn follow_one(self: Arc<Self>, collection: Collection, resource: Arc<Resource>) {
        let hear = |change| {
            let look = self.note(&resource, change);
            look.into_iter().for_each(|uid| self.queue.add(uid));
            true
        };
        follow(&self.client, &collection, concerns_ownership, hear).await;
    }

    /// Brings the graph up to date and answers with what should be looked at.
    fn note(&self, resource: &Arc<Resource>, change: Delta) -> Vec<Uid> {
        self.with_graph(|graph| graph.step(resource, |other| other.resource == resource.resource, change))
    }

    async fn work(&self) {
        loop {
            let uid = self.queue.next().await;
            match self.look_at(&uid).await {
                Ok(()) => self.queue.forget(&uid),
                Err(failure) if failure.is_not_found() => self.queue.forget(&uid),
                Err(failure) => {
                    tracing::debug!(uid, %failure, "cannot collect an object yet");
                    self.queue.retry(uid);
                }
            }
        }
    }

    /// Decides about one object from what the API says about it now.
    async fn look_at(&self, uid: &str) -> Result<(), Failure> {
        let Some(seen) = self.with_graph(|graph| graph.get(uid)) else { return Ok(()) };
        let item = collection_of(&seen.resource, &seen.namespace).item(&seen.name);
        let object = self.client.get(&item).await?;
        if object.uid() != uid {
            return Ok(());
        }
        let now = Seen::of(&seen.resource, &object);
        if !now.has_owners_of(&seen) {
            let look = self.with_graph(|graph| graph.set(now.clone()));
            look.into_iter().for_each(|uid| self.queue.add(uid));
        }
        if now.orphans {
            return self.orphan_dependents(&now, &item, &object).await;
        }
        if now.waits_for_dependents {
            return self.release_when_alone(&now, &item, &object).await;
        }
        if now.deleting || object.owner_references().is_empty() {
            return Ok(());
        }
        self.judge(&now, &item, &object).await
    }

    /// An object lives as long as one of its owners does.
    async fn judge(&self, seen: &Seen, item: &Item, object: &Value) -> Result<(), Failure> {
        let (mut solid, mut others, mut waiting) = (0, Vec::new(), false);
        for reference in object.owner_references() {
            match self.owner(seen, reference).await? {
                Owner::Solid => solid += 1,
                Owner::Absent => others.push(reference),
                Owner::WaitsForDependents => {
                    waiting = true;
                    others.push(reference);
                }
            }
        }
        if solid > 0 {
            return if others.is_empty() { Ok(()) } else { self.forget_owners(item, object, &others).await };
        }
        let policy = match () {
            // An owner waits, and this one has dependents of its own: they go first.
            () if waiting && !self.with_graph(|graph| graph.dependents_of(&seen.uid)).is_empty() => "Foreground",
            () if object.finalizers().any(|finalizer| finalizer == ORPHAN) => "Orphan",
            () if object.finalizers().any(|finalizer| finalizer == FOREGROUND) => "Foreground",
            () => "Background",
        };
        let options = value!({
            "apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": policy,
            "preconditions": {"uid": (seen.uid.clone()), "resourceVersion": (object.resource_version())}
        });
        self.client.delete(item, &options).await
    }

    async fn owner(&self, of: &Seen, reference: &Value) -> Result<Owner, Failure> {
        let Ok(version) = GroupVersion::parse(reference.str_at(&["apiVersion"])) else { return Ok(Owner::Absent) };
        let kind = GroupVersionKind::new(version.group, version.version, reference.str_at(&["kind"]));
        let Some(resource) = self.client.api.catalog.load().by_kind(&kind).cloned() else {
            // The kind is not served now but may be again, so the owner counts as present.
            return Ok(Owner::Solid);
        };
        if resource.namespaced && !of.resource.namespaced {
            // Such an owner cannot be found by its reference; collecting by it would be a guess.
            return Ok(Owner::Solid);
        }
        let item = collection_of(&resource, &of.namespace).item(reference.str_at(&["name"]));
        match self.client.get(&item).await {
            Ok(owner) if owner.uid() != reference.str_at(&["uid"]) => Ok(Owner::Absent),
            Ok(owner) if Seen::of(&resource, &owner).waits_for_dependents => Ok(Owner::WaitsForDependents),
            Ok(_) => Ok(Owner::Solid),
            Err(failure) if failure.is_not_found() => Ok(Owner::Absent),
            Err(failure) => Err(failure),
        }
    }

    /// Takes owners out of an object, unless it changed in the meantime.
    async fn forget_owners(&self, item: &Item, object: &Value, owners: &[&Value]) -> Result<(), Failure> {
        let kept: Vec<Value> =
            object.owner_references().iter().filter(|owner| !owners.contains(owner)).cloned().collect();
        let patch = value!({"metadata": {
            "ownerReferences": kept,
            "uid": (object.uid()),
            "resourceVersion": (object.resource_version())
        }});
        self.client.merge(item, &patch).await.map(|_| ())
    }

    /// Foreground deletion: the owner is removed once no dependent with blockOwnerDeletion is left.
    async fn release_when_alone(&self, owner: &Seen, item: &Item, object: &Value) -> Result<(), Failure> {
        let dependents = self.with_graph(|graph| {
            let uids = graph.dependents_of(&owner.uid);
            uids.iter().filter_map(|uid| graph.get(uid)).filter(|seen| seen.blocks(&owner.uid)).collect::<Vec<_>>()
        });
        if dependents.is_empty() {
            return self.drop_finalizer(item, object, FOREGROUND).await;
        }
        dependents.into_iter().filter(|seen| !seen.deleting).for_each(|seen| self.queue.add(seen.uid));
        Ok(())
    }

    /// Orphan: those it owns forget it, then it goes.
    async fn orphan_dependents(&self, owner: &Seen, owning: &Item, object: &Value) -> Result<(), Failure> {
        for uid in self.with_graph(|graph| graph.dependents_of(&owner.uid)) {
            let Some(dependent) = self.with_graph(|graph| graph.get(&uid)) else { continue };
            let item = collection_of(&dependent.resource, &dependent.namespace).item(&dependent.name);
            let object = match self.client.get(&item).await {
                Err(failure) if failure.is_not_found() => continue,
                found => found?,
            };
            let references: Vec<&Value> =
                object.owner_references().iter().filter(|r| r.str_at(&["uid"]) == owner.uid).collect();
            if object.uid() == uid && !references.is_empty() {
                self.forget_owners(&item, &object, &references).await?;
            }
        }
        self.drop_finalizer(owning, object, ORPHAN).await
    }

    async fn drop_finalizer(&self, item: &Item, object: &Value, finalizer: &str) -> Result<(), Failure> {
        let kept: Vec<Value> = object.finalizers().filter(|name| *name != finalizer).map(Value::from).collect();
        let patch = value!({"metadata": {
            "finalizers": kept,
            "uid": (object.uid()),
            "resourceVersion": (object.resource_version())
        }});
        self.client.merge(item, &patch).await.map(|_| ())
    }

    fn with_graph<T>(&self, work: impl FnOnce(&mut Graph) -> T) -> T {
        // A poisoned lock means that a bug ended another task; the graph is rebuilt by the next list at the latest.
        work(&mut self.graph.lock().unwrap_or_else(|poisoned| poisoned.into_inner()))
    }
}

enum Owner {
    Solid,
    Absent,
    WaitsForDependents,
}

/// Most objects have no owner and are not being deleted; their events need no look.
///
/// An object that loses its last owner without being deleted passes unseen: the graph keeps an edge too many, and every
/// decision looks at the object itself before it acts.
fn concerns_ownership(event: &[u8]) -> bool {
    memmem::find(event, b"\"ownerReferences\"").is_some() || memmem::find(event, b"\"deletionTimestamp\"").is_some()
}
