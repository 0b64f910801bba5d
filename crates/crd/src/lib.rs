//! Custom resource definitions: from a stored definition to served resources.
//!
//! Start with [`Definitions`], which follows the stored definitions and keeps the catalog up to date (in `follower.rs`), then
//! `definition.rs` for what a definition says and `resource.rs` for what becomes of it.

mod definitions;
mod followed;
mod follower;

mod definition;
mod finalize;
mod names;
mod status;

mod codec;
mod columns;
mod conversion;
mod jsonpath;
mod resource;
mod strategy;

pub use conversion::ConversionMeters;
pub use definitions::{Definitions, Setup};
pub use followed::Followers;
