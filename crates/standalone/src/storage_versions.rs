//! StorageVersions: each server tells for every built-in resource in which version it stores objects and which it can read, so
//! that a migration of stored objects begins only when all servers agree (feature gate StorageVersionAPI).
//!
//! Until a resource's StorageVersion is written, clients cannot write objects of it ([`StorageVersions::refuses`]): otherwise
//! there could be objects of a version that other servers do not know about.

pub mod collect;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use object::timestamp::Time;
use object::{GroupResource, GroupVersion, Meta, Status, Value, compare_versions, value};
use registry::Catalog;
use request::{RequestInfo, User, Verb};
use rest::client::{Client, Collection, Failure};
use tokio::sync::Notify;

use crate::identity::leases;

static VERSIONS: Collection = Collection::new("internal.apiserver.k8s.io", "v1alpha1", "storageversions");
/// How often the objects are looked at again, in case another client has changed them.
const INTERVAL: Duration = Duration::from_secs(600);
/// Between attempts to write an object, and to find this server's lease.
const PAUSE: Duration = Duration::from_secs(1);
const LEASE_PAUSE: Duration = Duration::from_millis(100);
/// How often a write is tried before it has failed; conflicts do not count.
const TRIES: usize = 3;
const CONDITION: &str = "AllEncodingVersionsEqual";

/// The versions that this server stores, and how far it has told the others.
pub struct StorageVersions {
    resources: Vec<Stored>,
    /// The versions that are not written yet, with the last error if there was one.
    pending: Mutex<BTreeMap<GroupResource, Option<String>>>,
    is_complete: AtomicBool,
    completed: Notify,
}

/// The versions of one resource.
#[derive(Clone, Debug, PartialEq)]
struct Stored {
    /// The resource, and others that are stored at the same place.
    resources: Vec<GroupResource>,
    encoding: String,
    decodable: Vec<String>,
    served: Vec<String>,
}

impl StorageVersions {
    /// All built-in resources of the catalog that are stored.
    pub fn new(catalog: &Catalog) -> Arc<StorageVersions> {
        let resources = stored(catalog);
        let pending = resources.iter().flat_map(|stored| &stored.resources).map(|resource| (resource.clone(), None));
        Arc::new(StorageVersions {
            pending: Mutex::new(pending.collect()),
            resources,
            is_complete: AtomicBool::new(false),
            completed: Notify::new(),
        })
    }

    /// Why a request has to wait; None if it may go on.
    pub fn refuses(&self, info: &RequestInfo, user: &User) -> Option<Status> {
        if self.is_complete.load(Ordering::Acquire) || !info.is_resource {
            return None;
        }
        if matches!(info.verb, Verb::Get | Verb::List | Verb::Watch) {
            return None;
        }
        let exempt = match (info.group.as_str(), info.resource.as_str()) {
            ("internal.apiserver.k8s.io", "storageversions") => true,
            ("", "namespaces") => info.verb == Verb::Create && *user == User::loopback(),
            ("coordination.k8s.io", "leases") => info.namespace == "kube-system",
            _ => false,
        };
        if exempt {
            return None;
        }
        let resource = GroupResource::new(info.group.as_str(), info.resource.as_str());
        let pending = self.pending.lock().unwrap_or_else(PoisonError::into_inner);
        let why = pending.get(&resource)?.clone().unwrap_or_else(|| "<nil>".into());
        Some(Status::unavailable(format!(
            "wait for storage version registration to complete for resource: {resource}, last seen error: {why}"
        )))
    }

    /// Returns when everything was written once.
    pub async fn complete(&self) {
        loop {
            let completed = self.completed.notified();
            tokio::pin!(completed);
            completed.as_mut().enable();
            if self.is_complete.load(Ordering::Acquire) {
                return;
            }
            completed.await;
        }
    }

    /// Writes the objects, now and then again. `server` is the name of this server's identity lease.
    pub(crate) async fn run(self: Arc<Self>, client: Client, server: String) {
        // The objects of a server without a lease would be collected as garbage.
        while client.get(&leases().item(&server)).await.is_err() {
            tokio::time::sleep(LEASE_PAUSE).await;
        }
        loop {
            self.update_all(&client, &server).await;
            tokio::time::sleep(INTERVAL).await;
        }
    }

    async fn update_all(&self, client: &Client, server: &str) {
        let mut failed = false;
        for stored in &self.resources {
            let outcome = stored.update(client, server).await;
            if let Err(failure) = &outcome {
                tracing::error!(resource = %stored.resources[0], %failure, "failed to update a storage version");
                failed = true;
            }
            let mut pending = self.pending.lock().unwrap_or_else(PoisonError::into_inner);
            for resource in &stored.resources {
                match (&outcome, pending.get_mut(resource)) {
                    (Ok(()), _) => drop(pending.remove(resource)),
                    // One that was written before may be written by clients, whatever becomes of later attempts.
                    (Err(failure), Some(why)) => *why = Some(failure.message.clone()),
                    (Err(_), None) => {}
                }
            }
        }
        if !failed {
            self.is_complete.store(true, Ordering::Release);
            self.completed.notify_waiters();
        }
    }
}

impl Stored {
    fn name(&self) -> String {
        let GroupResource { group, resource } = &self.resources[0];
        format!("{}.{resource}", if group.is_empty() { "core" } else { group.as_str() })
    }

    async fn update(&self, client: &Client, server: &str) -> Result<(), Failure> {
        let mut tries = 0;
        loop {
            match self.update_once(client, server).await {
                Err(failure) if failure.is_conflict() => {}
                Err(failure) => {
                    tries += 1;
                    if tries == TRIES {
                        return Err(failure);
                    }
                }
                Ok(()) => return Ok(()),
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    async fn update_once(&self, client: &Client, server: &str) -> Result<(), Failure> {
        let item = VERSIONS.item(&self.name());
        let mut object = match client.get(&item).await {
            Ok(object) => object,
            Err(failure) if failure.is_not_found() => {
                let new = value!({
                    "apiVersion": "internal.apiserver.k8s.io/v1alpha1", "kind": "StorageVersion",
                    "metadata": {"name": (self.name())}, "spec": {}, "status": {}
                });
                client.create(&VERSIONS, &new).await?
            }
            Err(failure) => return Err(failure),
        };
        let list =
            |versions: &[String]| versions.iter().map(|version| Value::from(version.as_str())).collect::<Vec<_>>();
        let own = value!({
            "apiServerID": server, "encodingVersion": (self.encoding.as_str()),
            "decodableVersions": (list(&self.decodable)), "servedVersions": (list(&self.served))
        });
        let before = object.clone();
        let servers = object.slot(&["status", "storageVersions"]).make_list();
        match servers.iter_mut().find(|known| known.str_at(&["apiServerID"]) == server) {
            Some(known) => *known = own,
            None => servers.push(own),
        }
        settle(&mut object, &Time(client.api.clock.now()).to_string());
        if object == before {
            return Ok(());
        }
        client.replace(&item.part("status"), &object).await.map(drop)
    }
}

/// Sets the common encoding version, and the condition that says whether there is one.
fn settle(object: &mut Value, now: &str) {
    let versions: Vec<&str> =
        object.list_at(&["status", "storageVersions"]).iter().map(|known| known.str_at(&["encodingVersion"])).collect();
    let common = versions.first().filter(|first| versions.iter().all(|version| version == *first));
    let common = common.map(|version| version.to_string());
    let before = object.str_at(&["status", "commonEncodingVersion"]).to_string();
    let (status, reason, message) = match &common {
        Some(_) => ("True", "CommonEncodingVersionSet", "Common encoding version set"),
        None => ("False", "CommonEncodingVersionUnset", "Common encoding version unset"),
    };
    let is_other = common.as_ref().is_some_and(|common| !before.is_empty() && *common != before);
    match common {
        Some(common) => object.set(&["status", "commonEncodingVersion"], common),
        None => drop(object.remove(&["status", "commonEncodingVersion"])),
    }
    let generation = object.generation();
    let mut condition =
        value!({"type": CONDITION, "status": status, "reason": reason, "message": message, "lastTransitionTime": now});
    if generation != 0 {
        condition.set(&["observedGeneration"], generation);
    }
    let conditions = object.slot(&["status", "conditions"]).make_list();
    match conditions.iter_mut().find(|known| known.str_at(&["type"]) == CONDITION) {
        Some(known) => {
            if known.str_at(&["status"]) == status && !is_other {
                condition.set(&["lastTransitionTime"], known.str_at(&["lastTransitionTime"]).to_string());
            }
            *known = condition;
        }
        None => conditions.push(condition),
    }
}

/// The built-in resources that are stored, by group and name. What is stored at the same place is one of them.
fn stored(catalog: &Catalog) -> Vec<Stored> {
    let mut by_place: BTreeMap<&str, Vec<&Arc<registry::Resource>>> = BTreeMap::new();
    for resource in catalog.resources().filter(|resource| !resource.is_custom()) {
        if let Some(storage) = &resource.storage {
            by_place.entry(storage.prefix.as_str()).or_default().push(resource);
        }
    }
    let mut all: Vec<Stored> = by_place.into_values().map(describe).collect();
    all.sort_by(|a, b| a.resources.cmp(&b.resources));
    all
}

fn describe(served: Vec<&Arc<registry::Resource>>) -> Stored {
    let mut resources: Vec<GroupResource> = served.iter().map(|resource| resource.resource.group_resource()).collect();
    resources.sort();
    resources.dedup();
    let group = resources[0].group.clone();
    let kind = &served[0].kind.kind;
    let known = schema::builtin().kinds().map(|kind| &kind.name);
    let known = known.filter(|known| known.group == group && known.kind == *kind).map(|known| known.group_version());
    let mut decodable = sorted(known.collect());
    let (own, others): (Vec<_>, Vec<_>) =
        served.iter().map(|resource| resource.resource.group_version()).partition(|version| version.group == group);
    for version in sorted(own.clone()).into_iter().chain(sorted(others)) {
        if !decodable.contains(&version) {
            decodable.push(version);
        }
    }
    let encoding =
        served[0].storage.as_ref().map_or_else(String::new, |storage| storage.kind.group_version().to_string());
    Stored { resources, encoding, decodable, served: sorted(own) }
}

/// The version to prefer first.
fn sorted(mut versions: Vec<GroupVersion>) -> Vec<String> {
    versions.sort_by(|a, b| compare_versions(&b.version, &a.version).then_with(|| a.group.cmp(&b.group)));
    versions.dedup();
    versions.iter().map(GroupVersion::to_string).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(versions: &[&str]) -> Value {
        let server = |version: &&str| value!({"apiServerID": "a", "encodingVersion": (*version)});
        value!({"metadata": {"name": "core.pods"}, "status": {"storageVersions": (versions.iter().map(server).collect::<Vec<_>>())}})
    }

    #[test]
    fn servers_agree_or_not() {
        for (versions, common, status) in [
            (&["v1"][..], "v1", "True"),
            (&["v1", "v1"], "v1", "True"),
            (&["v1", "v2"], "", "False"),
            (&[], "", "False"),
        ] {
            let mut object = object(versions);
            settle(&mut object, "2026-01-01T00:00:00Z");
            assert_eq!(object.str_at(&["status", "commonEncodingVersion"]), common, "{versions:?}");
            let conditions = object.list_at(&["status", "conditions"]);
            assert_eq!(conditions[0].str_at(&["status"]), status, "{versions:?}");
        }
    }

    #[test]
    fn the_time_of_a_condition_changes_with_the_common_version() {
        let time =
            |object: &Value| object.list_at(&["status", "conditions"])[0].str_at(&["lastTransitionTime"]).to_string();
        let mut object = object(&["v1"]);
        settle(&mut object, "2026-01-01T00:00:00Z");
        settle(&mut object, "2026-01-02T00:00:00Z");
        assert_eq!(time(&object), "2026-01-01T00:00:00Z");
        object.slot(&["status", "storageVersions"]).make_list()[0].set(&["encodingVersion"], "v2");
        settle(&mut object, "2026-01-03T00:00:00Z");
        assert_eq!(time(&object), "2026-01-03T00:00:00Z");
    }

    #[test]
    fn clients_wait_for_what_is_pending() {
        let pending = BTreeMap::from([(GroupResource::new("", "configmaps"), None)]);
        let versions = StorageVersions {
            resources: Vec::new(),
            pending: Mutex::new(pending),
            is_complete: AtomicBool::new(false),
            completed: Notify::new(),
        };
        let refused = |method: &str, path: &str| {
            versions.refuses(&RequestInfo::parse(method, path, &[]), &User::anonymous()).map(|status| status.message)
        };
        let why = "wait for storage version registration to complete for resource: configmaps, last seen error: <nil>";
        assert_eq!(refused("POST", "/api/v1/namespaces/default/configmaps").as_deref(), Some(why));
        assert_eq!(refused("GET", "/api/v1/namespaces/default/configmaps"), None);
        assert_eq!(refused("POST", "/apis/example.com/v1/foos"), None);
        versions.is_complete.store(true, Ordering::Release);
        assert_eq!(refused("POST", "/api/v1/namespaces/default/configmaps"), None);
    }
}
