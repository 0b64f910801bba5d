//! A request as expressions see it.

use cel::library::authorizer::Resource;
use object::{GroupResource, Map, Status, Value, value};

use super::authorization::Answers;
use super::definition::Definition;
use super::evaluation::{CONDITIONS_BUDGET, Evaluated, Expression, Input, evaluate};
use crate::matching::Matched;
use crate::versioned::Form;
use crate::{Attributes, Host};

/// The objects of a request in one version.
pub struct Subject {
    pub matched: Matched,
    pub form: Form,
    /// With every field that is always printed; null where there is no object.
    pub object: Value,
    pub old: Value,
    /// `request`.
    request: Value,
}

impl Subject {
    pub async fn of(
        attributes: &Attributes<'_>,
        matched: Matched,
        object: Option<&Value>,
        old: Option<&Value>,
    ) -> Result<Subject, Status> {
        let form = Form::of(attributes, &matched)?;
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
fn request(attributes: &Attributes<'_>, matched: &Matched) -> Value {
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

/// One policy about to be evaluated for one request and one param.
pub struct Asked<'a> {
    pub attributes: &'a Attributes<'a>,
    pub host: &'a dyn Host,
    pub policy: &'a Definition,
    pub subject: &'a Subject,
    pub namespace: &'a Value,
    pub params: &'a Value,
    pub answers: &'a Answers,
}

impl Asked<'_> {
    fn input<'i>(&'i self, namespace: &'i Value) -> Input<'i> {
        let attributes = self.attributes;
        Input {
            object: &self.subject.object,
            old: &self.subject.old,
            namespace,
            request: &self.subject.request,
            params: self.params,
            resource: Resource {
                group: &attributes.resource.group,
                resource: &attributes.resource.resource,
                subresource: attributes.subresource,
                namespace: attributes.cx.namespace,
                name: attributes.name,
                ..Resource::default()
            },
            variables: &self.policy.variables,
            answers: self.answers,
            deadline: attributes.deadline,
        }
    }

    /// Evaluates expressions, again and again until every check that they make of the authorizer is answered.
    pub async fn evaluate(&self, expressions: &[&Expression], budget: u64) -> Result<Evaluated, String> {
        self.evaluate_in(self.namespace, expressions, budget).await
    }

    async fn evaluate_in(
        &self,
        namespace: &Value,
        expressions: &[&Expression],
        budget: u64,
    ) -> Result<Evaluated, String> {
        loop {
            let evaluated = evaluate(expressions.iter().copied(), &self.input(namespace), budget);
            if !self.answers.complete(self.attributes, self.host).await {
                return evaluated;
            }
        }
    }

    /// Whether the match conditions hold. They do not see the namespace.
    pub async fn conditions_hold(&self) -> Result<bool, String> {
        if self.policy.conditions.is_empty() {
            return Ok(true);
        }
        let fails = |why: String| if self.policy.ignores_failures { Ok(false) } else { Err(why) };
        let conditions: Vec<&Expression> = self.policy.conditions.iter().collect();
        let evaluated = match self.evaluate_in(&Value::Null, &conditions, CONDITIONS_BUDGET).await {
            Ok(evaluated) => evaluated,
            Err(why) => return fails(why),
        };
        if evaluated.values.iter().any(|value| matches!(value, Ok(Value::Bool(false)))) {
            return Ok(false);
        }
        let mut errors: Vec<String> = evaluated.values.into_iter().filter_map(Result::err).collect();
        let mut seen = std::collections::BTreeSet::new();
        errors.retain(|error| seen.insert(error.clone()));
        match errors.as_slice() {
            [] => Ok(true),
            [one] => fails(one.clone()),
            several => fails(format!("[{}]", several.join(", "))),
        }
    }
}
