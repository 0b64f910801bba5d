//! What is kept, how long, and where.

use std::borrow::Cow;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::Clock;

/// Tells group and resource of what is stored under a key.
pub type ResourceOf = Arc<dyn for<'k> Fn(&'k [u8]) -> Option<(Cow<'k, str>, Cow<'k, str>)> + Send + Sync>;

/// The settings: which changes are kept, how long, and where.
#[derive(Clone)]
pub struct Options {
    /// The directory of the files, which is created.
    pub directory: PathBuf,
    /// How long changes are kept.
    pub age: Duration,
    /// How many bytes the files may have; the oldest changes go first.
    pub bytes: u64,
    /// How many bytes of changes become a chunk, at most.
    pub journal_bytes: u64,
    /// Resources that are kept for another time.
    pub exceptions: Exceptions,
    /// Which resource a key belongs to.
    pub resource_of: ResourceOf,
    /// The time.
    pub clock: Clock,
}

impl Options {
    /// Everything is kept for a week, in up to 10 GiB.
    pub fn at(directory: impl Into<PathBuf>) -> Options {
        Options {
            directory: directory.into(),
            age: Duration::from_secs(7 * 86_400),
            bytes: 10 << 30,
            journal_bytes: 8 << 20,
            exceptions: Exceptions::default(),
            resource_of: Arc::new(|_| None),
            clock: Clock::default(),
        }
    }

    /// For how long changes of a key are kept; zero if they are not recorded.
    pub fn age_of(&self, key: &[u8]) -> Duration {
        if self.exceptions.0.is_empty() {
            return self.age;
        }
        let Some((group, resource)) = (self.resource_of)(key) else { return self.age };
        self.exceptions.of(&group, &resource).unwrap_or(self.age).min(self.age)
    }

    /// When the journal becomes a chunk: the smaller the limit, the smaller what is deleted at once.
    pub(crate) fn sealed_bytes(&self) -> u64 {
        self.journal_bytes.min(self.bytes / 8)
    }

    /// How many bytes of changes a chunk may have that others are merged to.
    pub(crate) fn chunk_bytes(&self) -> u64 {
        (self.bytes / 8).min(1 << 30)
    }
}

/// Resources that are kept for another time than the others: `leases` or `leases.coordination.k8s.io`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Exceptions(Vec<(String, Duration)>);

impl Exceptions {
    /// Adds a resource, named with or without its group. The last word on a name counts.
    pub fn set(&mut self, resource: &str, age: Duration) {
        self.0.retain(|(name, _)| name != resource);
        self.0.push((resource.to_string(), age));
    }

    fn of(&self, group: &str, resource: &str) -> Option<Duration> {
        let matches = |name: &str| match name.split_once('.') {
            None => name == resource,
            Some((plural, of_group)) => plural == resource && of_group == group,
        };
        self.0.iter().find(|(name, _)| matches(name)).map(|(_, age)| *age)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exceptions_are_about_a_resource_with_or_without_its_group() {
        let mut exceptions = Exceptions::default();
        for (name, seconds) in [("leases", 5), ("events.events.k8s.io", 9), ("leases", 0), ("pods", 1_000_000)] {
            exceptions.set(name, Duration::from_secs(seconds));
        }
        fn resource_of(key: &[u8]) -> Option<(Cow<'_, str>, Cow<'_, str>)> {
            let (group, resource) = std::str::from_utf8(key).ok()?.split_once('/')?;
            Some((group.into(), resource.into()))
        }
        let options = Options {
            exceptions,
            resource_of: Arc::new(resource_of),
            age: Duration::from_secs(100),
            ..Options::at("unused")
        };
        for (key, seconds) in [
            ("coordination.k8s.io/leases", 0),
            ("other/leases", 0),
            ("events.k8s.io/events", 9),
            ("/events", 100),
            ("/pods", 100),
            ("unknown", 100),
        ] {
            assert_eq!(options.age_of(key.as_bytes()), Duration::from_secs(seconds), "{key}");
        }
    }
}
