//! A request as expressions see it.

use cel::library::authorizer::Resource;
use object::{GroupResource, Map, Status, Value, value};

use super::authorization::Answers;
use super::evaluation::{Defined, Evaluated, Expression, Input, evaluate};
use crate::matching::Matched;
use crate::versioned::Versioned;
use crate::{AdmissionMeters, Attributes, Host};

/// The objects of a request in one version.
pub struct Subject {
    pub matched: Matched,
    pub form: Versioned,
    /// With every field that is always printed; null where there is no object.
    pub object: Value,
    pub old: Value,
    /// `request`.
    pub request: Value,
}

impl Subject {
    pub async fn of(
        attributes: &Attributes<'_>,
        matched: Matched,
        object: Option<&Value>,
        old: Option<&Value>,
    ) -> Result<Subject, Status> {
        let form = Versioned::of(attributes, &matched)?;
        let mut shown = [Value::Null, Value::Null];
        for (shown, stored) in shown.iter_mut().zip([object, old]) {
            if let Some(stored) = stored {
                *shown = form.printed(&form.from_stored(stored).await?);
            }
        }
        let [object, old] = shown;
        let request = request(attributes, &matched);
        Ok(Subject { matched, form, object, old, request })
    }
}

/// The variable `request`.
pub fn request(attributes: &Attributes<'_>, matched: &Matched) -> Value {
    let (kind, resource) = (&matched.kind, &matched.resource);
    let mut request = value!({
        "uid": "",
        "kind": {"group": (kind.group.as_str()), "version": (kind.version.as_str()), "kind": (kind.kind.as_str())},
        "resource": {
            "group": (resource.group.as_str()),
            "version": (resource.version.as_str()),
            "resource": (resource.resource.as_str()),
        },
        "requestKind": {
            "group": (attributes.kind.group.as_str()),
            "version": (attributes.kind.version.as_str()),
            "kind": (attributes.kind.kind.as_str()),
        },
        "requestResource": {
            "group": (attributes.resource.group.as_str()),
            "version": (attributes.resource.version.as_str()),
            "resource": (attributes.resource.resource.as_str()),
        },
        "operation": (attributes.operation.as_str()),
        "userInfo": (attributes.cx.user.to_value()),
        "object": null,
        "oldObject": null,
        "dryRun": (attributes.cx.dry_run),
        "options": (attributes.options.clone()),
    });
    let optional = [
        ("subResource", attributes.subresource),
        ("requestSubResource", attributes.subresource),
        ("name", attributes.name),
        ("namespace", attributes.cx.namespace),
    ];
    for (field, text) in optional {
        if !text.is_empty() {
            request.set(&[field], Value::from(text));
        }
    }
    request
}

/// The variable `namespaceObject`: null for cluster-scoped requests and for namespaces themselves.
pub fn namespace_object(attributes: &Attributes<'_>) -> Result<Value, Status> {
    const METADATA: [&str; 12] = [
        "name",
        "generateName",
        "namespace",
        "uid",
        "resourceVersion",
        "generation",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "labels",
        "annotations",
        "finalizers",
    ];
    let (kind, name) = (attributes.kind, attributes.cx.namespace);
    let is_namespace = kind.group.is_empty() && kind.version == "v1" && kind.kind == "Namespace";
    if is_namespace || name.is_empty() {
        return Ok(Value::Null);
    }
    let found = attributes.cx.lookup.get("", "namespaces", "", name);
    let found = found.ok_or_else(|| Status::not_found(&GroupResource::new("", "namespaces"), name))?;
    let metadata = found.field("metadata");
    let fields = METADATA.iter().filter_map(|field| Some(((*field).into(), metadata.get(field)?.clone())));
    let metadata = Value::Map(Map::from_entries(fields.collect(), |_| {}));
    let part = |name: &str| found.get(name).cloned().unwrap_or_else(Value::map);
    Ok(value!({"metadata": (metadata), "spec": (part("spec")), "status": (part("status"))}))
}

/// What the expressions of one policy or webhook are evaluated with.
#[derive(Clone, Copy)]
pub struct Asked<'a> {
    pub attributes: &'a Attributes<'a>,
    pub host: &'a dyn Host,
    pub meters: &'a AdmissionMeters,
    pub object: &'a Value,
    pub old: &'a Value,
    pub request: &'a Value,
    pub namespace: &'a Value,
    pub params: &'a Value,
    pub variables: &'a [Defined],
    pub answers: &'a Answers,
}

impl Asked<'_> {
    fn input(&self) -> Input<'_> {
        let attributes = self.attributes;
        Input {
            object: self.object,
            old: self.old,
            namespace: self.namespace,
            request: self.request,
            params: self.params,
            resource: Resource {
                group: &attributes.resource.group,
                resource: &attributes.resource.resource,
                subresource: attributes.subresource,
                namespace: attributes.cx.namespace,
                name: attributes.name,
                ..Resource::default()
            },
            variables: self.variables,
            answers: self.answers,
            deadline: attributes.deadline,
        }
    }

    /// Evaluates expressions, again and again until every check that they make of the authorizer is answered.
    pub async fn evaluate(&self, expressions: &[&Expression], budget: u64) -> Result<Evaluated, String> {
        loop {
            let evaluated = evaluate(expressions.iter().copied(), &self.input(), budget);
            if !self.answers.complete(self.attributes, self.host).await {
                return evaluated;
            }
        }
    }
}
