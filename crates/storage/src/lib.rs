//! The Store trait: a log of revisions over keys and bytes; encryption at rest; the suite every engine passes.
//!
//! A store is one ordered map from keys to bytes plus the log of every change made to it. It knows nothing of kinds,
//! groups or objects. Everything above (cache, registry) is written against [`Store`]; everything below is an engine:
//! [`memory::MemoryStore`] for tests, `storage-embedded` by default, `storage-etcd` for clusters.
//!
//! # The contract
//!
//! **Revisions.** Every change has a [`Revision`]; later changes have greater ones. The sequence is global over all keys,
//! may have gaps, and a number that was once handed out is never used for another change, not even after a crash. An
//! engine may give one revision to several changes made in one transaction by another program (etcd); it then delivers
//! them together.
//!
//! **Writes** are linearizable and durable: when [`Store::write`] returns `Ok`, the change is on disk and every read that
//! starts afterwards sees it. A write whose precondition fails returns the entry that is there now
//! ([`Error::KeyExists`], [`Error::Conflict`]), so that a caller can retry without reading again. A write that returns
//! [`Error::OutcomeUnknown`] may or may not have happened, and [`Error::Unavailable`] means that it did not. A caller that
//! drops the future gives up the answer, not necessarily the write. [`Store::write_all`] promises the same of several writes that
//! happen in one step or not at all; what refuses them names the first write whose precondition does not hold.
//!
//! **Reads** without a revision are linearizable. Reads at a revision answer from history: they see the state as it was
//! right after that revision, or fail with [`Error::Compacted`] (older than what is kept) or [`Error::FutureRevision`].
//! The revision of the last compaction itself can still be read.
//!
//! **Watches** deliver every change of a range after a given revision, in order, exactly once, as long as history reaches
//! back to it. A [`Batch`] says how far it got: all events of the range up to `batch.revision` are in this batch or an
//! earlier one, and a revision is never split over two batches. A batch without events is a progress mark. A stream ends
//! after the first error; the consumer lists again or watches again from the last batch's revision.
//!
//! **Time to live.** A key written with a TTL disappears by itself not earlier than that, and watchers see an ordinary
//! deletion. A later put without TTL makes the key permanent.
//!
//! # Keeping a cache
//!
//! A cache needs to know when it has caught up with every write that was acknowledged before a read began. It uses one
//! protocol on every engine:
//!
//! 1. list the range, then [`Store::subscribe`] after the list's revision. It is as new as the last batch that
//!    [`Subscriber::apply`] was called with, or as [`Subscription::progress`], whichever is later;
//! 2. for a consistent read call [`Store::progress`], which answers with a revision not older than any write acknowledged
//!    before the call, and wait until the subscription's progress has reached it.
//!
//! On an engine whose [`Store::delivers_in_commit`] is true, subscribers run inside the commit step: after the change has
//! become visible to reads of the store and before its write is acknowledged. A read after an acknowledged write finds
//! the cache up to date at no cost; step 2 waits only while a commit is being handed to subscribers at that very moment.
//! On other engines (etcd) `progress` costs one small linearizable read and makes every open watch deliver a mark that
//! reaches the revision it returned.
//!
//! Therefore a subscriber must be quick, must not block, and must not call the store from within `apply`.

#![deny(missing_docs)]

mod error;
mod key;
mod layer;
pub mod meter;
mod store;
mod watch;

#[cfg(feature = "encryption")]
pub mod encryption;
pub mod memory;
pub mod ordered;
mod split;
#[cfg(any(test, feature = "suite"))]
pub mod suite;

pub use error::{Error, Result};
pub use key::{Key, KeyRange};
pub use layer::Layer;
pub use split::SplitStore;
pub use store::{
    Change, Condition, Entry, Expect, Found, Health, LogStatus, Page, RangeQuery, RefusedWrites, Revision, Status,
    Store, Write, WriteLimits, Written,
};
pub use watch::{Batch, Event, Progress, Subscriber, Subscription, WatchRequest, WatchStream};
