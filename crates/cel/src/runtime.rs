//! Whether a value has a type at run time, where only the first element of a list or map is looked at.

use crate::arena::Arena;
use crate::types::Type;
use crate::val::Val;

pub(crate) fn accepts<'a>(ty: &Type, val: Val<'a>, arena: &'a Arena) -> bool {
    match (ty, val) {
        (Type::Dyn | Type::Any | Type::Param(_) | Type::Fresh(_), _) => true,
        (Type::Bool, Val::Bool(_))
        | (Type::Int, Val::Int(_))
        | (Type::Uint, Val::Uint(_))
        | (Type::Double, Val::Double(_))
        | (Type::String, Val::String(_))
        | (Type::Bytes, Val::Bytes(_))
        | (Type::Null, Val::Null)
        | (Type::Duration, Val::Duration(_))
        | (Type::Timestamp, Val::Timestamp(_))
        | (Type::Type(_), Val::Type(_))
        | (Type::Optional(_), Val::Optional(_)) => true,
        (Type::Wrapper(inner), val) => matches!(val, Val::Null) || accepts(inner, val, arena),
        (Type::List(items), Val::List(list)) => match list.get(0, arena) {
            None => true,
            Some(Ok(first)) => accepts(items, first, arena),
            Some(Err(_)) => false,
        },
        (Type::Map(keys, values), Val::Map(map)) => match map.first(arena) {
            None => true,
            Some(Ok((key, value))) => accepts(keys, key, arena) && accepts(values, value, arena),
            Some(Err(_)) => false,
        },
        (Type::Opaque(name) | Type::Abstract(name), Val::Opaque(opaque)) => opaque.type_name() == *name,
        _ => false,
    }
}
