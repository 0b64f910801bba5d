//! Operators and functions over values of several types.

use std::cmp::Ordering;

use crate::arena::Arena;
use crate::error::{Error, Outcome};
use crate::time::{MAX_UNIX_SECONDS, MIN_UNIX_SECONDS, Time};
use crate::val::Val;

const INT_OVERFLOW: Error<'static> = Error::new("integer overflow");
const UINT_OVERFLOW: Error<'static> = Error::new("unsigned integer overflow");
const DIVISION_BY_ZERO: Error<'static> = Error::new("division by zero");
const MODULUS_BY_ZERO: Error<'static> = Error::new("modulus by zero");
const TIMESTAMP_OVERFLOW: Error<'static> = Error::new("timestamp overflow");
const NANOS: i64 = 1_000_000_000;

pub fn identity<'a>(args: &[Val<'a>], _: &'a Arena) -> Outcome<'a> {
    args.first().copied().ok_or(Error::NO_SUCH_OVERLOAD)
}

pub fn type_of<'a>(args: &[Val<'a>], _: &'a Arena) -> Outcome<'a> {
    match args {
        [Val::Preserved(_)] => Err(Error::new(
            "type conversion to 'type' not supported for values preserved by x-kubernetes-preserve-unknown-fields",
        )),
        // The type of a message made in an expression is a type with a parameter, which has the name of all types.
        [Val::Struct(_)] => Ok(Val::Type("type")),
        [val] => Ok(Val::Type(val.type_name())),
        _ => Err(Error::NO_SUCH_OVERLOAD),
    }
}

/// The error for an operand that cannot do what the operator asks. Strings, durations and timestamps are asked whether
/// they have a method of that name, and say no in other words.
fn unsupported<'a>(operand: Val<'a>, operator: &'static str) -> Outcome<'a> {
    match operand {
        Val::String(_) | Val::Duration(_) | Val::Timestamp(_) => Err(Error::NO_SUCH_OVERLOAD),
        _ => Err(Error::new(operator)),
    }
}

pub fn not<'a>(args: &[Val<'a>], _: &'a Arena) -> Outcome<'a> {
    match args {
        [Val::Bool(b)] => Ok(Val::Bool(!b)),
        [_] => Err(Error::NO_SUCH_OVERLOAD),
        _ => Err(Error::NO_SUCH_OVERLOAD),
    }
}

pub fn negate<'a>(args: &[Val<'a>], _: &'a Arena) -> Outcome<'a> {
    match *args {
        [Val::Int(i)] => i.checked_neg().map(Val::Int).ok_or(INT_OVERFLOW),
        [Val::Double(d)] => Ok(Val::Double(-d)),
        [Val::Duration(d)] => d.checked_neg().map(Val::Duration).ok_or(INT_OVERFLOW),
        [Val::Bool(_)] => Err(Error::NO_SUCH_OVERLOAD),
        [other] => unsupported(other, "no such overload: -_"),
        _ => Err(Error::NO_SUCH_OVERLOAD),
    }
}

pub fn add<'a>(args: &[Val<'a>], arena: &'a Arena) -> Outcome<'a> {
    match *args {
        [Val::Int(a), Val::Int(b)] => a.checked_add(b).map(Val::Int).ok_or(INT_OVERFLOW),
        [Val::Uint(a), Val::Uint(b)] => a.checked_add(b).map(Val::Uint).ok_or(UINT_OVERFLOW),
        [Val::Double(a), Val::Double(b)] => Ok(Val::Double(a + b)),
        [Val::String(a), Val::String(b)] => Ok(Val::String(arena.concat_str(a, b))),
        [Val::Bytes(a), Val::Bytes(b)] => Ok(Val::Bytes(arena.concat_bytes(a, b))),
        [Val::List(a), Val::List(b)] => a.add(b, arena).map(Val::List),
        [Val::Duration(a), Val::Duration(b)] => a.checked_add(b).map(Val::Duration).ok_or(INT_OVERFLOW),
        [Val::Timestamp(t), Val::Duration(d)] | [Val::Duration(d), Val::Timestamp(t)] => shift(t, d),
        [
            Val::Int(_)
            | Val::Uint(_)
            | Val::Double(_)
            | Val::String(_)
            | Val::Bytes(_)
            | Val::List(_)
            | Val::Duration(_)
            | Val::Timestamp(_),
            _,
        ] => Err(Error::NO_SUCH_OVERLOAD),
        _ => Err(Error::new("no such overload: _+_")),
    }
}

/// An instant moved by nanoseconds.
fn shift<'a>(time: Time, nanos: i64) -> Outcome<'a> {
    let total = i128::from(time.instant.secs) * i128::from(NANOS) + i128::from(time.instant.nanos) + i128::from(nanos);
    let seconds = total.div_euclid(NANOS.into());
    if seconds < MIN_UNIX_SECONDS.into() || seconds > MAX_UNIX_SECONDS.into() {
        return Err(TIMESTAMP_OVERFLOW);
    }
    let instant = object::Timestamp::new(seconds as i64, total.rem_euclid(NANOS.into()) as u32);
    Ok(Val::Timestamp(Time { instant, ..time }))
}

pub fn subtract<'a>(args: &[Val<'a>], _: &'a Arena) -> Outcome<'a> {
    match *args {
        [Val::Int(a), Val::Int(b)] => a.checked_sub(b).map(Val::Int).ok_or(INT_OVERFLOW),
        [Val::Uint(a), Val::Uint(b)] => a.checked_sub(b).map(Val::Uint).ok_or(UINT_OVERFLOW),
        [Val::Double(a), Val::Double(b)] => Ok(Val::Double(a - b)),
        [Val::Duration(a), Val::Duration(b)] => a.checked_sub(b).map(Val::Duration).ok_or(INT_OVERFLOW),
        [Val::Timestamp(t), Val::Duration(d)] => shift(t, d.checked_neg().ok_or(INT_OVERFLOW)?),
        [Val::Timestamp(a), Val::Timestamp(b)] => {
            let seconds = i128::from(a.instant.secs) - i128::from(b.instant.secs);
            let nanos = i128::from(a.instant.nanos) - i128::from(b.instant.nanos);
            let scaled = i64::try_from(seconds * i128::from(NANOS)).map_err(|_| INT_OVERFLOW)?;
            i64::try_from(i128::from(scaled) + nanos).map(Val::Duration).map_err(|_| INT_OVERFLOW)
        }
        [Val::Int(_) | Val::Uint(_) | Val::Double(_), _] => Err(Error::NO_SUCH_OVERLOAD),
        [first, _] => unsupported(first, "no such overload: _-_"),
        _ => Err(Error::NO_SUCH_OVERLOAD),
    }
}

pub fn multiply<'a>(args: &[Val<'a>], _: &'a Arena) -> Outcome<'a> {
    match *args {
        [Val::Int(a), Val::Int(b)] => a.checked_mul(b).map(Val::Int).ok_or(INT_OVERFLOW),
        [Val::Uint(a), Val::Uint(b)] => a.checked_mul(b).map(Val::Uint).ok_or(UINT_OVERFLOW),
        [Val::Double(a), Val::Double(b)] => Ok(Val::Double(a * b)),
        [Val::Int(_) | Val::Uint(_) | Val::Double(_), _] => Err(Error::NO_SUCH_OVERLOAD),
        [first, _] => unsupported(first, "no such overload: _*_"),
        _ => Err(Error::NO_SUCH_OVERLOAD),
    }
}

pub fn divide<'a>(args: &[Val<'a>], _: &'a Arena) -> Outcome<'a> {
    match *args {
        [Val::Int(_), Val::Int(0)] | [Val::Uint(_), Val::Uint(0)] => Err(DIVISION_BY_ZERO),
        [Val::Int(a), Val::Int(b)] => a.checked_div(b).map(Val::Int).ok_or(INT_OVERFLOW),
        [Val::Uint(a), Val::Uint(b)] => Ok(Val::Uint(a / b)),
        [Val::Double(a), Val::Double(b)] => Ok(Val::Double(a / b)),
        [Val::Int(_) | Val::Uint(_) | Val::Double(_), _] => Err(Error::NO_SUCH_OVERLOAD),
        [first, _] => unsupported(first, "no such overload: _/_"),
        _ => Err(Error::NO_SUCH_OVERLOAD),
    }
}

pub fn modulo<'a>(args: &[Val<'a>], _: &'a Arena) -> Outcome<'a> {
    match *args {
        [Val::Int(_), Val::Int(0)] | [Val::Uint(_), Val::Uint(0)] => Err(MODULUS_BY_ZERO),
        [Val::Int(a), Val::Int(b)] => a.checked_rem(b).map(Val::Int).ok_or(INT_OVERFLOW),
        [Val::Uint(a), Val::Uint(b)] => Ok(Val::Uint(a % b)),
        [Val::Int(_) | Val::Uint(_), _] => Err(Error::NO_SUCH_OVERLOAD),
        [first, _] => unsupported(first, "no such overload: _%_"),
        _ => Err(Error::NO_SUCH_OVERLOAD),
    }
}

pub fn less<'a>(args: &[Val<'a>], _: &'a Arena) -> Outcome<'a> {
    ordered(args, "no such overload: _<_", Ordering::is_lt)
}

pub fn less_equals<'a>(args: &[Val<'a>], _: &'a Arena) -> Outcome<'a> {
    ordered(args, "no such overload: _<=_", Ordering::is_le)
}

pub fn greater<'a>(args: &[Val<'a>], _: &'a Arena) -> Outcome<'a> {
    ordered(args, "no such overload: _>_", Ordering::is_gt)
}

pub fn greater_equals<'a>(args: &[Val<'a>], _: &'a Arena) -> Outcome<'a> {
    ordered(args, "no such overload: _>=_", Ordering::is_ge)
}

fn ordered<'a>(args: &[Val<'a>], unsupported: &'static str, test: fn(Ordering) -> bool) -> Outcome<'a> {
    match *args {
        [a, b] if a.has_order() => a.compare(b).map(|ordering| Val::Bool(test(ordering))),
        _ => Err(Error::new(unsupported)),
    }
}

/// `element in list`, `key in map`.
pub fn contained<'a>(args: &[Val<'a>], arena: &'a Arena) -> Outcome<'a> {
    match *args {
        [element, Val::List(list)] => list.contains(element, arena).map(Val::Bool),
        [key, Val::Map(map)] => map.find(key, arena).map(|found| Val::Bool(found.is_some())),
        _ => Err(Error::NO_SUCH_OVERLOAD),
    }
}

pub fn size<'a>(args: &[Val<'a>], _: &'a Arena) -> Outcome<'a> {
    match *args {
        [val @ (Val::String(_) | Val::Bytes(_) | Val::List(_) | Val::Map(_))] => Ok(Val::Int(val.size() as i64)),
        [other] => unsupported(other, "no such overload: size"),
        _ => Err(Error::NO_SUCH_OVERLOAD),
    }
}

pub fn matches<'a>(args: &[Val<'a>], arena: &'a Arena) -> Outcome<'a> {
    match *args {
        [Val::String(text), Val::String(pattern)] => {
            let regex = arena.regex(pattern)?;
            Ok(Val::Bool(regex.is_match(text)))
        }
        [Val::String(_), _] => Err(Error::NO_SUCH_OVERLOAD),
        [first, _] => unsupported(first, "no such overload: matches"),
        _ => Err(Error::NO_SUCH_OVERLOAD),
    }
}

pub fn contains<'a>(args: &[Val<'a>], _: &'a Arena) -> Outcome<'a> {
    let [Val::String(text), Val::String(part)] = args else { return Err(Error::NO_SUCH_OVERLOAD) };
    Ok(Val::Bool(text.contains(part)))
}

pub fn starts_with<'a>(args: &[Val<'a>], _: &'a Arena) -> Outcome<'a> {
    let [Val::String(text), Val::String(start)] = args else { return Err(Error::NO_SUCH_OVERLOAD) };
    Ok(Val::Bool(text.starts_with(start)))
}

pub fn ends_with<'a>(args: &[Val<'a>], _: &'a Arena) -> Outcome<'a> {
    let [Val::String(text), Val::String(end)] = args else { return Err(Error::NO_SUCH_OVERLOAD) };
    Ok(Val::Bool(text.ends_with(end)))
}
