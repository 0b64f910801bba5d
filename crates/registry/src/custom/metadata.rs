//! Metadata of custom resources: read with the schema of ObjectMeta, whatever the definition says.

use object::Value;

/// Reads the metadata of an object in place and returns the paths of fields that ObjectMeta does not have, below
/// `prefix`. The error is that of Go's decoder.
pub fn read(object: &mut Value, prefix: &str) -> Result<Vec<String>, String> {
    let Some(schema) = schema::object_meta() else { return Ok(Vec::new()) };
    let Some(metadata) = object.get_mut("metadata").filter(|metadata| !metadata.is_null()) else {
        return Ok(Vec::new());
    };
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
