//! Where the scale subresource of a custom resource finds its numbers.

use object::{Str, Value, go_type};

/// The paths of the scale subresource, without the leading dot and split at dots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScalePaths {
    /// The wanted replicas.
    pub spec_replicas: Vec<Str>,
    /// The replicas that there are.
    pub status_replicas: Vec<Str>,
    /// Empty if the resource has no selector.
    pub selector: Vec<Str>,
}

impl ScalePaths {
    /// The wanted replicas, None if the object does not say; the error is apimachinery's.
    pub fn spec_replicas(&self, object: &Value) -> Result<Option<i64>, String> {
        nested(object, &self.spec_replicas, "int64", Value::as_int)
    }

    /// The replicas that there are, None if the object does not say.
    pub fn status_replicas(&self, object: &Value) -> Result<Option<i64>, String> {
        nested(object, &self.status_replicas, "int64", Value::as_int)
    }

    /// The selector of the replicas as text, "" if there is none.
    pub fn selector<'v>(&self, object: &'v Value) -> Result<&'v str, String> {
        if self.selector.is_empty() {
            return Ok("");
        }
        nested(object, &self.selector, "string", Value::as_str).map(Option::unwrap_or_default)
    }

    /// A path as definitions write it: `.spec.replicas`.
    pub fn dotted(path: &[Str]) -> String {
        path.iter().map(|part| format!(".{part}")).collect()
    }
}

/// The value at a path of plain fields, with apimachinery's error where something else is in the way.
fn nested<'v, T>(
    object: &'v Value,
    path: &[Str],
    wanted: &str,
    read: impl Fn(&'v Value) -> Option<T>,
) -> Result<Option<T>, String> {
    let mut value = object;
    for (depth, name) in path.iter().enumerate() {
        match value {
            Value::Map(map) => match map.get(name) {
                Some(child) => value = child,
                None => return Ok(None),
            },
            Value::Null => return Ok(None),
            other => return Err(accessor_error(&path[..=depth], other, "map[string]interface{}")),
        }
    }
    match read(value) {
        Some(read) => Ok(Some(read)),
        None => Err(accessor_error(path, value, wanted)),
    }
}

fn accessor_error(path: &[Str], found: &Value, wanted: &str) -> String {
    let (shown, kind) = (go_value(found), go_type(found));
    format!("{} accessor error: {shown} is of the type {kind}, expected {wanted}", ScalePaths::dotted(path))
}

/// A value as Go's `%v` shows it.
fn go_value(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".to_string(),
        Value::Bool(flag) => flag.to_string(),
        Value::Int(number) => number.to_string(),
        Value::Float(number) => schema::go_number(*number),
        Value::String(text) => text.to_string(),
        Value::Raw(raw) => raw.text().to_string(),
        Value::List(items) => format!("[{}]", items.iter().map(go_value).collect::<Vec<_>>().join(" ")),
        Value::Map(map) => {
            let parts: Vec<String> = map.iter().map(|(key, value)| format!("{key}:{}", go_value(value))).collect();
            format!("map[{}]", parts.join(" "))
        }
    }
}
