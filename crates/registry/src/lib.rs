//! How objects live: the [`Strategy`] a kind brings, and the generic create, update, delete, list and watch around it.
//! Nothing here sees HTTP, and nothing here knows a particular kind.

pub mod columns;
mod context;
mod features;
mod strategy;

pub use context::{Context, Lookup, NoLookup};
pub use features::Features;
pub use strategy::{Deletion, GarbageCollection, Strategy, Undo};
