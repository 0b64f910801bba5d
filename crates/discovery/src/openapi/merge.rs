//! Merges the documents of the second version of other API servers into ours, as upstream resolves conflicts: our paths stay,
//! definitions and parameters that differ under one name get another name.

use std::sync::Arc;

use aggregator::openapi::{below, rename_references};
use codec::Notes;
use hashbrown::{HashMap, HashSet};
use object::Value;

use super::json::Json;

/// Whether two values under one name can stand for each other.
type Same = fn(&Value, &Value) -> bool;

const KINDS: &str = "x-kubernetes-group-version-kind";

/// Our document with the others'. One that cannot be merged is left out.
pub fn merge(own: Vec<u8>, others: &[Arc<Value>]) -> Vec<u8> {
    if others.is_empty() {
        return own;
    }
    let Ok(mut merged) = codec::json::decode(&own, None, &mut Notes::ignore()) else { return own };
    for other in others {
        add(&mut merged, other);
    }
    let mut json = Json::new(false);
    json.value(&merged);
    json.finish()
}

fn add(merged: &mut Value, other: &Value) {
    let is_new = |path: &str| merged.at(&["paths", path]).is_null();
    let mut other = below(other, is_new);
    if other.field("paths").as_map().is_none_or(|paths| paths.is_empty()) {
        return;
    }
    let sections: [(&str, Same); 2] = [("definitions", same_definition), ("parameters", same_value)];
    for (section, same) in sections {
        let renames = renames(merged.field(section), other.field(section), same);
        rename(&mut other, section, &renames);
    }
    for (name, definition) in entries(other.field("definitions")) {
        match merged.at(&["definitions", name]) {
            Value::Null => merged.set(&["definitions", name], definition.clone()),
            known => {
                if let Some(kinds) = merged_kinds(known.field(KINDS), definition.field(KINDS)) {
                    merged.set(&["definitions", name, KINDS], kinds);
                }
            }
        }
    }
    for section in ["parameters", "paths"] {
        for (name, value) in entries(other.field(section)) {
            if merged.at(&[section, name]).is_null() {
                merged.set(&[section, name], value.clone());
            }
        }
    }
}

/// New names for what is there under the same name and is not the same.
fn renames(known: &Value, new: &Value, same: Same) -> HashMap<String, String> {
    let mut renames = HashMap::new();
    let mut used: HashSet<String> = entries(known).map(|(name, _)| name.to_string()).collect();
    for (name, value) in entries(new) {
        let existing = known.field(name);
        if existing.is_null() || same(existing, value) {
            continue;
        }
        // A rename of the same thing by another document is used again.
        let candidates = || (2..).map(move |number| format!("{name}_v{number}"));
        let mut taken = candidates().take_while(|candidate| !known.field(candidate).is_null());
        let again = taken.find(|candidate| same(known.field(candidate), value));
        let free = |candidate: &String| !used.contains(candidate) && new.field(candidate).is_null();
        if let Some(new_name) = again.or_else(|| candidates().find(free)) {
            used.insert(new_name.clone());
            renames.insert(name.to_string(), new_name);
        }
    }
    renames
}

fn rename(document: &mut Value, section: &str, renames: &HashMap<String, String>) {
    if renames.is_empty() {
        return;
    }
    let reference = |name: &str| format!("#/{section}/{name}");
    let references = renames.iter().map(|(old, new)| (reference(old), reference(new))).collect();
    rename_references(document, &references);
    let mut renamed = Value::map();
    for (name, value) in entries(document.field(section)) {
        renamed.set(&[renames.get(name).map_or(name, String::as_str)], value.clone());
    }
    document.set(&[section], renamed);
}

fn entries(section: &Value) -> impl Iterator<Item = (&str, &Value)> {
    section.as_map().into_iter().flat_map(|map| map.iter())
}

fn same_value(a: &Value, b: &Value) -> bool {
    a == b
}

/// Whether two definitions are the same but for the kinds that they are said to be of.
fn same_definition(a: &Value, b: &Value) -> bool {
    let without_kinds = |definition: &Value| {
        let mut definition = definition.clone();
        definition.remove(&[KINDS]);
        definition
    };
    a == b || without_kinds(a) == without_kinds(b)
}

/// Both lists of kinds, sorted, if the second adds something to the first.
fn merged_kinds(known: &Value, new: &Value) -> Option<Value> {
    let Value::List(new) = new else { return None };
    let Value::List(known) = known else { return Some(Value::List(new.clone())) };
    let added: Vec<&Value> = new.iter().filter(|kind| !known.contains(kind)).collect();
    if added.is_empty() {
        return None;
    }
    let mut all: Vec<Value> = known.iter().chain(added).cloned().collect();
    let text =
        |kind: &Value| format!("{}/{}.{}", kind.str_at(&["group"]), kind.str_at(&["version"]), kind.str_at(&["kind"]));
    all.sort_by_cached_key(text);
    Some(all.into())
}

#[cfg(test)]
mod tests {
    use object::value;

    use super::*;

    fn check(own: Value, others: &[Value], expected: Value) {
        let mut json = Vec::new();
        codec::json::encode(&own, None, &mut json);
        let others: Vec<Arc<Value>> = others.iter().cloned().map(Arc::new).collect();
        let merged = merge(json, &others);
        assert_eq!(codec::json::decode(&merged, None, &mut Notes::ignore()).unwrap(), expected);
    }

    #[test]
    fn conflicts_are_resolved_by_names() {
        let own = value!({
            "swagger": "2.0",
            "paths": {"/a": {"get": 1}},
            "definitions": {"Same": {"type": "object", "x-kubernetes-group-version-kind": [{"group": "b", "version": "v1", "kind": "X"}]}, "Other": {"type": "string"}},
            "parameters": {"p": {"in": "query"}},
        });
        let other = value!({
            "paths": {
                "/a": {"get": 2},
                "/b": {"get": [{"$ref": "#/definitions/Same"}, {"$ref": "#/definitions/Other"}, {"$ref": "#/parameters/p"}]},
            },
            "definitions": {
                "Same": {"type": "object", "x-kubernetes-group-version-kind": [{"group": "a", "version": "v1", "kind": "X"}]},
                "Other": {"type": "integer"},
            },
            "parameters": {"p": {"in": "body"}},
        });
        // A second document with the same things refers to what the first one brought.
        let mut again = other.clone();
        again.set(&["paths", "/c"], again.at(&["paths", "/b"]).clone());
        let refers = value!([
            {"$ref": "#/definitions/Same"}, {"$ref": "#/definitions/Other_v2"}, {"$ref": "#/parameters/p_v2"}
        ]);
        let expected = value!({
            "swagger": "2.0",
            "paths": {"/a": {"get": 1}, "/b": {"get": (refers.clone())}, "/c": {"get": (refers)}},
            "definitions": {
                "Same": {"type": "object", "x-kubernetes-group-version-kind": [
                    {"group": "a", "version": "v1", "kind": "X"}, {"group": "b", "version": "v1", "kind": "X"},
                ]},
                "Other": {"type": "string"}, "Other_v2": {"type": "integer"},
            },
            "parameters": {"p": {"in": "query"}, "p_v2": {"in": "body"}},
        });
        check(own, &[other, again], expected);
    }

    #[test]
    fn nothing_is_taken_from_a_document_without_new_paths() {
        let own = || value!({"paths": {"/a": {}}, "definitions": {}});
        check(own(), &[value!({"paths": {"/a": {}}, "definitions": {"X": {}}}), value!({}), value!([])], own());
    }
}
