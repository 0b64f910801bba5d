//! CBOR to values.

use hashbrown::HashSet;
use object::timestamp::{Time, Timestamp};
use object::{Map, Str, Value, quote};
use schema::Schema;

use super::wellformed::{self, Head, Reader, error, float, unacceptable};
use super::{BREAK, major};
use crate::text::lossy;
use crate::{DecodeError, Notes, base64, json};

/// Decodes a document, with or without the self-describing tag. With a schema the value is then read as the JSON it
/// stands for would be, so types, unknown fields and errors are those of [`json::decode`].
pub fn decode(bytes: &[u8], schema: Option<Schema<'_>>, notes: &mut Notes) -> Result<Value, DecodeError> {
    wellformed::check(bytes)?;
    let mut decoder = Decoder { reader: Reader { bytes, at: 0 } };
    let value = decoder.item(None)?;
    let Some(schema) = schema else { return Ok(value) };
    let mut text = Vec::with_capacity(2 * bytes.len());
    json::encode(&value, None, &mut text);
    json::decode(&text, Some(schema), notes)
}

struct Decoder<'a> {
    reader: Reader<'a>,
}

/// How byte strings inside of a tag are to be turned into text.
type Later = Option<u64>;

impl Decoder<'_> {
    /// One item. Its depth was checked with its form.
    fn item(&mut self, later: Later) -> Result<Value, DecodeError> {
        let head = self.reader.head()?;
        match head.major {
            major::UNSIGNED => i64::try_from(head.argument)
                .map(Value::Int)
                .map_err(|_| overflow(head.major, i128::from(head.argument))),
            major::NEGATIVE => i64::try_from(head.argument)
                .map(|argument| Value::Int(!argument))
                .map_err(|_| overflow(head.major, -1 - i128::from(head.argument))),
            major::BYTES | major::TEXT => self.string(head, later).map(Value::String),
            major::ARRAY => self.array(head, later),
            major::MAP => self.map(head, later),
            major::TAG => self.tag(head.argument, later),
            _ => simple(head),
        }
    }

    fn string(&mut self, head: Head, later: Later) -> Result<Str, DecodeError> {
        let bytes = self.bytes(head)?;
        if head.major == major::TEXT {
            let text = std::str::from_utf8(&bytes).map_err(|_| error("cbor: invalid UTF-8 string"))?;
            return Ok(Str::from(text));
        }
        Ok(match later {
            Some(21) => Str::from(base64::encode_url(&bytes)),
            Some(22) => Str::from(base64::encode(&bytes)),
            Some(23) => bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>().into(),
            _ => Str::from(lossy(&bytes)),
        })
    }

    /// The content of a string, put together if it comes in pieces.
    fn bytes(&mut self, head: Head) -> Result<std::borrow::Cow<'_, [u8]>, DecodeError> {
        if !head.is_indefinite() {
            return Ok(self.reader.take(head.argument)?.into());
        }
        let mut bytes = Vec::new();
        while self.reader.peek()? != BREAK {
            let chunk = self.reader.head()?;
            let chunk = self.reader.take(chunk.argument)?;
            if head.major == major::TEXT && std::str::from_utf8(chunk).is_err() {
                return Err(error("cbor: invalid UTF-8 string"));
            }
            bytes.extend_from_slice(chunk);
        }
        self.reader.at += 1;
        Ok(bytes.into())
    }

    /// Whether another item of a collection follows, of which `seen` have been read.
    fn more(&mut self, head: Head, seen: u64) -> Result<bool, DecodeError> {
        if !head.is_indefinite() {
            return Ok(seen < head.argument);
        }
        let more = self.reader.peek()? != BREAK;
        self.reader.at += usize::from(!more);
        Ok(more)
    }

    fn array(&mut self, head: Head, later: Later) -> Result<Value, DecodeError> {
        let mut items = Vec::new();
        while self.more(head, items.len() as u64)? {
            items.push(self.item(later)?);
        }
        Ok(Value::List(items))
    }

    fn map(&mut self, head: Head, later: Later) -> Result<Value, DecodeError> {
        let mut entries: Vec<(Str, Value)> = Vec::new();
        let mut seen: HashSet<Str> = HashSet::new();
        while self.more(head, entries.len() as u64)? {
            let key = self.key()?;
            if !seen.insert(key.clone()) {
                let (key, index) = (quote(&key), entries.len());
                return Err(error(format!("cbor: found duplicate map key {key} at map element index {index}")));
            }
            entries.push((key, self.item(later)?));
        }
        Ok(Value::Map(Map::from_entries(entries, |_| ())))
    }

    fn key(&mut self) -> Result<Str, DecodeError> {
        let head = self.reader.head()?;
        match head.major {
            major::BYTES | major::TEXT => self.string(head, None),
            other => Err(error(format!("cbor: cannot unmarshal {} into Go value of type string", major::name(other)))),
        }
    }

    fn tag(&mut self, tag: u64, later: Later) -> Result<Value, DecodeError> {
        match tag {
            0 => {
                let value = self.item(later)?;
                let text = value.as_str().unwrap_or("");
                Time::parse(text).map_err(|_| error(format!("cbor: cannot set {text} for time.Time: {text}")))?;
                Ok(value)
            }
            1 => {
                let seconds = self.item(later)?.as_float().unwrap_or(0.0);
                if seconds.abs() > 9e15 {
                    return Err(error("cbor: decoded time cannot be represented in RFC3339 format"));
                }
                Ok(Value::from(Time(Timestamp::new(seconds.floor() as i64, 0)).to_string()))
            }
            21..=23 => self.item(Some(tag)),
            _ => self.item(later),
        }
    }
}

fn simple(head: Head) -> Result<Value, DecodeError> {
    match (head.info, head.argument) {
        (25..=27, _) => Ok(Value::Float(float(head))),
        (_, 20) => Ok(Value::Bool(false)),
        (_, 21) => Ok(Value::Bool(true)),
        (_, 22) => Ok(Value::Null),
        (_, other) => Err(unacceptable(major::SIMPLE, format!("simple value {other} is not recognized"))),
    }
}

fn overflow(kind: u8, value: i128) -> DecodeError {
    let kind = major::name(kind);
    error(format!("cbor: cannot unmarshal {kind} into Go value of type int64 ({value} overflows Go's int64)"))
}
