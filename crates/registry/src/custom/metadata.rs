//! Metadata of custom resources: read with the schema of ObjectMeta, whatever the definition says.

use object::timestamp::Time;
use object::{Raw, Value};
use schema::{Schema, Shape};

/// Reads the metadata of an object in place and returns the paths of fields that ObjectMeta does not have, below
/// `prefix`. The error is that of Go's decoder.
pub fn read(object: &mut Value, prefix: &str) -> Result<Vec<String>, String> {
    let Some(schema) = schema::object_meta() else { return Ok(Vec::new()) };
    let Some(metadata) = object.get_mut("metadata").filter(|metadata| !metadata.is_null()) else {
        return Ok(Vec::new());
    };
    if is_clean(schema, metadata, Origin::Client) {
        keep_fields_as_text(metadata);
        return Ok(Vec::new());
    }
    let mut notes = codec::Notes::collect();
    let read = codec::json::coerce(metadata, Some(schema), &mut notes);
    *metadata = read.map_err(|error| error.to_string())?;
    schema::normalise(schema, metadata);
    let unknown = notes.messages().iter().filter_map(|message| {
        let path = message.strip_prefix("unknown field \"")?.strip_suffix('"')?;
        Some(format!("{prefix}.{path}"))
    });
    Ok(unknown.collect())
}

/// Makes text of the fields of each manager, which is how they are read.
fn keep_fields_as_text(metadata: &mut Value) {
    let entries = metadata.get_mut("managedFields").and_then(Value::as_list_mut);
    for fields in entries.into_iter().flatten().filter_map(|entry| entry.get_mut("fieldsV1")) {
        let mut text = Vec::new();
        codec::json::encode(fields, None, &mut text);
        if let Ok(text) = String::from_utf8(text) {
            *fields = Value::Raw(Raw::new(text));
        }
    }
}

/// Brings the metadata of a stored object into the form of ObjectMeta: unknown fields go, and so do fields that cannot be
/// read as what they should be. Only metadata that is no object at all is an error.
pub fn repair(object: &mut Value) -> Result<(), String> {
    let Some(schema) = schema::object_meta() else { return Ok(()) };
    let Some(metadata) = object.get_mut("metadata") else { return Ok(()) };
    // Metadata that this server has stored needs no repair.
    if is_clean(schema, metadata, Origin::Store) {
        return Ok(());
    }
    if let Ok(read) = codec::json::coerce(metadata, Some(schema), &mut codec::Notes::ignore()) {
        *metadata = read;
    } else {
        let Value::Map(fields) = &*metadata else {
            return Err("invalid metadata: expected object".to_string());
        };
        let mut kept = Value::map();
        for (name, value) in fields.iter() {
            let mut one = Value::map();
            one.set(&[name], value.clone());
            if let Ok(read) = codec::json::coerce(&one, Some(schema), &mut codec::Notes::ignore())
                && let Some(value) = read.get(name)
            {
                kept.set(&[name], value.clone());
            }
        }
        *metadata = kept;
    }
    schema::normalise(schema, metadata);
    Ok(())
}

/// Where metadata comes from: what this server has stored need not be looked at as closely.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Origin {
    Client,
    Store,
}

/// Whether metadata has nothing but fields of ObjectMeta, each of its type and none empty, so that reading it changes nothing.
fn is_clean(schema: Schema<'_>, value: &Value, origin: Origin) -> bool {
    match (&schema.node.shape, value) {
        (Shape::Struct(id), Value::Map(map)) => {
            let known = schema.types.get(*id);
            map.iter().all(|(name, value)| {
                let field = known.field(name);
                field.is_some_and(|field| !value.is_empty() && is_clean(schema.with(&field.node), value, origin))
            })
        }
        (Shape::Map(inner), Value::Map(map)) => map.values().all(|value| is_clean(schema.with(inner), value, origin)),
        (Shape::List(inner), Value::List(items)) => items.iter().all(|item| is_clean(schema.with(inner), item, origin)),
        (Shape::String, Value::String(_)) | (Shape::Bool, Value::Bool(_)) | (Shape::Int64, Value::Int(_)) => true,
        (Shape::Time, Value::String(text)) => {
            // Times are read and written to be sure, unless they look like what this server writes.
            let is_usual = text.len() == RFC3339_SECONDS && text.ends_with('Z') && !text.starts_with('0');
            is_usual && (origin == Origin::Store || Time::parse(text).is_ok())
        }
        (Shape::Fields, fields) => origin == Origin::Store || fields.as_map().is_some(),
        _ => false,
    }
}

/// The length of `2006-01-02T15:04:05Z`.
const RFC3339_SECONDS: usize = 20;

#[cfg(test)]
mod tests {
    use super::*;

    /// What is clean is read as everything is.
    #[test]
    fn reading_clean_metadata_is_reading_it() {
        let entry = r#"{"manager":"m","operation":"Update","apiVersion":"v1","fieldsType":"FieldsV1","time":"2026-01-02T03:04:05Z","fieldsV1":{"f:b":{"k:{\"<a>\":1}":{}},"f:a":{}}}"#;
        let schema = schema::object_meta().expect("the table has ObjectMeta");
        for (text, is_clean_too) in [
            (r#"{"name":"a","labels":{"a":"","b":"c"},"finalizers":["x"],"generation":3}"#.to_string(), true),
            (r#"{"name":"a","creationTimestamp":"2026-01-02T03:04:05Z"}"#.to_string(), true),
            (format!(r#"{{"managedFields":[{entry}]}}"#), true),
            (r#"{"name":"a","creationTimestamp":null}"#.to_string(), false),
            (r#"{"name":"a","creationTimestamp":"2026-13-02T03:04:05Z"}"#.to_string(), false),
            (r#"{"name":"a","creationTimestamp":"0001-01-01T00:00:00Z"}"#.to_string(), false),
            (r#"{"name":"","unknown":1,"labels":{"a":1}}"#.to_string(), false),
            (r#"{"managedFields":[{"fieldsV1":"x"}]}"#.to_string(), false),
        ] {
            let decode = || codec::json::decode(text.as_bytes(), None, &mut codec::Notes::ignore());
            let metadata = decode().expect("it is JSON");
            assert_eq!(is_clean(schema, &metadata, Origin::Client), is_clean_too, "{text}");
            let mut object = Value::map();
            object.set(&["metadata"], metadata.clone());
            let coerced = codec::json::coerce(&metadata, Some(schema), &mut codec::Notes::ignore());
            let want = coerced.map_err(|error| error.to_string()).map(|mut read| {
                schema::normalise(schema, &mut read);
                read
            });
            assert_eq!(read(&mut object, "metadata").map(|_| object.field("metadata").clone()), want, "{text}");
        }
    }
}
