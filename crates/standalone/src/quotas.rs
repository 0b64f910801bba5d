//! Quotas say in their status what they allow and what is used of it; admission goes by that.
//!
//! Admission charges what is created. This loop does the rest: it counts what is there when a quota is new or changed, and
//! counts again when something went away.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use admission::plugins::quota;
use hashbrown::{HashMap, HashSet};
use object::{GroupResource, Meta, Value, fields};
use registry::Resource;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::follow::{Delta, follow};
use crate::queue::Queue;
use crate::resources::{collection_of, deletable};
use rest::client::{Client, Collection, Failure};

static QUOTAS: Collection = Collection::new("", "v1", "resourcequotas");
/// A namespace is counted when it has been quiet for so long: counting amid changes would only be done again.
const QUIET: Duration = Duration::from_secs(1);
/// Requests that were charged and then failed are found by counting everything now and then, as upstream does.
const RECOUNT: Duration = Duration::from_secs(5 * 60);

/// A namespace to look at, and whether to count even if the quotas were counted before.
type Task = (String, bool);

struct Keeper {
    client: Client,
    queue: Queue<Task>,
    /// Namespaces that have quotas.
    namespaces: Mutex<HashSet<String>>,
    /// Resources whose deletions are heard of already.
    followed: Mutex<HashSet<GroupResource>>,
    follow: mpsc::UnboundedSender<Arc<Resource>>,
}

pub async fn run(client: Client) {
    let (follow, wanted) = mpsc::unbounded_channel();
    let keeper = Arc::new(Keeper {
        client,
        queue: Queue::new(),
        namespaces: Mutex::default(),
        followed: Mutex::default(),
        follow,
    });
    tokio::join!(keeper.follow_quotas(), keeper.follow_deletions(wanted), keeper.recount(), keeper.work());
}

impl Keeper {
    async fn follow_quotas(&self) {
        let hear = |change| {
            let seen = match change {
                Delta::Listed(all) => all,
                Delta::Set(quota) => vec![quota],
                Delta::Gone(_) => Vec::new(),
            };
            for quota in seen {
                lock(&self.namespaces).insert(quota.namespace().to_string());
                self.queue.after(QUIET, (quota.namespace().to_string(), false));
            }
            true
        };
        follow(&self.client, &QUOTAS, |_| true, hear).await;
    }

    /// Hears of what is deleted of the resources that some quota counts.
    async fn follow_deletions(self: &Arc<Self>, mut wanted: mpsc::UnboundedReceiver<Arc<Resource>>) {
        let mut tasks = JoinSet::new();
        while let Some(resource) = wanted.recv().await {
            let keeper = self.clone();
            tasks.spawn(async move {
                let hear = |change| {
                    if let Delta::Gone(object) = change
                        && lock(&keeper.namespaces).contains(object.namespace())
                    {
                        keeper.queue.after(QUIET, (object.namespace().to_string(), true));
                    }
                    true
                };
                follow(&keeper.client, &alive(&resource), |_| false, hear).await;
            });
        }
    }

    async fn recount(&self) {
        loop {
            tokio::time::sleep(RECOUNT).await;
            for namespace in lock(&self.namespaces).iter() {
                self.queue.add((namespace.clone(), true));
            }
        }
    }

    async fn work(&self) {
        loop {
            let task = self.queue.next().await;
            match self.settle(&task).await {
                Ok(()) => self.queue.forget(&task),
                Err(failure) => {
                    tracing::debug!(namespace = task.0, %failure, "a quota could not be counted; it is tried again");
                    self.queue.retry(task);
                }
            }
        }
    }

    /// Writes the status of every quota of a namespace that does not have the right one.
    async fn settle(&self, (namespace, anyway): &Task) -> Result<(), Failure> {
        let quotas = match self.client.list_whole(&QUOTAS.within(namespace)).await {
            Err(failure) if failure.is_not_found() => return Ok(()),
            quotas => quotas?,
        };
        if quotas.list_at(&["items"]).is_empty() {
            lock(&self.namespaces).remove(namespace);
        }
        let served: HashMap<GroupResource, Arc<Resource>> = deletable(&self.client.api)
            .into_iter()
            .filter(|resource| resource.namespaced)
            .map(|resource| (resource.resource.group_resource(), resource))
            .collect();
        for quota in quotas.list_at(&["items"]).iter().filter(|quota| *anyway || !quota::is_counted(quota)) {
            let mut objects = Vec::new();
            for resource in quota::counted(quota, served.keys()) {
                let Some(found) = served.get(resource) else { continue };
                self.hear_of(resource, found);
                let list = self.client.list_whole(&collection_of(found, namespace)).await?;
                objects.push((resource, list));
            }
            self.write(namespace, quota, &objects).await?;
        }
        Ok(())
    }

    fn hear_of(&self, resource: &GroupResource, found: &Arc<Resource>) {
        if lock(&self.followed).insert(resource.clone()) {
            // The other end lives as long as this one.
            let _ = self.follow.send(found.clone());
        }
    }

    /// Nothing is written over what was charged since the quota was read: that is a conflict, and counted again.
    async fn write(&self, namespace: &str, quota: &Value, objects: &[(&GroupResource, Value)]) -> Result<(), Failure> {
        let api = self.client.api.snapshot();
        let cx = api.context(&self.client.user, namespace, "v1", "status", false);
        let status = quota::status(&cx, quota, objects.iter().map(|(of, list)| (*of, list.list_at(&["items"]))));
        if quota::same(&status, quota.field("status")) {
            return Ok(());
        }
        let mut counted = quota.clone();
        counted.set(&["apiVersion"], "v1");
        counted.set(&["kind"], "ResourceQuota");
        counted.set(&["status"], status);
        let status = QUOTAS.within(namespace).item(quota.name()).part("status");
        match self.client.replace(&status, &counted).await {
            Err(failure) if failure.is_not_found() => Ok(()),
            written => written.map(|_| ()),
        }
    }
}

/// The objects of a resource that count. Pods that are done leave this selection as if they were deleted.
fn alive(resource: &Resource) -> Collection {
    let (id, all) = (&resource.resource, collection_of(resource, ""));
    if !id.group.is_empty() || id.resource != "pods" {
        return all;
    }
    let is_not = |phase: &str| fields::Requirement {
        field: "status.phase".into(),
        operator: fields::Operator::NotEquals,
        value: phase.into(),
    };
    all.selected(&["Succeeded", "Failed"].map(is_not).into_iter().collect())
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    // A poisoned lock means that a bug ended another task; sets are never left half changed.
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}
