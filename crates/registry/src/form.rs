//! [`Form`]: how the objects of a kind are read, completed and written.
//!
//! Upstream holds objects of built-in kinds in Go structs and custom resources in maps, which it calls unstructured. What follows from
//! that for clients is decided here, so that verbs do not ask which of the two they work on.

use std::sync::{Arc, LazyLock};

use codec::{Notes, json};
use object::{Errors, GroupVersionKind, Meta, Path, Value};
use schema::{Node, Schema, Types, builtin};

use crate::custom;

/// The form of a kind's objects.
#[derive(Clone)]
pub struct Form {
    shape: Shape,
    structured: bool,
}

/// A schema that owns its arena. Those of custom resources are compiled when they are first used.
#[derive(Clone)]
pub struct Shape(Arc<LazyLock<(Arc<Types>, Node), Compile>>);

type Compile = Box<dyn FnOnce() -> (Arc<Types>, Node) + Send>;

impl Form {
    /// That of a built-in kind: read and written by its schema, which has the order of the fields, their Go types and the
    /// numbers of protobuf.
    pub fn structured(shape: Shape) -> Form {
        Form { shape, structured: true }
    }

    /// That of a custom resource: fields are written sorted by name, the type is a field like others, unknown fields are
    /// pruned, and there is no protobuf.
    pub fn unstructured(shape: Shape) -> Form {
        Form { shape, structured: false }
    }

    /// That of a kind in the table of built-in ones; None if it is not there.
    pub fn builtin(kind: &GroupVersionKind) -> Option<Form> {
        let found = builtin().kind(&kind.group, &kind.version, &kind.kind)?;
        Some(Form::structured(Shape::new(builtin().types().clone(), found.node.clone())))
    }

    /// Whether Go has structs for the objects.
    pub fn is_structured(&self) -> bool {
        self.structured
    }

    /// The structural schema, for defaults, pruning and server-side apply.
    pub fn schema(&self) -> Schema<'_> {
        self.shape.schema()
    }

    /// The schema that codecs read and write objects by; None where they need none.
    pub fn wire_schema(&self) -> Option<Schema<'_>> {
        self.structured.then(|| self.schema())
    }

    /// The same for a list of the objects.
    pub fn list_schema(&self, list_kind: &GroupVersionKind) -> Option<Schema<'static>> {
        builtin().schema(list_kind).filter(|_| self.structured)
    }

    /// The kind of a body that states this much of it. Structured objects may leave out what the path says; None if an
    /// unstructured one does not state its kind.
    pub fn kind_of_body(&self, stated: GroupVersionKind, expected: &GroupVersionKind) -> Option<GroupVersionKind> {
        if !self.structured {
            return Some(stated).filter(|stated| !stated.kind.is_empty());
        }
        let mut kind = stated;
        if kind.kind.is_empty() {
            kind.kind = expected.kind.clone();
        }
        if kind.version.is_empty() && kind.group.is_empty() {
            kind.group = expected.group.clone();
            kind.version = expected.version.clone();
        }
        Some(kind)
    }

    /// Completes an object that was decoded by [`Form::wire_schema`]; returns what strict clients are told about dropped fields.
    pub fn settle(&self, object: Value) -> Result<(Value, Vec<String>), String> {
        if self.structured {
            return Ok((object, Vec::new()));
        }
        custom::settle(object, self.schema())
    }

    /// Reads a document, such as a patched object, as if it had been sent; see [`Form::settle`]. What the decoder noticed
    /// comes before what was dropped.
    pub fn read(&self, document: &Value, notes: &mut Notes) -> Result<(Value, Vec<String>), String> {
        let object = json::coerce(document, self.wire_schema(), notes).map_err(|error| error.to_string())?;
        let (object, dropped) = self.settle(object)?;
        Ok((object, notes.messages().iter().cloned().chain(dropped).collect()))
    }

    /// Reads an object that server-side apply has merged. Unknown fields of unstructured ones were refused with the
    /// configuration.
    pub fn read_merged(&self, kind: &GroupVersionKind, mut merged: Value) -> Result<Value, String> {
        let Some(schema) = self.wire_schema() else { return Ok(merged) };
        patch::restore(&mut merged, schema).map_err(|why| {
            let (group, version, kind) = (&kind.group, &kind.version, &kind.kind);
            format!("unable to convert unstructured object to {group}/{version}, Kind={kind}: {why}")
        })?;
        json::coerce(&merged, Some(schema), &mut Notes::ignore()).map_err(|error| error.to_string())
    }

    /// Compares the type that an unstructured object states with the expected one. Structured objects have the type of the
    /// path.
    pub fn check_type(&self, object: &Value, expected: &GroupVersionKind) -> Errors {
        let mut errors = Errors::new();
        if self.structured {
            return errors;
        }
        if object.kind() != expected.kind {
            errors.invalid(&Path::of("kind"), object.kind(), format!("must be {}", expected.kind));
        }
        let version = expected.group_version().to_string();
        if object.api_version() != version {
            errors.invalid(&Path::of("apiVersion"), object.api_version(), format!("must be {version}"));
        }
        errors
    }

    /// The object with every field that clients read, as JSON patches, webhooks and expressions see it.
    pub fn printed(&self, object: &Value) -> Value {
        match self.wire_schema() {
            Some(schema) => patch::as_printed(object, schema),
            None => object.clone(),
        }
    }

    /// Writes an object as compact JSON.
    pub fn write_json(&self, object: &Value, out: &mut Vec<u8>) {
        json::encode(object, self.wire_schema(), out);
    }

    /// Removes the type from the fields of a structured object, where it is written in front or stated by the list.
    pub fn strip_type(&self, object: &mut Value) {
        if let Some(map) = object.as_map_mut().filter(|_| self.structured) {
            map.remove("apiVersion");
            map.remove("kind");
        }
    }

    /// What upstream calls the Go type of objects of this kind in messages; `group` is that of the kind.
    pub fn go_type(&self, group: &str, kind: &str) -> String {
        match self.structured {
            true => format!("*{}.{kind}", go_package(group)),
            false if kind.ends_with("List") => "*unstructured.UnstructuredList".into(),
            false => "*unstructured.Unstructured".into(),
        }
    }
}

/// The Go package of a group's internal types.
pub fn go_package(group: &str) -> &str {
    match group {
        "" | "events.k8s.io" => "core",
        "internal.apiserver.k8s.io" => "apiserverinternal",
        group => group.split('.').next().unwrap_or(group),
    }
}

impl Shape {
    /// A shape that is there already.
    pub fn new(types: Arc<Types>, node: Node) -> Shape {
        let shape = Shape::lazy(move || (types, node));
        LazyLock::force(&shape.0);
        shape
    }

    /// A schema that is compiled when it is first used.
    pub fn lazy(compile: impl FnOnce() -> (Arc<Types>, Node) + Send + 'static) -> Shape {
        Shape(Arc::new(LazyLock::new(Box::new(compile))))
    }

    /// The schema, which is compiled when it is first asked for.
    pub fn schema(&self) -> Schema<'_> {
        let (types, node) = &**self.0;
        Schema::new(types, node)
    }
}
