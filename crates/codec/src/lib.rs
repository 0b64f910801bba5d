//! JSON, YAML, protobuf and CBOR to and from [`object::Value`], driven by the schema; pure.
//!
//! Every format is read the way upstream's Go decoders read it into the kind's struct: unknown fields are dropped and
//! reported, `null` means unset, quantities and times come out in their canonical form, and errors have upstream's
//! words. Nothing here knows a kind: what a field is comes from the [`schema::Schema`] handed in, and without one a
//! document is read as upstream reads custom resources, untyped.
//!
//! Start with [`json`], the form all others are explained by; [`Notes`] collects what strict decoding complains about.

#![deny(missing_docs)]

mod base64;
mod config;
mod error;
mod exact;
mod fields;
mod notes;
mod path;
mod scalar;
mod text;

/// CBOR, as Kubernetes writes it.
pub mod cbor;
/// JSON, with or without a schema.
pub mod json;
/// Protobuf in the envelope of Kubernetes.
pub mod proto;
/// YAML, which is read as JSON with another syntax.
pub mod yaml;

pub use config::{ConfigKind, Fields, Type as ConfigType};
pub use error::{DecodeError, EncodeError};
pub use exact::StoredEncoding;
pub use notes::Notes;

/// How deeply maps and lists may nest in a document that becomes a [`object::Value`].
///
/// Upstream stops at 10,000. Values are walked by recursion everywhere (clone, drop, compare, validate), so ours has to
/// fit the stack of a worker thread twice over, in debug builds too. The same bound serves `serde_json`'s users; the
/// deepest custom resource definitions come to about 50.
pub const MAX_DEPTH: usize = 128;
