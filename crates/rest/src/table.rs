//! Tables and partial metadata: what kubectl prints and what controllers that only need metadata read.

use object::{GroupVersionKind, Map, Meta, Raw, Status, Value, value};
use registry::Column;

use crate::scope::Scope;

/// Which part of each object a table row carries.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Include {
    None,
    Metadata,
    Object,
}

/// A Table of objects in the storage version; `list` has the metadata that the table shows.
pub fn of_list(scope: &Scope, version: &str, objects: &[Value], list: &Value) -> Result<Value, Status> {
    Ok(of_rows(scope, version, rows(scope, version, objects)?, list))
}

/// The rows of objects in the storage version.
pub fn rows(scope: &Scope, version: &str, objects: &[Value]) -> Result<Vec<Value>, Status> {
    let include = include(scope)?;
    let cells = scope.strategy()?.rows(&scope.context(false), &objects.iter().collect::<Vec<_>>());
    objects.iter().zip(cells).map(|(object, cells)| row(scope, version, object, cells, include)).collect()
}

/// A Table of one object in the storage version.
pub fn of_object(scope: &Scope, version: &str, object: &Value) -> Result<Value, Status> {
    let cells = scope.strategy()?.cells(&scope.context(false), object);
    let row = row(scope, version, object, cells, include(scope)?)?;
    Ok(of_rows(scope, version, vec![row], object))
}

fn of_rows(scope: &Scope, version: &str, rows: Vec<Value>, list: &Value) -> Value {
    let mut table = without_rows(scope, version, list);
    // Kinds without a printer of their own have nil rows in Go.
    let nil = rows.is_empty() && is_default(&scope.resource.columns);
    table.set(&["rows"], if nil { Value::Null } else { rows.into() });
    table
}

/// A Table with its columns; `list` has the metadata that the table shows.
pub fn without_rows(scope: &Scope, version: &str, list: &Value) -> Value {
    table(version, list, definitions(scope, &scope.resource.kind.kind, &scope.resource.columns), Value::Null)
}

fn table(version: &str, list: &Value, definitions: Value, rows: Value) -> Value {
    let mut table = Map::new();
    table.insert("kind", "Table");
    table.insert("apiVersion", format!("meta.k8s.io/{version}"));
    let mut metadata = Map::new();
    for field in ["resourceVersion", "continue", "remainingItemCount"] {
        if let Some(set) = list.metadata().get(field) {
            metadata.insert(field, set.clone());
        }
    }
    table.insert("metadata", metadata);
    table.insert("columnDefinitions", definitions);
    table.insert("rows", rows);
    Value::Map(table)
}

/// The Table for a watch event: column definitions only in the first one.
pub fn of_event(scope: &Scope, version: &str, object: &Value, first: bool) -> Result<Value, Status> {
    let mut table = of_object(scope, version, object)?;
    if !first {
        table.set(&["columnDefinitions"], Value::Null);
    }
    Ok(table)
}

/// What tables show of objects; Err if the request asks for something else.
pub fn include(scope: &Scope) -> Result<Include, Status> {
    match scope.call.query("includeObject").unwrap_or("") {
        "" | "Metadata" => Ok(Include::Metadata),
        "None" => Ok(Include::None),
        "Object" => Ok(Include::Object),
        _ => Err(Status::bad_request(format!(
            "Unable to convert to Table as requested: includeObject: Invalid value: {}: must be 'Metadata', 'Object', 'None', or empty",
            object::quote(scope.call.query("includeObject").unwrap_or(""))
        ))),
    }
}

fn row(scope: &Scope, version: &str, object: &Value, cells: Vec<Value>, include: Include) -> Result<Value, Status> {
    let mut row = Map::new();
    row.insert("cells", cells);
    let conditions = scope.strategy()?.facts().row_conditions.map(|find| find(object)).unwrap_or_default();
    if !conditions.is_empty() {
        row.insert("conditions", conditions);
    }
    match include {
        Include::None => row.insert("object", Value::Null),
        Include::Metadata => {
            let kind = GroupVersionKind::new("meta.k8s.io", version, "PartialObjectMetadata");
            row.insert("object", printed(&partial(scope, object, version), schema::builtin().schema(&kind)))
        }
        Include::Object => row.insert("object", whole(scope, object)?),
    };
    Ok(Value::Map(row))
}

/// An object of the storage version as the requested one prints it.
fn whole(scope: &Scope, object: &Value) -> Result<Value, Status> {
    let mut object = scope.from_storage(object.clone())?;
    scope.project(&mut object);
    Ok(printed(&object, scope.resource.form.wire_schema()))
}

/// The object as JSON text. A Table has no schema for the objects in it, and would sort their fields.
fn printed(object: &Value, schema: Option<schema::Schema<'_>>) -> Value {
    let mut text = Vec::new();
    codec::json::encode(object, schema, &mut text);
    match String::from_utf8(text) {
        Ok(text) => Raw::new(text).into(),
        // JSON made of strings is always UTF-8; the value itself would only be printed in another order.
        Err(_) => object.clone(),
    }
}

/// Whether these are the columns of a kind that has none of its own.
fn is_default(columns: &[Column]) -> bool {
    columns.iter().map(|column| column.name.as_str()).eq(["Name", "Created At"])
}

fn definitions(scope: &Scope, kind: &str, columns: &[Column]) -> Value {
    let define = |column: &Column| {
        let description = match column.description.as_str() {
            "" => (scope.api.describe_column)(kind, &column.name),
            own => own,
        };
        value!({
            "name": (column.name.clone()),
            "type": (column.kind.clone()),
            "format": (column.format.clone()),
            "description": description,
            "priority": (column.priority),
        })
    };
    Value::List(columns.iter().map(define).collect())
}

/// Only the metadata of an object in the storage version, and of that what the request asks for.
pub fn partial(scope: &Scope, object: &Value, version: &str) -> Value {
    let mut partial = metadata(scope, object, version);
    scope.project(&mut partial);
    partial
}

/// Only the metadata of an object in the storage version.
pub fn metadata(scope: &Scope, object: &Value, version: &str) -> Value {
    let hidden = scope.storage().map_or(&[][..], |storage| storage.strategy.facts().hidden_annotations);
    let mut partial = Map::new();
    partial.insert("kind", "PartialObjectMetadata");
    partial.insert("apiVersion", format!("meta.k8s.io/{version}"));
    partial.insert("metadata", shown_metadata(object, hidden));
    Value::Map(partial)
}

/// The metadata of an object, without annotations that stand for fields of the kind.
pub fn shown_metadata(object: &Value, hidden: &[&str]) -> Value {
    let mut metadata = object.metadata().clone();
    if let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_map_mut) {
        annotations.retain(|key, _| !hidden.contains(&key));
        if annotations.is_empty() {
            metadata.remove(&["annotations"]);
        }
    }
    metadata
}

/// A single object cannot be shown as a list.
pub fn not_a_list(go_type: &str) -> Status {
    Status::not_acceptable(format!(
        "you requested PartialObjectMetadataList, but the requested object is not a list ({})",
        go_type
    ))
}

/// What upstream calls the type of the objects it works with, which is not the one that it shows.
pub fn go_type(scope: &Scope, kind: &str) -> String {
    let group = if kind == "Scale" { "autoscaling" } else { &scope.resource.kind.group };
    scope.resource.form.go_type(group, kind)
}

/// A Table of the one Scale of an object.
pub fn of_scale(scope: &Scope, version: &str, scale: &Value) -> Result<Value, Status> {
    let column = |name: &str, kind: &str, format: &str, description: &str| Column {
        name: name.into(),
        kind: kind.into(),
        format: format.into(),
        description: description.into(),
        ..Column::default()
    };
    let columns = match scope.resource.is_custom() {
        true => [
            column("Name", "string", "name", ""),
            column("Desired", "integer", "", "Number of desired replicas"),
            column("Available", "integer", "", "Number of actual replicas"),
            column("Age", "date", "", ""),
        ],
        false => [
            column("Name", "string", "", ""),
            column("Desired", "integer", "", ""),
            column("Available", "integer", "", ""),
            column("Age", "string", "", ""),
        ],
    };
    let number = |part: &str| Value::from(scale.at(&[part, "replicas"]).as_int().unwrap_or(0));
    let age = registry::columns::age(&scope.context(false), scale);
    let cells = vec![Value::from(scale.name()), number("spec"), number("status"), age];
    let mut row = Map::new();
    row.insert("cells", cells);
    row.insert(
        "object",
        match include(scope)? {
            Include::None => Value::Null,
            Include::Metadata => partial(scope, scale, version),
            Include::Object => scale.clone(),
        },
    );
    Ok(table(version, scale, definitions(scope, "Scale", &columns), vec![Value::Map(row)].into()))
}
