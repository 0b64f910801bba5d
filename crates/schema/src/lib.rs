//! One structural schema for built-in and custom kinds, the operations over (schema, value), and the generated table of
//! everything Kubernetes v1.37 serves. Pure: no I/O, no clock, no globals but the parsed table.

mod types;

pub use types::{
    Field, ListType, MapType, Node, Omit, ProtoInline, Rules, Schema, Shape, Stated, Struct, StructId, Types, Union,
};
