//! One structural schema for built-in and custom kinds, the operations over (schema, value), and the generated table of
//! everything Kubernetes v1.37 serves. Pure: no I/O, no clock, no globals but the parsed table.
//!
//! Start with [`Types`] and [`Schema`], then [`builtin`].

#![deny(missing_docs)]

mod builtin;
mod default;
mod embedded;
mod equal;
mod literal;
mod normalise;
mod openapi;
mod pattern;
mod prune;
mod table;
#[cfg(test)]
mod testing;
mod types;
mod validate;
mod zero;

pub use builtin::{Builtin, Column, Group, Kind, Resource, Subresource, Version, builtin, object_meta};
pub use default::default;
pub use embedded::visit_embedded;
pub use equal::equal;
pub use normalise::normalise;
pub use openapi::{from_openapi, from_openapi_part};
pub use pattern::Pattern;
pub use prune::prune;
pub use types::{
    Field, ListType, MapType, Node, Omit, ProtoInline, Rules, Schema, Shape, Stated, Struct, StructId, Types, Union,
    Validation,
};
pub use validate::{
    Old, check_format, go_number, is_known_format, validate, validate_lists, validate_part, validate_part_update,
    validate_update,
};
pub use zero::is_zero;

/// How deep the operations go into a value. Decoders stop much earlier; this keeps a value that was made by other means
/// from exhausting the stack.
const MAX_DEPTH: usize = 1024;
