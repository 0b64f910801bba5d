//! Variables, selections and indexes.

use super::eval::{Evaluation, Slot};
use super::{Attribute, Base, By, Op, Qualifier, Ref};
use crate::arena::Arena;
use crate::error::{Error, Outcome};
use crate::val::gotype::go_type;
use crate::val::{List, Map, Val};

impl<'a> Evaluation<'_, 'a> {
    /// The value of an attribute, which costs 1 besides what its qualifiers cost. Conditionals and tests cost nothing
    /// themselves.
    pub(super) fn attribute(&mut self, attribute: &'a Attribute) -> Outcome<'a> {
        let resolved = self.resolve(attribute);
        if matches!(resolved, Err(Error::Cancelled(_))) {
            return resolved;
        }
        if !attribute.test && !matches!(attribute.base, Base::Conditional(..)) {
            self.charge(1)?;
        }
        match resolved {
            // The test of an optional chain is whether it has a value.
            Ok(Val::Optional(inner)) if attribute.test => Ok(Val::Bool(inner.is_some())),
            other => other,
        }
    }

    /// The value of an operation; attributes cost only what their qualifiers cost, as cel-go does not look at them here.
    pub(super) fn raw(&mut self, at: Ref) -> Outcome<'a> {
        match &self.ops[at as usize] {
            Op::Attribute(attribute) => self.resolve(attribute),
            _ => self.eval(at),
        }
    }

    fn resolve(&mut self, attribute: &'a Attribute) -> Outcome<'a> {
        if let (Base::Variable(at), Some(Qualifier { by: By::Field(name), optional })) =
            (&attribute.base, attribute.qualifiers.first())
            && self.computes_fields
            && let Some(field) = self.variables.field((*at).into(), name)
        {
            return self.computed(attribute, name, field, *optional);
        }
        let base = match attribute.base {
            Base::Variable(at) => self.variable(at)?,
            Base::Local(slot) => self.local(slot)?,
            Base::Operand(operand) => self.eval(operand)?,
            Base::Conditional(condition, yes, no) => match self.eval(condition)? {
                Val::Bool(true) => self.raw(yes)?,
                Val::Bool(false) => self.raw(no)?,
                _ => return Err(Error::NO_SUCH_OVERLOAD),
            },
        };
        if attribute.qualifiers.is_empty() { Ok(base) } else { self.qualified(base, attribute, 0) }
    }

    /// A field that was computed now, and what is selected from it.
    fn computed(
        &mut self,
        attribute: &'a Attribute,
        name: &'a str,
        field: Option<Outcome<'a>>,
        optional: bool,
    ) -> Outcome<'a> {
        let is_test = attribute.test && attribute.qualifiers.len() == 1;
        if field.is_some() || !optional {
            self.charge(1)?;
        }
        let value = match field {
            _ if is_test => return Ok(Val::Bool(field.is_some())),
            Some(field) if optional => Val::Optional(Some(self.arena.copy(field?))),
            Some(field) => field?,
            None if optional => return Ok(Val::Optional(None)),
            None => return Err(self.no_such_key(Val::String(name))),
        };
        if attribute.qualifiers.len() == 1 { Ok(value) } else { self.qualified(value, attribute, 1) }
    }

    fn variable(&mut self, at: u16) -> Outcome<'a> {
        match self.variables.get(at.into()) {
            Some(outcome) => outcome,
            None => {
                let name = self.names.get(usize::from(at)).map_or("", |name| name.as_str());
                Err(self.arena.error(format_args!("no such attribute(s): {name}")))
            }
        }
    }

    pub(super) fn local(&mut self, slot: u16) -> Outcome<'a> {
        let slot = usize::from(slot);
        if let Slot::Pending(init) = self.locals[slot] {
            let value = self.eval(init);
            self.locals[slot] = Slot::starting(value);
        }
        match &self.locals[slot] {
            Slot::Value(outcome) => *outcome,
            Slot::List(items) => Ok(self.arena.list_val(items)),
            Slot::Map(map) => Ok(map.val(self.arena)),
            Slot::Empty | Slot::Pending(_) => Err(Error::new("no such attribute(s): local variable")),
        }
    }

    fn qualified(&mut self, base: Val<'a>, attribute: &'a Attribute, skip: usize) -> Outcome<'a> {
        let mut value = base;
        let mut optional = false;
        match base {
            Val::Optional(None) => return Ok(base),
            Val::Optional(Some(inner)) => {
                value = *inner;
                optional = true;
            }
            _ => {}
        }
        let last = attribute.qualifiers.len() - 1;
        for (i, qualifier) in attribute.qualifiers.iter().enumerate().skip(skip) {
            optional |= qualifier.optional;
            let test = attribute.test && i == last;
            let found = self.qualify(value, qualifier, optional || test);
            let is_missing = matches!(found, Err(_) | Ok(None));
            if matches!(found, Err(Error::Cancelled(_))) {
                return found.map(|_| Val::Null);
            }
            // A qualifier of an optional chain costs only if it is there.
            if !(optional && is_missing) {
                self.charge(1)?;
            }
            match (found?, optional, test) {
                (None, true, _) => return Ok(Val::Optional(None)),
                (found, false, true) => value = Val::Bool(found.is_some()),
                (Some(_), true, true) => value = Val::Null,
                (Some(found), _, false) => value = found,
                (None, false, false) => return Err(Error::NO_SUCH_OVERLOAD),
            }
        }
        Ok(if optional { Val::Optional(Some(self.arena.copy(value))) } else { value })
    }

    /// What a qualifier selects. What is missing is none where that is allowed, and an error otherwise.
    fn qualify(
        &mut self,
        value: Val<'a>,
        qualifier: &'a Qualifier,
        allow_missing: bool,
    ) -> Outcome<'a, Option<Val<'a>>> {
        match &qualifier.by {
            By::Field(name) => self.field(value, name, allow_missing),
            By::MessageField(name) => Ok(match value {
                Val::Struct(message) => {
                    let found = message.fields.iter().find(|(known, _)| *known == name.as_ref());
                    match found {
                        Some((_, value)) => Some(plain(*value, self.arena)),
                        None => (!allow_missing).then_some(Val::Null),
                    }
                }
                other => return self.field(other, name, allow_missing),
            }),
            By::Key(key) => self.entry(value, key.val(), allow_missing),
            By::Value(at) => {
                let key = self.raw(*at)?;
                match key {
                    Val::Bool(_) | Val::Int(_) | Val::Uint(_) | Val::Double(_) | Val::String(_) => {
                        self.entry(value, key, allow_missing)
                    }
                    other => {
                        let name = go_type(other);
                        Err(self.arena.error(format_args!("invalid qualifier type: {name}")))
                    }
                }
            }
        }
    }

    fn field(&mut self, value: Val<'a>, name: &'a str, allow_missing: bool) -> Outcome<'a, Option<Val<'a>>> {
        match value {
            Val::Map(map) => match map.field(name, self.arena)? {
                None if !allow_missing => Err(self.no_such_key(Val::String(name))),
                found => Ok(found),
            },
            other => self.entry(other, Val::String(name), allow_missing),
        }
    }

    fn no_such_key(&self, key: Val<'a>) -> Error<'a> {
        self.arena.error(format_args!("no such key: {key}"))
    }

    fn entry(&mut self, value: Val<'a>, key: Val<'a>, allow_missing: bool) -> Outcome<'a, Option<Val<'a>>> {
        let found = match value {
            Val::Map(map) => map.find(key, self.arena)?,
            Val::List(list) => return self.item(list, key, allow_missing),
            Val::Struct(message) if message.type_name == "JSONPatch" => {
                return self.patch_field(message.fields, key, allow_missing);
            }
            _ => None,
        };
        match found {
            None if !allow_missing => Err(self.no_such_key(key)),
            found => Ok(found),
        }
    }

    fn item(&mut self, list: List<'a>, key: Val<'a>, allow_missing: bool) -> Outcome<'a, Option<Val<'a>>> {
        let index = match key {
            Val::Int(i) => Some(i),
            Val::Uint(u) => i64::try_from(u).ok(),
            Val::Double(d) if d.trunc() == d && d.abs() < 9_223_372_036_854_775_808.0 => Some(d as i64),
            Val::Double(_) => None,
            other => {
                let name = other.type_name();
                return Err(self.arena.error(format_args!("unsupported index type '{name}' in list")));
            }
        };
        let Some(index) = index else {
            return Err(self.arena.error(format_args!("unsupported index value {key} in list")));
        };
        let item = usize::try_from(index).ok().and_then(|index| list.get(index, self.arena));
        match item {
            Some(_) if matches!(list, List::Typed(..) | List::Merged(..)) && !matches!(key, Val::Int(_)) => {
                Err(self.arena.error(format_args!("unsupported index: {index}")))
            }
            Some(item) => item.map(Some),
            None if allow_missing => Ok(None),
            None => Err(self.arena.error(format_args!("index out of bounds: {key}"))),
        }
    }

    /// A field of a JSON patch, whose texts are "" unless they are set.
    fn patch_field(
        &mut self,
        fields: &'a [(&'a str, Val<'a>)],
        key: Val<'a>,
        allow_missing: bool,
    ) -> Outcome<'a, Option<Val<'a>>> {
        let Val::String(name) = key else {
            return Err(self.arena.error(format_args!("unsupported indexer: {key}")));
        };
        let found = fields.iter().find(|(known, _)| *known == name).map(|(_, value)| *value);
        match (name, found) {
            ("op" | "from" | "path", Some(Val::String("")) | None) if allow_missing => Ok(None),
            ("op" | "from" | "path", found) => Ok(Some(found.unwrap_or(Val::String("")))),
            ("value", found) if allow_missing => Ok(found),
            ("value", found) => Ok(Some(found.unwrap_or(Val::Null))),
            _ if allow_missing => Err(self.arena.error(format_args!("unsupported field: {key}"))),
            _ => Err(self.arena.error(format_args!("unsupported indexer: {key}"))),
        }
    }
}

/// A value with the messages in it as maps, which is what fields of messages hold.
fn plain<'a>(value: Val<'a>, arena: &'a Arena) -> Val<'a> {
    match value {
        Val::Struct(message) if message.type_name != "JSONPatch" => {
            let entry = |(name, value): &(&'a str, Val<'a>)| (Val::String(name), plain(*value, arena));
            Val::Map(Map::new(message.fields.iter().map(entry).collect(), arena))
        }
        Val::List(List::Slice(items)) if items.iter().any(|item| matches!(item, Val::Struct(_))) => {
            let items: Vec<Val<'a>> = items.iter().map(|item| plain(*item, arena)).collect();
            arena.list_val(&items)
        }
        other => other,
    }
}
