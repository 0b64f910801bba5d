//! `fields` and `drop`: which fields of the objects are sent.

use object::{Map, Str, Value};

use super::path::{FieldPath, PathStep};

/// FieldChoice that are always sent: what an object is, and what clients need to follow it.
const ALWAYS: [&[&str]; 6] = [
    &["apiVersion"],
    &["kind"],
    &["metadata", "name"],
    &["metadata", "namespace"],
    &["metadata", "uid"],
    &["metadata", "resourceVersion"],
];

/// The fields that a request asks for.
#[derive(Clone, Debug, Default)]
pub struct FieldChoice {
    /// None for all of them.
    kept: Option<KeptFields>,
    dropped: Vec<FieldPath>,
}

/// The parts of a value that are kept.
#[derive(Clone, Debug, Default)]
struct KeptFields {
    /// All of it.
    whole: bool,
    below: Vec<(PathStep, KeptFields)>,
}

impl FieldChoice {
    /// `dropped` may have no path that hides what an object is.
    pub fn new(kept: Option<Vec<FieldPath>>, dropped: Vec<FieldPath>) -> Result<FieldChoice, String> {
        let hides = |path: &FieldPath| {
            let is_field = |step: &PathStep, name: &str| matches!(step, PathStep::Field(field) if field == name);
            ALWAYS
                .iter()
                .any(|fixed| path.0.len() <= fixed.len() && path.0.iter().zip(*fixed).all(|(a, b)| is_field(a, b)))
        };
        if dropped.iter().any(hides) {
            return Err(
                "apiVersion, kind and metadata.name, namespace, uid and resourceVersion cannot be dropped".into()
            );
        }
        let kept = kept.map(|paths| {
            let mut kept = KeptFields::default();
            paths.iter().for_each(|path| kept.add(&path.0));
            for fixed in ALWAYS {
                kept.add(&fixed.iter().map(|name| PathStep::Field(Str::from(*name))).collect::<Vec<_>>());
            }
            kept
        });
        Ok(FieldChoice { kept, dropped })
    }

    /// Leaves only what is asked for.
    pub fn apply(&self, object: &mut Value) {
        if let Some(kept) = &self.kept {
            *object = kept.of(object.take());
        }
        for path in &self.dropped {
            remove(object, &path.0);
        }
    }
}

impl KeptFields {
    fn add(&mut self, path: &[PathStep]) {
        let Some((first, rest)) = path.split_first() else {
            self.whole = true;
            return;
        };
        let at = self.below.iter().position(|(step, _)| step == first).unwrap_or_else(|| {
            self.below.push((first.clone(), KeptFields::default()));
            self.below.len() - 1
        });
        self.below[at].1.add(rest);
    }

    fn of(&self, value: Value) -> Value {
        match value {
            value if self.whole => value,
            Value::Map(map) => Value::Map(self.fields_of(map)),
            Value::List(items) => Value::List(items.into_iter().filter_map(|item| self.item(item)).collect()),
            // Something else is where the path goes on: it has no fields.
            _ => Value::Null,
        }
    }

    fn fields_of(&self, mut map: Map) -> Map {
        let below = |name: &str| {
            self.below
                .iter()
                .find(|(step, _)| matches!(step, PathStep::Field(field) if field == name))
                .map(|(_, kept)| kept)
        };
        map.retain(|name, value| {
            let Some(kept) = below(name) else { return false };
            let was_null = value.is_null();
            *value = kept.of(value.take());
            was_null || !value.is_null()
        });
        map
    }

    /// An item of a list: the fields asked for of all items, and those of the items that it is one of.
    fn item(&self, item: Value) -> Option<Value> {
        let mut kept = KeptFields::default();
        let mut is_wanted = false;
        for (step, below) in &self.below {
            match step {
                PathStep::Field(_) => {
                    is_wanted = true;
                    kept.below.push((step.clone(), below.clone()));
                }
                PathStep::Items(field, text) if item.str_at(&[field]) == text.as_str() => {
                    is_wanted = true;
                    kept.merge(below);
                    kept.add(&[PathStep::Field(field.clone())]);
                }
                PathStep::Items(..) => {}
            }
        }
        is_wanted.then(|| kept.of(item))
    }

    fn merge(&mut self, other: &KeptFields) {
        self.whole |= other.whole;
        for (step, kept) in &other.below {
            match self.below.iter_mut().find(|(known, _)| known == step) {
                Some((_, known)) => known.merge(kept),
                None => self.below.push((step.clone(), kept.clone())),
            }
        }
    }
}

/// Removes what is at a path. A map that has nothing left stays.
fn remove(value: &mut Value, path: &[PathStep]) {
    let Some((first, rest)) = path.split_first() else { return };
    match (first, value) {
        (PathStep::Field(name), Value::Map(map)) if rest.is_empty() => drop(map.remove(name)),
        (PathStep::Field(name), Value::Map(map)) => {
            if let Some(below) = map.get_mut(name) {
                remove(below, rest);
            }
        }
        (PathStep::Field(_), Value::List(items)) => items.iter_mut().for_each(|item| remove(item, path)),
        (PathStep::Items(field, text), Value::List(items)) => {
            let is_meant = |item: &Value| item.str_at(&[field]) == text.as_str();
            if rest.is_empty() {
                items.retain(|item| !is_meant(item));
            }
            items.iter_mut().filter(|item| is_meant(item)).for_each(|item| remove(item, rest));
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use object::value;

    use super::*;

    fn object() -> Value {
        value!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": "p", "namespace": "ns", "uid": "u", "resourceVersion": "7", "labels": {"a": "b", "c": "d"}},
            "spec": {"nodeName": "n", "containers": [{"name": "a", "image": "x", "tty": true}, {"name": "b", "image": "y"}]},
            "status": {"conditions": [{"type": "Ready", "status": "True"}, {"type": "Other", "status": "False"}], "phase": "Running"}
        })
    }

    #[test]
    fn only_what_is_asked_for_is_kept() {
        let always = value!({"name": "p", "namespace": "ns", "uid": "u", "resourceVersion": "7"});
        let check = |kept: &str, dropped: &str, want: Value| {
            let paths = |text: &str| if text.is_empty() { Vec::new() } else { FieldPath::list(text).unwrap() };
            let kept_paths = (!kept.is_empty()).then(|| paths(kept));
            let mut got = object();
            FieldChoice::new(kept_paths, paths(dropped)).unwrap().apply(&mut got);
            assert_eq!(got, want, "{kept} without {dropped}");
        };
        let with = |more: Value| {
            let mut all = value!({"apiVersion": "v1", "kind": "Pod", "metadata": (always.clone())});
            for (name, value) in more.as_map().unwrap().iter() {
                all.set(&[name], value.clone());
            }
            all
        };
        check("metadata.name", "", with(value!({})));
        check("spec.nodeName,spec.nodeName", "", with(value!({"spec": {"nodeName": "n"}})));
        check("spec", "spec.containers", with(value!({"spec": {"nodeName": "n"}})));
        check("spec.nothing.here", "", with(value!({"spec": {}})));
        check("spec.nodeName.below", "", with(value!({"spec": {}})));
        check("spec.containers.image", "", with(value!({"spec": {"containers": [{"image": "x"}, {"image": "y"}]}})));
        check(
            "status.conditions[type=Ready].status",
            "",
            with(value!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}})),
        );
        check(
            "spec.containers[name=a].image,spec.containers.name",
            "",
            with(value!({"spec": {"containers": [{"name": "a", "image": "x"}, {"name": "b"}]}})),
        );
        let mut less = object();
        less.remove(&["metadata", "labels", "a"]);
        check("", "metadata.labels.a", less);
        let mut less = object();
        less.set(&["spec", "containers"], value!([{"name": "a", "tty": true}, {"name": "b"}]));
        check("", "spec.containers.image", less);
        let mut less = object();
        less.set(&["status", "conditions"], value!([{"type": "Other", "status": "False"}]));
        check("", "status.conditions[type=Ready],nothing.here", less);
    }

    #[test]
    fn what_an_object_is_stays() {
        for path in ["metadata", "metadata.name", "kind", "metadata.resourceVersion"] {
            assert!(FieldChoice::new(None, FieldPath::list(path).unwrap()).is_err(), "{path}");
        }
        assert!(FieldChoice::new(None, FieldPath::list("metadata.managedFields,metadata.name.x").unwrap()).is_ok());
    }
}
