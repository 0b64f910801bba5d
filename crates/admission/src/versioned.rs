//! Objects under admission in other versions: plugins pass them in the stored version (custom resources: in that of the
//! request), webhooks and policies see them in the version that they ask for.

use std::sync::Arc;

use codec::{Notes, json};
use object::{GroupVersionKind, Meta, Status, Value};
use registry::{Form, Resource, ResourceStorage};

use crate::Attributes;
use crate::matching::Matched;

/// How the objects of a request look in one version.
pub struct Versioned {
    pub kind: GroupVersionKind,
    resource: Arc<Resource>,
    /// None where the subresource has no objects.
    form: Option<Form>,
    /// Whether the object is the resource's own, which is stored, and not that of a subresource such as Scale.
    stored: bool,
    /// Where custom resources are asked for in another version: the version of the request, in which plugins pass them.
    requested: Option<Arc<ResourceStorage>>,
}

impl Versioned {
    /// The form in which a webhook or policy wants the request.
    pub fn of(attributes: &Attributes<'_>, matched: &Matched) -> Result<Versioned, Status> {
        let (group, version) = (&matched.resource.group, &matched.resource.version);
        let found = attributes.cx.catalog.get(group, version, &matched.resource.resource).cloned();
        let resource = found
            .ok_or_else(|| Status::internal(format!("unable to convert to {}: unknown kind", matched.resource)))?;
        let part = resource.subresource(attributes.subresource);
        let own = part.is_none_or(|part| part.form.is_none() && part.kind.kind == resource.kind.kind);
        let form = match part {
            Some(part) if !own => part.form.clone(),
            _ => Some(resource.form.clone()),
        };
        let stored = own && resource.storage.is_some();
        let requested = attributes.resource;
        let requested = (resource.is_custom() && resource.resource != *requested)
            .then(|| attributes.cx.catalog.get(&requested.group, &requested.version, &requested.resource))
            .flatten()
            .and_then(|requested| requested.storage.clone());
        Ok(Versioned { kind: matched.kind.clone(), form, stored, resource, requested })
    }

    /// An object from the stored version.
    pub async fn from_stored(&self, object: &Value) -> Result<Value, Status> {
        let mut shown = match &self.requested {
            Some(requested) if self.stored => converted(requested, object, &requested.kind, &self.kind).await?,
            _ if self.stored => self.resource.from_storage(object.clone()).map_err(Status::internal)?,
            _ => object.clone(),
        };
        shown.set_type(&self.kind);
        Ok(shown)
    }

    /// An object back to the stored version, with defaults.
    pub async fn to_stored(&self, object: Value) -> Result<Value, Status> {
        if !self.stored {
            return Ok(object);
        }
        if let Some(requested) = &self.requested {
            return converted(requested, &object, &self.kind, &requested.kind).await;
        }
        let mut stored = self.resource.to_storage(object).map_err(Status::internal)?;
        if let Some(storage) = &self.resource.storage {
            stored.set_type(&storage.kind);
            storage.strategy.default(&mut stored);
        }
        Ok(stored)
    }

    /// Writes an object as JSON, as clients would read it.
    pub fn encode(&self, object: &Value, out: &mut Vec<u8>) {
        json::encode(object, self.schema(), out);
    }

    /// The object as a patch sees it: with every field that is always printed.
    pub fn printed(&self, object: &Value) -> Value {
        self.form.as_ref().map_or_else(|| object.clone(), |form| form.printed(object))
    }

    /// Reads an object that was changed as a JSON document, and applies defaults. Fields that the kind does not have are noted.
    pub fn settle(&self, document: &Value, notes: &mut Notes) -> Result<Value, String> {
        let read = json::coerce(document, self.schema(), notes);
        let mut object = read.map_err(|error| error.to_string())?;
        object.set_type(&self.kind);
        if let Some(form) = &self.form {
            schema::default(form.schema(), &mut object);
        }
        Ok(object)
    }

    /// The schema by which an apply configuration is merged, and whether objects are structured.
    pub fn merge_schema(&self) -> Option<(schema::Schema<'_>, bool)> {
        self.form.as_ref().map(|form| (form.schema(), form.is_structured()))
    }

    /// The schema of a document that a patch is applied to.
    pub fn schema(&self) -> Option<schema::Schema<'_>> {
        self.form.as_ref().and_then(Form::wire_schema)
    }
}

/// A custom resource in another version, by the conversion of its definition, which may be a webhook.
async fn converted(
    storage: &ResourceStorage,
    object: &Value,
    from: &GroupVersionKind,
    to: &GroupVersionKind,
) -> Result<Value, Status> {
    let mut object = object.clone();
    object.set_type(from);
    let mut converted = storage.codec.convert(&object, &to.group_version()).await.map_err(Status::internal)?;
    converted.set_type(to);
    Ok(converted)
}
