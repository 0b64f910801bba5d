//! Custom resource definitions: from a stored definition to served resources.
//!
//! Start with [`Definitions`], which follows the stored definitions and keeps the catalog up to date (`decisions.rs` says how, `follower.rs` does it), then
//! `definition.rs` for what a definition says and `resource.rs` for what becomes of it.

mod decisions;
mod definitions;
mod followed;
mod follower;

mod definition;
mod feed;
mod finalize;
mod names;
mod own;
mod status;

mod codec;
mod columns;
mod conversion;
mod resource;
mod strategy;

pub use conversion::{ConversionMeters, ConvertFn};
pub use definitions::{Definitions, Setup};
pub use feed::FedObjects;
pub use followed::FollowedDefinitions;
pub use own::{MakeObjects, OwnCall, OwnDefinition, OwnDefinitionError, OwnObjects, OwnSubresource};
