//! Objects inside of custom resources, where the schema has `x-kubernetes-embedded-resource`.

use std::convert::Infallible;

use object::{Cursor, ErrorType, Errors, FieldError, GroupVersion, Meta, Path, Value, names};
use schema::Schema;

use super::metadata;

/// Where a value is.
#[derive(Clone, Copy)]
pub enum At<'p> {
    /// A custom resource, whose own type and metadata are checked elsewhere.
    Resource,
    /// A value at a path, which may be an embedded object itself.
    Part(&'p Path),
}

/// Reads the metadata of every embedded object and returns the paths of the fields that ObjectMeta does not have.
pub fn coerce(schema: Schema<'_>, value: &mut Value, at: At<'_>) -> Result<Vec<String>, FieldError> {
    let mut unknown = Vec::new();
    visit(schema, value, at, &mut |object, path| {
        for name in ["apiVersion", "kind"] {
            if let Some(stated) = object.get(name).filter(|stated| stated.as_str().is_none()) {
                return Err(invalid(&path.field(name), stated.clone(), "must be a string"));
            }
        }
        let at = path.field("metadata");
        let before = object.field("metadata").clone();
        match metadata::read(object, &at.to_string()) {
            Ok(found) => unknown.extend(found),
            Err(why) => return Err(invalid(&at, before, &why)),
        }
        drop_empty_timestamp(object);
        Ok(())
    })?;
    Ok(unknown)
}

/// Drops what is wrong with the types and metadata of embedded objects that are stored.
pub fn repair(schema: Schema<'_>, value: &mut Value) {
    let repaired = visit(schema, value, At::Resource, &mut |object, _| {
        for name in ["apiVersion", "kind"] {
            if object.get(name).is_some_and(|stated| stated.as_str().is_none()) {
                object.remove(&[name]);
            }
        }
        // Metadata that is no object at all is left to validation.
        let _ = metadata::repair(object);
        drop_empty_timestamp(object);
        Ok::<(), Infallible>(())
    });
    let Ok(()) = repaired;
}

fn drop_empty_timestamp(object: &mut Value) {
    if object.meta_str("creationTimestamp").is_empty() && object.get("metadata").is_some() {
        object.remove(&["metadata", "creationTimestamp"]);
    }
}

/// Reports what is wrong with the types and metadata of embedded objects.
pub fn validate(schema: Schema<'_>, value: &Value, at: At<'_>, errors: &mut Errors) {
    if !schema.types.has_embedded() && matches!(at, At::Resource) {
        return;
    }
    let visited = visit(schema, &mut value.clone(), at, &mut |object, path| {
        validate_one(object, path, errors);
        Ok::<(), Infallible>(())
    });
    let Ok(()) = visited;
}

fn visit<E>(
    schema: Schema<'_>,
    value: &mut Value,
    at: At<'_>,
    visitor: &mut dyn FnMut(&mut Value, &Path) -> Result<(), E>,
) -> Result<(), E> {
    match at {
        At::Part(path) => schema::visit_embedded(schema, value, path, visitor),
        At::Resource => schema::visit_embedded(schema, value, &Path::root(), &mut |object, path| {
            if path.is_root() { Ok(()) } else { visitor(object, path) }
        }),
    }
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

fn invalid(path: &Path, value: Value, why: &str) -> FieldError {
    FieldError::new(ErrorType::Invalid, path, value, why)
}
