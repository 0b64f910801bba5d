//! Values in messages, as Go's `%v` prints them.

use std::fmt;

use super::Val;
use crate::gofmt;

impl fmt::Display for Val<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Val::Null => f.write_str("null"),
            Val::Bool(b) => write!(f, "{b}"),
            Val::Int(i) => write!(f, "{i}"),
            Val::Uint(u) => write!(f, "{u}"),
            Val::Double(d) => f.write_str(&gofmt::shortest(*d)),
            Val::String(text) => f.write_str(text),
            Val::Bytes(bytes) => write!(f, "{bytes:?}").map(|_| ()),
            Val::Duration(nanos) => f.write_str(&gofmt::duration_seconds(*nanos)),
            Val::Timestamp(time) => write!(f, "{time}"),
            Val::Type(name) => f.write_str(name),
            other => f.write_str(other.type_name()),
        }
    }
}
