//! Who owns whom, as far as it has been seen: only objects that have owners, or wait for those they own, are kept.

use std::sync::Arc;

use hashbrown::{HashMap, HashSet};
use object::{Meta, Value};
use registry::Resource;

pub const FOREGROUND: &str = "foregroundDeletion";
pub const ORPHAN: &str = "orphan";

pub type Uid = String;

/// An object, by where it is found.
#[derive(Clone)]
pub struct Seen {
    pub resource: Arc<Resource>,
    pub namespace: String,
    pub name: String,
    pub uid: Uid,
    /// The uids of its owners.
    owners: Vec<Uid>,
    /// Those of its owners that asked not to go before it does.
    blocks: Vec<Uid>,
    pub deleting: bool,
    /// It stays until those it owns are gone.
    pub waits_for_dependents: bool,
    /// It stays until those it owns have forgotten it.
    pub orphans: bool,
}

impl Seen {
    pub fn of(resource: &Arc<Resource>, object: &Value) -> Seen {
        let owners = object.owner_references();
        let uid = |owner: &Value| owner.str_at(&["uid"]).to_string();
        let blocking = |owner: &&Value| owner.field("blockOwnerDeletion").as_bool() == Some(true);
        let finalizer = |name| object.is_deleting() && object.finalizers().any(|finalizer| finalizer == name);
        Seen {
            resource: resource.clone(),
            namespace: object.namespace().to_string(),
            name: object.name().to_string(),
            uid: object.uid().to_string(),
            owners: owners.iter().map(uid).collect(),
            blocks: owners.iter().filter(blocking).map(uid).collect(),
            deleting: object.is_deleting(),
            waits_for_dependents: finalizer(FOREGROUND),
            orphans: finalizer(ORPHAN),
        }
    }

    pub fn has_owners_of(&self, other: &Seen) -> bool {
        self.owners == other.owners && self.blocks == other.blocks
    }

    pub fn blocks(&self, owner: &str) -> bool {
        self.blocks.iter().any(|uid| uid == owner)
    }

    fn matters(&self) -> bool {
        !self.owners.is_empty() || self.waits_for_dependents || self.orphans
    }
}

#[derive(Default)]
pub struct Graph {
    seen: HashMap<Uid, Seen>,
    dependents: HashMap<Uid, HashSet<Uid>>,
}

impl Graph {
    pub fn get(&self, uid: &str) -> Option<Seen> {
        self.seen.get(uid).cloned()
    }

    /// Takes note of an object; answers with everything that should be looked at because of it.
    pub fn set(&mut self, object: Seen) -> Vec<Uid> {
        let before = self.unlink(&object.uid).map(|seen| seen.owners).unwrap_or_default();
        // Owners that wait may have waited for this change, and former owners even more so.
        let mut look: Vec<Uid> =
            before.into_iter().chain(object.owners.iter().cloned()).filter(|owner| self.is_waiting(owner)).collect();
        if !object.matters() {
            return look;
        }
        for owner in &object.owners {
            self.dependents.entry(owner.clone()).or_default().insert(object.uid.clone());
        }
        if object.waits_for_dependents {
            look.extend(self.dependents_of(&object.uid));
        }
        look.push(object.uid.clone());
        self.seen.insert(object.uid.clone(), object);
        look
    }

    /// Forgets an object; answers with what should be looked at now: those it owned, and owners that waited for it.
    pub fn remove(&mut self, uid: &str) -> Vec<Uid> {
        let mut look = self.dependents_of(uid);
        if let Some(seen) = self.unlink(uid) {
            look.extend(seen.owners.into_iter().filter(|owner| self.is_waiting(owner)));
        }
        look
    }

    /// What is known of a resource and not in `present` is gone.
    pub fn missing(&self, resource: &Resource, present: &HashSet<&str>) -> Vec<Uid> {
        let of = |seen: &&Seen| seen.resource.resource == resource.resource && !present.contains(seen.uid.as_str());
        self.seen.values().filter(of).map(|seen| seen.uid.clone()).collect()
    }

    pub fn dependents_of(&self, uid: &str) -> Vec<Uid> {
        self.dependents.get(uid).into_iter().flatten().cloned().collect()
    }

    fn is_waiting(&self, uid: &str) -> bool {
        self.seen.get(uid).is_some_and(|seen| seen.waits_for_dependents)
    }

    fn unlink(&mut self, uid: &str) -> Option<Seen> {
        let seen = self.seen.remove(uid)?;
        for owner in &seen.owners {
            if let Some(set) = self.dependents.get_mut(owner) {
                set.remove(uid);
                if set.is_empty() {
                    self.dependents.remove(owner);
                }
            }
        }
        Some(seen)
    }
}
