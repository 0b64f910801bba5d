//! What a manager owns who creates an object, written as FieldsV1 in one walk.
//!
//! Nearly all objects are created by one manager who then owns every field. The walk gives what comparing the object with an
//! empty one gives (see [`super::compare`]), without copies of the object and without sets of its fields. Where more
//! than that is needed (repeated items, untyped values) it gives up, and the comparison is made. This is the walk along objects of
//! built-in kinds, in which a field exists if Go prints it; custom resources have a simpler one, in [`super::unstructured`].

use std::cmp::Ordering;

use object::{Map, Str, Value};
use schema::{ListType, MapType, Omit, Schema, Shape, Struct};

use super::items::zero;
use super::structured::{ZERO_TIME, is_left_out};
use super::validate::fits;
use super::walk::Walk;
use super::{Scalar, has_format};
use crate::fieldset::{compare_values, same, write_field, write_key, write_plain_field, write_value};
use crate::{FieldSet, PathElement};

/// The fields of a new object; "{}" if the manager owns none. None if only a comparison can tell.
/// Neither `reset` nor anything below it is owned; of `unowned` only what lies below.
pub(crate) fn created(
    object: &Value,
    schema: Schema<'_>,
    reset: Option<&FieldSet>,
    unowned: &FieldSet,
) -> Option<String> {
    let hidden = Hidden { reset, unowned: Some(unowned) };
    Writer::write(|writer| match (&schema.node.shape, object) {
        (Shape::Struct(id), Value::Map(map)) => writer.fields(map, schema, schema.types.get(*id), Before::Zero, hidden),
        _ => None,
    })
}

/// Most objects' fields are written in no more than this.
const FIELDS_BYTES: usize = 2048;

/// What Go holds in a place of an object in which nothing was set.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Before {
    /// The place does not exist.
    Nothing,
    Null,
    /// The zero value of the type.
    Zero,
}

/// What the manager does not own of a struct's fields.
#[derive(Clone, Copy)]
pub(super) struct Hidden<'a> {
    pub reset: Option<&'a FieldSet>,
    pub unowned: Option<&'a FieldSet>,
}

/// FieldsV1 that is being written.
pub(super) struct Writer {
    pub out: String,
}

impl Writer {
    /// All of it, where `fields` writes the fields of the object.
    pub fn write(fields: impl FnOnce(&mut Writer) -> Option<()>) -> Option<String> {
        let mut writer = Writer { out: String::with_capacity(FIELDS_BYTES) };
        writer.out.push('{');
        fields(&mut writer)?;
        writer.out.push('}');
        Some(writer.out)
    }

    /// The fields of a struct as Go would print it; see [`super::structured`].
    fn fields(&mut self, map: &Map, schema: Schema<'_>, of: &Struct, before: Before, hidden: Hidden<'_>) -> Option<()> {
        if of.preserve_unknown || schema.node.embedded {
            return None;
        }
        let mut entries = Walk::of(map);
        for field in &of.fields {
            let value = entries.next(&field.name);
            if is_left_out(field, value) {
                continue;
            }
            let (is_owned, below) = hidden.below(&field.name);
            if is_managed_fields(&field.name, is_owned) {
                continue;
            }
            let schema = schema.with(&field.node);
            let unset = match value {
                Some(_) if before != Before::Zero => Value::Null,
                _ if field.pointer => Value::Null,
                _ => zero(schema),
            };
            let before = match before {
                Before::Zero if field.omit == Omit::Never && unset.is_null() => Before::Null,
                Before::Zero if field.omit == Omit::Never => Before::Zero,
                _ => Before::Nothing,
            };
            let start = self.begin();
            write_plain_field(&field.name, &mut self.out);
            let below_it = below.unwrap_or(Hidden::NOTHING);
            self.value(value.unwrap_or(&unset), schema, before, is_owned, below_it, start)?;
            if below.is_none() {
                // What is reset is walked along all the same, since it has to be valid.
                self.out.truncate(start);
            }
        }
        Some(())
    }

    /// Separates an entry from the one before it; returns where to cut if there is nothing to write after all.
    pub fn begin(&mut self) -> usize {
        let start = self.out.len();
        if !self.out.ends_with('{') {
            self.out.push(',');
        }
        start
    }

    /// What is owned of a value, behind its key. `start` is where the entry begins, which is taken back if nothing is.
    fn value(
        &mut self,
        value: &Value,
        schema: Schema<'_>,
        before: Before,
        is_owned: bool,
        hidden: Hidden<'_>,
        start: usize,
    ) -> Option<()> {
        self.out.push('{');
        let open = self.out.len();
        let is_new = before == Before::Nothing;
        let is_member = match (&schema.node.shape, value) {
            (_, Value::Null) => is_new,
            (Shape::Struct(_) | Shape::Map(_), Value::Map(map)) if schema.node.map_type == MapType::Atomic => {
                // Whether a struct that was given zeros differs from a zero one is for the comparison to say.
                let is_clear = before != Before::Zero || !map.values().any(Value::is_empty);
                (is_clear && is_sound(value, schema)).then_some(before != Before::Zero || !map.is_empty())?
            }
            (Shape::List(_), Value::List(items)) if items.is_empty() || schema.node.list_type == ListType::Atomic => {
                is_sound(value, schema).then_some(true)?
            }
            (Shape::Struct(_) | Shape::Map(_) | Shape::List(_), Value::Map(_) | Value::List(_)) => {
                if is_new && is_owned {
                    self.out.push_str(MEMBER);
                }
                let first = self.out.len();
                self.below(value, schema, before, hidden)?;
                // A place that held null and got nothing below it was set all the same.
                let is_bare = self.out.len() == first;
                if is_bare {
                    self.out.truncate(open);
                }
                is_new || (is_bare && before == Before::Null)
            }
            (Shape::RawExtension, _) => true,
            _ => is_scalar(value, schema).then_some(before != Before::Zero || !same(&zero(schema), value))?,
        };
        if self.out.len() == open && !(is_member && is_owned) {
            self.out.truncate(start);
            return Some(());
        }
        self.out.push('}');
        Some(())
    }

    fn below(&mut self, value: &Value, schema: Schema<'_>, before: Before, hidden: Hidden<'_>) -> Option<()> {
        match (&schema.node.shape, value) {
            (Shape::Struct(id), Value::Map(map)) => self.fields(map, schema, schema.types.get(*id), before, hidden),
            (Shape::Map(values), Value::Map(map)) if hidden.is_nothing() => {
                let values = schema.with(values);
                for (key, value) in map.iter() {
                    let start = self.begin();
                    write_field(key, &mut self.out);
                    self.value(value, values, Before::Nothing, true, hidden, start)?;
                }
                Some(())
            }
            (Shape::List(items), Value::List(list)) if hidden.is_nothing() => {
                let items = schema.with(items);
                let write = |writer: &mut Writer, item: &Value, start| {
                    writer.value(item, items, Before::Nothing, true, Hidden::NOTHING, start)
                };
                match &schema.node.list_type {
                    ListType::Map(keys) => self.keyed(list, keys, write),
                    ListType::Set => self.set(list),
                    ListType::Atomic => None,
                }
            }
            _ => None,
        }
    }

    /// The items of a list that are told apart by keys, in the order of their keys. `write` writes what is owned of an item,
    /// as [`Writer::value`] does.
    pub fn keyed(
        &mut self,
        list: &[Value],
        keys: &[Str],
        write: impl Fn(&mut Writer, &Value, usize) -> Option<()>,
    ) -> Option<()> {
        if !keys.is_sorted() {
            return None;
        }
        let mut places = Vec::with_capacity(list.len() * keys.len());
        for item in list {
            let item = item.as_map()?;
            for key in keys {
                places.push(item.get(key).filter(|value| !value.is_empty() && is_plain(value))?);
            }
        }
        let keys_of = |at: usize| &places[at * keys.len()..(at + 1) * keys.len()];
        let order = |a: &usize, b: &usize| {
            let pairs = keys_of(*a).iter().zip(keys_of(*b));
            pairs.map(|(a, b)| compare_values(a, b)).find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
        };
        for at in sorted(list.len(), order)? {
            let start = self.begin();
            write_key(keys.iter().map(Str::as_str).zip(keys_of(at).iter().copied()), &mut self.out);
            write(self, &list[at], start)?;
        }
        Some(())
    }

    /// The items of a list that are told apart by their values.
    pub fn set(&mut self, list: &[Value]) -> Option<()> {
        if !list.iter().all(is_plain) {
            return None;
        }
        for at in sorted(list.len(), |a, b| compare_values(&list[*a], &list[*b]))? {
            self.begin();
            write_value(&list[at], &mut self.out);
            self.out.push_str("{}");
        }
        Some(())
    }
}

/// In FieldsV1: the place itself is owned, and so is what follows.
pub(super) const MEMBER: &str = "\".\":{}";

impl<'a> Hidden<'a> {
    pub const NOTHING: Hidden<'static> = Hidden { reset: None, unowned: None };

    pub fn is_nothing(self) -> bool {
        self.reset.is_none() && self.unowned.is_none()
    }

    /// Whether a field can be owned, and what cannot below it; None if nothing there can.
    pub fn below(self, name: &str) -> (bool, Option<Hidden<'a>>) {
        if self.is_nothing() {
            return (true, Some(self));
        }
        let field = PathElement::field(name);
        if self.reset.is_some_and(|reset| reset.has_member(&field)) {
            return (false, None);
        }
        let below = |set: Option<&'a FieldSet>| set.and_then(|set| set.child(&field));
        let is_owned = !self.unowned.is_some_and(|unowned| unowned.has_member(&field));
        (is_owned, Some(Hidden { reset: below(self.reset), unowned: below(self.unowned) }))
    }
}

/// Whether a field is the managedFields of the object itself, which are not tracked and so need not be valid.
pub(super) fn is_managed_fields(name: &str, is_owned: bool) -> bool {
    !is_owned && name == "managedFields"
}

/// The numbers up to `count` in order; None if two of them are equal.
fn sorted(count: usize, order: impl Fn(&usize, &usize) -> Ordering) -> Option<Vec<usize>> {
    let mut places: Vec<usize> = (0..count).collect();
    let in_order = |places: &[usize]| places.windows(2).all(|pair| order(&pair[0], &pair[1]).is_lt());
    if !in_order(&places) {
        places.sort_by(&order);
        in_order(&places).then_some(())?;
    }
    Some(places)
}

/// Whether a value is a scalar that FieldsV1 can name an item by, and has only one spelling.
fn is_plain(value: &Value) -> bool {
    matches!(value, Value::Bool(_) | Value::Int(_) | Value::String(_))
}

/// Whether a value is the scalar that the schema asks for.
fn is_scalar(value: &Value, schema: Schema<'_>) -> bool {
    let scalar = match &schema.node.shape {
        Shape::Bool => Scalar::Boolean,
        Shape::Int32 | Shape::Int64 | Shape::Float => Scalar::Number,
        Shape::String if has_format(schema) => Scalar::Any,
        Shape::String | Shape::Bytes | Shape::Duration => Scalar::String,
        Shape::Quantity | Shape::IntOrString => Scalar::Any,
        // A time that was never set is null to Go.
        Shape::Time | Shape::MicroTime => return value.as_str().is_some_and(|text| !text.starts_with(ZERO_TIME)),
        _ => return false,
    };
    fits(scalar, value) && !matches!(value, Value::Raw(_))
}

/// Whether a value that is owned as a whole is surely valid below.
fn is_sound(value: &Value, schema: Schema<'_>) -> bool {
    match (&schema.node.shape, value) {
        (Shape::Struct(id), Value::Map(map)) => {
            let of = schema.types.get(*id);
            let field = |(key, value): (&str, &Value)| {
                of.field(key).is_some_and(|field| is_sound(value, schema.with(&field.node)))
            };
            !of.preserve_unknown && !schema.node.embedded && map.iter().all(field)
        }
        (Shape::Map(values), Value::Map(map)) => map.values().all(|value| is_sound(value, schema.with(values))),
        (Shape::List(items), Value::List(list)) => {
            list.is_empty()
                || (schema.node.list_type == ListType::Atomic
                    && list.iter().all(|item| is_sound(item, schema.with(items))))
        }
        (Shape::RawExtension, _) => true,
        _ => is_scalar(value, schema),
    }
}
