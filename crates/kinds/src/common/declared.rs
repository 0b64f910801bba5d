//! Upstream's declared rules of some groups, as data (`data/*-rules.txt`), and what applies them.
//!
//! What an update does not change is not looked at again, so that objects which were stored under other rules can still be
//! updated. Items of a list are the same when they have the same name, or whatever else they are told apart by.

use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

use object::{Cursor, Errors, Seen, Value, names};
use registry::Context;

use super::checks::{Checks, IMMUTABLE, same};
use super::{named, problems, versioned};

/// Templates contain templates; deeper than this nothing is allowed anyway.
const MAX_DEPTH: usize = 32;

pub static SCHEDULING: LazyLock<Rules> =
    LazyLock::new(|| parse(include_str!("../../data/scheduling-rules.txt"), "io.k8s.api.scheduling.v1beta1"));
pub static RESOURCE: LazyLock<Rules> =
    LazyLock::new(|| parse(include_str!("../../data/resource-rules.txt"), "io.k8s.api.resource.v1"));

/// The rules of a group.
pub struct Rules {
    types: HashMap<&'static str, Type>,
    /// Where the API's own definitions of the types are.
    package: &'static str,
}

#[derive(Default)]
struct Type {
    union: Vec<&'static str>,
    fields: Vec<Field>,
}

struct Field {
    name: &'static str,
    rules: Vec<(&'static str, &'static str)>,
    /// The rules of what is inside.
    inner: Option<&'static str>,
}

impl Rules {
    /// Checks what stands at `new` by the rules of a type. `old` is what an update finds there; a create finds nothing.
    pub fn validate(&self, cx: &Context, type_name: &str, new: &Cursor, old: Option<&Value>, errors: &mut Errors) {
        if old.is_some_and(|old| unchanged(new.value(), old)) {
            return;
        }
        Check { rules: self, cx, update: old.is_some(), errors }.of_type(type_name, new, old, 0);
    }
}

struct Check<'a, 'b> {
    rules: &'a Rules,
    cx: &'a Context<'b>,
    update: bool,
    errors: &'a mut Errors,
}

impl Check<'_, '_> {
    fn of_type(&mut self, name: &str, new: &Cursor, old: Option<&Value>, depth: usize) {
        let rules = self.rules;
        let Some(of) = rules.types.get(name).filter(|_| depth < MAX_DEPTH) else { return };
        self.union(&of.union, new, old);
        for field in &of.fields {
            self.field(field, &new.field(field.name), old.map(|old| old.field(field.name)), depth);
        }
    }

    fn union(&mut self, members: &[&str], new: &Cursor, old: Option<&Value>) {
        let changed =
            |old: &Value| members.iter().any(|name| is_set(new.field(name).value()) != is_set(old.field(name)));
        if members.is_empty() || (self.update && old.is_some_and(|old| !changed(old))) {
            return;
        }
        let set: Vec<&str> = members.iter().copied().filter(|name| is_set(new.field(name).value())).collect();
        let all: Vec<String> = members.iter().map(|name| format!("`{name}`")).collect();
        let all = all.join(", ");
        match set.len() {
            0 => new.invalid_as(self.errors, "", format!("must specify one of: {all}")),
            1 => {}
            _ => {
                let shown = format!("{{{}}}", set.join(", "));
                new.invalid_as(self.errors, shown, format!("must specify exactly one of: {all}"));
            }
        }
    }

    fn field(&mut self, field: &Field, new: &Cursor, old: Option<&Value>, depth: usize) {
        if self.update && old.is_some_and(|old| unchanged(new.value(), old)) {
            return;
        }
        // All of the rules that end the matter are asked, even after one of them has ended it.
        let ended = field.rules.iter().filter(|(rule, argument)| self.ends(rule, argument, new, old)).count();
        if ended > 0 {
            return;
        }
        for (rule, argument) in &field.rules {
            self.format(rule, argument, new);
        }
        let Some(inner) = field.inner else { return };
        if let Some(item) = inner.strip_prefix("[]") {
            let keys = field.rules.iter().find(|(rule, _)| matches!(*rule, "keyed" | "unique")).map(|(_, keys)| *keys);
            self.items(item, keys, new, old, depth);
        } else if let Some(of) = inner.strip_prefix("{}") {
            for (key, entry) in new.entries() {
                let before = old.map(|old| old.field(key)).filter(|before| !before.is_null());
                if !(self.update && before.is_some_and(|before| unchanged(entry.value(), before))) {
                    self.of_type(of, &entry, before, depth + 1);
                }
            }
        } else {
            self.of_type(inner, new, old, depth + 1);
        }
    }

    /// `keys` are the fields that items are told apart by: `a,b`; the name if it is empty.
    fn items(&mut self, of: &str, keys: Option<&str>, new: &Cursor, old: Option<&Value>, depth: usize) {
        if let Some(keys) = keys {
            self.unique(of, keys, new);
        }
        let before: HashMap<Vec<&str>, &Value> = match (keys, old) {
            // The first of items with the same key counts.
            (Some(keys), Some(Value::List(old))) => old.iter().rev().map(|item| (key_of(item, keys), item)).collect(),
            _ => HashMap::new(),
        };
        for item in new.each() {
            let before = keys.and_then(|keys| before.get(&key_of(item.value(), keys)).copied());
            if !(self.update && before.is_some_and(|before| unchanged(item.value(), before))) {
                self.of_type(of, &item, before, depth + 1);
            }
        }
    }

    fn unique(&mut self, of: &str, keys: &str, list: &Cursor) {
        let mut seen = HashSet::new();
        for item in list.each() {
            if !seen.insert(key_of(item.value(), keys)) && !self.errors.is_full() {
                // The types are the same in every version.
                let definition = match of {
                    "Condition" => "io.k8s.apimachinery.pkg.apis.meta.v1.Condition".to_string(),
                    _ => format!("{}.{}", self.rules.package, go_name(of)),
                };
                self.errors.duplicate(item.path(), versioned::shown(&definition, item.value()));
            }
        }
    }

    /// Applies a rule that leaves nothing more to say about the field; says whether it was broken, or there is no field.
    fn ends(&mut self, rule: &str, argument: &str, new: &Cursor, old: Option<&Value>) -> bool {
        let set = is_set(new.value());
        match rule {
            "optional" => !set,
            "optional-value" => new.is_empty(),
            "required" if !set => self.require(new),
            "required-value" if new.is_empty() => self.require(new),
            "gate" if self.cx.features.enabled(argument) => !set,
            "gate" => {
                if set {
                    new.forbidden(self.errors, "");
                }
                true
            }
            "immutable-if" if !self.cx.features.enabled(argument) => false,
            "immutable" | "immutable-if" if self.update => self.refuse(new, IMMUTABLE),
            "fixed" if self.update => match (old.is_some_and(is_set), set) {
                (false, true) => self.refuse(new, "field cannot be set once created"),
                (true, false) => self.refuse(new, "field cannot be cleared once set"),
                _ => false,
            },
            "no-modify" if self.update && set && old.is_some_and(is_set) => {
                self.refuse(new, "field cannot be modified once set")
            }
            "max-items" => {
                let max = argument.parse().unwrap_or(usize::MAX);
                if new.len() > max {
                    self.errors.too_many(new.path(), new.len(), max);
                }
                new.len() > max
            }
            "keyed" if self.update => self.items_stay(new, old.unwrap_or(&Value::Null)),
            _ => false,
        }
    }

    fn require(&mut self, field: &Cursor) -> bool {
        field.required(self.errors, "");
        true
    }

    fn refuse(&mut self, field: &Cursor, detail: &str) -> bool {
        field.invalid_as(self.errors, Value::Null, detail);
        true
    }

    fn items_stay(&mut self, new: &Cursor, old: &Value) -> bool {
        let before = self.errors.len();
        let old_items = old.as_list().unwrap_or(&[]);
        let (old_names, new_names) = (named::names(old_items), named::names(new.value().as_list().unwrap_or(&[])));
        for item in new.each().filter(|item| !old_names.contains(item.field("name").str())) {
            item.forbidden(self.errors, "item may not be added");
        }
        for _ in old_items.iter().filter(|item| !new_names.contains(item.str_at(&["name"]))) {
            new.forbidden(self.errors, "item may not be removed");
        }
        self.errors.len() > before
    }

    fn format(&mut self, rule: &str, argument: &str, field: &Cursor) {
        let bound = || argument.parse::<i64>().unwrap_or(0);
        match rule {
            "short-name" => field.check(self.errors, names::short_name),
            "long-name" => field.check(self.errors, names::long_name),
            "label-key" => field.check(self.errors, names::label_key),
            "path-segment" => field.check(self.errors, names::path_segment_name),
            "long-name-caseless" => field.check(self.errors, names::long_name_caseless),
            "uuid" => field.check(self.errors, names::uuid),
            "pool-name" => problems::report(field, names::resource_pool_name(field.str()), self.errors),
            "attribute" => problems::report(field, names::resource_fully_qualified_name(field.str()), self.errors),
            "extended-resource" => problems::report(field, names::extended_resource_name(field.str()), self.errors),
            "max-length" if i64::try_from(field.str().chars().count()).is_ok_and(|length| length > bound()) => {
                self.errors.too_long_characters(field.path(), usize::try_from(bound()).unwrap_or(usize::MAX));
            }
            "max-bytes" if i64::try_from(field.str().len()).is_ok_and(|bytes| bytes > bound()) => {
                self.errors.too_long(field.path(), usize::try_from(bound()).unwrap_or(usize::MAX));
            }
            "each" => {
                let (rule, argument) = argument.split_once(':').unwrap_or((argument, ""));
                field.each().for_each(|item| self.format(rule, argument, &item));
            }
            "short-keys" => {
                for (key, _) in field.entries() {
                    for message in names::short_name(key) {
                        field.invalid_as(self.errors, key, message);
                    }
                }
            }
            "unique-values" => {
                let mut seen = Seen::new();
                for item in field.each().filter(|item| !seen.insert(item.value())) {
                    item.duplicate(self.errors);
                }
            }
            "enum" => {
                field.one_of(self.errors, &argument.split('|').collect::<Vec<_>>());
            }
            "min" if field.int() < bound() => {
                field.invalid(self.errors, format!("must be greater than or equal to {argument}"));
            }
            "max" if field.int() > bound() => {
                field.invalid(self.errors, format!("must be less than or equal to {argument}"));
            }
            _ => {}
        }
    }
}

/// What the API calls a type that goes by a shorter name here.
fn go_name(of: &str) -> &str {
    match of {
        "ResourceClaim" => "PodGroupResourceClaim",
        "ResourceClaimStatus" => "PodGroupResourceClaimStatus",
        other => other,
    }
}

/// As [`same`], but a type without fields is there or not, which is a difference even though there is nothing in it, and so is an
/// empty string behind a pointer.
fn unchanged(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Map(a), Value::Map(b)) => {
            a.iter().all(|(key, value)| unchanged(value, b.get(key).unwrap_or(&Value::Null)))
                && b.iter().all(|(key, value)| a.contains_key(key) || unchanged(value, &Value::Null))
        }
        (Value::List(a), Value::List(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| unchanged(a, b)),
        (Value::Null, Value::Map(_) | Value::String(_)) | (Value::Map(_) | Value::String(_), Value::Null) => false,
        (a, b) => same(a, b),
    }
}

fn is_set(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::List(items) => !items.is_empty(),
        _ => true,
    }
}

/// What an item is told apart by: the values of the fields that `keys` names, or its name.
fn key_of<'a>(item: &'a Value, keys: &str) -> Vec<&'a str> {
    let keys = if keys.is_empty() { "name" } else { keys };
    keys.split(',').map(|key| item.str_at(&[key])).collect()
}

fn parse(text: &'static str, package: &'static str) -> Rules {
    let mut types: HashMap<&'static str, Type> = HashMap::new();
    let mut current = "";
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let Some(line) = line.strip_prefix(' ') else {
            current = line;
            types.entry(current).or_default();
            continue;
        };
        let of = types.entry(current).or_default();
        let (rules, inner) = line.split_once(" > ").map_or((line, None), |(rules, inner)| (rules, Some(inner)));
        let mut words = rules.split(' ');
        match words.next().unwrap_or("") {
            "union" => of.union = words.collect(),
            name => {
                let rules = words.map(|word| word.split_once('=').unwrap_or((word, ""))).collect();
                of.fields.push(Field { name, rules, inner });
            }
        }
    }
    Rules { types, package }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rule_and_type_is_known() {
        let rules = [
            "optional",
            "optional-value",
            "required",
            "required-value",
            "gate",
            "immutable",
            "immutable-if",
            "fixed",
            "max-items",
            "keyed",
            "unique",
            "short-name",
            "long-name",
            "label-key",
            "path-segment",
            "enum",
            "min",
            "max",
            "no-modify",
            "long-name-caseless",
            "uuid",
            "pool-name",
            "attribute",
            "extended-resource",
            "max-bytes",
            "max-length",
            "each",
            "short-keys",
            "unique-values",
        ];
        for (name, of, types) in [&*SCHEDULING, &*RESOURCE]
            .into_iter()
            .flat_map(|rules| rules.types.iter().map(|(name, of)| (*name, of, &rules.types)))
        {
            for field in &of.fields {
                assert!(field.rules.iter().all(|(rule, _)| rules.contains(rule)), "{name}.{}", field.name);
                let inner = field.inner.map(|inner| inner.trim_start_matches("[]").trim_start_matches("{}"));
                assert!(inner.is_none_or(|inner| types.contains_key(inner)), "{name}.{}", field.name);
            }
        }
    }
}
