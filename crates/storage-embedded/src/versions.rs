//! Where history has what was superseded: a log of its own, in the order in which things were superseded.
//!
//! Adding to it costs next to nothing, which every write does; reading the past costs a look at everything that changed
//! since then. A copy costs a pointer: what it shares is copied when it changes.

use std::collections::VecDeque;
use std::sync::Arc;

use storage::{Key, Revision};

/// The key had the value of log record `revision` before `until`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Version {
    pub key: Key,
    pub revision: Revision,
    pub until: Revision,
}

/// Small enough to copy when a reader shares it.
const CHUNK_MAX: usize = 512;

#[derive(Clone, Default)]
pub(crate) struct Versions {
    chunks: Arc<VecDeque<Arc<Vec<Version>>>>,
}

impl Versions {
    /// `version.until` is later than that of all before.
    pub fn push(&mut self, version: Version) {
        let chunks = Arc::make_mut(&mut self.chunks);
        match chunks.back_mut().filter(|chunk| chunk.len() < CHUNK_MAX) {
            Some(chunk) => Arc::make_mut(chunk).push(version),
            None => {
                let mut chunk = Vec::with_capacity(CHUNK_MAX);
                chunk.push(version);
                chunks.push_back(Arc::new(chunk));
            }
        }
    }

    /// What was there at this revision and is not there now.
    pub fn at(&self, revision: Revision) -> impl Iterator<Item = &Version> {
        let first = self.chunks.partition_point(|chunk| chunk.last().is_none_or(|last| last.until <= revision));
        let later = self.chunks.range(first..).flat_map(|chunk| chunk.iter());
        later.filter(move |version| version.revision <= revision && revision < version.until)
    }

    /// Removes chunks all of whose versions were superseded by `upto`; history before it cannot be read any more.
    pub fn forget(&mut self, upto: Revision) -> Vec<Arc<Vec<Version>>> {
        let count = self.chunks.partition_point(|chunk| chunk.last().is_none_or(|last| last.until <= upto));
        if count == 0 {
            return Vec::new();
        }
        Arc::make_mut(&mut self.chunks).drain(..count).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbered(until: Revision) -> Version {
        // The third write to a key supersedes the first, two revisions earlier.
        Version { key: format!("/{}", until % 2).into(), revision: until - 2, until }
    }

    #[test]
    fn knows_what_was_there_until_it_forgets() {
        let mut versions = Versions::default();
        let last = CHUNK_MAX as Revision * 3;
        (3..=last).for_each(|until| versions.push(numbered(until)));
        let copy = versions.clone();
        let there = |versions: &Versions, at| versions.at(at).map(|version| version.until).collect::<Vec<Revision>>();
        for at in 1..last {
            let expected: Vec<_> = (at + 1..=at + 2).filter(|until| (3..=last).contains(until)).collect();
            assert_eq!(there(&versions, at), expected);
        }
        assert!(there(&versions, last).is_empty());

        assert_eq!(versions.forget(CHUNK_MAX as Revision).len(), 0, "the first chunk has two more");
        assert_eq!(versions.forget(CHUNK_MAX as Revision + 2).len(), 1);
        assert!(there(&versions, 1).is_empty());
        assert_eq!(there(&versions, last - 1), [last]);
        versions.push(numbered(last + 1));
        assert_eq!(there(&copy, 1), [3], "a copy does not change");
        assert!(there(&copy, last).is_empty());
    }
}
