//! Scalars with a form of their own: what upstream's types make of their text, the same for every format.

use object::duration::Duration;
use object::quantity::Quantity;
use object::timestamp::{MicroTime, Time};
use object::{Map, Str, Value};
use schema::{Schema, Shape};

/// How `metav1.Time` prints the time that was never set. Go prints such a time as null.
const ZERO_TIME: &str = "0001-01-01T00:00:00Z";
/// The same for `metav1.MicroTime`.
const ZERO_MICRO_TIME: &str = "0001-01-01T00:00:00.000000Z";

/// Whether a time was never set.
pub(crate) fn is_zero_time(text: &str) -> bool {
    text == ZERO_TIME || text == ZERO_MICRO_TIME
}

/// The canonical text of a time: UTC, whole seconds. What has that form already is only checked.
pub(crate) fn time(text: &str) -> Result<Str, String> {
    let time = Time::parse(text).map_err(|e| e.to_string())?;
    let canonical = text.len() == ZERO_TIME.len() && text.ends_with('Z');
    Ok(if canonical { Str::from(text) } else { Str::from(time.to_string()) })
}

/// The canonical text of a time with microseconds.
pub(crate) fn micro_time(text: &str) -> Result<Str, String> {
    let time = MicroTime::parse(text).map_err(|e| e.to_string())?;
    let canonical = text.len() == ZERO_MICRO_TIME.len() && text.ends_with('Z');
    Ok(if canonical { Str::from(text) } else { Str::from(time.to_string()) })
}

pub(crate) fn duration(text: &str) -> Result<Str, String> {
    Duration::parse(text).map(|duration| Str::from(duration.to_string())).map_err(|e| e.to_string())
}

/// The canonical text of a quantity, which upstream prints whatever was written.
pub(crate) fn quantity(text: &str) -> Result<Str, String> {
    Quantity::parse_json(text).map(|quantity| Str::from(quantity.to_string())).map_err(|e| e.to_string())
}

/// What an item of a list or a value of a map is in Go before anything is decoded into it. Null is for types that have
/// a nil or print as null.
pub(crate) fn zero(schema: Schema<'_>) -> Value {
    match &schema.shape {
        Shape::Bool => Value::Bool(false),
        Shape::Int32 | Shape::Int64 | Shape::IntOrString => Value::Int(0),
        Shape::Float => Value::Float(0.0),
        Shape::String => Value::String(Str::default()),
        Shape::Quantity => Value::from("0"),
        Shape::Duration => Value::from("0s"),
        Shape::Struct(_) => Value::Map(Map::new()),
        Shape::StructOrBool(_) => Value::Bool(false),
        // Set to nothing, which the unions of JSON schemas print as null.
        Shape::StructOrList(_) | Shape::StructOrStrings(_) => Value::List(Vec::new()),
        Shape::Any
        | Shape::RawExtension
        | Shape::Fields
        | Shape::Bytes
        | Shape::Time
        | Shape::MicroTime
        | Shape::List(_)
        | Shape::Map(_) => Value::Null,
    }
}
