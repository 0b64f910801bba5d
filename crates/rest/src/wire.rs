//! The codecs as the verbs use them: one function a need, whatever the media type.

use bytes::{BufMut, Bytes, BytesMut};
use codec::Notes;
use object::{GroupVersionKind, Str, Value};
use schema::Schema;

use crate::media::Media;

/// Most objects are encoded in no more than this.
pub const ENCODED_BYTES: usize = 8 * 1024;

/// Decodes a whole object.
pub fn decode(bytes: &[u8], media: Media, schema: Option<Schema<'_>>, notes: &mut Notes) -> Result<Value, String> {
    match (media, schema) {
        (Media::Json, schema) => codec::json::decode(bytes, schema, notes).map_err(|error| error.to_string()),
        (Media::Yaml, schema) => codec::yaml::decode(bytes, schema, notes).map_err(|error| error.to_string()),
        (Media::Cbor, schema) => codec::cbor::decode(bytes, schema, notes).map_err(|error| error.to_string()),
        (Media::Proto, Some(schema)) => codec::proto::decode(bytes, schema).map_err(|error| error.to_string()),
        (Media::Proto, None) => Err("protobuf needs a schema".into()),
    }
}

/// Encodes a whole object, its type included.
pub fn encode(value: &Value, media: Media, schema: Option<Schema<'_>>, pretty: bool) -> Bytes {
    let mut out = Vec::with_capacity(ENCODED_BYTES);
    let written = match (media, schema) {
        (Media::Cbor, schema) => codec::cbor::encode(value, schema, &mut out),
        (Media::Proto, Some(schema)) => codec::proto::encode(value, schema, &mut out),
        (Media::Yaml, schema) => {
            codec::yaml::encode(value, schema, &mut out);
            Ok(())
        }
        (_, schema) => {
            if pretty {
                codec::json::encode_pretty(value, schema, &mut out);
            } else {
                codec::json::encode(value, schema, &mut out);
            }
            Ok(())
        }
    };
    if let Err(error) = written {
        tracing::error!(%error, kind = value.str_at(&["kind"]), ?media, "an object cannot be written in this form");
    }
    out.into()
}

/// apiVersion and kind as a body states them, each "" if it does not.
pub fn type_of(bytes: &[u8], media: Media) -> Result<(Str, Str), String> {
    if media == Media::Proto {
        let envelope = codec::proto::Envelope::open(bytes).map_err(|error| error.to_string())?;
        return Ok((envelope.api_version.as_ref().into(), envelope.kind.as_ref().into()));
    }
    let meta = match media {
        Media::Yaml => {
            let json = codec::yaml::to_json(bytes, false).map_err(|error| error.to_string())?;
            codec::json::type_meta(&json).map_err(|error| error.to_string())?
        }
        Media::Cbor => {
            let value = codec::cbor::decode(bytes, None, &mut Notes::ignore()).map_err(|error| error.to_string())?;
            return Ok((value.str_at(&["apiVersion"]).into(), value.str_at(&["kind"]).into()));
        }
        _ => codec::json::type_meta(bytes).map_err(|error| error.to_string())?,
    };
    Ok((meta.api_version, meta.kind))
}

/// The JSON around a list's items. Lists of unstructured objects are written sorted: items stand before kind and metadata.
pub fn json_list(kind: &GroupVersionKind, metadata: &Value, structured: bool) -> (Bytes, Bytes) {
    let version = kind.group_version().to_string();
    let (mut head, mut tail) = (Vec::new(), Vec::new());
    let schema =
        schema::builtin().schema(&GroupVersionKind::new("", "v1", "PodList")).and_then(|s| s.child("metadata"));
    match schema {
        Some(schema) if structured => {
            codec::json::write_list_head(&version, &kind.kind, (metadata, schema), &mut head);
            tail.extend_from_slice(codec::json::LIST_TAIL);
        }
        _ => {
            codec::json::write_sorted_list_head(&version, &mut head);
            codec::json::write_sorted_list_tail(&kind.kind, metadata, &mut tail);
        }
    }
    (head.into(), tail.into())
}

/// Appends one watch event around an encoded object.
pub fn watch_event(media: Media, kind: &str, object: &[u8], out: &mut BytesMut) {
    match media {
        Media::Json | Media::Yaml => {
            out.put_slice(br#"{"type":""#);
            out.put_slice(kind.as_bytes());
            out.put_slice(br#"","object":"#);
            out.put_slice(object);
            out.put_slice(b"}\n");
        }
        Media::Proto => {
            let mut frame = Vec::with_capacity(object.len() + 32);
            codec::proto::write_watch_event(kind, object, &mut frame);
            out.put_slice(&frame);
        }
        Media::Cbor => {
            let mut frame = Vec::with_capacity(object.len() + 32);
            codec::cbor::write_watch_event(kind, object, &mut frame);
            out.put_slice(&frame);
        }
    }
}
