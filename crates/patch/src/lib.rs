//! How objects are changed by PATCH, and who owns which field: JSON patch, merge patch, strategic merge patch and
//! server-side apply. Pure: values and schemas in, values and errors out; the time is an argument.

#![deny(missing_docs)]

/// Values as Go prints them.
pub mod go;

mod echo;
mod error;
mod json_patch;
mod merge_patch;
mod restore;
mod strategic;

/// Server-side apply and the managed fields of updates.
pub mod apply;
mod fieldset;
mod typed;

#[cfg(test)]
mod samples;

pub use echo::{as_printed, patched_text};
pub use error::Error;
pub use fieldset::{FieldSet, PathElement, path_text};
pub use json_patch::{DoesNotRun, JsonPatch, MAX_COPIED_BYTES, MAX_OPERATIONS, Patched, Reading};
pub use merge_patch::merge_patch;
pub use restore::restore;
pub use strategic::strategic_patch;

/// How deeply a patched object may nest: what a decoder lets in. Every walk below recurses no deeper.
pub const MAX_DEPTH: usize = codec::MAX_DEPTH;
