//! What custom resources need besides a schema: reading objects whose apiVersion, kind and metadata are the server's, and
//! what their definition says that is not in the catalog's entry.

mod embedded;
mod metadata;
mod scale;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use object::{Value, quote};
use schema::Schema;

pub use embedded::{At, coerce as coerce_embedded, validate as validate_embedded};
pub use scale::ScalePaths;

/// The definition of one version of a custom resource.
pub struct Definition {
    /// Reads the `openAPIV3Schema` as it was written; null if there is none.
    pub openapi: Box<dyn Fn() -> Value + Send + Sync>,
    /// Unknown fields are kept everywhere, as in definitions older than structural schemas.
    pub preserve_unknown: bool,
    /// The definition is being deleted: objects cannot be created any more. Watches go on, so that the entry stays the same.
    pub terminating: Arc<AtomicBool>,
    /// Where the scale subresource finds its numbers; None if there is no such subresource.
    pub scale: Option<ScalePaths>,
}

/// Brings an object that a client sent into the form of its kind: metadata is read as for built-in kinds, unknown fields
/// are dropped, and so are nulls that are neither allowed nor replaced by a default. Returns what strict clients are told
/// about the dropped fields.
pub fn settle(mut object: Value, schema: Schema<'_>) -> Result<(Value, Vec<String>), String> {
    let mut unknown = metadata::read(&mut object, "metadata")?;
    unknown.extend(schema::prune(schema, &mut object));
    schema::normalise(schema, &mut object);
    if schema.types.has_embedded() {
        let inside = embedded::coerce(schema, &mut object, At::Resource);
        let mut inside = inside.map_err(|error| error.to_string())?;
        inside.sort_unstable();
        unknown.extend(inside);
    }
    let messages = unknown.iter().map(|path| format!("unknown field {}", quote(path))).collect();
    Ok((object, messages))
}

/// Brings a stored object into the form of its kind. Unknown fields stay if the definition says so.
pub fn settle_stored(schema: Schema<'_>, object: &mut Value, preserve_unknown: bool) -> Result<(), String> {
    metadata::repair(object)?;
    if !preserve_unknown {
        settle_converted(schema, object);
    }
    if schema.types.has_embedded() {
        embedded::repair(schema, object);
    }
    Ok(())
}

/// Brings a converted object into the form of its kind.
pub fn settle_converted(schema: Schema<'_>, object: &mut Value) {
    schema::prune(schema, object);
    schema::normalise(schema, object);
}
