//! [`Constant`]: a value that is part of a program.

use crate::time::Time;
use crate::val::{List, Map, Val};

/// A value that owns what it holds.
#[derive(Clone, Debug)]
pub enum Constant {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    String(Box<str>),
    Bytes(Box<[u8]>),
    Duration(i64),
    Timestamp(Time),
    Type(Box<str>),
    List(Box<[Constant]>),
    /// Sorted by key.
    Map(Box<[(Constant, Constant)]>),
}

impl Constant {
    pub fn val(&self) -> Val<'_> {
        match self {
            Constant::Null => Val::Null,
            Constant::Bool(b) => Val::Bool(*b),
            Constant::Int(i) => Val::Int(*i),
            Constant::Uint(u) => Val::Uint(*u),
            Constant::Double(d) => Val::Double(*d),
            Constant::String(s) => Val::String(s),
            Constant::Bytes(b) => Val::Bytes(b),
            Constant::Duration(d) => Val::Duration(*d),
            Constant::Timestamp(t) => Val::Timestamp(*t),
            Constant::Type(name) => Val::Type(name),
            Constant::List(items) => Val::List(List::Constant(items)),
            Constant::Map(entries) => Val::Map(Map::Constant(entries)),
        }
    }
}
