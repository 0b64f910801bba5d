//! The state in memory: every current entry, and where older versions are in the history.
//!
//! Changed after the commit, so readers neither wait for the disk nor see what is not on it. A copy costs a
//! few pointers and never changes: of what it shares with a copy, the writer changes a copy.

use std::sync::Arc;

use storage::ordered::OrderedSet;
use storage::{Entry, Error, Event, Key, KeyRange, Result, Revision};

use crate::versions::{Version, Versions};

#[derive(Clone, Default)]
pub(crate) struct State {
    pub revision: Revision,
    pub compacted: Revision,
    pub current: OrderedSet<Arc<Entry>>,
    /// Superseded entries that can still be read: their values are in the log.
    pub versions: Versions,
}

/// An entry at some revision, or where to find it.
#[derive(Clone)]
pub(crate) enum Located {
    Here(Arc<Entry>),
    Logged { key: Key, revision: Revision },
}

impl Located {
    fn logged(version: &Version) -> Self {
        Located::Logged { key: version.key.clone(), revision: version.revision }
    }
}

impl State {
    pub fn apply(&mut self, event: &Event) {
        if let Some(previous) = &event.previous {
            let (key, revision) = (event.key.clone(), previous.mod_revision);
            self.versions.push(Version { key, revision, until: event.revision });
        }
        match &event.entry {
            Some(entry) => self.current.insert(entry.clone()),
            None => self.current.remove(&event.key),
        };
        self.revision = event.revision;
    }

    /// Fails unless history reaches back to this revision.
    pub fn check_kept(&self, at: Revision) -> Result<()> {
        if at < self.compacted {
            return Err(Error::Compacted { requested: at, compacted: self.compacted });
        }
        Ok(())
    }

    pub fn readable(&self, at: Revision) -> Result<()> {
        self.check_kept(at)?;
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
        self.versions.at(at).find(|version| version.key.as_bytes() == key).map(Located::logged)
    }

    /// The range as it was after revision `at`: up to `limit` entries, and how many there are in all.
    pub fn find_range(&self, range: &KeyRange, at: Revision, limit: usize) -> (Vec<Located>, usize) {
        let end = range.end.as_deref();
        let mut entries = self.current.range(&range.start, end).filter(|entry| entry.mod_revision <= at).peekable();
        let mut versions: Vec<_> = self.versions.at(at).filter(|version| range.contains(&version.key)).collect();
        versions.sort_unstable_by(|one, two| one.key.cmp(&two.key));
        let mut versions = versions.into_iter().peekable();
        let mut found = Vec::new();
        let mut count = 0;
        // A key is in only one of the two at any revision, so this is a plain merge.
        loop {
            let from_current = match (entries.peek(), versions.peek()) {
                (Some(entry), Some(version)) => entry.key < version.key,
                (Some(_), None) => true,
                (None, Some(_)) => false,
                (None, None) => return (found, count),
            };
            let located = if from_current {
                entries.next().filter(|_| count < limit).map(|entry| Located::Here(entry.clone()))
            } else {
                versions.next().filter(|_| count < limit).map(Located::logged)
            };
            found.extend(located);
            count += 1;
        }
    }
}
