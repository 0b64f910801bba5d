//! JSON as Go's decoder and encoder handle it, case-sensitive and with integers kept apart from floats.
//!
//! Reading is one pass over the bytes. Errors are explained by a second, slower pass that follows Go's scanner, so the
//! fast one only has to notice that something is wrong.

mod check;
mod encode;
mod exact;
mod layout;
mod list;
mod meta;
mod number;
mod reader;
mod typed;
mod untyped;

#[cfg(test)]
mod tests;

use object::{Raw, Value};
use schema::Schema;

use crate::{DecodeError, Notes, text};
use reader::Reader;
use typed::Typed;

pub use encode::{encode, encode_pretty, indent};
pub use exact::is_exact;
pub(crate) use exact::is_exact_at;
pub use layout::Layout;
pub use list::{LIST_COMMA, LIST_TAIL, WATCH_TAIL, write_list_head, write_sorted_list_head, write_sorted_list_tail};
pub use meta::{TypeMeta, names_type, type_meta};
pub(crate) use number::write_float;

/// Decodes a document into the value Go's decoder would leave in the struct that `schema` describes, or untyped without
/// a schema. The first type error is reported after the syntax of the whole document was found to be good, as in Go.
pub fn decode(bytes: &[u8], schema: Option<Schema<'_>>, notes: &mut Notes) -> Result<Value, DecodeError> {
    // Bytes that are no UTF-8 are replaced inside strings as Go does it; outside of them they are as much of a syntax
    // error replaced as they were before.
    let text = text::lossy(bytes);
    let mut reader = Reader::new(&text);
    let result = match schema {
        Some(schema) => Typed::decode(&mut reader, schema, notes),
        None => untyped::decode(&mut reader, notes),
    };
    match result {
        Ok(value) => Ok(value),
        Err(stop) => Err(explain(bytes, stop)),
    }
}

/// Brings a value into the form of a schema, as if it had been sent as JSON: unknown fields go to `notes`, and values of
/// the wrong type are errors in Go's words.
pub fn coerce(value: &Value, schema: Option<Schema<'_>>, notes: &mut Notes) -> Result<Value, DecodeError> {
    let mut json = Vec::new();
    encode(value, None, &mut json);
    decode(&json, schema, notes)
}

/// Decodes a document untyped, with every number that would be printed otherwise than it is written kept as text. Merge
/// patches are read so: what they say is repeated in messages, and `1.0` is no integer for the schema that comes later.
pub fn decode_exact(bytes: &[u8], notes: &mut Notes) -> Result<Value, DecodeError> {
    let text = text::lossy(bytes);
    untyped::decode_exact(&mut Reader::new(&text), notes).map_err(|stop| explain(bytes, stop))
}

/// The value a client sees: what [`encode`] prints, read back untyped. Decoding leaves unset what Go cannot tell from
/// unset; here such fields are there if they are printed, with their zeros. Patches and expressions work on this form.
pub fn printed(value: &Value, schema: Schema<'_>) -> Value {
    let mut text = Vec::new();
    encode(value, Some(schema), &mut text);
    // What was just encoded is JSON; it can only be too deep, and then was so before.
    decode(&text, None, &mut Notes::ignore()).unwrap_or_else(|_| value.clone())
}

/// A text that is kept as it comes. Only its syntax is looked at, and that it is not too deep to be opened.
pub(crate) fn keep(bytes: &[u8]) -> Result<Value, DecodeError> {
    let text = text::lossy(bytes);
    let mut reader = Reader::new(&text);
    match untyped::kept(&mut reader, 0).and_then(|value| reader.end().map(|()| value)) {
        Ok(value) => Ok(value),
        Err(stop) => Err(explain(bytes, stop)),
    }
}

/// What stands in a text that was kept as it came.
pub fn open(raw: &Raw) -> Value {
    // It was checked when it was stored, so it is JSON and not too deep.
    decode(raw.text().as_bytes(), None, &mut Notes::ignore()).unwrap_or_default()
}

/// The outermost map or list of such a text, with everything in it still as it came.
pub fn open_outermost(raw: &Raw) -> Value {
    untyped::outermost(&mut Reader::new(raw.text())).unwrap_or_else(|_| open(raw))
}

/// Why a decoder gave up. What is wrong with the syntax is left to [`check`] to say.
#[derive(Debug)]
enum Stop {
    Syntax,
    TooDeep,
    /// The document does not fit the schema; the syntax after this point has not been looked at.
    Type(String),
}

fn explain(bytes: &[u8], stop: Stop) -> DecodeError {
    if let Some(message) = check::syntax_error(bytes) {
        return DecodeError::Syntax(message);
    }
    match stop {
        Stop::Syntax => DecodeError::Syntax("invalid JSON".into()),
        Stop::TooDeep => DecodeError::TooDeep("exceeded max depth".into()),
        Stop::Type(message) => DecodeError::Type(message),
    }
}
