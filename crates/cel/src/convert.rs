//! JSON as values of CEL, with and without a schema.

use base64::Engine;
use base64::alphabet;
use base64::engine::{GeneralPurpose, GeneralPurposeConfig};
use object::Value;

use crate::arena::Arena;
use crate::decl::{Decl, ListKind, Shape};
use crate::error::{Error, Outcome};
use crate::time::{Time, parse_duration_format};
use crate::val::{List, Map, Val};

/// Go's decoder of format `byte`: the URL alphabet, padded, with bits to spare in the last character.
const BASE64: GeneralPurpose =
    GeneralPurpose::new(&alphabet::URL_SAFE, GeneralPurposeConfig::new().with_decode_allow_trailing_bits(true));

/// An object or another JSON value without a schema; parts of it may be kept as text.
pub fn json(value: &Value) -> Val<'_> {
    match value {
        Value::Null | Value::Raw(_) => Val::Null,
        Value::Bool(b) => Val::Bool(*b),
        Value::Int(i) => Val::Int(*i),
        Value::Float(f) => Val::Double(*f),
        Value::String(s) => Val::String(s),
        Value::List(items) => Val::List(List::Json(items)),
        Value::Map(map) => Val::Map(Map::Json(map)),
    }
}

/// A part of JSON without a schema.
pub(crate) fn json_part<'a>(value: &'a Value, arena: &'a Arena) -> Val<'a> {
    match value {
        Value::Raw(raw) => json(arena.open(raw)),
        other => json(other),
    }
}

/// JSON without a schema whose fields expressions also name in their escaped form: `a__dot__b` for `a.b`.
pub fn escaped_json(value: &Value) -> Val<'_> {
    match value {
        Value::List(items) => Val::List(List::Escaped(items)),
        Value::Map(map) => Val::Map(Map::Escaped(map)),
        other => json(other),
    }
}

/// JSON with its schema. What contradicts the schema is an error.
pub fn typed<'a>(value: &'a Value, decl: &'a Decl, arena: &'a Arena) -> Outcome<'a> {
    if let Value::Raw(raw) = value {
        return typed(arena.open(raw), decl, arena);
    }
    if value.is_null() && !matches!(decl.shape, Shape::Json(_)) {
        return if decl.nullable {
            Ok(Val::Null)
        } else {
            Err(Error::new("invalid data, got null for schema with nullable=false"))
        };
    }
    let unexpected = |wanted: &str| {
        Err(arena.error(format_args!("invalid data, expected {wanted}, got {}", object::go_type(value))))
    };
    match (&decl.shape, value) {
        (Shape::Json(_), value) => Ok(json(value)),
        (Shape::IntOrString, Value::String(s)) => Ok(Val::String(s)),
        (Shape::IntOrString, Value::Int(i)) => Ok(Val::Int(*i)),
        (Shape::IntOrString, _) => {
            Err(Error::new("invalid data, expected XIntOrString value to be either a string or integer"))
        }
        (Shape::Object(_) | Shape::Map(_), Value::Map(map)) => Ok(Val::Map(Map::Typed(map, decl))),
        (Shape::Object(_) | Shape::Map(_), _) => {
            Err(Error::new("invalid data, expected a map for the provided schema with type=object"))
        }
        (Shape::List { items, kind }, Value::List(list)) => typed_list(list, items.is_some(), kind, decl, arena),
        (Shape::List { .. }, _) => {
            Err(Error::new("invalid data, expected an array for the provided schema with type=array"))
        }
        (Shape::Double, Value::Int(i)) => Ok(Val::Double(*i as f64)),
        (Shape::Double, Value::Float(f)) => Ok(Val::Double(*f)),
        (Shape::Double, _) => unexpected("float"),
        (Shape::Int, Value::Int(i)) => Ok(Val::Int(*i)),
        (Shape::Int, _) => unexpected("int"),
        (Shape::Bool, Value::Bool(b)) => Ok(Val::Bool(*b)),
        (Shape::Bool, _) => unexpected("bool"),
        (Shape::Preserved, value) => Ok(Val::Preserved(value)),
        (Shape::Unknown(name), _) => Err(arena.error(format_args!(
            "invalid type, expected object, array, number, integer, boolean or string, or no type with \
             x-kubernetes-int-or-string or x-kubernetes-preserve-unknown-fields is true, got {name}"
        ))),
        (_, Value::String(text)) => formatted(text, &decl.shape, arena),
        (_, _) => unexpected("string"),
    }
}

fn typed_list<'a>(
    list: &'a [Value],
    has_items: bool,
    kind: &ListKind,
    decl: &'a Decl,
    arena: &'a Arena,
) -> Outcome<'a> {
    match kind {
        _ if !has_items => Err(Error::new("invalid array type, expected Items with a non-empty Schema")),
        ListKind::Unknown(name) => Err(arena
            .error(format_args!("invalid x-kubernetes-list-type, expected 'map', 'set' or 'atomic' but got {name}"))),
        _ => Ok(Val::List(List::Typed(list, decl))),
    }
}

/// A string by its format.
fn formatted<'a>(text: &'a str, shape: &Shape, arena: &'a Arena) -> Outcome<'a> {
    match shape {
        Shape::Duration => parse_duration_format(text)
            .map(Val::Duration)
            .map_err(|error| arena.error(format_args!("Invalid duration {text}: {error}"))),
        Shape::Date => Time::parse_date(text)
            .map(Val::Timestamp)
            .map_err(|error| arena.error(format_args!("Invalid date formatted string {text}: {error}"))),
        Shape::DateTime => Time::parse_date_time(text)
            .map(Val::Timestamp)
            .map_err(|error| arena.error(format_args!("Invalid date-time formatted string {text}: {error}"))),
        Shape::Bytes => {
            let lines: String = text.chars().filter(|c| !matches!(c, '\r' | '\n')).collect();
            match BASE64.decode(&lines) {
                Ok(bytes) => Ok(Val::Bytes(arena.bytes(&bytes))),
                Err(error) => {
                    let at = illegal_byte(text, &error);
                    Err(arena.error(format_args!(
                        "Invalid byte formatted string {text}: illegal base64 data at input byte {at}"
                    )))
                }
            }
        }
        _ => Ok(Val::String(text)),
    }
}

/// Where Go's decoder stops.
fn illegal_byte(text: &str, error: &base64::DecodeError) -> usize {
    match error {
        base64::DecodeError::InvalidByte(at, _) | base64::DecodeError::InvalidLastSymbol(at, _) => *at,
        base64::DecodeError::InvalidLength(_) | base64::DecodeError::InvalidPadding => text.len() / 4 * 4,
    }
}

#[cfg(test)]
mod tests {
    use object::{Raw, value};

    use crate::{Arena, Declarations, Environment, Expression, Limits, Mode, Type, Val, json};

    #[test]
    fn json_that_is_kept_as_text_is_read() {
        let object = value!({
            "data": (Raw::new(r#"{"a": [1, 2.5, "x"], "b": null}"#)),
            "list": [(Raw::new("7"))],
            "n": 7,
        });
        for (text, want) in [
            ("object.data.a[0] == 1", true),
            ("object.data.a.size() == 3 && object.data.a.all(x, x in object.data.a)", true),
            ("object.data.b == null", true),
            ("has(object.data.c)", false),
            ("object.list[0] == object.n", true),
            ("object.data == {'a': dyn([dyn(1), dyn(2.5), dyn('x')]), 'b': dyn(null)}", true),
            ("type(object.data) == map", true),
        ] {
            let declarations = Declarations::new().variable_of("object", Type::Dyn);
            let compiled = Expression::compile(text, &Environment::base(Mode::Stored), &declarations);
            let program = compiled.unwrap_or_else(|error| panic!("{error}")).program.unwrap();
            let arena = Arena::new();
            let evaluated = program.evaluate(&|_: usize| Some(Ok(json(&object))), &arena, Limits::default());
            assert!(matches!(evaluated.outcome, Ok(Val::Bool(got)) if got == want), "{text}: {:?}", evaluated.outcome);
        }
    }
}
