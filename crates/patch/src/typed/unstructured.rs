//! The same as [`super::created`] and [`super::changed`] for custom resources, which are what their JSON says: every field
//! that is there exists, be it null, zero or empty, and there are no others.

use object::{Map, Value};
use schema::Schema;

use super::created::{Hidden, MEMBER, Writer, is_managed_fields};
use super::items::is_same_item;
use super::merge::zip_maps;
use super::validate::{Duplicates, fits, validate};
use super::{Fields, Form, List, ListRelation, Type};
use crate::FieldSet;
use crate::fieldset::{same, write_field};

/// The fields of a new object; "{}" if the manager owns none. None if only a comparison can tell.
/// Neither `reset` nor anything below it is owned; of `unowned` only what lies below.
pub(crate) fn created_unstructured(
    object: &Value,
    schema: Schema<'_>,
    reset: Option<&FieldSet>,
    unowned: &FieldSet,
) -> Option<String> {
    let (Form::Map(fields), Value::Map(map)) = (Type::of(schema).form(Some(object)), object) else { return None };
    if fields.atomic {
        return None;
    }
    Writer::write(|writer| writer.entries(map, fields, Hidden { reset, unowned: Some(unowned) }))
}

impl Writer {
    fn entries(&mut self, map: &Map, fields: Fields<'_>, hidden: Hidden<'_>) -> Option<()> {
        for (key, value) in map.iter() {
            let (is_owned, below) = hidden.below(key);
            if is_managed_fields(key, is_owned) {
                continue;
            }
            let of = fields.field(key)?;
            let Some(below) = below else {
                // What is reset has no owner, but it has to be valid.
                is_valid(value, of).then_some(())?;
                continue;
            };
            let start = self.begin();
            write_field(key, &mut self.out);
            self.place(value, of, is_owned, below, start)?;
        }
        Some(())
    }

    /// What is owned of a value, behind its key. `start` is where the entry begins, which is taken back if nothing is.
    fn place(&mut self, value: &Value, of: Type<'_>, is_owned: bool, hidden: Hidden<'_>, start: usize) -> Option<()> {
        self.out.push('{');
        let open = self.out.len();
        match (of.form(Some(value)), value) {
            (_, Value::Null) => {}
            (Form::Scalar(scalar), _) => fits(scalar, value).then_some(())?,
            (Form::Map(fields), Value::Map(map)) if !fields.atomic && !map.is_empty() => {
                self.under(open, is_owned, |writer| writer.entries(map, fields, hidden))?;
            }
            (Form::List(list), Value::List(items)) if !list.is_atomic() && !items.is_empty() => {
                hidden.is_nothing().then_some(())?;
                self.under(open, is_owned, |writer| writer.items(items, list))?;
            }
            (Form::Map(_), Value::Map(_)) | (Form::List(_), Value::List(_)) => is_valid(value, of).then_some(())?,
            _ => return None,
        }
        if self.out.len() == open && !is_owned {
            self.out.truncate(start);
        } else {
            self.out.push('}');
        }
        Some(())
    }

    /// The fields below a place that is owned or not; "." says that it is, if there are any.
    fn under(&mut self, open: usize, is_owned: bool, fields: impl FnOnce(&mut Writer) -> Option<()>) -> Option<()> {
        if is_owned {
            self.out.push_str(MEMBER);
        }
        let first = self.out.len();
        fields(self)?;
        if self.out.len() == first {
            self.out.truncate(open);
        }
        Some(())
    }

    fn items(&mut self, items: &[Value], list: List<'_>) -> Option<()> {
        match list.relation {
            ListRelation::Keyed(keys) => self
                .keyed(items, keys, |writer, item, start| writer.place(item, list.items, true, Hidden::NOTHING, start)),
            ListRelation::Set if items.iter().all(|item| is_valid(item, list.items)) => self.set(items),
            ListRelation::Set | ListRelation::Atomic => None,
        }
    }
}

/// Whether an update changes the value of any field that a manager can own. None if only a comparison can tell; see
/// [`super::changed`]. The new object is one that [`created_unstructured`] has walked along, so it is valid.
pub(crate) fn changed_unstructured(
    live: &Value,
    new: &Value,
    schema: Schema<'_>,
    reset: Option<&FieldSet>,
    unowned: &FieldSet,
) -> Option<bool> {
    changed(live, new, Type::of(schema), Hidden { reset, unowned: Some(unowned) })
}

fn changed(live: &Value, new: &Value, of: Type<'_>, hidden: Hidden<'_>) -> Option<bool> {
    if live == new {
        return Some(false);
    }
    match (of.form(Some(live)), of.form(Some(new)), live, new) {
        (Form::Map(fields), Form::Map(_), Value::Map(live), Value::Map(new)) if !fields.atomic => {
            let mut found = Some(false);
            zip_maps(Some(live), Some(new), |key, live, new| {
                let changed = || changed_field(key, live, new, fields, hidden);
                found = found.and_then(|found| Some(changed()? | found));
            });
            found
        }
        (Form::List(list), Form::List(_), Value::List(live), Value::List(new)) if !list.is_atomic() => {
            let ListRelation::Keyed(keys) = list.relation else { return None };
            let is_aligned = live.len() == new.len() && live.iter().zip(new).all(|(l, n)| is_same_item(l, n, keys));
            let mut items = live.iter().zip(new).map(|(live, new)| changed(live, new, list.items, hidden));
            is_aligned.then(|| items.try_fold(false, |found, changed| Some(found | changed?)))?
        }
        (Form::Scalar(_), Form::Scalar(_), ..)
        | (Form::Map(_), Form::Map(_), Value::Map(_), Value::Map(_))
        | (Form::List(_), Form::List(_), Value::List(_), Value::List(_)) => {
            is_valid(live, of).then(|| !same(live, new))
        }
        _ => None,
    }
}

fn changed_field(
    key: &str,
    live: Option<&Value>,
    new: Option<&Value>,
    fields: Fields<'_>,
    hidden: Hidden<'_>,
) -> Option<bool> {
    let (is_owned, below) = hidden.below(key);
    if is_managed_fields(key, is_owned) {
        return Some(false);
    }
    let of = fields.field(key)?;
    match (below.filter(|below| is_owned || !below.is_nothing()), live, new) {
        // What cannot be owned may come and go, but it has to be valid.
        (None, live, _) => live.is_none_or(|live| is_valid(live, of)).then_some(false),
        (Some(below), Some(live), Some(new)) => changed(live, new, of, below),
        _ => None,
    }
}

fn is_valid(value: &Value, of: Type<'_>) -> bool {
    validate(value, of, Duplicates::Allowed).is_ok()
}
