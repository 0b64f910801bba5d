//! Who owns whom, as far as it has been seen: only objects that have owners, or wait for those they own, are kept.

use std::collections::BTreeSet;
use std::sync::Arc;

use hashbrown::{HashMap, HashSet};
use object::{Meta, Value};
use registry::Resource;

use crate::follow::Delta;

pub const FOREGROUND: &str = "foregroundDeletion";
pub const ORPHAN: &str = "orphan";

pub type Uid = String;

/// An object, by where it is found.
#[derive(Clone)]
pub struct Seen<R = Arc<Resource>> {
    pub resource: R,
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

impl<R: Clone> Seen<R> {
    pub fn of(resource: &R, object: &Value) -> Seen<R> {
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

    pub fn has_owners_of(&self, other: &Seen<R>) -> bool {
        self.owners == other.owners && self.blocks == other.blocks
    }

    pub fn blocks(&self, owner: &str) -> bool {
        self.blocks.iter().any(|uid| uid == owner)
    }

    fn matters(&self) -> bool {
        !self.owners.is_empty() || self.waits_for_dependents || self.orphans
    }
}

pub struct Graph<R = Arc<Resource>> {
    seen: HashMap<Uid, Seen<R>>,
    dependents: HashMap<Uid, BTreeSet<Uid>>,
}

impl<R> Default for Graph<R> {
    fn default() -> Graph<R> {
        Graph { seen: HashMap::new(), dependents: HashMap::new() }
    }
}

impl<R: Clone> Graph<R> {
    /// Takes a change of a resource, of which `is_same` knows the objects; answers with everything that should be looked at because
    /// of it.
    pub fn step(&mut self, resource: &R, is_same: impl Fn(&R) -> bool, change: Delta) -> Vec<Uid> {
        match change {
            Delta::Gone(object) => self.remove(object.uid()),
            Delta::Set(object) => self.set(Seen::of(resource, &object)),
            Delta::Listed(all) => {
                let present: HashSet<&str> = all.iter().map(Meta::uid).collect();
                let gone = self.missing(is_same, &present);
                let mut look: Vec<Uid> = gone.iter().flat_map(|uid| self.remove(uid)).collect();
                look.extend(all.iter().flat_map(|object| self.set(Seen::of(resource, object))));
                look
            }
        }
    }

    pub fn get(&self, uid: &str) -> Option<Seen<R>> {
        self.seen.get(uid).cloned()
    }

    /// Takes note of an object; answers with everything that should be looked at because of it.
    pub fn set(&mut self, object: Seen<R>) -> Vec<Uid> {
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
    fn remove(&mut self, uid: &str) -> Vec<Uid> {
        let mut look = self.dependents_of(uid);
        if let Some(seen) = self.unlink(uid) {
            look.extend(seen.owners.into_iter().filter(|owner| self.is_waiting(owner)));
        }
        look
    }

    /// What is known of a resource and not in `present` is gone.
    fn missing(&self, is_same: impl Fn(&R) -> bool, present: &HashSet<&str>) -> Vec<Uid> {
        let of = |seen: &&Seen<R>| is_same(&seen.resource) && !present.contains(seen.uid.as_str());
        self.seen.values().filter(of).map(|seen| seen.uid.clone()).collect()
    }

    pub fn dependents_of(&self, uid: &str) -> Vec<Uid> {
        self.dependents.get(uid).into_iter().flatten().cloned().collect()
    }

    fn is_waiting(&self, uid: &str) -> bool {
        self.seen.get(uid).is_some_and(|seen| seen.waits_for_dependents)
    }

    fn unlink(&mut self, uid: &str) -> Option<Seen<R>> {
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

#[cfg(test)]
mod tests {
    use object::value;

    use super::*;

    /// `b<a`: an object whose owner is `a`; `b<<a`: one that `a` must not go before. `!foreground` and `!orphan`: it is being deleted in that way.
    fn object(text: &str) -> Value {
        let (text, finalizer) = text.split_once('!').unwrap_or((text, ""));
        let (uid, owner) = text.split_once('<').unwrap_or((text, ""));
        let mut object = value!({"metadata": {"uid": uid, "name": uid}});
        if !owner.is_empty() {
            let (owner, blocks) = owner.strip_prefix('<').map_or((owner, false), |owner| (owner, true));
            let references: Vec<Value> = vec![value!({"uid": owner, "blockOwnerDeletion": blocks})];
            object.set(&["metadata", "ownerReferences"], references);
        }
        if !finalizer.is_empty() {
            let name = if finalizer == "orphan" { ORPHAN } else { FOREGROUND };
            let finalizers: Vec<Value> = vec![name.into()];
            object.set(&["metadata", "finalizers"], finalizers);
            object.set(&["metadata", "deletionTimestamp"], "2026-11-20T00:00:00Z");
        }
        object
    }

    /// Changes of two resources, pods and the others (`+x`: set, `-x`: gone, `=x y`: a list), and what is to be looked at after each.
    #[test]
    fn what_is_looked_at_follows_from_what_was_seen_in_that_order() {
        for (changes, expected) in [
            // What owns nothing and has no owner is not kept.
            (&["pods +a", "pods -a"][..], &["", ""][..]),
            (&["pods +b<a", "sets -a"], &["b", "b"]),
            // A dependent that is seen before its owner, or whose owner is gone before it is seen, is looked at by itself.
            (&["sets -a", "pods +b<a"], &["", "b"]),
            (&["sets +a", "pods +b<a", "pods +c<a", "sets -a"], &["", "b", "c", "b c"]),
            // An owner that waits is looked at whenever something of its goes or forgets it.
            (&["pods +b<<a", "sets +a!foreground", "pods -b"], &["b", "a b", "a"]),
            (&["sets +a!foreground", "pods +b<<a", "pods -b"], &["a", "a b", "a"]),
            (&["sets +a!foreground", "pods +b<<a", "pods +b"], &["a", "a b", "a"]),
            (&["pods +b<a", "pods +b<c", "sets -a", "sets -c"], &["b", "b", "", "b"]),
            (&["pods +b<a", "sets +a!orphan", "pods +b", "sets -a"], &["b", "a", "", ""]),
            // A list says what is gone of its own resource, and of no other.
            (&["pods +b<a", "pods +c<a", "sets =", "pods =b<a"], &["b", "c", "", "b"]),
            (&["sets +a!foreground", "pods +b<<a", "pods ="], &["a", "a b", "a"]),
            (&["pods +b<a", "pods +c<b", "pods =c<b"], &["b", "c", "c c"]),
            // The same change twice is no other change.
            (&["pods +b<a", "pods +b<a", "pods -b", "pods -b", "sets -a"], &["b", "b", "", "", ""]),
        ] {
            let mut graph: Graph<&str> = Graph::default();
            assert_eq!(changes.len(), expected.len(), "{changes:?}");
            for (change, expected) in changes.iter().zip(expected) {
                let (resource, what) = change.split_once(' ').unwrap();
                let delta = match what.split_at(1) {
                    ("+", set) => Delta::Set(object(set)),
                    ("-", gone) => Delta::Gone(object(gone)),
                    (_, all) => Delta::Listed(all.split_whitespace().map(object).collect()),
                };
                let mut look = graph.step(&resource, |other| *other == resource, delta);
                look.sort();
                assert_eq!(look.join(" "), *expected, "{change} of {changes:?}");
            }
        }
    }

    /// Whatever the order in which a tree is seen, the graph ends the same, and nothing is left of it when all is gone.
    #[test]
    fn nothing_is_left_of_what_is_gone() {
        let all = ["b<a", "c<a", "d<<b", "e<c"];
        for turn in 0..all.len() {
            let mut graph: Graph<&str> = Graph::default();
            let order = || (0..all.len()).map(|at| all[(at + turn) % all.len()]);
            for text in order() {
                graph.step(&"pods", |_| true, Delta::Set(object(text)));
            }
            assert_eq!(
                (graph.dependents_of("a"), graph.dependents_of("b")),
                (vec!["b".into(), "c".into()], vec!["d".into()])
            );
            for text in order() {
                graph.step(&"pods", |_| true, Delta::Gone(object(text)));
            }
            assert!(graph.seen.is_empty() && graph.dependents.is_empty(), "{turn}");
        }
    }
}
