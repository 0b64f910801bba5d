//! Reading objects of custom kinds: their schema knows nothing of apiVersion, kind and metadata, and what it does not
//! know is dropped, not refused.

use std::sync::OnceLock;

use object::{Value, quote};
use schema::{Node, Schema, Shape};

/// An object fit for its kind, and what strict clients are to be told about what was dropped.
pub fn settle(mut object: Value, schema: Schema<'_>) -> Result<(Value, Vec<String>), String> {
    let mut messages = Vec::new();
    if let (Some(map), Some(metadata_schema)) = (object.as_map_mut(), metadata_schema())
        && let Some(metadata) = map.get("metadata").filter(|metadata| !metadata.is_null())
    {
        let mut json = Vec::new();
        codec::json::encode(metadata, None, &mut json);
        let mut notes = codec::Notes::collect();
        let read = codec::json::decode(&json, Some(metadata_schema), &mut notes).map_err(|error| error.to_string())?;
        map.insert("metadata", read);
        // The metadata was read on its own, so its fields are named from there.
        let within = |message: &String| message.replacen("field \"", "field \"metadata.", 1);
        messages.extend(notes.messages().iter().map(within));
    }
    let unknown = schema::prune(schema, &mut object);
    messages.extend(unknown.iter().map(|path| format!("unknown field {}", quote(path))));
    Ok((object, messages))
}

fn metadata_schema() -> Option<Schema<'static>> {
    static NODE: OnceLock<Option<Node>> = OnceLock::new();
    let types = schema::builtin().types();
    let node = NODE.get_or_init(|| {
        let id = types.find("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta")?;
        Some(Node { shape: Shape::Struct(id), ..Node::default() })
    });
    node.as_ref().map(|node| Schema::new(types, node))
}
