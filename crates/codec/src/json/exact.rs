//! Whether a value without a schema is read as it was written.

use object::Value;

use crate::MAX_DEPTH;

/// Whether decoding, without a schema, what [`super::encode`] makes of a value gives the same value. False also for text that
/// is kept as it came.
pub fn is_exact(value: &Value) -> bool {
    is_exact_at(value, 0)
}

/// The same inside of another value; `depth` is how many maps and lists are open around this one.
pub(crate) fn is_exact_at(value: &Value, depth: usize) -> bool {
    match value {
        Value::Null | Value::Bool(_) | Value::Int(_) | Value::String(_) => true,
        // Whole numbers are read as integers.
        Value::Float(number) => number.is_finite() && number.fract() != 0.0,
        Value::List(items) => depth < MAX_DEPTH && items.iter().all(|item| is_exact_at(item, depth + 1)),
        Value::Map(map) => depth < MAX_DEPTH && map.values().all(|value| is_exact_at(value, depth + 1)),
        Value::Raw(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use object::{Raw, value};

    use super::*;
    use crate::Notes;
    use crate::json::{decode, encode};

    fn nested(depth: usize) -> Value {
        (0..depth).fold(Value::Null, |inner, _| Value::List(vec![inner]))
    }

    #[test]
    fn what_is_exact_is_read_as_it_was_written() {
        for (value, want) in [
            (value!({"a": ["\u{2028}<\\\"\u{0}\u{fffd}", "", {}], "": {"b": []}}), true),
            (Value::List(vec![Value::Null, true.into(), (-5).into(), Value::Float(-0.5), Value::Float(1.5e-9)]), true),
            (Value::Int(i64::MIN), true),
            (Value::Float(f64::MIN_POSITIVE), true),
            (Value::Float(0.1 + 0.2), true),
            (Value::Float(1.0), false),
            (Value::Float(-0.0), false),
            (Value::Float(1e300), false),
            (Value::Float(f64::NAN), false),
            (Value::List(vec![Value::Float(1.0)]), false),
            (Value::Raw(Raw::new("{}")), false),
            (nested(MAX_DEPTH), true),
            (nested(MAX_DEPTH + 1), false),
        ] {
            assert_eq!(is_exact(&value), want, "{value:?}");
            let mut json = Vec::new();
            encode(&value, None, &mut json);
            let read = decode(&json, None, &mut Notes::ignore());
            assert!(!want || read.as_ref() == Ok(&value), "{value:?} is read as {read:?}");
        }
    }
}
