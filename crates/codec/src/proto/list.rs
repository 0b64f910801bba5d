//! Lists and watch events in protobuf, written around objects that are encoded already.

use object::Value;
use schema::Schema;

use super::encode::encode_message;
use super::envelope::MAGIC;
use super::wire::{BYTES, varint_len, write_bytes, write_nested, write_tag, write_varint};
use crate::EncodeError;

const LIST_METADATA: u32 = 1;
pub(super) const LIST_ITEMS: u32 = 2;

/// Appends everything in front of a list's items. Protobuf says lengths first, so the sum of what
/// [`super::Layout::item_len`] says for all items has to be known. `metadata` is the list's, with its schema.
pub fn write_list_head(
    api_version: &str,
    kind: &str,
    metadata: (&Value, Schema<'_>),
    items_len: usize,
    out: &mut Vec<u8>,
) -> Result<(), EncodeError> {
    out.extend_from_slice(MAGIC);
    write_nested(1, out, |out| {
        write_bytes(1, api_version.as_bytes(), out);
        write_bytes(2, kind.as_bytes(), out);
        Ok(())
    })?;
    let mut head = Vec::new();
    write_nested(LIST_METADATA, &mut head, |out| encode_message(metadata.0, metadata.1, out))?;
    write_tag(2, BYTES, out);
    write_varint((head.len() + items_len) as u64, out);
    out.extend_from_slice(&head);
    Ok(())
}

/// What follows a list's items: the envelope's content encoding and content type, both empty.
pub const LIST_TAIL: &[u8] = &[0x1a, 0, 0x22, 0];

/// Appends one item that is a message without envelope.
pub fn write_list_item(message: &[u8], out: &mut Vec<u8>) {
    write_bytes(LIST_ITEMS, message, out);
}

/// How many bytes an item takes whose message has that length.
pub fn list_item_len(message_len: usize) -> usize {
    1 + varint_len(message_len as u64) + message_len
}

/// Appends a watch event as one frame: four bytes of length, most significant first, and a `WatchEvent` whose object is
/// an enveloped one.
pub fn write_watch_event(kind: &str, object: &[u8], out: &mut Vec<u8>) {
    let object_len = 1 + varint_len(object.len() as u64) + object.len();
    let length = 1 + varint_len(kind.len() as u64) + kind.len() + 1 + varint_len(object_len as u64) + object_len;
    out.reserve(length + 4);
    out.extend_from_slice(&(length as u32).to_be_bytes());
    write_bytes(1, kind.as_bytes(), out);
    write_tag(2, BYTES, out);
    write_varint(object_len as u64, out);
    write_bytes(1, object, out);
}
