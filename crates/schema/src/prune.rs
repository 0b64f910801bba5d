//! Pruning: what the schema does not know is dropped, and named.

use object::Value;

use crate::MAX_DEPTH;
use crate::types::{Schema, Shape, StructId};

/// Parts of every object that pruning leaves alone where an object is expected.
const OBJECT_FIELDS: [&str; 3] = ["apiVersion", "kind", "metadata"];

/// Drops every field that the schema does not know and returns their paths, sorted: `spec.foo`, `spec.list[0].bar`.
///
/// Where a node is an embedded object its apiVersion, kind and metadata are its own business; that goes for the root of a
/// custom resource as well, whose node says so.
pub fn prune(schema: Schema<'_>, value: &mut Value) -> Vec<String> {
    let mut pruner = Pruner { path: String::new(), unknown: Vec::new() };
    pruner.walk(schema, value, 0);
    pruner.unknown.sort_unstable();
    pruner.unknown
}

struct Pruner {
    /// Where we are; children push to it and take away what they pushed.
    path: String,
    unknown: Vec<String>,
}

impl Pruner {
    fn walk(&mut self, schema: Schema<'_>, value: &mut Value, depth: usize) {
        if depth >= MAX_DEPTH {
            return;
        }
        match (&schema.shape, value) {
            (Shape::Any | Shape::Fields | Shape::RawExtension, _) => {}
            (Shape::Struct(id), value @ Value::Map(_)) => self.fields(schema, *id, value, depth),
            (Shape::StructOrList(id) | Shape::StructOrBool(id) | Shape::StructOrStrings(id), value @ Value::Map(_)) => {
                self.fields(schema, *id, value, depth);
            }
            (Shape::StructOrList(id), Value::List(items)) => {
                for (at, item) in items.iter_mut().enumerate() {
                    self.index(at, |pruner| pruner.fields(schema, *id, item, depth));
                }
            }
            (Shape::StructOrStrings(_), Value::List(_)) => {}
            (Shape::Map(inner), Value::Map(map)) => {
                let inner = schema.with(inner);
                for (key, item) in map.iter_mut() {
                    self.key(key, |pruner| pruner.walk(inner, item, depth + 1));
                }
            }
            (Shape::List(inner), Value::List(items)) => {
                let inner = schema.with(inner);
                for (at, item) in items.iter_mut().enumerate() {
                    self.index(at, |pruner| pruner.walk(inner, item, depth + 1));
                }
            }
            (Shape::Struct(id), Value::List(_)) if schema.types.get(*id).preserve_unknown => {}
            // Not what the schema expects: nothing inside can be known. Validation will say what is wrong.
            (_, value) => self.everything(value, depth),
        }
    }

    fn fields(&mut self, schema: Schema<'_>, id: StructId, value: &mut Value, depth: usize) {
        let known = schema.types.get(id);
        let Value::Map(map) = value else { return self.everything(value, depth) };
        map.retain(|name, child| {
            if schema.embedded && OBJECT_FIELDS.contains(&name) {
                return true;
            }
            match known.field(name) {
                Some(field) => {
                    self.key(name, |pruner| pruner.walk(schema.with(&field.node), child, depth + 1));
                    true
                }
                None if known.preserve_unknown => true,
                None => {
                    self.key(name, Pruner::report);
                    false
                }
            }
        });
    }

    /// Drops every field below.
    fn everything(&mut self, value: &mut Value, depth: usize) {
        match value {
            Value::Map(map) => map.retain(|name, _| {
                self.key(name, Pruner::report);
                false
            }),
            Value::List(items) if depth < MAX_DEPTH => {
                for (at, item) in items.iter_mut().enumerate() {
                    self.index(at, |pruner| pruner.everything(item, depth + 1));
                }
            }
            _ => {}
        }
    }

    fn report(&mut self) {
        self.unknown.push(self.path.clone());
    }

    fn key(&mut self, name: &str, inside: impl FnOnce(&mut Pruner)) {
        let length = self.path.len();
        if length > 0 {
            self.path.push('.');
        }
        self.path.push_str(name);
        inside(self);
        self.path.truncate(length);
    }

    fn index(&mut self, at: usize, inside: impl FnOnce(&mut Pruner)) {
        let length = self.path.len();
        self.path.push_str(&format!("[{at}]"));
        inside(self);
        self.path.truncate(length);
    }
}

#[cfg(test)]
mod tests;
