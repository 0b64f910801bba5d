//! [`Val`]: a value while an expression is evaluated.
//!
//! A value points into the objects that were given to the evaluation, into the constants of the program or into the
//! evaluation's [`Arena`](crate::Arena); copying it copies a few words.

use object::Value;

use crate::opaque::Opaque;
use crate::time::Time;

pub use list::List;
pub use map::Map;

mod display;
mod equal;
pub(crate) mod gotype;
pub mod key;
mod list;
mod map;

/// A value.
#[derive(Clone, Copy, Debug)]
pub enum Val<'a> {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    String(&'a str),
    Bytes(&'a [u8]),
    /// Nanoseconds.
    Duration(i64),
    Timestamp(Time),
    /// A type, by the name it has at run time: `int`, `map`, `google.protobuf.Timestamp`.
    Type(&'a str),
    List(List<'a>),
    Map(Map<'a>),
    Optional(Option<&'a Val<'a>>),
    Opaque(Opaque<'a>),
    /// JSON that a schema preserves without describing it; it can only be compared.
    Preserved(&'a Value),
    /// A message made in the expression: `Object{…}`, `JSONPatch{…}`.
    Struct(&'a Struct<'a>),
}

/// A message made in an expression: its type and the fields that were set, sorted by name.
#[derive(Clone, Copy, Debug)]
pub struct Struct<'a> {
    pub type_name: &'a str,
    pub fields: &'a [(&'a str, Val<'a>)],
}

impl<'a> Val<'a> {
    /// The name of the type at run time.
    pub fn type_name(self) -> &'a str {
        match self {
            Val::Null => "null_type",
            Val::Bool(_) => "bool",
            Val::Int(_) => "int",
            Val::Uint(_) => "uint",
            Val::Double(_) => "double",
            Val::String(_) => "string",
            Val::Bytes(_) => "bytes",
            Val::Duration(_) => "google.protobuf.Duration",
            Val::Timestamp(_) => "google.protobuf.Timestamp",
            Val::Type(_) => "type",
            Val::List(_) => "list",
            Val::Map(_) => "map",
            Val::Optional(_) => "optional_type",
            Val::Opaque(opaque) => opaque.type_name(),
            Val::Preserved(_) => "unknown",
            Val::Struct(value) => value.type_name,
        }
    }

    /// The size by which cost is counted: code points, bytes, items, entries; 1 for what has no size.
    pub fn size(self) -> u64 {
        match self {
            Val::String(text) => text.chars().count() as u64,
            Val::Bytes(bytes) => bytes.len() as u64,
            Val::List(list) => list.len() as u64,
            Val::Map(map) => map.len() as u64,
            Val::Opaque(opaque) => opaque.size().unwrap_or(1),
            Val::Optional(Some(inner)) => inner.size(),
            _ => 1,
        }
    }

    /// Whether `optional.ofNonZeroValue` makes nothing of it.
    pub fn is_zero(self) -> bool {
        match self {
            Val::Null => true,
            Val::Bool(b) => !b,
            Val::Int(i) => i == 0,
            Val::Uint(u) => u == 0,
            Val::Double(d) => d == 0.0,
            Val::String(text) => text.is_empty(),
            Val::Bytes(bytes) => bytes.is_empty(),
            Val::Duration(nanos) => nanos == 0,
            Val::Timestamp(time) => time.instant.is_zero(),
            // Lists and maps with a schema do not know what zero is.
            Val::List(List::Typed(..) | List::Merged(..)) | Val::Map(Map::Typed(..)) => false,
            Val::List(list) => list.is_empty(),
            Val::Map(map) => map.is_empty(),
            Val::Struct(value) => value.fields.is_empty() && value.type_name != "JSONPatch",
            Val::Type(_) | Val::Optional(_) | Val::Opaque(_) | Val::Preserved(_) => false,
        }
    }
}
