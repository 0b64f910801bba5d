//! Objects inside of custom resources, where the schema has `x-kubernetes-embedded-resource`.

use object::{Cursor, Errors, GroupVersion, Meta, Path, Value, names};
use schema::{Schema, Shape};

use super::metadata;

/// Values nest no deeper than decoders let them; this bounds the walk all the same.
const MAX_DEPTH: usize = 1024;

/// Reads the metadata of every embedded object and returns the paths of the fields that ObjectMeta does not have.
pub fn coerce(schema: Schema<'_>, object: &mut Value) -> Result<Vec<String>, String> {
    let mut unknown = Vec::new();
    // The root's own metadata has been read already.
    visit(schema, object, &Path::root(), 0, &mut |value, path| {
        for name in ["apiVersion", "kind"] {
            if let Some(stated) = value.get(name).filter(|stated| stated.as_str().is_none()) {
                return Err(invalid(&path.field(name), stated.clone(), "must be a string"));
            }
        }
        let at = path.field("metadata");
        let before = value.field("metadata").clone();
        match metadata::read(value, &at.to_string()) {
            Ok(found) => unknown.extend(found),
            Err(why) => return Err(invalid(&at, before, &why)),
        }
        if value.meta_str("creationTimestamp").is_empty() && value.get("metadata").is_some() {
            value.remove(&["metadata", "creationTimestamp"]);
        }
        Ok(())
    })?;
    Ok(unknown)
}

/// Reports what is wrong with the types and metadata of embedded objects.
pub fn validate(schema: Schema<'_>, object: &Value, errors: &mut Errors) {
    if !schema.types.has_embedded() {
        return;
    }
    let mut object = object.clone();
    let visited = visit(schema, &mut object, &Path::root(), 0, &mut |value, path| {
        validate_one(value, path, errors);
        Ok(())
    });
    debug_assert!(visited.is_ok(), "the visitor above never fails");
}

fn validate_one(value: &Value, path: &Path, errors: &mut Errors) {
    for name in ["apiVersion", "kind"] {
        if value.get(name).is_none() {
            errors.required(&path.field(name), "");
        }
    }
    for name in ["apiVersion", "kind"] {
        let (at, Some(stated)) = (path.field(name), value.get(name)) else { continue };
        match stated.as_str() {
            None => errors.invalid(&at, stated.clone(), "must be a string"),
            Some("") => errors.invalid(&at, "", "must not be empty"),
            Some(text) if name == "apiVersion" => {
                if let Err(why) = GroupVersion::parse(text) {
                    errors.invalid(&at, text, why);
                }
            }
            Some(text) => {
                let wrong = names::dns1035_label(&text.to_lowercase());
                if !wrong.is_empty() {
                    let intro = "may have mixed case, but should otherwise match: ";
                    errors.invalid(&at, text, format!("{intro}{}", wrong.join(",")));
                }
            }
        }
    }
    if value.get("metadata").is_some() {
        let mut meta = value.field("metadata").clone();
        if meta.str_at(&["name"]).is_empty() {
            meta.set(&["name"], "fakename");
        }
        let holder = object::value!({"metadata": meta});
        let namespaced = !holder.namespace().is_empty();
        let mut found = Errors::new();
        let check = |name: &str, prefix: bool| names::name_is_path_segment(name, prefix);
        crate::metadata::validate(&Cursor::new(&holder, path.clone()), namespaced, &check, &mut found);
        errors.extend(found);
    }
}

fn invalid(path: &Path, value: Value, why: &str) -> String {
    let mut errors = Errors::new();
    errors.invalid(path, value, why);
    errors.iter().next().map(ToString::to_string).unwrap_or_default()
}

type Visitor<'v> = dyn FnMut(&mut Value, &Path) -> Result<(), String> + 'v;

/// Visits every embedded object below the root, outer ones first.
fn visit(
    schema: Schema<'_>,
    value: &mut Value,
    path: &Path,
    depth: usize,
    visitor: &mut Visitor<'_>,
) -> Result<(), String> {
    if depth > MAX_DEPTH {
        return Ok(());
    }
    if depth > 0 && schema.node.embedded && value.as_map().is_some() {
        visitor(value, path)?;
    }
    match (&schema.node.shape, value) {
        (Shape::Struct(id), Value::Map(map)) => {
            let known = schema.types.get(*id);
            for (name, child) in map.iter_mut() {
                if let Some(field) = known.field(name) {
                    visit(schema.with(&field.node), child, &path.field(name), depth + 1, visitor)?;
                }
            }
        }
        (Shape::Map(inner), Value::Map(map)) => {
            for (key, child) in map.iter_mut() {
                visit(schema.with(inner), child, &path.key(key), depth + 1, visitor)?;
            }
        }
        (Shape::List(inner), Value::List(items)) => {
            for (at, item) in items.iter_mut().enumerate() {
                visit(schema.with(inner), item, &path.index(at), depth + 1, visitor)?;
            }
        }
        _ => {}
    }
    Ok(())
}
