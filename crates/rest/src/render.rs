//! From stored bytes to what a client asked for.
//!
//! The body of an object, everything but its apiVersion and kind, is encoded once for each version and media type and
//! shared by GET, LIST and WATCH: lists of built-in kinds leave the type out, and where it belongs it goes in front. CBOR
//! sorts the members of an object, so there the type stays where it is sorted to.

use bytes::{BufMut, Bytes, BytesMut};
use cache::RenditionKey;
use object::{GroupVersionKind, Meta, Status, Value};
use registry::{Readable, Resource};
use storage::Revision;

use crate::large::aside;
use crate::media::Media;
use crate::scope::Scope;

/// The encoded object without its type (unstructured objects and CBOR: with it, among the other fields).
///
/// `revision` is the one clients shall see: the object's own, or that of its deletion.
pub fn body(resource: &Resource, object: Readable<'_>, revision: Revision, media: Media) -> Result<Bytes, Status> {
    if revision != object.revision() {
        return build(resource, object, revision, media);
    }
    object.rendition(rendition_key(resource, media), || build(resource, object, revision, media))
}

/// The same with the fields that the request asks for, which is nobody else's encoding.
pub fn projected_body(scope: &Scope, object: Readable<'_>, revision: Revision, media: Media) -> Result<Bytes, Status> {
    let resource = &scope.resource;
    if !scope.is_projected() {
        return body(resource, object, revision, media);
    }
    aside(object.value().len(), || {
        let mut shown = value(resource, object, revision)?;
        scope.project(&mut shown);
        Ok(encode_body(resource, shown, media))
    })
}

/// Copies the body of an object as it is now.
pub fn write_body(
    resource: &Resource,
    object: Readable<'_>,
    media: Media,
    write: &mut dyn FnMut(&[u8]),
) -> Result<(), Status> {
    let build = || build(resource, object, object.revision(), media);
    object.write_rendition(rendition_key(resource, media), build, write)
}

fn build(resource: &Resource, object: Readable<'_>, revision: Revision, media: Media) -> Result<Bytes, Status> {
    aside(object.value().len(), || {
        let value = value(resource, object, revision)?;
        // A copy, because it may be kept: it takes no more room than it needs.
        Ok(Bytes::copy_from_slice(&encode_body(resource, value, media)))
    })
}

/// The object as the requested version shows it.
pub fn value(resource: &Resource, object: Readable<'_>, revision: Revision) -> Result<Value, Status> {
    let storage = resource.storage.as_ref().ok_or_else(|| Status::internal("the resource is not stored"))?;
    let mut stored = storage.decode(object)?;
    if revision != object.revision() {
        stored = registry::at_revision(stored, revision);
    }
    let mut shown = resource.from_storage(stored).map_err(Status::internal)?;
    shown.set_type(&resource.kind);
    Ok(shown)
}

/// Encodes an object's body; see [`body`]. In CBOR the type is part of it: maps begin with their length, so that nothing can be
/// added in front.
pub fn encode_body(resource: &Resource, mut value: Value, media: Media) -> Bytes {
    if media != Media::Cbor {
        resource.form.strip_type(&mut value);
    }
    match (media, resource.form.wire_schema()) {
        (Media::Proto, Some(schema)) => {
            let mut out = Vec::with_capacity(crate::wire::ENCODED_BYTES);
            if let Err(error) = codec::proto::encode_message(&value, schema, &mut out) {
                tracing::error!(%error, kind = %resource.kind, "an object has no protobuf form");
            }
            out.into()
        }
        (media, schema) => crate::wire::encode(&value, media, schema, false),
    }
}

/// Which rendition this is: objects are shared by all versions of a resource.
fn rendition_key(resource: &Resource, media: Media) -> RenditionKey {
    resource.id << 5 | media as u64
}

/// Which form of an event this is: `kind` and `partial` tell what the object is framed as.
pub fn frame_key(resource: &Resource, media: Media, kind: &str, partial: bool) -> RenditionKey {
    let kind = match kind {
        "ADDED" => 0,
        "MODIFIED" => 1,
        _ => 2,
    };
    resource.id << 5 | u64::from(partial) << 4 | kind << 2 | media as u64
}

/// A whole JSON object: the type, then the body.
pub fn with_type(resource: &Resource, body: &Bytes, media: Media, out: &mut BytesMut) {
    match media {
        Media::Proto => {
            let mut whole = Vec::with_capacity(body.len() + 64);
            let version = resource.kind.group_version().to_string();
            let copy = |whole: &mut Vec<u8>| {
                whole.extend_from_slice(body);
                Ok::<(), std::convert::Infallible>(())
            };
            let _ = codec::proto::Envelope::write(&version, &resource.kind.kind, &mut whole, copy);
            out.put_slice(&whole);
        }
        Media::Cbor => out.put_slice(body),
        _ if !resource.form.is_structured() => out.put_slice(body),
        _ => {
            out.put_slice(&type_prefix(&resource.kind));
            // The body's own brace is in the prefix.
            if body.len() > 2 {
                out.put_u8(b',');
            }
            out.put_slice(&body[1.min(body.len())..]);
        }
    }
}

/// `{"kind":"Pod","apiVersion":"v1"`.
fn type_prefix(kind: &GroupVersionKind) -> Vec<u8> {
    format!(r#"{{"kind":"{}","apiVersion":"{}""#, kind.kind, kind.group_version()).into_bytes()
}
