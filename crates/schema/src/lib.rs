//! One structural schema for built-in and custom kinds, the operations over (schema, value), and the generated table of
//! everything Kubernetes v1.37 serves. Pure: no I/O, no clock, no globals but the parsed table.
//!
//! Start with [`Types`] and [`Schema`], then [`builtin`].

mod builtin;
mod literal;
mod table;
mod types;

pub use builtin::{Builtin, Column, Group, Kind, Resource, Subresource, Version, builtin};
pub use types::{
    Field, ListType, MapType, Node, Omit, ProtoInline, Rules, Schema, Shape, Stated, Struct, StructId, Types, Union,
};
