//! Upstream's declared rules about groups of pods, as data (`data/scheduling-rules.txt`), and what applies them.
//!
//! What an update does not change is not looked at again, so that objects which were stored under other rules can still be
//! updated. Items of a list are the same when they have the same name.

use std::collections::HashMap;
use std::sync::LazyLock;

use object::{Cursor, Errors, Value, names};
use registry::Context;

use crate::common::checks::{Checks, IMMUTABLE, same};
use crate::common::versioned;

const TEXT: &str = include_str!("../../data/scheduling-rules.txt");
/// Templates contain templates; deeper than this nothing is allowed anyway.
const MAX_DEPTH: usize = 32;

static TYPES: LazyLock<HashMap<&'static str, Type>> = LazyLock::new(parse);

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

/// Checks what stands at `new` by the rules of a type. `old` is what an update finds there; a create finds nothing.
pub fn validate(cx: &Context, type_name: &str, new: &Cursor, old: Option<&Value>, errors: &mut Errors) {
    if old.is_some_and(|old| unchanged(new.value(), old)) {
        return;
    }
    Check { cx, update: old.is_some(), errors }.of_type(type_name, new, old, 0);
}

struct Check<'a, 'b> {
    cx: &'a Context<'b>,
    update: bool,
    errors: &'a mut Errors,
}

impl Check<'_, '_> {
    fn of_type(&mut self, name: &str, new: &Cursor, old: Option<&Value>, depth: usize) {
        let Some(of) = TYPES.get(name).filter(|_| depth < MAX_DEPTH) else { return };
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
        match inner.strip_prefix("[]") {
            None => self.of_type(inner, new, old, depth + 1),
            Some(item) => {
                let keyed = field.rules.iter().any(|(rule, _)| matches!(*rule, "keyed" | "unique"));
                self.items(item, keyed, new, old, depth);
            }
        }
    }

    fn items(&mut self, of: &str, keyed: bool, new: &Cursor, old: Option<&Value>, depth: usize) {
        if keyed {
            self.unique(of, new);
        }
        for item in new.each() {
            let before = if keyed { old.and_then(|old| named(old, name_of(item.value()))) } else { None };
            if !(self.update && before.is_some_and(|before| unchanged(item.value(), before))) {
                self.of_type(of, &item, before, depth + 1);
            }
        }
    }

    fn unique(&mut self, of: &str, list: &Cursor) {
        let names: Vec<&str> = list.each().map(|item| name_of(item.value())).collect();
        for (i, item) in list.each().enumerate() {
            if names.iter().take(i).any(|name| *name == name_of(item.value())) {
                // The types are the same in every version.
                let definition = format!("io.k8s.api.scheduling.v1beta1.{}", go_name(of));
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
        for item in new.each().filter(|item| named(old, name_of(item.value())).is_none()) {
            item.forbidden(self.errors, "item may not be added");
        }
        for _ in old.as_list().unwrap_or(&[]).iter().filter(|item| named(new.value(), name_of(item)).is_none()) {
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

/// As [`same`], but a type without fields is there or not, which is a difference even though there is nothing in it.
fn unchanged(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Map(a), Value::Map(b)) => {
            a.iter().all(|(key, value)| unchanged(value, b.get(key).unwrap_or(&Value::Null)))
                && b.iter().all(|(key, value)| a.contains_key(key) || unchanged(value, &Value::Null))
        }
        (Value::List(a), Value::List(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| unchanged(a, b)),
        (Value::Null, Value::Map(_)) | (Value::Map(_), Value::Null) => false,
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

fn name_of(item: &Value) -> &str {
    item.str_at(&["name"])
}

fn named<'a>(list: &'a Value, name: &str) -> Option<&'a Value> {
    list.as_list()?.iter().find(|item| name_of(item) == name)
}

fn parse() -> HashMap<&'static str, Type> {
    let mut types: HashMap<&'static str, Type> = HashMap::new();
    let mut current = "";
    for line in TEXT.lines().filter(|line| !line.starts_with('#')) {
        let Some(line) = line.strip_prefix(' ') else {
            current = line;
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
    types
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
        ];
        for (name, of) in TYPES.iter() {
            for field in &of.fields {
                assert!(field.rules.iter().all(|(rule, _)| rules.contains(rule)), "{name}.{}", field.name);
                let inner = field.inner.map(|inner| inner.trim_start_matches("[]"));
                assert!(inner.is_none_or(|inner| TYPES.contains_key(inner)), "{name}.{}", field.name);
            }
        }
    }
}
