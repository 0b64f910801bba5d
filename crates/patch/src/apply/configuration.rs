//! Apply configurations of mutating policies: merged into an object without a record of who owns what.

use object::{Meta, Value};
use schema::Schema;

use crate::typed::{Duplicates, Form, ListRelation, Type, merge, tracked, validate};

/// The object after a configuration was merged into it. Err is upstream's text of why that is not possible.
/// `is_structured` is false for custom resources.
pub fn merge_configuration(
    live: &Value,
    configuration: &Value,
    schema: Schema<'_>,
    is_structured: bool,
) -> Result<Value, String> {
    let of = Type::of(schema);
    validate(configuration, of, Duplicates::Refused)
        .map_err(|problems| format!("failed to convert patch object to typed object: {problems}"))?;
    let mut atomics = Vec::new();
    find_atomics("", configuration, of, &mut atomics);
    if !atomics.is_empty() {
        let atomics = atomics.join(", ");
        return Err(format!("invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: {atomics}"));
    }
    let managed = live.at(&["metadata", "managedFields"]).clone();
    let mut live = if is_structured { tracked(live, schema) } else { live.clone() };
    super::managed::clear(&mut live);
    validate(&live, of, Duplicates::Allowed)
        .map_err(|problems| format!("failed to convert original object to typed object: {problems}"))?;
    let mut merged =
        merge(&live, configuration, of).map_err(|problems| format!("failed to merge patch: {problems}"))?;
    if !managed.is_null() {
        merged.metadata_mut().insert("managedFields", managed);
    }
    Ok(merged)
}

/// Collects the paths of everything atomic that a configuration sets: its author may not know that what is not named there
/// would be removed.
fn find_atomics(path: &str, value: &Value, of: Type<'_>, found: &mut Vec<String>) {
    match (of.form(Some(value)), value) {
        (Form::Map(fields), Value::Map(map)) => {
            if fields.atomic {
                found.push(path.to_string());
            }
            for (key, value) in map.iter() {
                if let Some(of) = fields.declared(key) {
                    find_atomics(&format!("{path}.{key}"), value, of, found);
                }
            }
        }
        (Form::List(list), Value::List(items)) => {
            if matches!(list.relation, ListRelation::Atomic) {
                found.push(path.to_string());
            }
            for (index, item) in items.iter().enumerate() {
                find_atomics(&format!("{path}[{index}]"), item, list.items, found);
            }
        }
        _ => {}
    }
}
