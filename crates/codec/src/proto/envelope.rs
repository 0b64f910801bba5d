//! The envelope around every protobuf body: four magic bytes and a `runtime.Unknown` that names the kind.

use std::borrow::Cow;

use super::wire::{self, Wire, error};
use crate::DecodeError;
use crate::text::lossy;

/// What a Kubernetes protobuf body starts with.
pub const MAGIC: &[u8] = b"k8s\0";

/// What is in an envelope, without the message being decoded.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Envelope<'a> {
    /// The apiVersion of the object.
    pub api_version: Cow<'a, str>,
    /// The kind of the object.
    pub kind: Cow<'a, str>,
    /// The message itself.
    pub raw: &'a [u8],
    /// How the object is encoded; empty for not at all.
    pub content_encoding: Cow<'a, str>,
    /// The media type of the object; empty for protobuf.
    pub content_type: Cow<'a, str>,
}

impl<'a> Envelope<'a> {
    /// Opens an envelope.
    pub fn open(bytes: &'a [u8]) -> Result<Envelope<'a>, DecodeError> {
        match bytes.strip_prefix(MAGIC) {
            _ if bytes.is_empty() => Err(error("empty data")),
            None => {
                Err(error("provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]"))
            }
            Some([]) => Err(error("empty body")),
            Some(body) => Envelope::read(body),
        }
    }

    /// Reads a `runtime.Unknown` without the magic bytes.
    pub fn read(body: &'a [u8]) -> Result<Envelope<'a>, DecodeError> {
        let mut envelope = Envelope::default();
        let mut wire = Wire::new(body);
        while let Some((tag, kind)) = wire.field("Unknown")? {
            let name = match tag {
                1 => "typeMeta",
                2 => "raw",
                3 => "contentEncoding",
                4 => "contentType",
                _ => {
                    wire.skip(kind)?;
                    continue;
                }
            };
            if kind != wire::BYTES {
                return Err(wire::wrong_wire_type(kind, name));
            }
            let bytes = wire.bytes()?;
            match tag {
                1 => envelope.read_type_meta(bytes)?,
                2 => envelope.raw = bytes,
                3 => envelope.content_encoding = lossy(bytes),
                _ => envelope.content_type = lossy(bytes),
            }
        }
        Ok(envelope)
    }

    fn read_type_meta(&mut self, bytes: &'a [u8]) -> Result<(), DecodeError> {
        let mut wire = Wire::new(bytes);
        while let Some((tag, kind)) = wire.field("TypeMeta")? {
            let slot = match tag {
                1 => &mut self.api_version,
                2 => &mut self.kind,
                _ => {
                    wire.skip(kind)?;
                    continue;
                }
            };
            if kind != wire::BYTES {
                return Err(wire::wrong_wire_type(kind, if tag == 1 { "APIVersion" } else { "kind" }));
            }
            *slot = lossy(wire.bytes()?);
        }
        Ok(())
    }

    /// Appends the envelope with the magic bytes. The message is given as what writes it, so that no copy is needed.
    pub fn write<E>(
        api_version: &str,
        kind: &str,
        out: &mut Vec<u8>,
        message: impl FnOnce(&mut Vec<u8>) -> Result<(), E>,
    ) -> Result<(), E> {
        out.extend_from_slice(MAGIC);
        write_unknown(api_version, kind, "", out, message)
    }
}

/// Appends a `runtime.Unknown`.
pub(crate) fn write_unknown<E>(
    api_version: &str,
    kind: &str,
    content_type: &str,
    out: &mut Vec<u8>,
    message: impl FnOnce(&mut Vec<u8>) -> Result<(), E>,
) -> Result<(), E> {
    wire::write_nested(1, out, |out| {
        wire::write_bytes(1, api_version.as_bytes(), out);
        wire::write_bytes(2, kind.as_bytes(), out);
        Ok(())
    })?;
    wire::write_nested(2, out, message)?;
    wire::write_bytes(3, b"", out);
    wire::write_bytes(4, content_type.as_bytes(), out);
    Ok(())
}
