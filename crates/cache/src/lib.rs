//! The watch cache: what answers reads.
//!
//! A [`Cache`] follows one range of the store (one resource). It keeps every current object as the bytes that are stored,
//! in key order, and the latest events in a ring. GET and LIST take references to those bytes; a [`Watcher`] is a cursor
//! into the ring, so a slow watcher costs others nothing: when the ring has moved on it reads the store's log until
//! it has caught up, and is told `Expired` only when the log itself no longer reaches back.
//!
//! Nothing is decoded here. What filters need to know about an object (its labels, its selectable fields) is a
//! [`Header`], which the owner of the cache derives from the bytes at most once per object, when first asked for.

#![deny(missing_docs)]

mod channel;
mod entry;
mod error;
mod meters;
mod renditions;
mod resource;
mod ring;
mod through;
mod wakers;
mod watcher;

pub use entry::{Describe, Event, Header, Object};
pub use error::Error;
pub use meters::CacheMeters;
pub use renditions::{Budget, RenditionKey};
pub use resource::{Cache, CacheOptions, CacheScan, Part, Snapshot};
pub use wakers::WatchLag;
pub use watcher::{Item, Start, Watcher};
