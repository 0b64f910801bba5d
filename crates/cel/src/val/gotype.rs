//! What cel-go calls the types of values in Go. Some of its messages show them.

use crate::decl::{Decl, ListKind, Shape};
use crate::opaque::Opaque;
use crate::val::{List, Map, Val};

pub(crate) fn go_type(val: Val<'_>) -> &'static str {
    match val {
        Val::Null => "types.Null",
        Val::Bytes(_) => "types.Bytes",
        Val::Duration(_) => "types.Duration",
        Val::Timestamp(_) => "types.Timestamp",
        Val::Type(_) => "*types.Type",
        Val::List(list) => list_type(list),
        Val::Map(Map::Typed(..)) => "*common.unstructuredMap",
        Val::Map(Map::Json(_) | Map::Escaped(_)) => "map[string]interface {}",
        Val::Map(_) => "*types.baseMap",
        Val::Optional(_) => "*types.Optional",
        Val::Bool(_) => "types.Bool",
        Val::Int(_) => "types.Int",
        Val::Uint(_) => "types.Uint",
        Val::Double(_) => "types.Double",
        Val::String(_) => "types.String",
        Val::Opaque(opaque) => opaque_type(opaque),
        Val::Preserved(_) | Val::Struct(_) => "ref.Val",
    }
}

fn list_type(list: List<'_>) -> &'static str {
    match list {
        List::Typed(_, decl) | List::Merged(_, decl) => typed_list(decl),
        List::Json(_) | List::Escaped(_) => "[]interface {}",
        List::Concat(_) => "*types.concatList",
        _ => "*types.baseList",
    }
}

fn typed_list(decl: &Decl) -> &'static str {
    match &decl.shape {
        Shape::List { kind: ListKind::Set, .. } => "*common.unstructuredSetList",
        Shape::List { kind: ListKind::Map(_), .. } => "*common.unstructuredMapList",
        _ => "*common.unstructuredList",
    }
}

fn opaque_type(opaque: Opaque<'_>) -> &'static str {
    match opaque {
        Opaque::Quantity(_) => "cel.Quantity",
        Opaque::ComputedQuantity(_) => "*cel.Quantity",
        Opaque::Ip(_) => "cel.IP",
        Opaque::Cidr(_) => "cel.CIDR",
        Opaque::Url(_) => "cel.URL",
        Opaque::Semver(_) => "cel.Semver",
        Opaque::Format(_) => "cel.Format",
        Opaque::Authorizer(_) => "library.authorizerVal",
        Opaque::PathCheck(_) => "library.pathCheckVal",
        Opaque::GroupCheck(_) => "library.groupCheckVal",
        Opaque::ResourceCheck(_) => "library.resourceCheckVal",
        Opaque::Decision(_) => "library.decisionVal",
    }
}

/// The first method of a list, by name, that the value's type lacks in Go.
pub(crate) fn missing_list_method(val: Val<'_>) -> &'static str {
    match val {
        Val::Int(_) | Val::Uint(_) | Val::Double(_) | Val::String(_) | Val::Bytes(_) => "Contains",
        Val::Duration(_) | Val::Timestamp(_) => "Contains",
        _ => "Add",
    }
}

impl Val<'_> {
    /// Whether two values that are pointers in Go are the same one. Parts of objects are new pointers each time.
    pub(crate) fn is_same_object(&self, other: &Val<'_>) -> bool {
        match (self, other) {
            (Val::List(List::Slice(a)), Val::List(List::Slice(b))) => std::ptr::eq(*a, *b),
            (Val::Map(Map::Entries(a)), Val::Map(Map::Entries(b))) => std::ptr::eq(*a, *b),
            (Val::Optional(Some(a)), Val::Optional(Some(b))) => std::ptr::eq(*a, *b),
            (Val::Optional(None), Val::Optional(None)) => true,
            (Val::Type(a), Val::Type(b)) => a == b,
            (Val::Opaque(Opaque::Quantity(a)), Val::Opaque(Opaque::Quantity(b))) => std::ptr::eq(*a, *b),
            (Val::Opaque(Opaque::Url(a)), Val::Opaque(Opaque::Url(b))) => std::ptr::eq(*a, *b),
            (Val::Opaque(Opaque::Ip(a)), Val::Opaque(Opaque::Ip(b))) => a == b,
            (Val::Opaque(Opaque::Cidr(a)), Val::Opaque(Opaque::Cidr(b))) => a == b,
            _ => false,
        }
    }
}
