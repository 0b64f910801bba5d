//! Version 2 of cel-go's extension `strings`.

pub mod format;

use crate::arena::Arena;
use crate::error::{Cancelled, Error, Outcome};
use crate::library::{Library, Overload, Version};
use crate::overload;
use crate::types::Type;
use crate::val::Val;

pub static LIBRARY: Library =
    Library { name: "cel.lib.ext.strings", since: Version { major: 1, minor: 29 }, until: None, overloads: OVERLOADS };

/// Longest text that `replace` makes: it can multiply two texts of a request.
const RESULT_BYTES_MAX: usize = 64 << 20;

const STRINGS: Type = Type::list_of(&Type::String);
const DYNS: Type = Type::list_of(&Type::Dyn);

#[rustfmt::skip]
static OVERLOADS: &[Overload] = &[
    overload!(member "charAt", "string_char_at_int", (Type::String, Type::Int) -> Type::String, char_at),
    overload!(member "indexOf", "string_index_of_string", (Type::String, Type::String) -> Type::Int, index_of),
    overload!(member "indexOf", "string_index_of_string_int", (Type::String, Type::String, Type::Int) -> Type::Int, index_of),
    overload!(member "lastIndexOf", "string_last_index_of_string", (Type::String, Type::String) -> Type::Int, last_index_of),
    overload!(member "lastIndexOf", "string_last_index_of_string_int", (Type::String, Type::String, Type::Int) -> Type::Int, last_index_of),
    overload!(member "lowerAscii", "string_lower_ascii", (Type::String) -> Type::String, lower),
    overload!(member "upperAscii", "string_upper_ascii", (Type::String) -> Type::String, upper),
    overload!(member "replace", "string_replace_string_string", (Type::String, Type::String, Type::String) -> Type::String, replace),
    overload!(member "replace", "string_replace_string_string_int", (Type::String, Type::String, Type::String, Type::Int) -> Type::String, replace),
    overload!(member "split", "string_split_string", (Type::String, Type::String) -> STRINGS, split),
    overload!(member "split", "string_split_string_int", (Type::String, Type::String, Type::Int) -> STRINGS, split),
    overload!(member "substring", "string_substring_int", (Type::String, Type::Int) -> Type::String, substring),
    overload!(member "substring", "string_substring_int_int", (Type::String, Type::Int, Type::Int) -> Type::String, substring),
    overload!(member "trim", "string_trim", (Type::String) -> Type::String, trim),
    overload!(member "format", "string_format", (Type::String, DYNS) -> Type::String, format::format),
    overload!("strings.quote", "strings_quote", (Type::String) -> Type::String, quote),
    overload!(member "join", "list_join", (STRINGS) -> Type::String, join),
    overload!(member "join", "list_join_string", (STRINGS, Type::String) -> Type::String, join),
];

fn out_of_range<'a>(index: i64, arena: &'a Arena) -> Error<'a> {
    arena.error(format_args!("index out of range: {index}"))
}

/// The byte at which the character with this number begins, or where the text ends if it is the number of characters.
fn byte_of(text: &str, index: i64) -> Option<usize> {
    let index = usize::try_from(index).ok()?;
    if text.is_ascii() {
        return (index <= text.len()).then_some(index);
    }
    text.char_indices().map(|(at, _)| at).chain([text.len()]).nth(index)
}

/// How many characters come before a byte.
fn characters_before(text: &str, byte: usize) -> i64 {
    text[..byte].chars().count() as i64
}

fn char_at<'a>(args: &[Val<'a>], arena: &'a Arena) -> Outcome<'a> {
    let [Val::String(text), Val::Int(index)] = *args else { return Err(Error::NO_SUCH_OVERLOAD) };
    let at = byte_of(text, index).ok_or_else(|| out_of_range(index, arena))?;
    let end = text[at..].chars().next().map_or(at, |c| at + c.len_utf8());
    Ok(Val::String(&text[at..end]))
}

/// The text, what is looked for, and from where.
fn search<'a>(args: &[Val<'a>], arena: &'a Arena) -> Outcome<'a, (&'a str, &'a str, Option<i64>)> {
    match *args {
        [Val::String(text), Val::String(wanted)] => Ok((text, wanted, None)),
        [Val::String(_), Val::String(_), Val::Int(offset)] if offset < 0 => Err(out_of_range(offset, arena)),
        [Val::String(text), Val::String(wanted), Val::Int(offset)] => Ok((text, wanted, Some(offset))),
        _ => Err(Error::NO_SUCH_OVERLOAD),
    }
}

fn index_of<'a>(args: &[Val<'a>], arena: &'a Arena) -> Outcome<'a> {
    let (text, wanted, offset) = search(args, arena)?;
    let from = byte_of(text, offset.unwrap_or(0));
    if wanted.is_empty() {
        let last = || characters_before(text, text.len());
        return Ok(Val::Int(from.map_or_else(last, |_| offset.unwrap_or(0))));
    }
    let found = from.and_then(|from| text[from..].find(wanted).map(|at| from + at));
    Ok(Val::Int(found.map_or(-1, |at| characters_before(text, at))))
}

fn last_index_of<'a>(args: &[Val<'a>], arena: &'a Arena) -> Outcome<'a> {
    let (text, wanted, offset) = search(args, arena)?;
    let length = || characters_before(text, text.len());
    if wanted.is_empty() {
        return Ok(Val::Int(offset.map_or_else(length, |offset| offset.min(length()))));
    }
    // A match may begin at the offset, so the part in which it lies ends so many bytes later.
    let found = match offset {
        None => text.rfind(wanted),
        Some(offset) => match byte_of(text, offset).filter(|from| *from < text.len()) {
            None => None,
            Some(from) => rfind_from(text, wanted, from),
        },
    };
    Ok(Val::Int(found.map_or(-1, |at| characters_before(text, at))))
}

/// The last match that begins at or before byte `from`.
fn rfind_from(text: &str, wanted: &str, from: usize) -> Option<usize> {
    let mut end = from.saturating_add(wanted.len()).min(text.len());
    while !text.is_char_boundary(end) {
        end += 1;
    }
    text[..end].rfind(wanted).filter(|at| *at <= from).or_else(|| text[..from].rfind(wanted))
}

fn lower<'a>(args: &[Val<'a>], arena: &'a Arena) -> Outcome<'a> {
    let [Val::String(text)] = *args else { return Err(Error::NO_SUCH_OVERLOAD) };
    Ok(arena.string_val(&text.to_ascii_lowercase()))
}

fn upper<'a>(args: &[Val<'a>], arena: &'a Arena) -> Outcome<'a> {
    let [Val::String(text)] = *args else { return Err(Error::NO_SUCH_OVERLOAD) };
    Ok(arena.string_val(&text.to_ascii_uppercase()))
}

fn replace<'a>(args: &[Val<'a>], arena: &'a Arena) -> Outcome<'a> {
    let (text, old, new, most) = match *args {
        [Val::String(text), Val::String(old), Val::String(new)] => (text, old, new, usize::MAX),
        // A negative number asks for all.
        [Val::String(text), Val::String(old), Val::String(new), Val::Int(n)] => {
            (text, old, new, usize::try_from(n).unwrap_or(usize::MAX))
        }
        _ => return Err(Error::NO_SUCH_OVERLOAD),
    };
    let places = text.matches(old).take(most).count();
    if places == 0 {
        return Ok(Val::String(text));
    }
    let length = places.saturating_mul(new.len()).saturating_add(text.len());
    if length > RESULT_BYTES_MAX {
        return Err(Error::Cancelled(Cancelled::CostLimit));
    }
    Ok(arena.string_val(&text.replacen(old, new, places)))
}

fn split<'a>(args: &[Val<'a>], arena: &'a Arena) -> Outcome<'a> {
    let (text, separator, most) = match *args {
        [Val::String(text), Val::String(separator)] => (text, separator, -1),
        [Val::String(text), Val::String(separator), Val::Int(n)] => (text, separator, n),
        _ => return Err(Error::NO_SUCH_OVERLOAD),
    };
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    let parts: Vec<Val<'a>> = match (most, separator) {
        (0, _) => Vec::new(),
        (_, "") => characters(text, most).into_iter().map(Val::String).collect(),
        _ => text.splitn(most, separator).map(Val::String).collect(),
    };
    Ok(arena.list_val(&parts))
}

/// The characters one by one; if there are more than `most`, the last part is the rest.
fn characters(text: &str, most: usize) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        if parts.len() + 1 == most {
            parts.push(rest);
            break;
        }
        let (first, after) = rest.split_at(c.len_utf8());
        parts.push(first);
        rest = after;
    }
    parts
}

fn substring<'a>(args: &[Val<'a>], arena: &'a Arena) -> Outcome<'a> {
    let (text, start, end) = match *args {
        [Val::String(text), Val::Int(start)] => (text, start, None),
        [Val::String(text), Val::Int(start), Val::Int(end)] => (text, start, Some(end)),
        _ => return Err(Error::NO_SUCH_OVERLOAD),
    };
    if let Some(end) = end.filter(|end| start > *end) {
        return Err(arena.error(format_args!("invalid substring range. start: {start}, end: {end}")));
    }
    let place = |index: i64| byte_of(text, index).ok_or_else(|| out_of_range(index, arena));
    let from = place(start)?;
    let to = end.map_or(Ok(text.len()), place)?;
    Ok(Val::String(&text[from..to]))
}

fn trim<'a>(args: &[Val<'a>], _: &'a Arena) -> Outcome<'a> {
    let [Val::String(text)] = *args else { return Err(Error::NO_SUCH_OVERLOAD) };
    Ok(Val::String(text.trim()))
}

fn join<'a>(args: &[Val<'a>], arena: &'a Arena) -> Outcome<'a> {
    let (list, separator) = match *args {
        [Val::List(list)] => (list, ""),
        [Val::List(list), Val::String(separator)] => (list, separator),
        _ => return Err(Error::NO_SUCH_OVERLOAD),
    };
    let mut joined = String::new();
    for (at, item) in list.iter(arena).enumerate() {
        if at > 0 {
            joined.push_str(separator);
        }
        match item? {
            Val::String(text) => joined.push_str(text),
            other => return Err(arena.error(format_args!("join: invalid input: {other}"))),
        }
        if joined.len() > RESULT_BYTES_MAX {
            return Err(Error::Cancelled(Cancelled::CostLimit));
        }
    }
    Ok(arena.string_val(&joined))
}

fn quote<'a>(args: &[Val<'a>], arena: &'a Arena) -> Outcome<'a> {
    let [Val::String(text)] = *args else { return Err(Error::NO_SUCH_OVERLOAD) };
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for c in text.chars() {
        match c {
            '\x07' => quoted.push_str("\\a"),
            '\x08' => quoted.push_str("\\b"),
            '\x0c' => quoted.push_str("\\f"),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            '\x0b' => quoted.push_str("\\v"),
            '\\' => quoted.push_str("\\\\"),
            '"' => quoted.push_str("\\\""),
            _ => quoted.push(c),
        }
    }
    quoted.push('"');
    Ok(arena.string_val(&quoted))
}
