//! `jsonpatch`: keys inside of JSON pointers.

use crate::arena::Arena;
use crate::error::{Error, Outcome};
use crate::library::{Library, Overload, Version};
use crate::overload;
use crate::types::Type;
use crate::val::Val;

pub static LIBRARY: Library =
    Library { name: "kubernetes.jsonpatch", since: Version { major: 1, minor: 32 }, until: None, overloads: OVERLOADS };

static OVERLOADS: &[Overload] = &[
    overload!("jsonpatch.escapeKey", "string_jsonpatch_escapeKey_string", (Type::String) -> Type::String, escape_key),
];

fn escape_key<'a>(args: &[Val<'a>], arena: &'a Arena) -> Outcome<'a> {
    let [Val::String(key)] = args else { return Err(Error::NO_SUCH_OVERLOAD) };
    Ok(arena.string_val(&key.replace('~', "~0").replace('/', "~1")))
}
