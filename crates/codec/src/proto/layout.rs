//! [`Layout`]: where the revision goes in a protobuf object that is encoded already. See [`crate::json::Layout`].

use std::convert::Infallible;

use super::envelope::{Envelope, MAGIC};
use super::list::LIST_ITEMS;
use super::wire::{BYTES, Wire, varint_len, write_bytes, write_tag, write_varint};
use crate::DecodeError;

/// The message in the envelope.
const RAW: u32 = 2;
const METADATA: u32 = 1;
const RESOURCE_VERSION: u32 = 6;

/// Where to cut an object to put its revision in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// The message inside the envelope.
    message: Span,
    /// The metadata inside the object, without its tag and length.
    metadata: Span,
    /// The resource version, tag and all; empty if there is none yet.
    revision: Span,
}

/// A range of the enveloped object's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Span {
    start: u32,
    end: u32,
}

impl Span {
    fn new(start: usize, end: usize) -> Option<Span> {
        Some(Span { start: u32::try_from(start).ok()?, end: u32::try_from(end).ok()? })
    }

    fn len(self) -> usize {
        (self.end - self.start) as usize
    }

    fn of(self, object: &[u8]) -> &[u8] {
        &object[self.start as usize..self.end as usize]
    }
}

impl Layout {
    /// Finds the place in an enveloped object. `None` if its metadata is not where every kind has it.
    pub fn of(object: &[u8]) -> Option<Layout> {
        let body = object.strip_prefix(MAGIC)?;
        let message = find_bytes(body, RAW)?;
        let message = Span::new(MAGIC.len() + message.0, MAGIC.len() + message.1)?;
        let mut header = Vec::with_capacity(8);
        write_tag(RAW, BYTES, &mut header);
        write_varint(message.len() as u64, &mut header);
        // A length written longer than it needs to be would break the arithmetic below; encoders do not write such lengths.
        if !object[..message.start as usize].ends_with(&header) {
            return None;
        }
        let metadata = find_bytes(message.of(object), METADATA)?;
        // Everything behind the metadata is copied as it is, so nothing may stand in front of it.
        let header = 1 + varint_len((metadata.1 - metadata.0) as u64);
        if metadata.0 != header {
            return None;
        }
        let start = message.start as usize;
        let metadata = Span::new(start + metadata.0, start + metadata.1)?;
        let (from, to) = find_revision(metadata.of(object)).ok()?;
        let start = metadata.start as usize;
        Some(Layout { message, metadata, revision: Span::new(start + from, start + to)? })
    }

    /// How long the message is with its revision in.
    pub fn message_len(&self, revision: &str) -> usize {
        let metadata = self.metadata_len(revision);
        1 + varint_len(metadata as u64) + metadata + (self.message.end - self.metadata.end) as usize
    }

    /// Appends the message with its revision, without envelope.
    pub fn write_message(&self, object: &[u8], revision: &str, out: &mut Vec<u8>) {
        let [metadata, revision_start, revision_end, end] =
            [self.metadata.start, self.revision.start, self.revision.end, self.message.end].map(|at| at as usize);
        write_tag(METADATA, BYTES, out);
        write_varint(self.metadata_len(revision) as u64, out);
        out.extend_from_slice(&object[metadata..revision_start]);
        write_bytes(RESOURCE_VERSION, revision.as_bytes(), out);
        out.extend_from_slice(&object[revision_end..end]);
    }

    /// Appends the message as an item of a list.
    pub fn write_item(&self, object: &[u8], revision: &str, out: &mut Vec<u8>) {
        write_tag(LIST_ITEMS, BYTES, out);
        write_varint(self.message_len(revision) as u64, out);
        self.write_message(object, revision, out);
    }

    /// How many bytes [`Layout::write_item`] appends.
    pub fn item_len(&self, revision: &str) -> usize {
        let message = self.message_len(revision);
        1 + varint_len(message as u64) + message
    }

    /// Appends the enveloped object with its revision.
    pub fn write(&self, object: &[u8], revision: &str, out: &mut Vec<u8>) {
        let (start, end) = (self.message.start as usize, self.message.end as usize);
        let length = self.message_len(revision);
        out.reserve(object.len() + revision.len() + 8);
        // In front of the message are its tag and length, of which only the length changes.
        let header = 1 + varint_len((end - start) as u64);
        out.extend_from_slice(&object[..start - header]);
        write_tag(RAW, BYTES, out);
        write_varint(length as u64, out);
        self.write_message(object, revision, out);
        out.extend_from_slice(&object[end..]);
    }

    /// Appends the enveloped object as one of another kind or version, for objects that are the same in both.
    pub fn write_as(&self, object: &[u8], api_version: &str, kind: &str, revision: &str, out: &mut Vec<u8>) {
        out.reserve(object.len() + revision.len() + api_version.len() + kind.len() + 16);
        let Ok(()) = Envelope::write::<Infallible>(api_version, kind, out, |out| {
            self.write_message(object, revision, out);
            Ok(())
        });
    }

    fn metadata_len(&self, revision: &str) -> usize {
        let kept = self.metadata.len() - self.revision.len();
        kept + 1 + varint_len(revision.len() as u64) + revision.len()
    }
}

/// The content of the field `wanted`, if it comes with a length, as a range of `message`.
fn find_bytes(message: &[u8], wanted: u32) -> Option<(usize, usize)> {
    let mut wire = Wire::new(message);
    while let Some((tag, kind)) = wire.field("").ok()? {
        if (tag, kind) == (wanted, BYTES) {
            let length = wire.bytes().ok()?.len();
            let end = message.len() - wire.left();
            return Some((end - length, end));
        }
        wire.skip(kind).ok()?;
    }
    None
}

/// The range of the resource version in the metadata, tag and all; empty, where it would be, if there is none.
fn find_revision(metadata: &[u8]) -> Result<(usize, usize), DecodeError> {
    let mut wire = Wire::new(metadata);
    loop {
        let before = metadata.len() - wire.left();
        match wire.field("")? {
            Some((tag, kind)) if tag <= RESOURCE_VERSION => {
                wire.skip(kind)?;
                if tag == RESOURCE_VERSION {
                    return Ok((before, metadata.len() - wire.left()));
                }
            }
            _ => return Ok((before, before)),
        }
    }
}
