//! `json`: texts that hold JSON, as annotations do in which converted objects keep what their version has no field for. Only
//! expressions that convert objects have it; cel-go and Kubernetes do not.

use crate::arena::Arena;
use crate::convert;
use crate::error::{Error, Outcome};
use crate::library::{Library, Overload, Version};
use crate::native::native;
use crate::overload;
use crate::types::Type;
use crate::val::Val;

pub static LIBRARY: Library =
    Library { name: "ferrokube.json", since: Version { major: 1, minor: 0 }, until: None, overloads: OVERLOADS };

#[rustfmt::skip]
static OVERLOADS: &[Overload] = &[
    overload!("json.encode", "dyn_json_encode_string", (Type::Dyn) -> Type::String, encode, cost: encode_cost),
    overload!("json.decode", "string_json_decode_dyn", (Type::String) -> Type::Dyn, decode, cost: decode_cost),
];

fn encode<'a>(args: &[Val<'a>], arena: &'a Arena) -> Outcome<'a> {
    let [value] = *args else { return Err(Error::NO_SUCH_OVERLOAD) };
    let value = native(value, arena).map_err(|error| arena.error(format_args!("{error}")))?;
    let mut text = Vec::new();
    codec::json::encode(&value, None, &mut text);
    Ok(arena.string_val(&String::from_utf8_lossy(&text)))
}

fn decode<'a>(args: &[Val<'a>], arena: &'a Arena) -> Outcome<'a> {
    let [Val::String(text)] = *args else { return Err(Error::NO_SUCH_OVERLOAD) };
    let decoded = codec::json::decode(text.as_bytes(), None, &mut codec::Notes::ignore());
    let decoded = decoded.map_err(|error| arena.error(format_args!("the text is not JSON: {error}")))?;
    Ok(convert::json(arena.keep(decoded)))
}

fn encode_cost<'a>(_: &[Val<'a>], result: Val<'a>, _: &'a Arena) -> u64 {
    match result {
        Val::String(text) => bytes_cost(text),
        _ => 1,
    }
}

fn decode_cost<'a>(args: &[Val<'a>], _: Val<'a>, _: &'a Arena) -> u64 {
    match args {
        [Val::String(text)] => bytes_cost(text),
        _ => 1,
    }
}

/// A byte costs one: a decoded value takes many times the memory of its text.
fn bytes_cost(text: &str) -> u64 {
    text.len() as u64 + 1
}
