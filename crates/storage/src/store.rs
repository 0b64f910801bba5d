//! The trait every engine implements, and what goes in and out of it. The contract is in the crate's documentation.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;

use crate::{Error, Key, KeyRange, Result, Subscriber, Subscription, WatchRequest, WatchStream};

/// A position in the log of changes, as etcd counts: the first change of a new store has a revision above zero.
pub type Revision = i64;

/// A log of revisions over keys and bytes. The crate's documentation says what every engine promises.
#[async_trait]
pub trait Store: Send + Sync + 'static {
    /// Reads one key, now or at a revision.
    async fn get(&self, key: &[u8], at: Option<Revision>) -> Result<Found>;

    /// Reads keys in order, now or at a revision.
    async fn range(&self, query: RangeQuery) -> Result<Page>;

    /// Makes one change, if its precondition holds.
    async fn write(&self, write: Write) -> Result<Written>;

    /// Makes changes of different keys in one step, if all their preconditions hold; otherwise none of them. A read of the present
    /// sees all of them or none. They have one revision, or some that follow each other, in their order.
    async fn write_all(&self, writes: Vec<Write>) -> Result<Vec<Written>, RefusedWrites>;

    /// How much [`Store::write_all`] takes.
    fn write_limits(&self) -> WriteLimits;

    /// Follows the changes of a range. Fails with `Compacted` if history does not reach back to the request's revision;
    /// a revision in the future is waited for.
    async fn watch(&self, request: WatchRequest) -> Result<WatchStream>;

    /// Like `watch`, but calls back instead of being polled, on some engines within the commit: see
    /// [`Store::delivers_in_commit`]. The subscription lasts until it is dropped or `Subscriber::end` was called.
    async fn subscribe(&self, request: WatchRequest, subscriber: Arc<dyn Subscriber>) -> Result<Subscription> {
        Ok(Subscription::over(self.watch(request).await?, subscriber))
    }

    /// Whether a subscriber has seen a change before its write is acknowledged.
    fn delivers_in_commit(&self) -> bool {
        false
    }

    /// A revision that is not older than any write acknowledged before this call. Every open watch that asked for marks
    /// delivers a batch that reaches it, without waiting for another write.
    async fn progress(&self) -> Result<Revision>;

    /// Like `progress`, for a caller that waits only for watches of this range (or that overlap it): an engine for which
    /// marks cost something leaves the others alone.
    async fn progress_of(&self, _range: &KeyRange) -> Result<Revision> {
        self.progress().await
    }

    /// True if the key's entry is still the one of this revision, after every write acknowledged before this call. An engine that
    /// has no cheaper way to find out than `progress` says false.
    async fn is_unchanged(&self, _key: &[u8], _revision: Revision) -> Result<bool> {
        Ok(false)
    }

    /// Forgets history before `revision`, which itself stays readable. Compacting again at or before the compacted
    /// revision does nothing.
    async fn compact(&self, revision: Revision) -> Result<()>;

    /// The oldest revision of the range that is readable as far as is known here, without I/O.
    fn compacted(&self, _range: &KeyRange) -> Revision {
        0
    }

    /// How the store is.
    async fn status(&self) -> Result<Status>;

    /// Finishes what was asked and lets go of files; afterwards the store is only good for being dropped.
    async fn close(&self) {}

    /// Whether `close` was called; a closed store does not come back.
    fn is_closed(&self) -> bool {
        false
    }

    /// Writes a key that must not exist: `KeyExists` otherwise.
    async fn create(&self, key: Key, value: Bytes, ttl: Option<Duration>) -> Result<Written> {
        self.write(Write { key, change: Change::Put { value, ttl }, expect: Expect::Absent }).await
    }

    /// Replaces a key that must be at `expected`: `Conflict` if it is at another revision, `NotFound` if it is gone.
    async fn update(&self, key: Key, value: Bytes, expected: Revision, ttl: Option<Duration>) -> Result<Written> {
        self.write(Write { key, change: Change::Put { value, ttl }, expect: Expect::At(expected) }).await
    }

    /// Removes a key that must be there and, if a revision is given, be at it: `Conflict` or `NotFound` otherwise.
    async fn delete(&self, key: Key, expected: Option<Revision>) -> Result<Written> {
        let expect = expected.map_or(Expect::Any, Expect::At);
        self.write(Write { key, change: Change::Delete, expect }).await
    }
}

/// One key with its value as it is or was at some revision. Entries never change and are shared, not copied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The key.
    pub key: Key,
    /// The value; empty where only keys were asked for.
    pub value: Bytes,
    /// The revision that created the key, after its last deletion if any.
    pub create_revision: Revision,
    /// The revision that wrote this value.
    pub mod_revision: Revision,
    /// 1 when created, one more with every later put.
    pub version: i64,
    /// 0 if the key does not expire; otherwise a number that means something to the engine only.
    pub lease: i64,
    /// Whether the value can be decrypted, and whether writing it again is worth it.
    pub condition: Condition,
}

impl Entry {
    /// Whether writing the same value again is worth it.
    pub fn is_stale(&self) -> bool {
        self.condition == Condition::Stale
    }

    /// Why the value cannot be decrypted, if so.
    pub fn sealed(&self) -> Option<&str> {
        match &self.condition {
            Condition::Sealed(why) => Some(why),
            _ => None,
        }
    }
}

/// What encryption at rest says about a value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Condition {
    /// The value is as a write would store it today.
    #[default]
    Good,
    /// The stored form is not what a write would store today (for example it is encrypted with an old key), so writing
    /// the same value again is worth it.
    Stale,
    /// It cannot be decrypted, for this reason. The value is the stored, encrypted one.
    Sealed(Arc<String>),
}

/// Sets of entries are ordered by key.
impl crate::ordered::Element for Arc<Entry> {
    type Probe<'a> = &'a [u8];

    fn probe(&self) -> &[u8] {
        &self.key
    }

    fn compare(&self, probe: &[u8]) -> std::cmp::Ordering {
        self.key.as_bytes().cmp(probe)
    }
}

/// The answer to a read of one key.
#[derive(Clone, Debug)]
pub struct Found {
    /// The entry; None if the key does not exist.
    pub entry: Option<Arc<Entry>>,
    /// The store's revision when it was read, or the one that was asked for.
    pub revision: Revision,
}

/// A read of many keys.
#[derive(Clone, Debug)]
pub struct RangeQuery {
    /// The keys.
    pub range: KeyRange,
    /// None reads the present.
    pub at: Option<Revision>,
    /// None reads everything; `Some(0)` only counts.
    pub limit: Option<usize>,
    /// Leave values empty.
    pub keys_only: bool,
    /// The page may end after so many bytes of values. An engine that gets all of them at once anyway ignores it.
    pub enough_bytes: Option<usize>,
    /// Whether a revision that the store has forgotten may be read from a history beside it. The caller has checked that its
    /// user may see that.
    pub recorded: bool,
}

impl RangeQuery {
    /// All keys of a range, as they are now.
    pub fn new(range: KeyRange) -> Self {
        RangeQuery { range, at: None, limit: None, keys_only: false, enough_bytes: None, recorded: false }
    }

    /// As they were at this revision.
    pub fn at(mut self, revision: Revision) -> Self {
        self.at = Some(revision);
        self
    }

    /// No more than so many.
    pub fn limit(mut self, limit: usize) -> Self {
        self.limit = Some(limit);
        self
    }

    /// No more than about so many bytes of values.
    pub fn enough_bytes(mut self, bytes: usize) -> Self {
        self.enough_bytes = Some(bytes);
        self
    }

    /// Also from a history beside the store, if `recorded`.
    pub fn recorded(mut self, recorded: bool) -> Self {
        self.recorded = recorded;
        self
    }

    /// Without their values.
    pub fn keys_only(mut self) -> Self {
        self.keys_only = true;
        self
    }
}

/// The answer to a read of many keys.
#[derive(Clone, Debug)]
pub struct Page {
    /// The entries, sorted by key.
    pub entries: Vec<Arc<Entry>>,
    /// The limit cut the page short; the next one starts at `query.range.after(last key)`.
    pub more: bool,
    /// How many keys the whole range has, this page included.
    pub count: usize,
    /// The store's revision when it was read, or the one that was asked for.
    pub revision: Revision,
}

/// One change with its precondition.
#[derive(Clone, Debug)]
pub struct Write {
    /// The key that changes.
    pub key: Key,
    /// Its change.
    pub change: Change,
    /// The precondition.
    pub expect: Expect,
}

impl Write {
    /// The bytes of its key and value.
    pub fn size(&self) -> usize {
        match &self.change {
            Change::Put { value, .. } => self.key.len() + value.len(),
            Change::Delete => self.key.len(),
        }
    }

    /// The error if the precondition does not hold for what is there now. Engines that look before they write use it.
    pub fn check(&self, current: Option<&Arc<Entry>>) -> Result<()> {
        match (self.expect, current) {
            (Expect::Absent, Some(entry)) => Err(Error::KeyExists(entry.clone())),
            (Expect::At(revision), Some(entry)) if entry.mod_revision != revision => {
                Err(Error::Conflict(entry.clone()))
            }
            (Expect::At(_), None) => Err(Error::NotFound),
            (_, None) if matches!(self.change, Change::Delete) => Err(Error::NotFound),
            _ => Ok(()),
        }
    }
}

/// How many changes an engine makes in one step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriteLimits {
    /// How many keys.
    pub keys: usize,
    /// How many bytes of keys and values.
    pub bytes: usize,
}

impl WriteLimits {
    /// Refuses writes that are too many, too large, or of one key more than once. Engines ask it first.
    pub fn check(&self, writes: &[Write]) -> Result<(), RefusedWrites> {
        if writes.len() > self.keys {
            let why = format!("{} changes are more than the {} that can be made in one step", writes.len(), self.keys);
            return Err(RefusedWrites::all(Error::Unavailable(why)));
        }
        let size = writes.iter().map(Write::size).sum();
        if size > self.bytes {
            return Err(RefusedWrites::all(Error::TooLarge { size, limit: self.bytes }));
        }
        let mut keys = HashSet::with_capacity(writes.len());
        match writes.iter().position(|write| !keys.insert(&write.key)) {
            Some(at) => {
                let why = format!("key {} is to be changed twice in one step", writes[at].key);
                Err(RefusedWrites { at, error: Error::Unavailable(why) })
            }
            None => Ok(()),
        }
    }
}

/// Why none of several writes was made.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{error}")]
pub struct RefusedWrites {
    /// The first write that was refused; 0 if the error is not about one of them.
    pub at: usize,
    /// The reason.
    pub error: Error,
}

impl RefusedWrites {
    /// An error that is not about one of the writes.
    pub fn all(error: Error) -> RefusedWrites {
        RefusedWrites { at: 0, error }
    }
}

/// A change of a key.
#[derive(Clone, Debug)]
pub enum Change {
    /// The key gets a value.
    Put {
        /// The value.
        value: Bytes,
        /// None: the key does not expire, even if it did before.
        ttl: Option<Duration>,
    },
    /// The key is removed.
    Delete,
}

/// What must be true for a write to happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect {
    /// Nothing; but deleting a key that is not there is `NotFound`.
    Any,
    /// The key does not exist; otherwise `KeyExists`.
    Absent,
    /// The key exists with this `mod_revision`; otherwise `Conflict` or `NotFound`.
    At(Revision),
}

/// A change that was made.
#[derive(Clone, Debug)]
pub struct Written {
    /// The revision of the change.
    pub revision: Revision,
    /// The entry as it is now; none after a deletion.
    pub entry: Option<Arc<Entry>>,
    /// What a deletion removed. None for puts, and for a removed entry that could not be decrypted.
    pub previous: Option<Arc<Entry>>,
}

/// How a store is.
#[derive(Clone, Debug)]
pub struct Status {
    /// The revision of the last change.
    pub revision: Revision,
    /// The oldest readable revision; 0 if nothing was ever compacted.
    pub compacted: Revision,
    /// Bytes on disk (in memory for the memory engine).
    pub size: u64,
    /// Bytes of `size` that hold data.
    pub size_in_use: u64,
    /// Whether it works.
    pub health: Health,
    /// Of an engine that writes a log ahead of its database.
    pub log: Option<LogStatus>,
}

/// How a write-ahead log is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogStatus {
    /// Bytes on disk.
    pub size: u64,
    /// Bytes that the database does not have yet.
    pub pending: u64,
    /// The revision up to which the database has everything.
    pub checkpoint: Revision,
    /// How many groups of writes were committed since the start.
    pub commits: u64,
    /// How long that took together, which is mostly the time of the sync to disk.
    pub commit_time: Duration,
    /// How long the slowest took.
    pub commit_time_max: Duration,
}

/// Whether a store works.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Health {
    /// It does.
    Healthy,
    /// Reads may work, writes do not; the reason is for people.
    Degraded(String),
    /// Reads and deletions work; writes that need room are refused. The reason is for people.
    Full(String),
}
