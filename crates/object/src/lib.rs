//! The vocabulary of the Kubernetes API, without any I/O: what an object is, how its fields are named and selected,
//! and how a request fails.
//!
//! Start with [`Value`] (an object as a tree), [`Cursor`] (a value and where it is, for rules) and [`Status`] (a failure).

#![deny(missing_docs)]

mod map;
mod value;
#[macro_use]
mod macros;
mod cursor;
mod errors;
mod go;
mod gvk;
mod json;
mod meta;
mod numbers;
mod path;
mod randomness;
mod raw;
mod scan;
mod seen;
mod status;
mod versions;

pub mod address;
pub mod asn1;
pub mod duration;
pub mod fields;
pub mod int_or_string;
pub mod labels;
pub mod names;
pub mod quantity;
pub mod timestamp;
pub mod url;

pub use cursor::Cursor;
pub use errors::{BadValue, ErrorType, Errors, FieldError, aggregate};
pub use go::{SHOWN_BYTES, go_type, is_print, is_unreserved, percent_encode, query_escape, quote, quote_bytes, shown};
pub use gvk::{GroupKind, GroupResource, GroupVersion, GroupVersionKind, GroupVersionResource};
pub use json::{
    JSON_SPECIALS, JsonOut, is_plain_json, json_string, write_json_string, write_json_string_for_no_html,
    write_json_text,
};
pub use map::{Map, compare_names};
pub use meta::Meta;
pub use numbers::parse_uint;
pub use path::Path;
pub use randomness::{NAME_SUFFIX_CHARACTERS, Randomness, SeededRandomness, ThreadRandomness};
pub use raw::Raw;
pub use seen::Seen;
pub use status::{Cause, Details, Reason, Status};
pub use timestamp::{Clock, ManualClock, SystemClock, Timestamp};
pub use value::{Str, Value};
pub use versions::compare_versions;
