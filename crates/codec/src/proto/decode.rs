//! Protobuf to values.

use object::duration::Duration;
use object::timestamp::{MicroTime, Time, Timestamp};
use object::{Raw, Str, Value};
use schema::{Schema, Shape, Struct, StructId};

use super::envelope::Envelope;
use super::wire::{BYTES, FIXED64, VARINT, Wire, error, wrong_wire_type};
use crate::fields::Fields;
use crate::text::lossy;
use crate::{DecodeError, MAX_DEPTH, Notes, base64, json, scalar};

type Decoded = Result<(), DecodeError>;

/// Decodes an object in its envelope; what the envelope says about its kind is in the value.
pub fn decode(bytes: &[u8], schema: Schema<'_>) -> Result<Value, DecodeError> {
    decode_wanted(bytes, schema, &WantedFields::All)
}

/// Decodes only what is at these paths (`metadata.labels`, `spec.nodeName`) and skips the rest unread: what a filter
/// looks at is a small part of an object.
pub fn decode_paths(bytes: &[u8], schema: Schema<'_>, paths: &[impl AsRef<str>]) -> Result<Value, DecodeError> {
    decode_wanted(bytes, schema, &WantedFields::Paths(paths.iter().map(AsRef::as_ref).collect()))
}

fn decode_wanted(bytes: &[u8], schema: Schema<'_>, wanted: &WantedFields<'_>) -> Result<Value, DecodeError> {
    let envelope = Envelope::open(bytes)?;
    let mut value = message_of(envelope.raw, schema, wanted)?;
    for (name, text) in [("apiVersion", &envelope.api_version), ("kind", &envelope.kind)] {
        if !text.is_empty() {
            value.make_map().insert(name, text.as_ref());
        }
    }
    Ok(value)
}

/// Decodes a message without envelope.
pub fn decode_message(bytes: &[u8], schema: Schema<'_>) -> Result<Value, DecodeError> {
    message_of(bytes, schema, &WantedFields::All)
}

fn message_of(bytes: &[u8], schema: Schema<'_>, wanted: &WantedFields<'_>) -> Result<Value, DecodeError> {
    let Shape::Struct(id) = schema.shape else { return Err(error("only structs have a protobuf form")) };
    let mut value = Value::Null;
    structure(bytes, schema, id, &mut value, wanted, 1)?;
    Ok(value)
}

/// Which fields of a message are decoded.
enum WantedFields<'a> {
    All,
    /// Those that these paths begin with.
    Paths(Vec<&'a str>),
}

impl WantedFields<'_> {
    /// What is wanted of a field; None if it is not wanted at all.
    fn below(&self, field: &str) -> Option<WantedFields<'_>> {
        let WantedFields::Paths(paths) = self else { return Some(WantedFields::All) };
        let mut rest = Vec::new();
        for path in paths {
            match path.strip_prefix(field) {
                Some("") => return Some(WantedFields::All),
                Some(below) => rest.extend(below.strip_prefix('.')),
                None => {}
            }
        }
        (!rest.is_empty()).then_some(WantedFields::Paths(rest))
    }
}

/// A nested message over what an earlier occurrence left: as in Go, the two merge.
fn structure(
    bytes: &[u8],
    schema: Schema<'_>,
    id: StructId,
    slot: &mut Value,
    wanted: &WantedFields<'_>,
    depth: usize,
) -> Decoded {
    if depth > MAX_DEPTH {
        return Err(DecodeError::TooDeep("proto: exceeded max depth".into()));
    }
    structure_in_parts(&[bytes], schema, id, slot, wanted, depth)
}

/// As [`structure`], for a message that came in several parts: decoding them one after the other is decoding them joined.
fn structure_in_parts(
    parts: &[&[u8]],
    schema: Schema<'_>,
    id: StructId,
    slot: &mut Value,
    wanted: &WantedFields<'_>,
    depth: usize,
) -> Decoded {
    let of = schema.types.get(id);
    let mut fields = Fields::new(of, slot.take());
    let mut again = Again::default();
    for part in parts {
        message(part, schema, of, &mut fields, &mut again, wanted, depth)?;
    }
    for (index, parts) in again.parts {
        let node = &of.fields[index as usize].node;
        let (Shape::Struct(id), Some(below)) = (&node.shape, wanted.below(&of.fields[index as usize].name)) else {
            continue;
        };
        structure_in_parts(&parts, schema.with(node), *id, fields.slot(index), &below, depth + 1)?;
    }
    *slot = Value::Map(fields.finish());
    Ok(())
}

/// Messages of fields that were met before, by field. They are merged with the first one all at once, because merging
/// takes as long as what is there already is large.
#[derive(Default)]
struct Again<'a> {
    parts: Vec<(u16, Vec<&'a [u8]>)>,
}

impl<'a> Again<'a> {
    fn add(&mut self, index: u16, part: &'a [u8]) {
        match self.parts.iter_mut().find(|(field, _)| *field == index) {
            Some((_, parts)) => parts.push(part),
            None => self.parts.push((index, vec![part])),
        }
    }
}

/// Reads the message `of` into `fields`, which belong to the same struct or to the one that embeds it.
fn message<'a>(
    bytes: &'a [u8],
    schema: Schema<'_>,
    of: &Struct,
    fields: &mut Fields<'_>,
    again: &mut Again<'a>,
    wanted: &WantedFields<'_>,
    depth: usize,
) -> Decoded {
    let mut wire = Wire::new(bytes);
    // Fields come by ascending tag, so the next one is hardly ever far.
    let mut hint = 0;
    while let Some((tag, kind)) = wire.field(&of.go_name)? {
        let Some(at) = find(of, tag, hint) else {
            embedded(&mut wire, tag, kind, schema, of, fields, again, wanted, depth)?;
            continue;
        };
        hint = at;
        let own = of.proto_order[at];
        let field = &of.fields[own as usize];
        let index = if fields.is_of(of) { Some(own) } else { fields.find(&field.name).map(|(index, _)| index) };
        let (Some(index), Some(below)) = (index, wanted.below(&field.name)) else {
            wire.skip(kind)?;
            continue;
        };
        match (&field.node.shape, kind) {
            (Shape::Struct(_), BYTES) if fields.has(index) => {
                again.add(index, wire.bytes()?);
                continue;
            }
            (Shape::Struct(id), BYTES) => {
                structure(wire.bytes()?, schema.with(&field.node), *id, fields.slot(index), &below, depth + 1)?;
                continue;
            }
            (Shape::Map(values), BYTES) => {
                let (key, value) = entry(wire.bytes()?, schema.with(values), &field.name, depth)?;
                fields.add_entry(index, key, value);
                continue;
            }
            _ => {}
        }
        // Fields held by value are always on the wire; a zero means that the field is not set.
        let plain = matches!(field.node.shape, Shape::Bool | Shape::Int32 | Shape::Int64 | Shape::String);
        let fits = kind == if field.node.shape == Shape::String { BYTES } else { VARINT };
        if plain && fits && !field.pointer && !fields.has(index) && wire.skip_zero() {
            continue;
        }
        let name = field.name.as_str();
        value(&mut wire, kind, schema.with(&field.node), name, fields.slot(index), depth)?;
    }
    Ok(())
}

fn find(of: &Struct, tag: u32, hint: usize) -> Option<usize> {
    let order = &of.proto_order;
    let tag_at = |at: usize| order.get(at).map(|&index| of.fields[index as usize].tag);
    for at in hint..hint + 4 {
        if tag_at(at) == Some(tag) {
            return Some(at);
        }
    }
    order.binary_search_by_key(&tag, |&index| of.fields[index as usize].tag).ok()
}

/// A tag that is no field: an embedded struct, or something from the future.
#[allow(clippy::too_many_arguments)]
fn embedded<'a>(
    wire: &mut Wire<'a>,
    tag: u32,
    kind: u8,
    schema: Schema<'_>,
    of: &Struct,
    fields: &mut Fields<'_>,
    again: &mut Again<'a>,
    wanted: &WantedFields<'_>,
    depth: usize,
) -> Decoded {
    let Some(inline) = of.proto_inlines.iter().find(|inline| inline.tag == tag) else { return wire.skip(kind) };
    let target = schema.types.get(inline.target);
    if kind != BYTES {
        let name = target.go_name.rsplit('.').next().unwrap_or_default();
        return Err(wrong_wire_type(kind, name));
    }
    if depth >= MAX_DEPTH {
        return Err(DecodeError::TooDeep("proto: exceeded max depth".into()));
    }
    message(wire.bytes()?, schema, target, fields, again, wanted, depth + 1)
}

/// One occurrence of a field.
fn value(wire: &mut Wire<'_>, kind: u8, schema: Schema<'_>, name: &str, slot: &mut Value, depth: usize) -> Decoded {
    let wanted = match &schema.shape {
        Shape::Bool | Shape::Int32 | Shape::Int64 => VARINT,
        Shape::Float => FIXED64,
        Shape::List(items) if !schema.proto_wrapped => {
            return item(wire, kind, schema.with(items), name, slot, depth);
        }
        _ => BYTES,
    };
    if kind != wanted {
        return Err(wrong_wire_type(kind, name));
    }
    match &schema.shape {
        Shape::Bool => *slot = Value::Bool(wire.varint()? != 0),
        Shape::Int32 => *slot = Value::from(wire.varint()? as i32),
        Shape::Int64 => *slot = Value::Int(wire.varint()? as i64),
        Shape::Float => *slot = Value::Float(f64::from_bits(wire.fixed64()?)),
        _ => return from_bytes(wire.bytes()?, schema, name, slot, depth),
    }
    Ok(())
}

/// One item of a repeated field, or several packed together.
fn item(wire: &mut Wire<'_>, kind: u8, schema: Schema<'_>, name: &str, slot: &mut Value, depth: usize) -> Decoded {
    let list = slot.make_list();
    let scalar = matches!(schema.shape, Shape::Bool | Shape::Int32 | Shape::Int64 | Shape::Float);
    if scalar && kind == BYTES {
        let mut packed = Wire::new(wire.bytes()?);
        let kind = if schema.shape == Shape::Float { FIXED64 } else { VARINT };
        while !packed.is_empty() {
            let mut item = Value::Null;
            value(&mut packed, kind, schema, name, &mut item, depth)?;
            list.push(item);
        }
        return Ok(());
    }
    let mut item = Value::Null;
    value(wire, kind, schema, name, &mut item, depth)?;
    list.push(item);
    Ok(())
}

/// Everything that comes with a length.
fn from_bytes(bytes: &[u8], schema: Schema<'_>, name: &str, slot: &mut Value, depth: usize) -> Decoded {
    match &schema.shape {
        Shape::String => *slot = Value::String(Str::from(lossy(bytes))),
        Shape::Bytes => *slot = Value::from(base64::encode(bytes)),
        Shape::Struct(id) => structure(bytes, schema, *id, slot, &WantedFields::All, depth + 1)?,
        Shape::Map(values) => {
            let (key, value) = entry(bytes, schema.with(values), name, depth)?;
            slot.make_map().insert(key, value);
        }
        Shape::List(items) => {
            *slot = Value::List(Vec::new());
            let items = schema.with(items);
            each(bytes, name, |wire, tag, kind| match tag {
                1 => item(wire, kind, items, "items", slot, depth),
                _ => wire.skip(kind),
            })?;
        }
        Shape::Any | Shape::RawExtension | Shape::Fields => json_text(bytes, &schema.shape, slot)?,
        Shape::Quantity => quantity(bytes, slot)?,
        Shape::IntOrString => int_or_string(bytes, slot)?,
        Shape::Time | Shape::MicroTime | Shape::Duration => instant(bytes, &schema.shape, slot)?,
        Shape::StructOrList(id) | Shape::StructOrBool(id) | Shape::StructOrStrings(id) => {
            either(bytes, schema, *id, slot, depth)?;
        }
        Shape::Bool | Shape::Int32 | Shape::Int64 | Shape::Float => return Err(wrong_wire_type(BYTES, name)),
    }
    Ok(())
}

/// The fields of a small message that has no struct of its own.
fn each<'a>(bytes: &'a [u8], message: &str, mut field: impl FnMut(&mut Wire<'a>, u32, u8) -> Decoded) -> Decoded {
    let mut wire = Wire::new(bytes);
    while let Some((tag, kind)) = wire.field(message)? {
        field(&mut wire, tag, kind)?;
    }
    Ok(())
}

/// One entry of a map. A value left out is Go's zero.
fn entry(bytes: &[u8], schema: Schema<'_>, name: &str, depth: usize) -> Result<(Str, Value), DecodeError> {
    let mut key = Str::default();
    let mut content = Value::Null;
    each(bytes, name, |wire, tag, kind| {
        match (tag, kind) {
            (1, BYTES) => key = Str::from(lossy(wire.bytes()?)),
            (2, _) => value(wire, kind, schema, name, &mut content, depth)?,
            _ => wire.skip(kind)?,
        }
        Ok(())
    })?;
    if content.is_null() {
        content = scalar::zero(schema);
    }
    Ok((key, content))
}

/// A message whose only field is JSON text. Where that is kept as it came, it is read only to know that it can be.
fn json_text(bytes: &[u8], shape: &Shape, slot: &mut Value) -> Decoded {
    each(bytes, "RawExtension", |wire, tag, kind| match (tag, kind) {
        (1, BYTES) => {
            let text = wire.bytes()?;
            *slot = match *shape {
                _ if text.is_empty() => Value::Null,
                Shape::Any => json::decode(text, None, &mut Notes::ignore())?,
                // Upstream takes any bytes and drops the entry later; here text that is no JSON is a string, which is no set
                // of fields either.
                Shape::Fields => json::keep(text).unwrap_or_else(|_| Value::String(Str::from(lossy(text)))),
                _ => match json::decode(text, None, &mut Notes::ignore())? {
                    Value::Null => Value::Null,
                    _ => Value::Raw(Raw::new(lossy(text))),
                },
            };
            Ok(())
        }
        (1, _) => Err(wrong_wire_type(kind, "raw")),
        _ => wire.skip(kind),
    })
}

fn quantity(bytes: &[u8], slot: &mut Value) -> Decoded {
    let mut text = Str::from("0");
    each(bytes, "Quantity", |wire, tag, kind| match (tag, kind) {
        (1, BYTES) => {
            text = scalar::quantity(&lossy(wire.bytes()?)).map_err(DecodeError::Type)?;
            Ok(())
        }
        (1, _) => Err(wrong_wire_type(kind, "String_")),
        _ => wire.skip(kind),
    })?;
    *slot = Value::String(text);
    Ok(())
}

fn int_or_string(bytes: &[u8], slot: &mut Value) -> Decoded {
    let (mut is_string, mut int, mut text) = (false, 0, Str::default());
    each(bytes, "IntOrString", |wire, tag, kind| {
        match (tag, kind) {
            (1, VARINT) => is_string = wire.varint()? as i64 == 1,
            (2, VARINT) => int = wire.varint()? as i32,
            (3, BYTES) => text = Str::from(lossy(wire.bytes()?)),
            (1, _) => return Err(wrong_wire_type(kind, "type")),
            (2, _) => return Err(wrong_wire_type(kind, "intVal")),
            (3, _) => return Err(wrong_wire_type(kind, "strVal")),
            _ => wire.skip(kind)?,
        }
        Ok(())
    })?;
    *slot = if is_string { Value::String(text) } else { Value::from(int) };
    Ok(())
}

/// An empty message is a time that was never set.
fn instant(bytes: &[u8], shape: &Shape, slot: &mut Value) -> Decoded {
    let (mut first, mut nanos) = (0i64, 0i32);
    each(bytes, if *shape == Shape::Duration { "Duration" } else { "Timestamp" }, |wire, tag, kind| {
        match (tag, kind) {
            (1, VARINT) => first = wire.varint()? as i64,
            (2, VARINT) if *shape != Shape::Duration => nanos = wire.varint()? as i32,
            (1, _) => {
                return Err(wrong_wire_type(kind, if *shape == Shape::Duration { "duration" } else { "seconds" }));
            }
            (2, _) if *shape != Shape::Duration => return Err(wrong_wire_type(kind, "nanos")),
            _ => wire.skip(kind)?,
        }
        Ok(())
    })?;
    *slot = match shape {
        Shape::Duration => Value::from(Duration(first).to_string()),
        _ if bytes.is_empty() => Value::Null,
        Shape::MicroTime => {
            let micros = nanos - nanos % 1000;
            let time = Timestamp::new(first, 0).plus(Duration(i64::from(micros)));
            Value::from(MicroTime(time).to_string())
        }
        _ => Value::from(Time(Timestamp::new(first, 0)).to_string()),
    };
    Ok(())
}

/// The unions of JSON schemas.
fn either(bytes: &[u8], schema: Schema<'_>, id: StructId, slot: &mut Value, depth: usize) -> Decoded {
    let is_bool = matches!(schema.shape, Shape::StructOrBool(_));
    let struct_tag = if is_bool { 2 } else { 1 };
    let (mut allows, mut inner, mut list) = (false, Value::Null, Vec::new());
    each(bytes, &schema.go_type(), |wire, tag, kind| {
        match tag {
            1 if is_bool && kind == VARINT => allows = wire.varint()? != 0,
            1 if is_bool => return Err(wrong_wire_type(kind, "allows")),
            1 | 2 if kind != BYTES => return Err(wrong_wire_type(kind, "schema")),
            _ if tag == struct_tag => structure(wire.bytes()?, schema, id, &mut inner, &WantedFields::All, depth + 1)?,
            2 => {
                let bytes = wire.bytes()?;
                let mut item = Value::Null;
                match schema.shape {
                    Shape::StructOrList(_) => structure(bytes, schema, id, &mut item, &WantedFields::All, depth + 1)?,
                    _ => item = Value::String(Str::from(lossy(bytes))),
                }
                list.push(item);
            }
            _ => wire.skip(kind)?,
        }
        Ok(())
    })?;
    *slot = match inner {
        _ if !list.is_empty() => Value::List(list),
        Value::Null if is_bool => Value::Bool(allows),
        Value::Null => scalar::zero(schema),
        inner => inner,
    };
    Ok(())
}
