//! A struct's fields and a map's entries, brought together: [`Fields`] for decoders, [`Places`] for encoders.

use std::cmp::Ordering;

use object::{Map, Str, Value, compare_names};
use schema::{Field, Omit, Shape, Struct};

use crate::scalar::is_zero_time;

/// Decoded fields by their index in the struct. Sorting small numbers at the end is cheaper than keeping names sorted
/// all the way.
pub(crate) struct Fields<'s> {
    of: &'s Struct,
    entries: Vec<(u16, Value)>,
    seen: FieldSet,
    /// Entries of map fields in the order they came, by field. They are sorted into their map once, at the end.
    map_entries: Vec<(u16, Vec<(Str, Option<Value>)>)>,
    /// Behind the field that was found last, in print order.
    hint: usize,
}

/// How many fields most objects have at most.
const FEW: usize = 8;
/// How many fields to try before searching. Documents mostly come in the order they are printed in, with gaps.
const NEAR: usize = 8;

impl<'s> Fields<'s> {
    /// Starts from what an earlier occurrence of the same struct left behind, if there was one: Go decodes over it.
    pub fn new(of: &'s Struct, earlier: Value) -> Fields<'s> {
        let mut fields = Fields {
            of,
            entries: Vec::with_capacity(FEW),
            seen: FieldSet::default(),
            map_entries: Vec::new(),
            hint: 0,
        };
        if let Value::Map(map) = earlier {
            for (key, value) in map {
                if let Some((index, _)) = fields.find(&key) {
                    fields.entries.push((index, value));
                    fields.seen.insert(index);
                }
            }
        }
        fields
    }

    pub fn find(&mut self, name: &str) -> Option<(u16, &'s Field)> {
        let near = self.of.print_order[self.hint..].iter().take(NEAR);
        for (passed, &index) in near.enumerate() {
            let field = &self.of.fields[index as usize];
            if field.name.as_str() == name {
                self.hint += passed + 1;
                return Some((index, field));
            }
        }
        let index = self.of.fields.binary_search_by(|field| compare_names(&field.name, name)).ok()?;
        Some((index as u16, &self.of.fields[index]))
    }

    pub fn has(&self, index: u16) -> bool {
        self.seen.contains(index)
    }

    /// Whether these are the fields of `other`, and not of a struct that embeds it.
    pub fn is_of(&self, other: &Struct) -> bool {
        std::ptr::eq(self.of, other)
    }

    /// The value of a field so far, null if there was none.
    pub fn slot(&mut self, index: u16) -> &mut Value {
        let known = if self.seen.insert(index) { None } else { self.entries.iter().rposition(|e| e.0 == index) };
        let at = known.unwrap_or_else(|| {
            self.entries.push((index, Value::Null));
            self.entries.len() - 1
        });
        &mut self.entries[at].1
    }

    /// Adds an entry to the map that a field holds.
    pub fn add_entry(&mut self, index: u16, key: Str, value: Value) {
        // A struct has few maps, and their entries mostly come together.
        let at = self.map_entries.iter().rposition(|(field, _)| *field == index).unwrap_or_else(|| {
            self.map_entries.push((index, Vec::new()));
            self.map_entries.len() - 1
        });
        self.map_entries[at].1.push((key, Some(value)));
    }

    /// The struct as a map. What Go cannot tell from unset is left out, so that an object is the same value whichever
    /// format it came in: zeros held by value, and nulls.
    pub fn finish(mut self) -> Map {
        let of = self.of;
        for (index, entries) in std::mem::take(&mut self.map_entries) {
            self.slot(index).make_map().update(entries);
        }
        self.entries.retain(|(index, value)| !is_unset(&of.fields[*index as usize], value));
        self.entries.sort_unstable_by_key(|entry| entry.0);
        let named = |(index, value): (u16, Value)| (of.fields[index as usize].name.clone(), value);
        // The fields of a struct are sorted by name, and each has one entry.
        Map::from_sorted(self.entries.into_iter().map(named).collect())
    }
}

/// Whether a field holding `value` is no different from one that was never set.
pub(crate) fn is_unset(field: &Field, value: &Value) -> bool {
    if value.is_null() {
        return true;
    }
    if field.pointer {
        return false;
    }
    match &field.node.shape {
        Shape::Bool | Shape::Int32 | Shape::Int64 | Shape::Float | Shape::String => value.is_empty(),
        Shape::Struct(_) => value.as_map().is_some_and(Map::is_empty),
        Shape::IntOrString => *value == Value::Int(0),
        Shape::Quantity => value.as_str() == Some("0"),
        Shape::Duration => value.as_str() == Some("0s"),
        Shape::Time | Shape::MicroTime => value.as_str().is_some_and(is_zero_time),
        _ => false,
    }
}

/// Which fields of a struct have been met.
#[derive(Default)]
pub(crate) struct FieldSet {
    few: [u64; 2],
    many: Vec<u16>,
}

impl FieldSet {
    pub fn contains(&self, index: u16) -> bool {
        match self.few.get(index as usize / 64) {
            Some(word) => word >> (index % 64) & 1 == 1,
            None => self.many.contains(&index),
        }
    }

    /// Whether the field is new.
    pub fn insert(&mut self, index: u16) -> bool {
        if let Some(word) = self.few.get_mut(index as usize / 64) {
            let bit = 1 << (index % 64);
            let new = *word & bit == 0;
            *word |= bit;
            return new;
        }
        let new = !self.many.contains(&index);
        if new {
            self.many.push(index);
        }
        new
    }
}

/// What Go's encoders print for a field.
pub(crate) enum Printed<'a> {
    Value(&'a Value),
    /// An unset pointer.
    Null,
    /// Something held by value that was never set.
    Zero,
}

impl<'a> Printed<'a> {
    /// `None` where the field is left out.
    #[inline]
    pub fn of(field: &Field, value: Option<&'a Value>) -> Option<Printed<'a>> {
        match value {
            None | Some(Value::Null) if field.omit != Omit::Never => None,
            None | Some(Value::Null) => Some(if field.pointer { Printed::Null } else { Printed::Zero }),
            Some(value) => (!is_left_out(field, value)).then_some(Printed::Value(value)),
        }
    }
}

/// Whether `omitempty` or `omitzero` leaves out a field that is set to this.
#[inline]
pub(crate) fn is_left_out(field: &Field, value: &Value) -> bool {
    match (field.omit, &field.node.shape) {
        (Omit::Never, _) => false,
        (Omit::Nil, Shape::List(_) | Shape::Map(_) | Shape::Bytes) => value.is_empty(),
        (Omit::Nil, _) => false,
        (Omit::Zero, Shape::Time | Shape::MicroTime) => value.as_str().is_some_and(is_zero_time),
        (Omit::Zero, _) => value.is_empty(),
    }
}

/// For each field of a struct, where its value is in a map. Both are sorted by name, so one walk along the two finds
/// all of them.
pub(crate) struct Places {
    few: [u16; Places::FEW],
    many: Vec<u16>,
}

impl Places {
    const FEW: usize = 64;
    const ABSENT: u16 = 0;

    #[inline]
    pub fn of(map: &Map, of: &Struct) -> Places {
        let mut places = Places { few: [Places::ABSENT; Places::FEW], many: Vec::new() };
        let slots = if of.fields.len() <= Places::FEW {
            &mut places.few[..]
        } else {
            places.many = vec![Places::ABSENT; of.fields.len()];
            &mut places.many[..]
        };
        let mut index = 0;
        for (at, (key, _)) in map.entries().iter().enumerate() {
            let key = key.as_str();
            while let Some(field) = of.fields.get(index) {
                match compare_names(&field.name, key) {
                    Ordering::Less => index += 1,
                    Ordering::Equal => {
                        slots[index] = u16::try_from(at + 1).unwrap_or(Places::ABSENT);
                        index += 1;
                        break;
                    }
                    Ordering::Greater => break,
                }
            }
        }
        places
    }

    pub fn get(&self, field: usize) -> Option<usize> {
        let slots = if self.many.is_empty() { &self.few[..] } else { &self.many[..] };
        match slots.get(field) {
            None | Some(&Places::ABSENT) => None,
            Some(&place) => Some(place as usize - 1),
        }
    }
}
