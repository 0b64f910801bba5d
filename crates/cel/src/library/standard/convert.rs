//! Conversions between types.

use object::Timestamp;
use object::duration::Duration;

use crate::arena::Arena;
use crate::error::{Error, Outcome};
use crate::gofmt;
use crate::time::{MAX_UNIX_SECONDS, MIN_UNIX_SECONDS, Time};
use crate::val::Val;

const INT_OVERFLOW: Error<'static> = Error::new("integer overflow");
const UINT_OVERFLOW: Error<'static> = Error::new("unsigned integer overflow");
const TIMESTAMP_OVERFLOW: Error<'static> = Error::new("timestamp overflow");
const TWO_TO_63: f64 = 9_223_372_036_854_775_808.0;

fn cannot<'a>(val: Val<'a>, target: &str, arena: &'a Arena) -> Outcome<'a> {
    Err(arena.error(format_args!("type conversion error from '{}' to '{target}'", val.type_name())))
}

pub fn to_bool<'a>(args: &[Val<'a>], arena: &'a Arena) -> Outcome<'a> {
    match *args {
        [Val::Bool(b)] => Ok(Val::Bool(b)),
        [Val::String("1" | "t" | "T" | "TRUE" | "true" | "True")] => Ok(Val::Bool(true)),
        [Val::String("0" | "f" | "F" | "FALSE" | "false" | "False")] => Ok(Val::Bool(false)),
        [other] => cannot(other, "bool", arena),
        _ => Err(Error::NO_SUCH_OVERLOAD),
    }
}

pub fn to_bytes<'a>(args: &[Val<'a>], arena: &'a Arena) -> Outcome<'a> {
    match *args {
        [Val::Bytes(b)] => Ok(Val::Bytes(b)),
        [Val::String(s)] => Ok(Val::Bytes(s.as_bytes())),
        [other] => cannot(other, "bytes", arena),
        _ => Err(Error::NO_SUCH_OVERLOAD),
    }
}

pub fn to_double<'a>(args: &[Val<'a>], arena: &'a Arena) -> Outcome<'a> {
    match *args {
        [Val::Double(d)] => Ok(Val::Double(d)),
        [Val::Int(i)] => Ok(Val::Double(i as f64)),
        [Val::Uint(u)] => Ok(Val::Double(u as f64)),
        [val @ Val::String(text)] => match gofmt::parse_float(text) {
            Some(d) => Ok(Val::Double(d)),
            None => cannot(val, "double", arena),
        },
        [other] => cannot(other, "double", arena),
        _ => Err(Error::NO_SUCH_OVERLOAD),
    }
}

pub fn to_int<'a>(args: &[Val<'a>], arena: &'a Arena) -> Outcome<'a> {
    match *args {
        [Val::Int(i)] => Ok(Val::Int(i)),
        [Val::Uint(u)] => i64::try_from(u).map(Val::Int).map_err(|_| INT_OVERFLOW),
        [Val::Double(d)] if d > -TWO_TO_63 && d < TWO_TO_63 => Ok(Val::Int(d as i64)),
        [Val::Double(_)] => Err(INT_OVERFLOW),
        [Val::Duration(d)] => Ok(Val::Int(d)),
        [Val::Timestamp(t)] => Ok(Val::Int(t.instant.secs)),
        [val @ Val::String(text)] => match text.parse() {
            Ok(i) => Ok(Val::Int(i)),
            Err(_) => cannot(val, "int", arena),
        },
        [other] => cannot(other, "int", arena),
        _ => Err(Error::NO_SUCH_OVERLOAD),
    }
}

pub fn to_uint<'a>(args: &[Val<'a>], arena: &'a Arena) -> Outcome<'a> {
    match *args {
        [Val::Uint(u)] => Ok(Val::Uint(u)),
        [Val::Int(i)] => u64::try_from(i).map(Val::Uint).map_err(|_| UINT_OVERFLOW),
        [Val::Double(d)] if (0.0..2.0 * TWO_TO_63).contains(&d) => Ok(Val::Uint(d as u64)),
        [Val::Double(_)] => Err(UINT_OVERFLOW),
        // Go reads no sign in front of unsigned numbers.
        [val @ Val::String(text)] => match text.parse() {
            Ok(u) if !text.starts_with('+') => Ok(Val::Uint(u)),
            _ => cannot(val, "uint", arena),
        },
        [other] => cannot(other, "uint", arena),
        _ => Err(Error::NO_SUCH_OVERLOAD),
    }
}

pub fn to_string<'a>(args: &[Val<'a>], arena: &'a Arena) -> Outcome<'a> {
    match *args {
        [Val::String(s)] => Ok(Val::String(s)),
        [Val::Bool(b)] => Ok(Val::String(if b { "true" } else { "false" })),
        [Val::Int(i)] => Ok(arena.string_val(&i.to_string())),
        [Val::Uint(u)] => Ok(arena.string_val(&u.to_string())),
        [Val::Double(d)] => Ok(arena.string_val(&gofmt::shortest(d))),
        [Val::Bytes(bytes)] => match std::str::from_utf8(bytes) {
            Ok(text) => Ok(Val::String(text)),
            Err(_) => Err(Error::new("invalid UTF-8 in bytes, cannot convert to string")),
        },
        [Val::Duration(d)] => Ok(arena.string_val(&gofmt::duration_seconds(d))),
        [Val::Timestamp(t)] => Ok(arena.string_val(&t.to_string())),
        [other] => cannot(other, "string", arena),
        _ => Err(Error::NO_SUCH_OVERLOAD),
    }
}

pub fn to_duration<'a>(args: &[Val<'a>], arena: &'a Arena) -> Outcome<'a> {
    match *args {
        [Val::Duration(d)] => Ok(Val::Duration(d)),
        [val @ Val::String(text)] => match Duration::parse(text) {
            Ok(duration) => Ok(Val::Duration(duration.0)),
            Err(_) => cannot(val, "google.protobuf.Duration", arena),
        },
        [other] => cannot(other, "google.protobuf.Duration", arena),
        _ => Err(Error::NO_SUCH_OVERLOAD),
    }
}

pub fn to_timestamp<'a>(args: &[Val<'a>], arena: &'a Arena) -> Outcome<'a> {
    let in_range = |seconds: i64| (MIN_UNIX_SECONDS..=MAX_UNIX_SECONDS).contains(&seconds);
    match *args {
        [Val::Timestamp(t)] => Ok(Val::Timestamp(t)),
        [Val::Int(i)] if in_range(i) => Ok(Val::Timestamp(Time::utc(Timestamp::new(i, 0)))),
        [Val::Int(_)] => Err(TIMESTAMP_OVERFLOW),
        [val @ Val::String(text)] => match Time::parse(text) {
            Ok(time) if in_range(time.instant.secs) => Ok(Val::Timestamp(time)),
            Ok(_) => Err(TIMESTAMP_OVERFLOW),
            Err(_) => cannot(val, "google.protobuf.Timestamp", arena),
        },
        [other] => cannot(other, "google.protobuf.Timestamp", arena),
        _ => Err(Error::NO_SUCH_OVERLOAD),
    }
}
