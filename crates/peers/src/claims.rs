//! Group-versions that come from stored objects: custom resource definitions, and APIServices of other API servers.
//!
//! This server knows them itself, so what peers say about them is left out. After such an object was deleted that goes on for a
//! while, because peers may still list it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use aggregator::follow::{Batch, name_of};
use object::{GroupVersion, Value};
use registry::DirectStorage;
use tokio::time::Instant;

/// How long a group-version is still left out after its last object was deleted.
const GRACE: Duration = Duration::from_secs(5 * 60);

/// The group-versions that are claimed now, and those that were until recently.
#[derive(Default)]
pub struct Claims {
    /// By resource and name of the object.
    objects: BTreeMap<(String, String), Vec<GroupVersion>>,
    active: BTreeSet<GroupVersion>,
    /// When the last object that claimed it was seen to be gone.
    deleted: BTreeMap<GroupVersion, Instant>,
}

impl Claims {
    /// Takes over changes of a resource; `versions_of` says what an object claims.
    pub fn apply(&mut self, storage: &DirectStorage, batch: &Batch, versions_of: fn(&Value) -> Vec<GroupVersion>) {
        let resource = storage.resource.to_string();
        let key = |name: String| (resource.clone(), name);
        if batch.complete {
            self.objects.retain(|(known, _), _| *known != resource);
        }
        for object in &batch.gone {
            self.objects.remove(&key(name_of(storage, object)));
        }
        for object in &batch.set {
            match storage.read_entry(object.entry()) {
                Ok(value) => drop(self.objects.insert(key(name_of(storage, object)), versions_of(&value))),
                Err(why) => tracing::error!(key = %object.key().to_string(), %why, "an object cannot be read"),
            }
        }
        self.settle(Instant::now());
    }

    fn settle(&mut self, now: Instant) {
        let active: BTreeSet<GroupVersion> = self.objects.values().flatten().cloned().collect();
        let gone = self.active.difference(&active).cloned().map(|version| (version, now));
        self.deleted.extend(gone.collect::<Vec<_>>());
        self.active = active;
    }

    /// Forgets what was deleted long ago; true if there was any.
    pub fn expire(&mut self, now: Instant) -> bool {
        let before = self.deleted.len();
        self.deleted.retain(|_, at| now.saturating_duration_since(*at) < GRACE);
        self.deleted.len() < before
    }

    /// When [`Claims::expire`] has something to do.
    pub fn next_expiry(&self) -> Option<Instant> {
        self.deleted.values().min().map(|at| *at + GRACE)
    }

    pub fn contains(&self, version: &GroupVersion) -> bool {
        self.active.contains(version) || self.deleted.contains_key(version)
    }
}

/// The versions of a custom resource definition.
pub fn of_definition(definition: &Value) -> Vec<GroupVersion> {
    let group = definition.str_at(&["spec", "group"]);
    let versions = definition.list_at(&["spec", "versions"]).iter();
    versions.map(|version| GroupVersion::new(group, version.str_at(&["name"]))).collect()
}

/// The version of an APIService that another API server answers for.
pub fn of_service(service: &Value) -> Vec<GroupVersion> {
    match service.at(&["spec", "service"]).is_null() {
        true => Vec::new(),
        false => vec![GroupVersion::new(service.str_at(&["spec", "group"]), service.str_at(&["spec", "version"]))],
    }
}

#[cfg(test)]
mod tests {
    use object::value;

    use super::*;

    #[test]
    fn objects_claim_their_versions() {
        let definition = value!({"spec": {"group": "a.io", "versions": [{"name": "v1"}, {"name": "v2"}]}});
        assert_eq!(of_definition(&definition), [GroupVersion::new("a.io", "v1"), GroupVersion::new("a.io", "v2")]);
        let mut service = value!({"spec": {"group": "b.io", "version": "v1"}});
        assert_eq!(of_service(&service), []);
        service.set(&["spec", "service", "name"], "api");
        assert_eq!(of_service(&service), [GroupVersion::new("b.io", "v1")]);
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_deleted_is_left_out_for_a_while() {
        let version = GroupVersion::new("a.io", "v1");
        let key = ("definitions".to_string(), "one".to_string());
        let mut claims = Claims::default();
        claims.objects.insert(key.clone(), vec![version.clone()]);
        claims.settle(Instant::now());
        assert!(claims.contains(&version) && claims.next_expiry().is_none());
        claims.objects.remove(&key);
        claims.settle(Instant::now());
        assert!(claims.contains(&version), "peers may still list it");
        assert_eq!(claims.next_expiry(), Some(Instant::now() + GRACE));
        assert!(!claims.expire(Instant::now()));
        tokio::time::sleep(GRACE).await;
        assert!(claims.expire(Instant::now()));
        assert!(!claims.contains(&version));
    }
}
