//! `format`: texts with clauses that values are put into, as version 2 of cel-go's extension has it.

use std::fmt::Write;

use crate::arena::Arena;
use crate::error::{Error, Outcome};
use crate::gofmt;
use crate::library::standard::convert;
use crate::val::{List, Map, Val};

/// Digits after the point where a clause states none.
const DEFAULT_PRECISION: usize = 6;
/// Go stops reading a precision when it is larger than this before the last digit.
const PRECISION_MAX: u64 = 1_000_000;

/// A part of a format.
#[derive(Clone, Copy, Debug)]
pub enum Piece<'f> {
    Text(&'f str),
    /// A clause and the number of the argument that it takes.
    Clause(Verb, usize),
}

/// How a clause writes its argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    String,
    Decimal,
    /// With so many digits after the point.
    Fixed(Option<u64>),
    /// With a width, because upstream takes the precision for one.
    Scientific(Option<u64>),
    Binary,
    Hex {
        upper: bool,
    },
    Octal,
}

/// Why a format cannot be carried out: the format itself is wrong, or one of its clauses cannot write its argument.
#[derive(Clone, Debug)]
pub enum Failure<E> {
    Format(String),
    Clause(E),
}

impl Verb {
    /// What is said about an argument of a type that the clause cannot write.
    pub fn complaint(self, type_name: &str) -> String {
        let rule = match self {
            Verb::String => {
                "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, durations, \
                 and timestamps"
            }
            Verb::Decimal => "decimal clause can only be used on integers",
            Verb::Fixed(_) => "fixed-point clause can only be used on doubles",
            Verb::Scientific(_) => "scientific clause can only be used on doubles",
            Verb::Binary => "only integers and bools can be formatted as binary",
            Verb::Hex { .. } => "only integers, byte buffers, and strings can be formatted as hex",
            Verb::Octal => "octal clause can only be used on integers",
        };
        format!("{rule}, was given {type_name}")
    }
}

/// Reads a format for `arguments` arguments and shows each piece to `each`; returns how many arguments it uses. The checker
/// notices that a clause has no letter before it notices that it has no argument.
pub fn walk<E>(
    format: &str,
    arguments: usize,
    is_checked: bool,
    mut each: impl FnMut(Piece<'_>) -> Result<(), E>,
) -> Result<usize, Failure<E>> {
    let mut used = 0;
    let mut rest = format;
    while let Some(at) = rest.find('%') {
        if at > 0 {
            each(Piece::Text(&rest[..at])).map_err(Failure::Clause)?;
        }
        let clause = &rest[at + 1..];
        if let Some(after) = clause.strip_prefix('%') {
            each(Piece::Text("%")).map_err(Failure::Clause)?;
            rest = after;
            continue;
        }
        if used >= arguments && !(is_checked && clause.is_empty()) {
            return Err(Failure::Format(format!("index {used} out of range")));
        }
        if clause.is_empty() {
            return Err(Failure::Format("unexpected end of string".to_string()));
        }
        let (verb, after) =
            verb(clause).map_err(|problem| Failure::Format(format!("could not parse formatting clause: {problem}")))?;
        each(Piece::Clause(verb, used)).map_err(Failure::Clause)?;
        used += 1;
        rest = after;
    }
    if !rest.is_empty() {
        each(Piece::Text(rest)).map_err(Failure::Clause)?;
    }
    Ok(used)
}

/// Reads what follows a percent sign.
fn verb(clause: &str) -> Result<(Verb, &str), String> {
    let (precision, rest) = precision(clause).map_err(|problem| format!("error while parsing precision: {problem}"))?;
    // Upstream looks at bytes, so of a longer character it shows the first byte.
    let letter = char::from(rest.as_bytes().first().copied().unwrap_or_default());
    let verb = match letter {
        's' => Verb::String,
        'd' => Verb::Decimal,
        'f' => Verb::Fixed(precision),
        'e' => Verb::Scientific(precision),
        'b' => Verb::Binary,
        'x' | 'X' => Verb::Hex { upper: letter == 'X' },
        'o' => Verb::Octal,
        _ => return Err(format!("unrecognized formatting clause \"{letter}\"")),
    };
    Ok((verb, &rest[1..]))
}

fn precision(clause: &str) -> Result<(Option<u64>, &str), String> {
    let Some(after) = clause.strip_prefix('.') else { return Ok((None, clause)) };
    let Some(end) = after.bytes().position(|b| !b.is_ascii_digit()) else {
        return Err("could not find end of precision specifier".to_string());
    };
    let (digits, rest) = after.split_at(end);
    match digits.parse::<i64>() {
        Ok(value) => Ok((u64::try_from(value).ok(), rest)),
        Err(_) => {
            let reason = if digits.is_empty() { "invalid syntax" } else { "value out of range" };
            let error = format!("strconv.Atoi: parsing {}: {reason}", object::quote(digits));
            Err(format!("error while converting precision to integer: {error}"))
        }
    }
}

pub(super) fn format<'a>(args: &[Val<'a>], arena: &'a Arena) -> Outcome<'a> {
    let [Val::String(format), Val::List(list)] = *args else { return Err(Error::NO_SUCH_OVERLOAD) };
    let mut out = String::with_capacity(format.len());
    let written = walk(format, list.len(), false, |piece| match piece {
        Piece::Text(text) => {
            out.push_str(text);
            Ok(())
        }
        Piece::Clause(verb, index) => {
            let argument = list.get(index, arena).ok_or_else(String::new)?.map_err(|error| error.to_string())?;
            write_clause(verb, argument, &mut out, arena)
        }
    });
    match written {
        Ok(_) => Ok(arena.string_val(&out)),
        Err(Failure::Format(problem)) => Err(arena.error(format_args!("{problem}"))),
        Err(Failure::Clause(problem)) => Err(arena.error(format_args!("error during formatting: {problem}"))),
    }
}

fn write_clause<'a>(verb: Verb, val: Val<'a>, out: &mut String, arena: &'a Arena) -> Result<(), String> {
    match (verb, val) {
        (Verb::String, _) => write_string(val, out, arena)?,
        (Verb::Decimal | Verb::Octal | Verb::Binary | Verb::Hex { .. }, Val::Int(i)) => {
            if i < 0 {
                out.push('-');
            }
            write_integer(verb, i.unsigned_abs(), out);
        }
        (Verb::Decimal | Verb::Octal | Verb::Binary | Verb::Hex { .. }, Val::Uint(u)) => write_integer(verb, u, out),
        (Verb::Binary, Val::Bool(b)) => out.push(if b { '1' } else { '0' }),
        (Verb::Hex { upper }, Val::String(text)) => write_bytes(text.as_bytes(), upper, out),
        (Verb::Hex { upper }, Val::Bytes(bytes)) => write_bytes(bytes, upper, out),
        (Verb::Fixed(precision), _) => out.push_str(&fixed(double(verb, val)?, precision)),
        (Verb::Scientific(width), _) => out.push_str(&scientific(double(verb, val)?, width)),
        _ => return Err(verb.complaint(val.type_name())),
    }
    Ok(())
}

fn write_integer(verb: Verb, value: u64, out: &mut String) {
    let _ = match verb {
        Verb::Binary => write!(out, "{value:b}"),
        Verb::Octal => write!(out, "{value:o}"),
        Verb::Hex { upper: true } => write!(out, "{value:X}"),
        Verb::Hex { upper: false } => write!(out, "{value:x}"),
        _ => write!(out, "{value}"),
    };
}

fn write_bytes(bytes: &[u8], upper: bool, out: &mut String) {
    for byte in bytes {
        let _ = if upper { write!(out, "{byte:02X}") } else { write!(out, "{byte:02x}") };
    }
}

/// The number of a clause for doubles, which also takes the names of what is no number.
fn double(verb: Verb, val: Val<'_>) -> Result<f64, String> {
    match val {
        Val::Double(d) => Ok(d),
        Val::String("NaN") => Ok(f64::NAN),
        Val::String("Infinity") => Ok(f64::INFINITY),
        Val::String("-Infinity") => Ok(f64::NEG_INFINITY),
        other => Err(verb.complaint(other.type_name())),
    }
}

/// A precision or width as Go's printer reads it back; none if it is too large for it.
fn readable(number: u64) -> Option<u64> {
    if number / 10 > PRECISION_MAX { None } else { Some(number) }
}

/// With thousands separators, as in American English. Precisions wrap around at 256.
fn fixed(d: f64, precision: Option<u64>) -> String {
    let precision = match readable(precision.unwrap_or(DEFAULT_PRECISION as u64)) {
        Some(precision) => usize::from(precision as u8),
        None => return "%!(NOVERB)".to_string(),
    };
    if let Some(name) = special(d) {
        return name.to_string();
    }
    let digits = format!("{:.precision$}", d.abs());
    let (whole, fraction) = digits.split_once('.').unwrap_or((&digits, ""));
    let mut text = String::with_capacity(digits.len() + whole.len() / 3 + 1);
    if d < 0.0 {
        text.push('-');
    }
    for (at, digit) in whole.chars().enumerate() {
        if at > 0 && (whole.len() - at) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    if !fraction.is_empty() {
        text.push('.');
        text.push_str(fraction);
    }
    text
}

/// Six digits after the point and a power of ten in superscript, padded to the width, which wraps around at 65,536.
fn scientific(d: f64, width: Option<u64>) -> String {
    let Some(width) = readable(width.unwrap_or(DEFAULT_PRECISION as u64)) else {
        return "%!(NOVERB)".to_string();
    };
    let width = usize::from(width as u16);
    let text = match special(d) {
        Some(name) => name.to_string(),
        None => {
            let text = format!("{:.DEFAULT_PRECISION$e}", d.abs());
            let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
            let (sign, digits) = exponent.strip_prefix('-').map_or(("", exponent), |digits| ("⁻", digits));
            let power: String = format!("{digits:0>2}").chars().map(superscript).collect();
            format!("{}{mantissa}×10{sign}{power}", if d < 0.0 { "-" } else { "" })
        }
    };
    format!("{text:>width$}")
}

fn superscript(digit: char) -> char {
    const SUPERSCRIPTS: [char; 10] = ['⁰', '¹', '²', '³', '⁴', '⁵', '⁶', '⁷', '⁸', '⁹'];
    digit.to_digit(10).map_or(digit, |digit| SUPERSCRIPTS[digit as usize])
}

fn special(d: f64) -> Option<&'static str> {
    match d {
        _ if d.is_nan() => Some("NaN"),
        f64::INFINITY => Some("∞"),
        f64::NEG_INFINITY => Some("-∞"),
        _ => None,
    }
}

/// What the clause `%s` writes.
fn write_string<'a>(val: Val<'a>, out: &mut String, arena: &'a Arena) -> Result<(), String> {
    match val {
        Val::Null => out.push_str("null"),
        Val::Type(name) => out.push_str(name),
        Val::List(list) => write_list(list, out, arena)?,
        Val::Map(map) => write_map(map, out, arena)?,
        Val::Optional(_) | Val::Opaque(_) | Val::Preserved(_) | Val::Struct(_) => {
            return Err(Verb::String.complaint(val.type_name()));
        }
        scalar => match convert::to_string(&[scalar], arena) {
            Ok(Val::String(text)) => out.push_str(text),
            Ok(other) => return Err(Verb::String.complaint(other.type_name())),
            Err(error) => {
                let error = object::quote(&error.to_string());
                return Err(format!("could not convert argument {error} to string"));
            }
        },
    }
    Ok(())
}

fn write_list<'a>(list: List<'a>, out: &mut String, arena: &'a Arena) -> Result<(), String> {
    out.push('[');
    for (at, item) in list.iter(arena).enumerate() {
        if at > 0 {
            out.push_str(", ");
        }
        write_member(item.map_err(|error| error.to_string())?, out, arena)?;
    }
    out.push(']');
    Ok(())
}

/// Entries are sorted by the text of their keys.
fn write_map<'a>(map: Map<'a>, out: &mut String, arena: &'a Arena) -> Result<(), String> {
    let mut entries: Vec<(String, String)> = Vec::with_capacity(map.len());
    for key in map.keys(arena) {
        if !matches!(key, Val::String(_) | Val::Bool(_) | Val::Int(_) | Val::Uint(_)) {
            return Err(format!("no formatting function for map key of type {}", key.type_name()));
        }
        let found = map.find(key, arena).map_err(|error| error.to_string())?;
        let value = found.ok_or_else(|| format!("could not find key: {}", object::quote(&key.to_string())))?;
        let (mut key_text, mut value_text) = (String::new(), String::new());
        write_member(key, &mut key_text, arena)?;
        write_member(value, &mut value_text, arena)?;
        entries.push((key_text, value_text));
    }
    entries.sort_by(|(a, _), (b, _)| a.cmp(b));
    let entries: Vec<String> = entries.into_iter().map(|(key, value)| format!("{key}:{value}")).collect();
    out.push('{');
    out.push_str(&entries.join(", "));
    out.push('}');
    Ok(())
}

/// A value inside of a list or map, written as a literal.
fn write_member<'a>(val: Val<'a>, out: &mut String, arena: &'a Arena) -> Result<(), String> {
    let mut text = String::new();
    match val {
        Val::Double(d) if d.is_finite() => text = format!("{d:.DEFAULT_PRECISION$}"),
        Val::Double(d) => text = object::quote(&gofmt::shortest(d)),
        Val::Timestamp(time) => text = format!("timestamp({})", object::quote(&time.to_string())),
        Val::Duration(nanos) => text = format!("duration({})", object::quote(&gofmt::duration_seconds(nanos))),
        Val::Optional(_) | Val::Opaque(_) | Val::Preserved(_) | Val::Struct(_) => {
            return Err(format!("no formatting function for {}", val.type_name()));
        }
        _ => write_string(val, &mut text, arena)?,
    }
    match val {
        Val::String(_) => text = object::quote(&text),
        Val::Bytes(_) => text = format!("b{}", object::quote(&text)),
        _ => {}
    }
    out.push_str(&text);
    Ok(())
}
