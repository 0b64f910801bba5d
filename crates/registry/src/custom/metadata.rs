//! Metadata of custom resources: read with the schema of ObjectMeta, whatever the definition says.

use object::Value;
use object::timestamp::Time;
use schema::{Schema, Shape};

/// Reads the metadata of an object in place and returns the paths of fields that ObjectMeta does not have, below
/// `prefix`. The error is that of Go's decoder.
pub fn read(object: &mut Value, prefix: &str) -> Result<Vec<String>, String> {
    let Some(schema) = schema::object_meta() else { return Ok(Vec::new()) };
    let Some(metadata) = object.get_mut("metadata").filter(|metadata| !metadata.is_null()) else {
        return Ok(Vec::new());
    };
    if is_clean(schema, metadata, Origin::Client) {
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
        (Shape::Fields, _) => origin == Origin::Store,
        _ => false,
    }
}

/// The length of `2006-01-02T15:04:05Z`.
const RFC3339_SECONDS: usize = 20;
