//! Protobuf as upstream's generated code writes it, driven by the schema, and the envelope that says what is inside.
//!
//! Upstream's conventions decide what is on the wire: fields by ascending tag; scalars and structs held by value always
//! written, zero or not; pointers, lists and maps only when set; maps sorted by key; repeated numbers unpacked.

mod decode;
mod encode;
mod envelope;
mod layout;
mod list;
mod wire;

#[cfg(test)]
mod tests;

pub use decode::{decode, decode_message, decode_paths};
pub use encode::{encode, encode_message};
pub use envelope::{Envelope, MAGIC};
pub use layout::Layout;
pub use list::{LIST_TAIL, list_item_len, write_list_head, write_list_item, write_watch_event};
