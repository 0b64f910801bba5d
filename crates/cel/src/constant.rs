//! [`Constant`]: a value that is part of a program.

use crate::arena::Arena;
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

    /// A value as a constant; none for values that only exist in evaluations.
    pub fn of<'a>(val: Val<'a>, arena: &'a Arena) -> Option<Constant> {
        Some(match val {
            Val::Null => Constant::Null,
            Val::Bool(b) => Constant::Bool(b),
            Val::Int(i) => Constant::Int(i),
            Val::Uint(u) => Constant::Uint(u),
            Val::Double(d) => Constant::Double(d),
            Val::String(s) => Constant::String(s.into()),
            Val::Bytes(b) => Constant::Bytes(b.into()),
            Val::Duration(d) => Constant::Duration(d),
            Val::Timestamp(t) => Constant::Timestamp(t),
            Val::Type(name) => Constant::Type(name.into()),
            Val::List(List::Constant(items)) => Constant::List(items.into()),
            Val::List(list) => {
                Constant::List(list.iter(arena).map(|item| Constant::of(item.ok()?, arena)).collect::<Option<_>>()?)
            }
            Val::Map(Map::Constant(entries)) => Constant::Map(entries.into()),
            Val::Map(map) => {
                let entry = |key: Val<'a>| {
                    let value = map.find(key, arena).ok()??;
                    Some((Constant::of(key, arena)?, Constant::of(value, arena)?))
                };
                Constant::Map(map.keys(arena).into_iter().map(entry).collect::<Option<_>>()?)
            }
            Val::Optional(_) | Val::Opaque(_) | Val::Preserved(_) | Val::Struct(_) => return None,
        })
    }
}
