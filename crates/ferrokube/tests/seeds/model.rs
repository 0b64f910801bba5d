//! [`Model`]: the true history of the store below all faults, and whether an answer agrees with it.
//!
//! Each write of a client has a number of its own, which is in the object as `value-NUMBER-SIDE`. The model hears of every change in the
//! commit and finds the number in the stored bytes, so that it needs nothing of the server to know what was there at each revision.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use serde_json::Value;
use storage::{Batch, Error, Revision, Subscriber};
use tokio::time::Instant;

use crate::kinds::Kind;
use crate::world::Totals;

/// An object at a revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    pub number: u64,
    /// `left` or `right`, which is a label too.
    pub side: String,
    pub revision: Revision,
    /// The revision that created it.
    pub created: Revision,
}

/// A change of an object.
#[derive(Clone, Debug)]
pub struct Change {
    pub revision: Revision,
    pub key: String,
    pub now: Option<Stored>,
    pub before: Option<Stored>,
}

/// An object as an answer shows it.
#[derive(Clone, Debug)]
pub struct Shown {
    pub key: String,
    pub number: u64,
    pub revision: Revision,
    uid: String,
    created_at: String,
}

/// The keys that a list has come to: those after one, and up to another.
#[derive(Clone, Copy, Debug, Default)]
pub struct Part<'a> {
    pub after: Option<&'a str>,
    pub up_to: Option<&'a str>,
}

impl Part<'_> {
    fn has(self, key: &str) -> bool {
        self.after.is_none_or(|after| key > after) && self.up_to.is_none_or(|up_to| key <= up_to)
    }
}

/// What was known when a request was sent.
#[derive(Clone, Copy, Debug)]
pub struct Begun {
    /// What a consistent read sees at least: everything that was acknowledged or read before.
    pub floor: Revision,
    /// The newest revision that there was.
    pub newest: Revision,
}

#[derive(Default)]
pub struct Model {
    /// The changes of the test's objects.
    pub changes: Vec<Change>,
    /// The newest revision of the store, and the oldest that can be read.
    pub newest: Revision,
    pub compacted: Revision,
    floor: Revision,
    /// Numbers of writes that were refused.
    refused: BTreeSet<u64>,
    /// Deletions that were acknowledged.
    deleted: BTreeSet<Revision>,
    /// uid and creationTimestamp, by the revision that created the object.
    identities: BTreeMap<Revision, (String, String)>,
    numbers: u64,
    counted: Totals,
    /// When it began, for the times of the lines.
    began: Option<Instant>,
    /// What happened, in order.
    pub lines: Vec<String>,
}

/// Feeds the model from the store.
pub struct Follow(pub Arc<Mutex<Model>>);

impl Subscriber for Follow {
    fn apply(&self, batch: &Batch) {
        let mut model = self.0.lock().unwrap();
        for event in &batch.events {
            let key = event.key.to_string();
            let stored = |entry: &storage::Entry| {
                let (number, side) = marker(&String::from_utf8_lossy(&entry.value))?;
                Some(Stored { number, side, revision: entry.mod_revision, created: entry.create_revision })
            };
            let [now, before] = [&event.entry, &event.previous].map(|entry| entry.as_deref().and_then(stored));
            if now.is_some() || before.is_some() {
                model.changes.push(Change { revision: event.revision, key, now, before });
            }
        }
        model.newest = batch.revision;
    }

    fn end(&self, error: Error) {
        panic!("the memory store's feed ended: {error}");
    }
}

/// The number and the side of `value-NUMBER-SIDE`.
fn marker(text: &str) -> Option<(u64, String)> {
    let marker = text.split_once("value-")?.1;
    let (number, rest) = marker.split_once('-')?;
    let side = if rest.starts_with("left") { "left" } else { "right" };
    Some((number.parse().ok()?, side.into()))
}

impl Shown {
    /// What an answer shows of an object.
    pub fn of(kind: &Kind, object: &Value) -> Shown {
        let metadata = &object["metadata"];
        let text = |field: &str| metadata[field].as_str().unwrap_or_default().to_string();
        let value = object[kind.field]["value"].as_str().unwrap_or_default();
        let (number, side) = marker(value).unwrap_or_else(|| panic!("no value in {object}"));
        assert_eq!(metadata["labels"]["side"], side.as_str(), "an object of two writes: {object}");
        let revision = text("resourceVersion").parse().unwrap_or_else(|_| panic!("no resourceVersion in {object}"));
        let (uid, created_at) = (text("uid"), text("creationTimestamp"));
        Shown { key: kind.key(&text("name")), number, revision, uid, created_at }
    }

    fn is(&self, stored: Option<&Stored>) -> bool {
        stored.is_some_and(|stored| (stored.number, stored.revision) == (self.number, self.revision))
    }
}

impl Model {
    /// A number for a write.
    pub fn number(&mut self) -> u64 {
        self.numbers += 1;
        self.numbers
    }

    /// Notes what somebody did or got, and when.
    pub fn note(&mut self, who: &str, what: &str) {
        let began = *self.began.get_or_insert_with(Instant::now);
        self.lines.push(format!("{:>6} {who}: {what}", began.elapsed().as_millis()));
    }

    /// Counts an answer, or an event of a watch.
    pub fn count(&mut self, count: impl FnOnce(&mut Totals)) {
        count(&mut self.counted);
    }

    pub fn totals(&self) -> Totals {
        Totals { changes: self.changes.len(), ..self.counted }
    }

    pub fn begin(&self) -> Begun {
        Begun { floor: self.floor, newest: self.newest }
    }

    /// The object at a revision.
    pub fn state(&self, key: &str, at: Revision) -> Option<&Stored> {
        self.changes.iter().rev().find(|change| change.key == key && change.revision <= at)?.now.as_ref()
    }

    /// All objects of a kind at a revision, in order.
    pub fn all(&self, kind: &Kind, at: Revision) -> BTreeMap<&str, &Stored> {
        let changes = self.changes.iter().filter(|change| change.revision <= at && kind.has(&change.key));
        let mut all = BTreeMap::new();
        for change in changes {
            match &change.now {
                Some(now) => drop(all.insert(change.key.as_str(), now)),
                None => drop(all.remove(change.key.as_str())),
            }
        }
        all
    }

    /// The first revision from `from` to now at which something holds.
    fn first(&self, from: Revision, holds: impl Fn(Revision) -> bool) -> Option<Revision> {
        let later = self.changes.iter().map(|change| change.revision).filter(|revision| *revision > from);
        std::iter::once(from).chain(later).find(|revision| holds(*revision))
    }

    /// Everything that is read from now on must be at least as new.
    fn raise(&mut self, to: Revision) {
        self.floor = self.floor.max(to);
    }

    /// A read of one object, from a state that must be as new as `least`. A consistent read raises what later ones must see.
    pub fn read(&mut self, key: &str, found: Option<&Shown>, least: Revision, is_consistent: bool) {
        let agrees = |at| match found {
            Some(found) => found.is(self.state(key, at)),
            None => self.state(key, at).is_none(),
        };
        let at = self.first(least, agrees);
        let at =
            at.unwrap_or_else(|| panic!("stale or wrong: {key} was not {found:?} at any revision from {least} on"));
        assert!(at <= self.newest, "{key} is shown as of {at}, which is in the future");
        if is_consistent {
            self.raise(at);
        }
        found.iter().for_each(|shown| self.identify(shown));
    }

    /// A list: exactly what there was of a part at its revision.
    pub fn list(&mut self, kind: &Kind, side: Option<&str>, items: &[Shown], at: Revision, part: Part<'_>) {
        assert!(at <= self.newest, "a list of the future");
        let expected = self.all(kind, at);
        let expected = expected.iter().filter(|(key, _)| part.has(key));
        let expected = expected.filter(|(_, stored)| side.is_none_or(|side| stored.side == side));
        let expected: Vec<_> = expected.map(|(key, stored)| (*key, stored.number, stored.revision)).collect();
        let items_shown: Vec<_> = items.iter().map(|item| (item.key.as_str(), item.number, item.revision)).collect();
        assert_eq!(items_shown, expected, "a list at {at}");
        items.iter().for_each(|shown| self.identify(shown));
    }

    /// A list that shows the present.
    pub fn list_is_fresh(&mut self, begun: Begun, at: Revision) {
        assert!(at >= begun.floor, "a stale list: of {at}, after {} was known", begun.floor);
        self.raise(at);
    }

    /// uid and creation time stay for as long as the object lives, and are no other object's.
    pub fn identify(&mut self, shown: &Shown) {
        let Some(stored) = self.state(&shown.key, shown.revision) else { return };
        let created = stored.created;
        let now = (shown.uid.clone(), shown.created_at.clone());
        assert!(!now.0.is_empty() && !now.1.is_empty(), "{shown:?} has no identity");
        let is_known = self.identities.values().any(|(uid, _)| *uid == now.0);
        let known = self.identities.entry(created).or_insert_with(|| {
            assert!(!is_known, "the uid of {shown:?} is that of another object");
            now.clone()
        });
        assert_eq!(*known, now, "the identity of {shown:?} changed");
    }

    /// A write was acknowledged with the object as it is now.
    pub fn written(&mut self, number: u64, shown: &Shown, creates: Option<bool>, expected: Option<Revision>) {
        let change = self.changes.iter().find(|change| change.revision == shown.revision);
        let Some(Change { key, now: Some(now), before, .. }) = change else {
            panic!("acknowledged and not there: {shown:?}");
        };
        assert_eq!((key, now.number, shown.number), (&shown.key, number, number), "another write's answer");
        if let Some(creates) = creates {
            assert_eq!(before.is_none(), creates, "{shown:?} was to be created: {creates}");
        }
        if let Some(expected) = expected {
            let was = before.as_ref().map(|before| before.revision);
            assert_eq!(was, Some(expected), "{shown:?} did not replace what it was to replace");
        }
        self.raise(shown.revision);
        self.identify(shown);
    }

    /// A write was refused because of what was there.
    pub fn refused(&mut self, number: Option<u64>, begun: Begun, key: &str, because: impl Fn(Option<&Stored>) -> bool) {
        let at = self.first(begun.floor, |at| because(self.state(key, at)));
        assert!(at.is_some(), "a write of {key} was refused for no reason");
        self.refused.extend(number);
    }

    /// A deletion was acknowledged: there is one of its own for it.
    pub fn deleted(&mut self, begun: Begun, key: &str, expected: Option<Revision>) {
        let found = self.changes.iter().find(|change| {
            let is_deletion = change.key == key && change.now.is_none() && change.revision > begun.newest;
            let was = change.before.as_ref().map(|before| before.revision);
            is_deletion && (expected.is_none() || was == expected) && !self.deleted.contains(&change.revision)
        });
        let revision = found.unwrap_or_else(|| panic!("{key} was not deleted for this request")).revision;
        self.deleted.insert(revision);
        self.raise(revision);
    }

    /// Nothing that was refused happened, and nothing happened twice.
    pub fn check_numbers(&self) {
        let mut seen = BTreeSet::new();
        for now in self.changes.iter().filter_map(|change| change.now.as_ref()) {
            assert!(!self.refused.contains(&now.number), "a refused write happened: {now:?}");
            assert!(seen.insert(now.number), "a write happened twice: {now:?}");
        }
    }
}
