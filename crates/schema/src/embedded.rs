//! Objects inside of objects, where a schema has `x-kubernetes-embedded-resource`.

use object::{Path, Value};

use crate::MAX_DEPTH;
use crate::types::{Schema, Shape};

/// Is shown an embedded object and where it is.
pub type Visitor<'v, E> = dyn FnMut(&mut Value, &Path) -> Result<(), E> + 'v;

/// Visits every object that the schema says is an embedded one, outer ones first, the value itself included. `path` is
/// where the value is.
pub fn visit_embedded<E>(
    schema: Schema<'_>,
    value: &mut Value,
    path: &Path,
    visitor: &mut Visitor<'_, E>,
) -> Result<(), E> {
    walk(schema, value, path, 0, visitor)
}

fn walk<E>(
    schema: Schema<'_>,
    value: &mut Value,
    path: &Path,
    depth: usize,
    visitor: &mut Visitor<'_, E>,
) -> Result<(), E> {
    if depth > MAX_DEPTH {
        return Ok(());
    }
    if schema.node.embedded && value.as_map().is_some() {
        visitor(value, path)?;
    }
    match (&schema.node.shape, value) {
        (Shape::Struct(id), Value::Map(map)) => {
            let known = schema.types.get(*id);
            for (name, child) in map.iter_mut() {
                if let Some(field) = known.field(name) {
                    walk(schema.with(&field.node), child, &path.field(name), depth + 1, visitor)?;
                }
            }
        }
        (Shape::Map(inner), Value::Map(map)) => {
            for (key, child) in map.iter_mut() {
                walk(schema.with(inner), child, &path.key(key), depth + 1, visitor)?;
            }
        }
        (Shape::List(inner), Value::List(items)) => {
            for (at, item) in items.iter_mut().enumerate() {
                walk(schema.with(inner), item, &path.index(at), depth + 1, visitor)?;
            }
        }
        _ => {}
    }
    Ok(())
}
