//! Defaulting: unset fields become what the schema says.

use object::Value;
use object::quantity::Quantity;

use crate::MAX_DEPTH;
use crate::types::{Field, RESOURCE_LIST, Schema, Shape, StructId};
use crate::zero::is_zero;

/// Sets every default of the schema that the value leaves unset.
///
/// A field is unset when it is missing, or null where null is not allowed; one that Go holds by value also when it is
/// zero, because Go cannot tell the two apart. For the same reason structs held by value are there even when the document
/// does not mention them, and their defaults count.
pub fn default(schema: Schema<'_>, value: &mut Value) {
    walk(schema, value, 0);
}

fn walk(schema: Schema<'_>, value: &mut Value, depth: usize) {
    if depth >= MAX_DEPTH {
        return;
    }
    match (&schema.shape, value) {
        (Shape::Struct(id), value @ Value::Map(_)) => fields(schema, *id, value, depth),
        (Shape::StructOrList(id) | Shape::StructOrBool(id) | Shape::StructOrStrings(id), value @ Value::Map(_)) => {
            fields(schema, *id, value, depth);
        }
        (Shape::StructOrList(id), Value::List(items)) => {
            items.iter_mut().for_each(|item| fields(schema, *id, item, depth));
        }
        (Shape::List(inner), Value::List(items)) => {
            let inner = schema.with(inner);
            items.iter_mut().for_each(|item| element(inner, item, depth));
        }
        (Shape::Map(inner), Value::Map(map)) => {
            let rounded = schema.go_type.as_deref() == Some(RESOURCE_LIST);
            let inner = schema.with(inner);
            for (_, item) in map.iter_mut() {
                element(inner, item, depth);
                if rounded {
                    round_up(item);
                }
            }
        }
        _ => {}
    }
}

/// Amounts of resources are kept in thousandths at the finest.
fn round_up(value: &mut Value) {
    let Some(quantity) = value.as_str().and_then(|text| Quantity::parse(text).ok()) else { return };
    if let Some(rounded) = quantity.rounded_to_milli() {
        *value = rounded.to_string().into();
    }
}

/// An item of a list or a value of a map.
fn element(schema: Schema<'_>, value: &mut Value, depth: usize) {
    if let (Value::Null, false, Some(default)) = (&*value, schema.nullable, &schema.default) {
        *value = default.clone();
    }
    walk(schema, value, depth + 1);
}

fn fields(schema: Schema<'_>, id: StructId, value: &mut Value, depth: usize) {
    let known = schema.types.get(id);
    let Value::Map(map) = value else { return };
    if known.no_defaults {
        return;
    }
    // Fields and entries are both sorted by name.
    let mut place = 0;
    for field in known.fields.iter().filter(|field| !field.no_defaults) {
        let inner = schema.with(&field.node);
        let mut found = map.find_from(place, &field.name);
        let (Ok(at) | Err(at)) = found;
        place = at;
        if let Some(default) = &field.node.default
            && is_unset(inner, field, found.ok().and_then(|at| map.value_mut(at)).as_deref())
            // Zero is what an unset field held by value is anyway.
            && (field.pointer || !is_zero(inner, default))
        {
            map.insert(field.name.clone(), default.clone());
            found = Ok(place);
        }
        match found.ok().and_then(|at| map.value_mut(at)) {
            Some(Value::Null) | None => {
                if let Some(made) = held_by_value(inner, field, depth) {
                    map.insert(field.name.clone(), made);
                }
            }
            Some(child) => walk(inner, child, depth + 1),
        }
    }
}

fn is_unset(schema: Schema<'_>, field: &Field, value: Option<&Value>) -> bool {
    match value {
        None => true,
        Some(Value::Null) => !schema.nullable,
        Some(value) => !field.pointer && is_zero(schema, value),
    }
}

/// A struct that the document does not mention but Go has, if anything in it has a default.
fn held_by_value(schema: Schema<'_>, field: &Field, depth: usize) -> Option<Value> {
    if field.pointer || !matches!(schema.shape, Shape::Struct(_)) {
        return None;
    }
    let mut made = Value::map();
    walk(schema, &mut made, depth + 1);
    (!made.is_empty()).then_some(made)
}

#[cfg(test)]
mod tests;
