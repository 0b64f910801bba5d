//! `kubernetes.regex`: finding what matches.

use goregex::Regex;

use crate::arena::Arena;
use crate::error::{Error, Outcome};
use crate::library::{Library, Overload, Version};
use crate::overload;
use crate::types::Type;
use crate::val::Val;

pub static LIBRARY: Library =
    Library { name: "kubernetes.regex", since: Version { major: 1, minor: 0 }, until: None, overloads: OVERLOADS };

const STRINGS: Type = Type::list_of(&Type::String);

#[rustfmt::skip]
static OVERLOADS: &[Overload] = &[
    overload!(regex member "find", "string_find_string", (Type::String, Type::String) -> Type::String, find),
    overload!(regex member "findAll", "string_find_all_string", (Type::String, Type::String) -> STRINGS, find_all),
    overload!(regex member "findAll", "string_find_all_string_int", (Type::String, Type::String, Type::Int) -> STRINGS, find_all),
];

fn find<'a>(regex: &Regex, args: &[Val<'a>], _: &'a Arena) -> Outcome<'a> {
    let [Val::String(text), ..] = *args else { return Err(Error::NO_SUCH_OVERLOAD) };
    Ok(Val::String(regex.find_at(text, 0).map_or("", |found| &text[found])))
}

fn find_all<'a>(regex: &Regex, args: &[Val<'a>], arena: &'a Arena) -> Outcome<'a> {
    let (text, most) = match *args {
        [Val::String(text), _] => (text, usize::MAX),
        // A negative number asks for all.
        [Val::String(text), _, Val::Int(n)] => (text, usize::try_from(n).unwrap_or(usize::MAX)),
        _ => return Err(Error::NO_SUCH_OVERLOAD),
    };
    let found: Vec<Val<'a>> = regex.find_all(text).take(most).map(|found| Val::String(&text[found])).collect();
    Ok(arena.list_val(&found))
}
