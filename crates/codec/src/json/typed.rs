//! Documents with a schema: what Go's decoder leaves in the struct.
//!
//! The rules that are easy to miss, all of them Go's: a value of the wrong type is remembered and decoding goes on, so
//! that only the first one is reported and only if nothing worse turns up; a field that comes twice is decoded over what
//! the first one left, so maps and structs merge; `null` leaves fields held by value alone and unsets the others; types
//! with a decoder of their own (times, quantities) fail at once.

use object::{Map, Raw, Str, Value};
use schema::{Field, Schema, Shape, Struct, StructId};

use super::reader::Reader;
use super::untyped::{Seen, str_of};
use super::{Stop, number, untyped};
use crate::fields::{FieldSet, Fields};
use crate::path::Place;
use crate::{MAX_DEPTH, Notes, base64, scalar};

/// How many entries of maps one document may have decoded again and again: a map that comes twice is merged with what the
/// first one left, which takes as long as the first one is large.
const MERGED_ENTRIES_MAX: usize = 2_000_000;

pub(super) struct Typed<'r, 'a, 's> {
    reader: &'r mut Reader<'a>,
    root: Schema<'s>,
    notes: &'r mut Notes,
    /// The first value that did not fit.
    saved: Option<String>,
    /// Counts to [`MERGED_ENTRIES_MAX`].
    merged_entries: usize,
}

impl<'s> Typed<'_, '_, 's> {
    /// A whole document.
    pub fn decode(reader: &mut Reader<'_>, schema: Schema<'s>, notes: &mut Notes) -> Result<Value, Stop> {
        let mut decoder = Typed { reader, root: schema, notes, saved: None, merged_entries: 0 };
        let mut value = scalar::zero(schema);
        decoder.value(schema, HeldInGo::ByValue, &mut value, &Place::root(), 0)?;
        decoder.reader.end()?;
        match decoder.saved {
            Some(message) => Err(Stop::Type(message)),
            None => Ok(value),
        }
    }

    /// Decodes one value over what is in `slot`. `depth` is how many maps and lists are open around it.
    fn value(
        &mut self,
        schema: Schema<'s>,
        held: HeldInGo,
        slot: &mut Value,
        place: &Place<'_>,
        depth: usize,
    ) -> Result<(), Stop> {
        let byte = self.reader.peek();
        if byte == b'n' {
            self.reader.word("null")?;
            return null(schema, held, slot);
        }
        match (&schema.shape, byte) {
            (Shape::String, b'"') => *slot = Value::String(str_of(self.reader.string()?)),
            (Shape::Struct(id), b'{') => self.structure(*id, slot, place, depth + 1)?,
            (Shape::List(_), b'[') => self.list(schema, slot, place, depth + 1)?,
            (Shape::Map(_), b'{') => self.map(schema, slot, place, depth + 1)?,
            (Shape::Bool, b't' | b'f') => {
                self.reader.word(if byte == b't' { "true" } else { "false" })?;
                *slot = Value::Bool(byte == b't');
            }
            (Shape::Int32 | Shape::Int64 | Shape::Float, b'-' | b'0'..=b'9') => self.number(schema, slot, place)?,
            (Shape::Any, _) => *slot = untyped::value(self.reader, &mut self.saved, depth)?,
            (Shape::RawExtension, _) => self.raw(slot, depth)?,
            (Shape::Fields, _) => *slot = untyped::kept(self.reader, depth)?,
            (Shape::Bytes, b'"') => self.bytes(slot)?,
            (Shape::Bytes, b'[') => self.byte_list(slot, place)?,
            (Shape::Time | Shape::MicroTime | Shape::Duration, _) => self.time(schema, slot, place)?,
            (Shape::Quantity, _) => self.quantity(slot)?,
            (Shape::IntOrString, _) => self.int_or_string(slot, place)?,
            (Shape::StructOrList(id) | Shape::StructOrBool(id) | Shape::StructOrStrings(id), _) => {
                self.either(schema, *id, slot, place, depth)?;
            }
            _ => self.mismatch(schema, place)?,
        }
        Ok(())
    }

    fn structure(&mut self, id: StructId, slot: &mut Value, place: &Place<'_>, depth: usize) -> Result<(), Stop> {
        if depth > MAX_DEPTH {
            return Err(Stop::TooDeep);
        }
        self.reader.bump();
        let of = self.root.types.get(id);
        let mut fields = Fields::new(of, slot.take());
        let mut extra = Vec::new();
        let mut met = FieldSet::default();
        let mut first = true;
        while self.reader.next_key(&mut first)? {
            let key = self.reader.key()?;
            let Some((index, field)) = fields.find(&key) else {
                self.unknown_field(of, &key, &mut extra, place, depth)?;
                continue;
            };
            if !met.insert(index) {
                self.notes.duplicate(place.then(&key));
            }
            let (schema, held) = (self.root.with(&field.node), HeldInGo::of(field));
            self.value(schema, held, fields.slot(index), &place.field(of, &field.name), depth)?;
        }
        let mut map = fields.finish();
        map.update(extra);
        *slot = Value::Map(map);
        Ok(())
    }

    /// A field the struct does not have is dropped and noted, unless the schema says to keep such fields.
    fn unknown_field(
        &mut self,
        of: &Struct,
        key: &str,
        extra: &mut Vec<(Str, Option<Value>)>,
        place: &Place<'_>,
        depth: usize,
    ) -> Result<(), Stop> {
        if of.preserve_unknown {
            let value = untyped::value(self.reader, &mut self.saved, depth)?;
            extra.push((Str::from(key), Some(value)));
            return Ok(());
        }
        self.notes.unknown(place.then(key));
        self.reader.skip(depth)
    }

    fn list(&mut self, schema: Schema<'s>, slot: &mut Value, place: &Place<'_>, depth: usize) -> Result<(), Stop> {
        if depth > MAX_DEPTH {
            return Err(Stop::TooDeep);
        }
        let Some(item_schema) = schema.items() else { return Err(Stop::Syntax) };
        self.reader.bump();
        let mut items = match slot.take() {
            Value::List(items) => items,
            _ => Vec::new(),
        };
        let mut count = 0;
        let mut first = true;
        while self.reader.next_item(&mut first)? {
            if count == items.len() {
                items.push(Value::Null);
            }
            self.value(item_schema, HeldInGo::ByValue, &mut items[count], &place.index(count), depth)?;
            if items[count].is_null() {
                items[count] = scalar::zero(item_schema);
            }
            count += 1;
        }
        items.truncate(count);
        *slot = Value::List(items);
        Ok(())
    }

    fn map(&mut self, schema: Schema<'s>, slot: &mut Value, place: &Place<'_>, depth: usize) -> Result<(), Stop> {
        if depth > MAX_DEPTH {
            return Err(Stop::TooDeep);
        }
        let Some(value_schema) = schema.child("") else { return Err(Stop::Syntax) };
        self.reader.bump();
        let mut entries: Vec<(Str, Value)> = match slot.take() {
            Value::Map(map) => map.into_iter().collect(),
            _ => Vec::new(),
        };
        let earlier = entries.len();
        self.merged_entries += earlier;
        if self.merged_entries > MERGED_ENTRIES_MAX {
            return Err(Stop::Type("too many duplicate fields".into()));
        }
        let mut seen = Seen::default();
        let mut first = true;
        while self.reader.next_key(&mut first)? {
            let key = self.reader.key()?;
            if self.notes.wanted() && seen.is_repeated(&key, &entries[earlier..]) {
                self.notes.duplicate(place.then(&key));
            }
            let mut value = Value::Null;
            self.value(value_schema, HeldInGo::ByValue, &mut value, &place.key(&key), depth)?;
            if value.is_null() {
                value = scalar::zero(value_schema);
            }
            entries.push((str_of(key), value));
        }
        *slot = Value::Map(Map::from_entries(entries, |_| ()));
        Ok(())
    }

    fn number(&mut self, schema: Schema<'s>, slot: &mut Value, place: &Place<'_>) -> Result<(), Stop> {
        let text = self.reader.number()?;
        let value = match schema.shape {
            Shape::Int32 => text.parse::<i32>().ok().map(Value::from),
            Shape::Float => number::float(text).map(Value::Float),
            _ => text.parse::<i64>().ok().map(Value::Int),
        };
        match value {
            Some(value) => *slot = value,
            None => {
                self.save(|| place.type_error(Some(schema.types), &format!("number {text}"), &schema.go_type()));
            }
        }
        Ok(())
    }

    fn bytes(&mut self, slot: &mut Value) -> Result<(), Stop> {
        let text = self.reader.string()?;
        match base64::normalise(&text) {
            Ok(None) => *slot = Value::String(str_of(text)),
            Ok(Some(canonical)) => *slot = Value::from(canonical),
            Err(corrupt) => self.save(|| corrupt.to_string()),
        }
        Ok(())
    }

    /// Go takes a list of small numbers for bytes, too.
    fn byte_list(&mut self, slot: &mut Value, place: &Place<'_>) -> Result<(), Stop> {
        self.reader.bump();
        let mut bytes = Vec::new();
        let mut first = true;
        while self.reader.next_item(&mut first)? {
            let found = match self.reader.peek() {
                b'-' | b'0'..=b'9' => {
                    let text = self.reader.number()?;
                    match text.parse() {
                        Ok(byte) => {
                            bytes.push(byte);
                            continue;
                        }
                        Err(_) => format!("number {text}"),
                    }
                }
                b'n' => {
                    self.reader.word("null")?;
                    bytes.push(0);
                    continue;
                }
                other => {
                    self.reader.skip(0)?;
                    found(other).to_string()
                }
            };
            bytes.push(0);
            let types = self.root.types;
            self.save(|| place.type_error(Some(types), &found, "uint8"));
        }
        *slot = Value::from(base64::encode(&bytes));
        Ok(())
    }

    fn time(&mut self, schema: Schema<'s>, slot: &mut Value, place: &Place<'_>) -> Result<(), Stop> {
        let byte = self.reader.peek();
        if byte != b'"' {
            return Err(Stop::Type(place.type_error(Some(self.root.types), found(byte), "string")));
        }
        let text = self.reader.string()?;
        let canonical = match schema.shape {
            Shape::Time => scalar::time(&text),
            Shape::MicroTime => scalar::micro_time(&text),
            _ => scalar::duration(&text),
        };
        *slot = Value::String(canonical.map_err(Stop::Type)?);
        Ok(())
    }

    /// What is inside is read only to know that it can be.
    fn raw(&mut self, slot: &mut Value, depth: usize) -> Result<(), Stop> {
        let start = self.reader.offset();
        untyped::value(self.reader, &mut self.saved, depth)?;
        *slot = Value::Raw(Raw::new(self.reader.since(start)));
        Ok(())
    }

    /// Quantities look at the JSON as it is written, without undoing any escapes.
    fn quantity(&mut self, slot: &mut Value) -> Result<(), Stop> {
        self.reader.peek();
        let start = self.reader.offset();
        self.reader.skip(0)?;
        let raw = self.reader.since(start);
        let text = raw.strip_prefix('"').and_then(|text| text.strip_suffix('"')).unwrap_or(raw);
        *slot = Value::String(scalar::quantity(text).map_err(Stop::Type)?);
        Ok(())
    }

    fn int_or_string(&mut self, slot: &mut Value, place: &Place<'_>) -> Result<(), Stop> {
        let byte = self.reader.peek();
        let wrong = match byte {
            b'"' => {
                *slot = Value::String(str_of(self.reader.string()?));
                return Ok(());
            }
            b'-' | b'0'..=b'9' => {
                let text = self.reader.number()?;
                match text.parse::<i32>() {
                    Ok(int) => {
                        *slot = Value::from(int);
                        return Ok(());
                    }
                    Err(_) => format!("number {text}"),
                }
            }
            other => found(other).to_string(),
        };
        Err(Stop::Type(place.type_error(Some(self.root.types), &wrong, "int32")))
    }

    /// The unions of JSON schemas: a struct, or a list of them, a list of strings, or a bool. Upstream reads what is
    /// inside with a decoder of its own, which notes nothing and whose first error ends everything.
    fn either(
        &mut self,
        schema: Schema<'s>,
        id: StructId,
        slot: &mut Value,
        place: &Place<'_>,
        depth: usize,
    ) -> Result<(), Stop> {
        let place = place.fresh();
        let mut ignored = Notes::ignore();
        let merged_entries = self.merged_entries;
        let mut inner =
            Typed { reader: &mut *self.reader, root: self.root, notes: &mut ignored, saved: None, merged_entries };
        *slot = scalar::zero(schema);
        match (&schema.shape, inner.reader.peek()) {
            (_, b'{') => inner.structure(id, slot, &place, depth + 1)?,
            (Shape::StructOrList(_), b'[') => inner.items(slot, Some(id), &place, depth + 1)?,
            (Shape::StructOrStrings(_), b'[') => inner.items(slot, None, &place, depth + 1)?,
            (Shape::StructOrBool(_), byte @ (b't' | b'f')) => {
                inner.reader.word(if byte == b't' { "true" } else { "false" })?;
                *slot = Value::Bool(byte == b't');
            }
            (Shape::StructOrBool(_), _) => return Err(Stop::Type("boolean or JSON schema expected".into())),
            // Anything else is passed over, as if nothing had been there.
            _ => inner.reader.skip(0)?,
        }
        let Typed { saved, merged_entries, .. } = inner;
        self.merged_entries = merged_entries;
        match saved {
            Some(message) => Err(Stop::Type(message)),
            None => Ok(()),
        }
    }

    /// The list of a union: of structs where `id` is given, of strings otherwise.
    fn items(&mut self, slot: &mut Value, id: Option<StructId>, place: &Place<'_>, depth: usize) -> Result<(), Stop> {
        if depth > MAX_DEPTH {
            return Err(Stop::TooDeep);
        }
        self.reader.bump();
        let mut items = Vec::new();
        let mut first = true;
        while self.reader.next_item(&mut first)? {
            let here = place.index(items.len());
            let mut item = id.map_or(Value::from(""), |_| Value::map());
            match (id, self.reader.peek()) {
                (_, b'n') => self.reader.word("null")?,
                (Some(id), b'{') => self.structure(id, &mut item, &here, depth + 1)?,
                (None, b'"') => item = Value::String(str_of(self.reader.string()?)),
                (id, byte) => {
                    let types = self.root.types;
                    let wanted = id.map_or("string", |id| types.get(id).go_name.as_str());
                    self.save(|| here.type_error(Some(types), found(byte), wanted));
                    self.reader.skip(0)?;
                }
            }
            items.push(item);
        }
        *slot = Value::List(items);
        Ok(())
    }

    /// Passes over a value of the wrong type.
    #[cold]
    fn mismatch(&mut self, schema: Schema<'s>, place: &Place<'_>) -> Result<(), Stop> {
        let byte = self.reader.peek();
        self.reader.skip(0)?;
        self.save(|| place.type_error(Some(schema.types), found(byte), &schema.go_type()));
        Ok(())
    }

    /// Only the first message is made: one takes as long as its place is deep.
    fn save(&mut self, message: impl FnOnce() -> String) {
        self.saved.get_or_insert_with(message);
    }
}

/// How Go holds a value, which decides what `null` does to it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum HeldInGo {
    ByValue,
    ByPointer,
}

impl HeldInGo {
    fn of(field: &Field) -> HeldInGo {
        if field.pointer { HeldInGo::ByPointer } else { HeldInGo::ByValue }
    }
}

/// `null`: unsets whatever has a nil, resets the types that decode it themselves, and leaves the rest as it was.
fn null(schema: Schema<'_>, held: HeldInGo, slot: &mut Value) -> Result<(), Stop> {
    match &schema.shape {
        _ if held == HeldInGo::ByPointer => *slot = Value::Null,
        Shape::Duration => return Err(Stop::Type(r#"time: invalid duration """#.into())),
        Shape::StructOrBool(_) => return Err(Stop::Type("boolean or JSON schema expected".into())),
        Shape::List(_) | Shape::Map(_) | Shape::Bytes => *slot = Value::Null,
        Shape::Time | Shape::MicroTime | Shape::Quantity => *slot = Value::Null,
        Shape::StructOrList(_) | Shape::StructOrStrings(_) => *slot = Value::Null,
        _ => {}
    }
    Ok(())
}

/// What Go calls a JSON value that begins with `byte`.
pub(super) fn found(byte: u8) -> &'static str {
    match byte {
        b'"' => "string",
        b'{' => "object",
        b'[' => "array",
        b't' | b'f' => "bool",
        _ => "number",
    }
}
