//! CBOR in Kubernetes' profile, which upstream has behind a feature gate that is off.
//!
//! What is particular about it: every document begins with the self-describing tag; text is written as byte strings, so
//! that no encoder has to check it; bytes are byte strings marked as "to be base64 when printed"; map keys are sorted by
//! length and content; floats take the shortest form that keeps their value. Readers refuse keys that come twice.

mod decode;
mod encode;
mod wellformed;

#[cfg(test)]
mod tests;

pub use decode::decode;
pub use encode::{encode, encode_item, write_list_head, write_list_tail, write_watch_event};

/// The self-describing tag in front of every document.
pub const MAGIC: &[u8] = &[0xd9, 0xd9, 0xf7];

/// The major types, in the high three bits of an item's first byte.
mod major {
    pub const UNSIGNED: u8 = 0;
    pub const NEGATIVE: u8 = 1;
    pub const BYTES: u8 = 2;
    pub const TEXT: u8 = 3;
    pub const ARRAY: u8 = 4;
    pub const MAP: u8 = 5;
    pub const TAG: u8 = 6;
    pub const SIMPLE: u8 = 7;

    /// What upstream's library calls a type in its errors.
    pub fn name(major: u8) -> &'static str {
        match major {
            UNSIGNED => "positive integer",
            NEGATIVE => "negative integer",
            BYTES => "byte string",
            TEXT => "UTF-8 text string",
            ARRAY => "array",
            MAP => "map",
            TAG => "tag",
            _ => "primitives",
        }
    }
}

/// Ends an item of indefinite length.
const BREAK: u8 = 0xff;
const NULL: u8 = 0xf6;
/// Bytes that are base64 in text.
const TAG_BASE64: u64 = 22;
