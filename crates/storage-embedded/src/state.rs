//! What is in memory: every current entry, and where history has the older ones.
//!
//! A `State` never changes once it is published; copying it costs two pointers. The writer works on its own copy and
//! publishes it after the commit, so readers neither wait for the disk nor see what is not on it.

use std::cmp::Ordering;
use std::sync::Arc;

use storage::ordered::{Element, OrderedSet};
use storage::{Entry, Error, Event, Key, KeyRange, Result, Revision};

#[derive(Clone, Default)]
pub(crate) struct State {
    pub revision: Revision,
    pub compacted: Revision,
    pub current: OrderedSet<Arc<Entry>>,
    /// Superseded entries that can still be read: their values are in the log.
    pub versions: OrderedSet<Version>,
}

/// The key had the value of log record `revision` before `until`. Shared, because sets copy their elements.
#[derive(Clone, Debug)]
pub(crate) struct Version(Arc<(Key, Revision, Revision)>);

impl Version {
    pub fn new(key: Key, revision: Revision, until: Revision) -> Self {
        Version(Arc::new((key, revision, until)))
    }

    fn key(&self) -> &Key {
        &self.0.0
    }

    fn revision(&self) -> Revision {
        self.0.1
    }

    fn until(&self) -> Revision {
        self.0.2
    }

    fn located(&self) -> Located {
        Located::Logged { key: self.key().clone(), revision: self.revision() }
    }
}

impl Element for Version {
    type Probe<'a> = (&'a [u8], Revision);

    fn probe(&self) -> Self::Probe<'_> {
        (self.key(), self.revision())
    }

    fn compare(&self, probe: Self::Probe<'_>) -> Ordering {
        (self.key().as_bytes(), self.revision()).cmp(&probe)
    }
}

/// An entry at some revision, or where to find it.
#[derive(Clone)]
pub(crate) enum Located {
    Here(Arc<Entry>),
    Logged { key: Key, revision: Revision },
}

impl State {
    pub fn apply(&mut self, event: &Event) {
        if let Some(previous) = &event.previous {
            let (key, revision) = (event.key.clone(), previous.mod_revision);
            self.versions.insert(Version::new(key, revision, event.revision));
        }
        match &event.entry {
            Some(entry) => self.current.insert(entry.clone()),
            None => self.current.remove(&event.key),
        };
        self.revision = event.revision;
    }

    pub fn readable(&self, at: Revision) -> Result<()> {
        if at < self.compacted {
            return Err(Error::Compacted { requested: at, compacted: self.compacted });
        }
        if at > self.revision {
            return Err(Error::FutureRevision { requested: at, current: self.revision });
        }
        Ok(())
    }

    /// The key as it was after revision `at`.
    pub fn find(&self, key: &[u8], at: Revision) -> Option<Located> {
        if let Some(entry) = self.current.get(key).filter(|entry| entry.mod_revision <= at) {
            return Some(Located::Here(entry.clone()));
        }
        let version = self.versions.last_before((key, at.saturating_add(1)))?;
        (version.key().as_bytes() == key && version.until() > at).then(|| version.located())
    }

    /// The range as it was after revision `at`: up to `limit` entries, and how many there are in all.
    pub fn find_range(&self, range: &KeyRange, at: Revision, limit: usize) -> (Vec<Located>, usize) {
        let end = range.end.as_deref();
        let mut entries = self.current.range(&range.start, end).filter(|entry| entry.mod_revision <= at).peekable();
        let end = end.map(|end| (end, Revision::MIN));
        let mut versions = self
            .versions
            .range((&range.start, Revision::MIN), end)
            .filter(|version| version.revision() <= at && at < version.until())
            .peekable();
        let mut found = Vec::new();
        let mut count = 0;
        // A key is in only one of the two at any revision, so this is a plain merge.
        loop {
            let from_current = match (entries.peek(), versions.peek()) {
                (Some(entry), Some(version)) => entry.key < *version.key(),
                (Some(_), None) => true,
                (None, Some(_)) => false,
                (None, None) => return (found, count),
            };
            let located = if from_current {
                entries.next().filter(|_| count < limit).map(|entry| Located::Here(entry.clone()))
            } else {
                versions.next().filter(|_| count < limit).map(|version| version.located())
            };
            found.extend(located);
            count += 1;
        }
    }
}
