//! Reading a strategically merged object back into its type.
//!
//! Upstream does not print the merged object and decode it again, as it does for the other patches, but fills the Go
//! struct from the map directly. That reader has words and a leniency of its own: numbers without a fraction are
//! integers, and an integer that is too large for its field is cut, not refused.

use object::Value;
use schema::{Schema, Shape};

/// Makes a merged object fit its schema, or says in upstream's words what does not.
pub fn restore(value: &mut Value, schema: Schema<'_>) -> Result<(), String> {
    if value.is_null() {
        return Ok(());
    }
    match &schema.node.shape {
        Shape::Bool | Shape::String | Shape::Int32 | Shape::Int64 | Shape::Float => scalar(value, schema),
        Shape::Struct(id) => {
            let kind = go_kind(value);
            let Value::Map(map) = value else { return Err(format!("cannot restore struct from: {kind}")) };
            // The first mistake in the order of the type's declaration is the one that is told.
            for field in schema.types.get(*id).in_print_order() {
                if let Some(child) = map.get_mut(&field.name) {
                    restore(child, schema.with(&field.node))?;
                }
            }
            Ok(())
        }
        Shape::List(items) => {
            let kind = go_kind(value);
            let Value::List(list) = value else { return Err(format!("cannot restore slice from {kind}")) };
            list.iter_mut().try_for_each(|item| restore(item, schema.with(items)))
        }
        Shape::Map(values) => {
            let kind = go_kind(value);
            let Value::Map(map) = value else { return Err(format!("cannot restore map from {kind}")) };
            map.iter_mut().try_for_each(|(_, child)| restore(child, schema.with(values)))
        }
        Shape::Bytes => match value {
            Value::String(_) => own_reader(value, schema).map_err(|why| format!("error decoding from json: {why}")),
            Value::List(_) => Ok(()),
            other => Err(format!("cannot restore slice from {}", go_kind(other))),
        },
        Shape::Any => Ok(()),
        _ => own_reader(value, schema),
    }
}

fn scalar(value: &mut Value, schema: Schema<'_>) -> Result<(), String> {
    let cannot = |from: &str| Err(format!("cannot convert {from} to {}", schema.go_type()));
    match (&schema.node.shape, &*value) {
        (Shape::Bool, Value::Bool(_)) | (Shape::String, Value::String(_)) => Ok(()),
        (Shape::Int64, Value::Int(_)) | (Shape::Float, Value::Int(_) | Value::Float(_)) => Ok(()),
        (Shape::Int32, Value::Int(int)) => {
            // Go's conversion keeps the low bits.
            *value = Value::Int(i64::from(*int as i32));
            Ok(())
        }
        (Shape::Int32 | Shape::Int64, Value::Float(float)) if float.trunc() == *float => {
            let int = go_int(*float);
            let wanted = if schema.node.shape == Shape::Int32 { i64::from(int as i32) } else { int };
            *value = Value::Int(wanted);
            Ok(())
        }
        (Shape::Int32 | Shape::Int64, Value::Float(_)) => cannot("float64"),
        // Go could make a string of an integer, the character of that number, and declines to.
        (Shape::String, Value::Int(_)) => cannot("int64"),
        (shape, _) => Err(format!("unrecognized type: {}", scalar_kind(shape))),
    }
}

/// What does not fit is the least integer, as Go's conversion leaves it on the common processors.
fn go_int(float: f64) -> i64 {
    let fits = (-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&float);
    if fits { float as i64 } else { i64::MIN }
}

/// Types that read their own JSON (times, quantities) do so here too.
fn own_reader(value: &Value, schema: Schema<'_>) -> Result<(), String> {
    let read = codec::json::coerce(value, Some(schema), &mut codec::Notes::ignore());
    read.map(|_| ()).map_err(|error| error.to_string())
}

/// What Go calls the kind of a decoded value.
fn go_kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "invalid",
        Value::Bool(_) => "bool",
        Value::Int(_) => "int64",
        Value::Float(_) => "float64",
        Value::String(_) => "string",
        Value::List(_) => "slice",
        Value::Map(_) | Value::Raw(_) => "map",
    }
}

fn scalar_kind(shape: &Shape) -> &'static str {
    match shape {
        Shape::Bool => "bool",
        Shape::Int32 => "int32",
        Shape::Int64 => "int64",
        Shape::Float => "float64",
        _ => "string",
    }
}

#[cfg(test)]
mod tests {
    use object::{GroupVersionKind, value};

    use super::*;

    fn check(mut merged: Value, want: Result<Value, &str>) {
        let schema = schema::builtin().schema(&GroupVersionKind::new("apps", "v1", "Deployment")).unwrap();
        let got = restore(&mut merged, schema).map(|()| merged);
        assert_eq!(got, want.map_err(str::to_string));
    }

    #[test]
    fn mistakes_are_told_in_upstreams_words() {
        let container = |field: Value| value!({"spec": {"template": {"spec": {"containers": [field]}}}});
        check(value!({"spec": "x"}), Err("cannot restore struct from: string"));
        check(value!({"spec": [1]}), Err("cannot restore struct from: slice"));
        check(value!({"spec": {"replicas": "3"}}), Err("unrecognized type: int32"));
        check(value!({"spec": {"replicas": 1.5}}), Err("cannot convert float64 to int32"));
        check(value!({"spec": {"paused": 1}}), Err("unrecognized type: bool"));
        check(value!({"metadata": {"labels": "x"}}), Err("cannot restore map from string"));
        check(value!({"metadata": {"labels": {"a": 1}}}), Err("cannot convert int64 to string"));
        check(value!({"metadata": {"labels": {"a": {}}}}), Err("unrecognized type: string"));
        check(container(value!({"args": 7})), Err("cannot restore slice from int64"));
        check(container(value!({"imagePullPolicy": 7})), Err("cannot convert int64 to v1.PullPolicy"));
    }

    #[test]
    fn numbers_bend_as_gos_do() {
        check(value!({"spec": {"replicas": 3.0}}), Ok(value!({"spec": {"replicas": 3}})));
        check(value!({"spec": {"replicas": 4294967297i64}}), Ok(value!({"spec": {"replicas": 1}})));
        check(value!({"spec": {"replicas": 9.3e18}}), Ok(value!({"spec": {"replicas": 0}})));
        check(value!({"spec": {"replicas": null}}), Ok(value!({"spec": {"replicas": null}})));
    }
}
