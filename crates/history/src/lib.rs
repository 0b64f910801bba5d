//! What was changed in a store, by whom and when, kept in files beside it; and the past, read from them.
//!
//! A store forgets superseded values after minutes. This crate follows it and records each change together with the value that the
//! change *replaced*. The value of a key at a revision is then what the first later change of the key replaced, or what the store has
//! now if there is no later change. Objects that do not change cost nothing, nothing has to be carried along when old
//! files are deleted, and a history that begins on a full store is complete from its first moment.
//!
//! - [`Recorder`] follows the store through an ordinary watch and can fall behind without slowing any write. What it has not recorded
//!   when the process ends is delivered again by the watch of the next process.
//! - [`RecordedStore`] is the layer in front of the store: it notes which request made which change, and answers reads that ask for
//!   recorded values ([`storage::RangeQuery::recorded`]). It is below encryption at rest, so values are kept as they are stored.
//! - [`CommonStep`] lets several requests make their writes in one step.
//! - [`Archive`] is what is on disk: a journal that changes are appended to, and immutable chunks that old journals become.
//!
//! What may be missing is known: each file says from which revision to which one it has every change, and a read that would need a
//! change that is not there fails instead of guessing.

#![deny(missing_docs)]

mod archive;
mod change;
mod chunk;
mod clock;
mod copy;
mod error;
mod journal;
mod maintain;
mod options;
mod origin;
mod recorder;
mod segment;
mod step;
mod store;
mod table;

pub use archive::{Archive, Moment, Status};
pub use change::{Change, Head, Origin, Replaced, What};
pub use clock::Clock;
pub use copy::{continue_at, copy};
pub use error::{Error, Result};
pub use maintain::check;
pub use options::{Exceptions, Options};
pub use origin::attributed;
pub use recorder::Recorder;
pub use step::CommonStep;
pub use store::RecordedStore;

pub use storage::Revision;
