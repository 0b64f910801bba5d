//! Metadata of custom resources: read with the schema of ObjectMeta, whatever the definition says.

use std::sync::OnceLock;

use object::Value;
use schema::{Node, Schema, Shape};

/// Reads the metadata of an object in place and returns the paths of fields that ObjectMeta does not have, below
/// `prefix`. The error is that of Go's decoder.
pub fn read(object: &mut Value, prefix: &str) -> Result<Vec<String>, String> {
    let Some(schema) = schema() else { return Ok(Vec::new()) };
    let Some(metadata) = object.get_mut("metadata").filter(|metadata| !metadata.is_null()) else {
        return Ok(Vec::new());
    };
    let mut notes = codec::Notes::collect();
    let read = codec::json::coerce(metadata, Some(schema), &mut notes);
    *metadata = read.map_err(|error| error.to_string())?;
    let unknown = notes.messages().iter().filter_map(|message| {
        let path = message.strip_prefix("unknown field \"")?.strip_suffix('"')?;
        Some(format!("{prefix}.{path}"))
    });
    Ok(unknown.collect())
}

fn schema() -> Option<Schema<'static>> {
    static NODE: OnceLock<Option<Node>> = OnceLock::new();
    let types = schema::builtin().types();
    let node = NODE.get_or_init(|| {
        let id = types.find("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta")?;
        Some(Node { shape: Shape::Struct(id), ..Node::default() })
    });
    node.as_ref().map(|node| Schema::new(types, node))
}
