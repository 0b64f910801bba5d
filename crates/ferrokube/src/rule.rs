//! [`Rule`]: admission on objects of a Rust type.

use ::object::{GroupVersionKind, GroupVersionResource, Status, Value};
use admission::{Attributes, Matched, Operation, Plugin, Versioned};
use async_trait::async_trait;
use codec::Notes;
use request::User;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::Denied;
use crate::values::to_value;

/// A rule on objects of a Rust type: what writes make of them, and which are refused. It sees creations, updates and deletions of the
/// object itself, in the version of the type, whatever the version of the request.
#[async_trait]
pub trait Rule: Send + Sync + 'static {
    /// The type. What an object has besides its fields stays as it is.
    type Object: kube::Resource<DynamicType = ()> + Serialize + DeserializeOwned + Send + Sync;

    /// Changes an object before it is validated. `old` is None for a creation.
    async fn mutate(
        &self,
        _: &Request<'_>,
        _object: &mut Self::Object,
        _old: Option<&Self::Object>,
    ) -> Result<(), Denied> {
        Ok(())
    }

    /// Refuses a write. `object` is None for a deletion, `old` for a creation.
    async fn validate(
        &self,
        _: &Request<'_>,
        _object: Option<&Self::Object>,
        _old: Option<&Self::Object>,
    ) -> Result<(), Denied> {
        Ok(())
    }
}

/// What a rule knows about the request.
pub struct Request<'a>(&'a Attributes<'a>);

impl Request<'_> {
    /// Who asks.
    pub fn user(&self) -> &User {
        self.0.cx.user
    }

    /// What is to be done.
    pub fn operation(&self) -> Operation {
        self.0.operation
    }

    /// The namespace; "" for cluster-scoped objects.
    pub fn namespace(&self) -> &str {
        self.0.cx.namespace
    }

    /// The object's name; "" for a creation with a generated one.
    pub fn name(&self) -> &str {
        self.0.name
    }

    /// Whether nothing is to be stored.
    pub fn is_dry_run(&self) -> bool {
        self.0.cx.dry_run
    }

    /// Adds a warning to the answer.
    pub fn warn(&self, text: impl Into<String>) {
        self.0.warn(text.into());
    }
}

/// A rule as a plugin.
pub(crate) struct Typed<R> {
    name: &'static str,
    rule: R,
    matched: Matched,
}

impl<R: Rule> Typed<R> {
    pub fn new(name: &'static str, rule: R) -> Typed<R> {
        use kube::Resource as _;
        let (group, version) = (R::Object::group(&()), R::Object::version(&()));
        let resource = GroupVersionResource::new(&*group, &*version, &*R::Object::plural(&()));
        let kind = GroupVersionKind::new(&*group, &*version, &*R::Object::kind(&()));
        Typed { name, rule, matched: Matched { resource, kind } }
    }

    /// Whether the request is about objects of the type.
    fn concerns(&self, attributes: &Attributes<'_>) -> bool {
        let (own, asked) = (&self.matched.resource, attributes.resource);
        attributes.subresource.is_empty() && own.group == asked.group && own.resource == asked.resource
    }

    fn refused(&self, attributes: &Attributes<'_>, denied: Denied) -> Status {
        let (resource, kind) = (attributes.resource.group_resource(), &self.matched.kind);
        denied.into_status(&resource, &kind.group, &kind.kind, attributes.name)
    }
}

#[async_trait]
impl<R: Rule> Plugin for Typed<R> {
    fn name(&self) -> &'static str {
        self.name
    }

    async fn mutate(&self, attributes: &Attributes<'_>, object: &mut Value, old: Option<&Value>) -> Result<(), Status> {
        if !self.concerns(attributes) {
            return Ok(());
        }
        let form = Versioned::of(attributes, &self.matched)?;
        let old: Option<R::Object> = read_optional(&form, old).await?;
        let shown = form.from_stored(object).await?;
        let mut document: serde_json::Value = json_of(&form, &shown)?;
        let mut typed: R::Object = typed(&document)?;
        let before = to_json(&typed)?;
        let outcome = self.rule.mutate(&Request(attributes), &mut typed, old.as_ref()).await;
        outcome.map_err(|denied| self.refused(attributes, denied))?;
        let after = to_json(&typed)?;
        if before == after {
            return Ok(());
        }
        carry_over(&mut document, &before, &after);
        let document = to_value(&document)?;
        let mut notes = Notes::collect();
        let settled = form.settle(&document, &mut notes).map_err(Status::internal)?;
        if let Some(unknown) = notes.messages().first() {
            return Err(Status::internal(format!("admission rule {}: {unknown}", self.name)));
        }
        *object = form.to_stored(settled).await?;
        Ok(())
    }

    async fn validate(
        &self,
        attributes: &Attributes<'_>,
        object: Option<&Value>,
        old: Option<&Value>,
    ) -> Result<(), Status> {
        if !self.concerns(attributes) {
            return Ok(());
        }
        let form = Versioned::of(attributes, &self.matched)?;
        let object: Option<R::Object> = read_optional(&form, object).await?;
        let old: Option<R::Object> = read_optional(&form, old).await?;
        let outcome = self.rule.validate(&Request(attributes), object.as_ref(), old.as_ref()).await;
        outcome.map_err(|denied| self.refused(attributes, denied))
    }
}

async fn read_optional<T: DeserializeOwned>(form: &Versioned, object: Option<&Value>) -> Result<Option<T>, Status> {
    match object {
        Some(object) => Ok(Some(typed(&json_of(form, &form.from_stored(object).await?)?)?)),
        None => Ok(None),
    }
}

fn json_of(form: &Versioned, object: &Value) -> Result<serde_json::Value, Status> {
    let mut json = Vec::new();
    form.encode(object, &mut json);
    serde_json::from_slice(&json).map_err(|error| Status::internal(error.to_string()))
}

fn typed<T: DeserializeOwned>(document: &serde_json::Value) -> Result<T, Status> {
    let unfit =
        |error: serde_json::Error| Status::bad_request(format!("the object is not of the type of the rule: {error}"));
    T::deserialize(document).map_err(unfit)
}

fn to_json(object: &impl Serialize) -> Result<serde_json::Value, Status> {
    serde_json::to_value(object).map_err(|error| Status::internal(error.to_string()))
}

/// Makes the same changes to a document that lead from `before` to `after`, so that what a type does not know is kept.
fn carry_over(document: &mut serde_json::Value, before: &serde_json::Value, after: &serde_json::Value) {
    use serde_json::Value::Object;
    match (&mut *document, before, after) {
        (Object(document), Object(before), Object(after)) => {
            for key in before.keys().filter(|key| !after.contains_key(*key)) {
                document.remove(key);
            }
            for (key, after) in after {
                let before = before.get(key).unwrap_or(&serde_json::Value::Null);
                if before != after {
                    carry_over(document.entry(key.clone()).or_insert(serde_json::Value::Null), before, after);
                }
            }
        }
        _ => *document = after.clone(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn changes_are_carried_over_to_what_a_type_does_not_know() {
        for (document, before, after, want) in [
            (json!({"a": 1, "x": 2}), json!({"a": 1}), json!({"a": 3}), json!({"a": 3, "x": 2})),
            (json!({"a": {"b": 1, "x": 2}}), json!({"a": {"b": 1}}), json!({"a": {}}), json!({"a": {"x": 2}})),
            (json!({"x": 2}), json!({}), json!({"a": {"b": 1}}), json!({"x": 2, "a": {"b": 1}})),
            (json!({"a": [1, 2]}), json!({"a": [1, 2]}), json!({"a": [2]}), json!({"a": [2]})),
            (json!({"a": null, "x": 1}), json!({"a": null}), json!({"a": {"b": 1}}), json!({"a": {"b": 1}, "x": 1})),
        ] {
            let mut changed = document.clone();
            carry_over(&mut changed, &before, &after);
            assert_eq!(changed, want, "{document}: {before} to {after}");
        }
    }
}
