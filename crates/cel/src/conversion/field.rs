//! [`RulePath`]: where a rule works.

use std::fmt;

use object::{Str, Value};

/// The most names and `[*]` of a path.
const MAX_SEGMENTS: usize = 64;

/// A field, or one field of each item: `spec.size`, `spec.ports[*].name`, `metadata.annotations['example.com/size']`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RulePath {
    text: Str,
    /// The way to the items that have the field; empty where it is a field of the object.
    items: Box<[RulePathStep]>,
    /// The field, from there.
    names: Box<[Str]>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum RulePathStep {
    Name(Str),
    /// `[*]`: every item of a list, every value of a map.
    Each,
}

impl fmt::Display for RulePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl RulePath {
    pub fn parse(text: &str) -> Result<RulePath, String> {
        let mut segments = segments(text)?;
        if segments.len() > MAX_SEGMENTS {
            return Err(format!("may have at most {MAX_SEGMENTS} names"));
        }
        let after = segments.iter().rposition(|segment| *segment == RulePathStep::Each).map_or(0, |at| at + 1);
        let names = segments.split_off(after).into_iter().filter_map(|segment| match segment {
            RulePathStep::Name(name) => Some(name),
            RulePathStep::Each => None,
        });
        let path = RulePath { text: text.into(), items: segments.into(), names: names.collect() };
        match path.first() {
            _ if path.names.is_empty() => Err("must end with the name of a field".into()),
            ("apiVersion" | "kind", _) => Err("the server sets apiVersion and kind".into()),
            ("metadata", Some("labels" | "annotations")) => Ok(path),
            ("metadata", _) => Err("of the metadata only labels and annotations can be changed".into()),
            _ => Ok(path),
        }
    }

    /// The first two names.
    fn first(&self) -> (&str, Option<&str>) {
        let all = self.items.iter().map(|segment| match segment {
            RulePathStep::Name(name) => name.as_str(),
            RulePathStep::Each => "*",
        });
        let mut all = all.chain(self.names.iter().map(Str::as_str));
        (all.next().unwrap_or_default(), all.next())
    }

    pub fn has_items(&self) -> bool {
        !self.items.is_empty()
    }

    /// Whether both are fields of the same items, or of the object.
    pub fn is_beside(&self, other: &RulePath) -> bool {
        self.items == other.items
    }

    /// Visits the items that have the field, or the object itself.
    pub fn each<E>(&self, object: &mut Value, visit: &mut dyn FnMut(&mut Value) -> Result<(), E>) -> Result<(), E> {
        each(object, &self.items, visit)
    }

    /// The value of the field in an item or object; None if it is not there.
    pub fn find<'v>(&self, item: &'v Value) -> Option<&'v Value> {
        self.names.iter().try_fold(item, |value, name| value.get(name))
    }

    /// Takes the field out of an item or object.
    pub fn take(&self, item: &mut Value) -> Option<Value> {
        let (last, parents) = self.names.split_last()?;
        let parent = parents.iter().try_fold(item, |value, name| value.get_mut(name))?;
        parent.as_map_mut()?.remove(last)
    }

    /// Sets the field in an item or object. What is missing on the way becomes an object.
    pub fn put(&self, item: &mut Value, value: Value) -> Result<(), String> {
        let mut slot = item;
        for name in &self.names {
            if slot.is_null() {
                *slot = Value::map();
            }
            let found = slot.type_name();
            let Some(map) = slot.as_map_mut() else {
                return Err(format!("{name} is a field of what is no object but {found}"));
            };
            slot = map.entry(name);
        }
        *slot = value;
        Ok(())
    }
}

fn each<E>(
    value: &mut Value,
    items: &[RulePathStep],
    visit: &mut dyn FnMut(&mut Value) -> Result<(), E>,
) -> Result<(), E> {
    let Some((first, rest)) = items.split_first() else { return visit(value) };
    match (first, value) {
        (RulePathStep::Name(name), value) => value.get_mut(name).map_or(Ok(()), |value| each(value, rest, visit)),
        (RulePathStep::Each, Value::List(list)) => list.iter_mut().try_for_each(|item| each(item, rest, visit)),
        (RulePathStep::Each, Value::Map(map)) => map.iter_mut().try_for_each(|(_, item)| each(item, rest, visit)),
        (RulePathStep::Each, _) => Ok(()),
    }
}

fn segments(text: &str) -> Result<Vec<RulePathStep>, String> {
    let mut segments = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        if let Some(after) = rest.strip_prefix("[*]") {
            segments.push(RulePathStep::Each);
            rest = after;
        } else if let Some(after) = rest.strip_prefix("['") {
            let (name, after) = after.split_once("']").ok_or("a name in quotes ends with ']")?;
            segments.push(RulePathStep::Name(name.into()));
            rest = after;
        } else {
            let after = match segments.is_empty() {
                true => rest,
                false => rest.strip_prefix('.').ok_or("names are separated by dots")?,
            };
            let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '$');
            let end = after.find(|c| !is_name(c)).unwrap_or(after.len());
            let (name, after) = after.split_at(end);
            if name.is_empty() {
                return Err("names have letters, digits, _, - and $; others stand in ['']".into());
            }
            segments.push(RulePathStep::Name(name.into()));
            rest = after;
        }
    }
    match segments.first() {
        Some(RulePathStep::Name(_)) => Ok(segments),
        _ => Err("must begin with the name of a field".into()),
    }
}
