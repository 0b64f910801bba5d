//! SubjectAccessReview, LocalSubjectAccessReview and SelfSubjectAccessReview.

use std::sync::Arc;

use async_trait::async_trait;
use authz::{Authorizer, Decision, Verdict};
use object::fields;
use object::labels;
use object::{BadValue, Cursor, Errors, GroupKind, GroupVersion, Map, Meta, Status, Value, names};
use registry::{Action, ActionCall};
use request::{Access, Selection, User};

use crate::token::strings;

/// Whose access is asked about.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Who {
    /// The user in the spec.
    Named,
    /// The user in the spec, within the review's namespace.
    NamedHere,
    /// The user who sends the request.
    Asker,
}

pub struct AccessReview {
    pub authorizer: Arc<dyn Authorizer>,
    pub who: Who,
}

#[async_trait]
impl Action for AccessReview {
    async fn check(&self, call: &mut ActionCall<'_>) -> Result<(), Status> {
        self.validate(call)
    }

    async fn create(&self, call: ActionCall<'_>) -> Result<Value, Status> {
        let mut review = call.body;
        let user = match self.who {
            Who::Asker => call.cx.user.clone(),
            _ => named_user(review.field("spec")),
        };
        let selectors = Selectors::read(review.at(&["spec", "resourceAttributes"]));
        let decision = self.authorizer.decide(&access(review.field("spec"), &selectors, &user)).await;
        review.set(&["status"], status(&decision, selectors.problems));
        Ok(review)
    }
}

const ONE_OF: &str = "exactly one of nonResourceAttributes or resourceAttributes must be specified";

impl AccessReview {
    fn validate(&self, call: &ActionCall<'_>) -> Result<(), Status> {
        let mut errors = Errors::new();
        let root = Cursor::root(&call.body);
        let spec = root.field("spec");
        let (resource, other) = (spec.field("resourceAttributes"), spec.field("nonResourceAttributes"));
        if resource.is_set() == other.is_set() {
            spec.invalid_as(&mut errors, shown(other.value()), ONE_OF);
        }
        if self.who != Who::Asker && spec.field("user").is_empty() && spec.field("groups").is_empty() {
            spec.field("user").invalid_as(&mut errors, "", "at least one of user or group must be specified");
        }
        if resource.is_set() {
            validate_selector(&resource.field("fieldSelector"), validate_field, &mut errors);
            validate_selector(&resource.field("labelSelector"), validate_label, &mut errors);
        }
        self.validate_metadata(&call.body, &mut errors);
        if self.who == Who::NamedHere {
            let namespace = resource.field("namespace");
            if resource.is_set() && namespace.str() != call.cx.namespace {
                namespace.invalid_as(&mut errors, namespace.str(), "must match metadata.namespace");
            }
            if other.is_set() {
                other.invalid_as(&mut errors, shown(other.value()), "disallowed on this kind of request");
            }
        }
        if errors.is_empty() {
            return Ok(());
        }
        // Upstream leaves the kind out here.
        Err(Status::invalid(&GroupKind::new("authorization.k8s.io", ""), "", &errors))
    }

    /// A review has no name and is never seen again; whatever metadata it brings is a mistake.
    fn validate_metadata(&self, review: &Value, errors: &mut Errors) {
        let metadata = Cursor::root(review).field("metadata");
        let local = self.who == Who::NamedHere;
        let expected = |key: &str| key == "managedFields" || (local && key == "namespace");
        let entries = metadata.value().as_map().into_iter().flat_map(Map::iter);
        if entries.into_iter().any(|(key, value)| !expected(key) && !value.is_empty()) {
            let why = if local { "must be empty except for namespace" } else { "must be empty" };
            metadata.invalid_as(errors, BadValue::Raw(shown_metadata(review)), why);
        }
    }
}

/// Metadata with its fields in their order.
fn shown_metadata(review: &Value) -> String {
    let kind = GroupVersion::parse(review.api_version()).unwrap_or_default().with_kind(review.kind());
    let schema = schema::builtin().schema(&kind).and_then(|schema| schema.child("metadata"));
    let mut json = Vec::new();
    codec::json::encode(review.field("metadata"), schema, &mut json);
    String::from_utf8_lossy(&json).into_owned()
}

/// Path and verb as Go prints a type without field tags.
fn shown(attributes: &Value) -> BadValue {
    if attributes.is_null() {
        return BadValue::Value(Value::Null);
    }
    let (path, verb) = (attributes.str_at(&["path"]), attributes.str_at(&["verb"]));
    BadValue::Value(object::value!({"Path": path, "Verb": verb}))
}

fn validate_selector(selector: &Cursor, requirement: fn(&Cursor, &mut Errors), errors: &mut Errors) {
    if !selector.is_set() {
        return;
    }
    let (raw, requirements) = (selector.field("rawSelector"), selector.field("requirements"));
    if !raw.is_empty() && !requirements.is_empty() {
        raw.invalid(errors, "may not specified at the same time as requirements");
    }
    if raw.is_empty() && requirements.is_empty() {
        let path = selector.path();
        requirements.required(errors, format!("when {path} is specified, requirements or rawSelector is required"));
    }
    requirements.each().for_each(|one| requirement(&one, errors));
}

fn validate_field(requirement: &Cursor, errors: &mut Errors) {
    if requirement.field("key").is_empty() {
        requirement.field("key").required(errors, "must be specified");
    }
    validate_values(requirement, errors);
}

fn validate_label(requirement: &Cursor, errors: &mut Errors) {
    validate_values(requirement, errors);
    let key = requirement.field("key");
    names::label_key(key.str()).into_iter().for_each(|why| key.invalid_as(errors, key.str(), why));
    for value in requirement.field("values").each() {
        names::label_value(value.str()).into_iter().for_each(|why| value.invalid(errors, why));
    }
}

/// Operators of the future are let through: newer clients may know more.
fn validate_values(requirement: &Cursor, errors: &mut Errors) {
    let values = requirement.field("values");
    match requirement.field("operator").str() {
        "In" | "NotIn" if values.is_empty() => {
            values.required(errors, "must be specified when `operator` is 'In' or 'NotIn'");
        }
        "Exists" | "DoesNotExist" if !values.is_empty() => {
            values.forbidden(errors, "may not be specified when `operator` is 'Exists' or 'DoesNotExist'");
        }
        _ => {}
    }
}

/// The selectors of a review. What of them cannot be understood is left out, so that authorizers see a broader access.
struct Selectors {
    fields: Vec<fields::Requirement>,
    labels: Vec<labels::Requirement>,
    problems: Vec<String>,
}

impl Selectors {
    fn read(resource: &Value) -> Selectors {
        let mut problems = Vec::new();
        let fields = understood(resource, "fieldSelector", field_requirement, &mut problems, |raw| {
            fields::Selector::parse(raw).ok().map(|all| all.requirements().to_vec())
        });
        let labels = understood(resource, "labelSelector", label_requirement, &mut problems, |raw| {
            labels::Selector::parse(raw, None).ok().map(|all| all.requirements().to_vec())
        });
        Selectors { fields, labels, problems }
    }
}

fn understood<R>(
    resource: &Value,
    name: &str,
    requirement: fn(&Value) -> Option<R>,
    problems: &mut Vec<String>,
    parse: fn(&str) -> Option<Vec<R>>,
) -> Vec<R> {
    let selector = resource.field(name);
    let raw = selector.str_at(&["rawSelector"]);
    let asked = selector.list_at(&["requirements"]);
    if asked.is_empty() {
        return parse(raw).unwrap_or_else(|| {
            problems.push(format!("spec.resourceAttributes.{name} ignored due to parse error"));
            Vec::new()
        });
    }
    let found: Vec<R> = asked.iter().filter_map(requirement).collect();
    if found.len() < asked.len() {
        let how = if found.is_empty() { "ignored" } else { "partially ignored" };
        problems.push(format!("spec.resourceAttributes.{name} {how} due to parse error"));
    }
    found
}

fn field_requirement(requirement: &Value) -> Option<fields::Requirement> {
    let operator = match requirement.str_at(&["operator"]) {
        "In" => fields::Operator::Equals,
        "NotIn" => fields::Operator::NotEquals,
        _ => return None,
    };
    let [value] = requirement.list_at(&["values"]) else { return None };
    let (field, value) = (requirement.str_at(&["key"]).to_string(), value.as_str().unwrap_or("").to_string());
    Some(fields::Requirement { field, operator, value })
}

fn label_requirement(requirement: &Value) -> Option<labels::Requirement> {
    let operator = match requirement.str_at(&["operator"]) {
        "In" => labels::Operator::In,
        "NotIn" => labels::Operator::NotIn,
        "Exists" => labels::Operator::Exists,
        "DoesNotExist" => labels::Operator::DoesNotExist,
        _ => return None,
    };
    labels::Requirement::new(requirement.str_at(&["key"]), operator, strings(requirement.field("values")), None).ok()
}

fn named_user(spec: &Value) -> User {
    let extra = spec.field("extra").as_map().into_iter().flat_map(Map::iter);
    User {
        name: spec.str_at(&["user"]).to_string(),
        uid: spec.str_at(&["uid"]).to_string(),
        groups: strings(spec.field("groups")),
        extra: extra.map(|(key, values)| (key.to_lowercase(), strings(values))).collect(),
    }
}

/// The question of a review.
fn access<'a>(spec: &'a Value, selectors: &'a Selectors, user: &'a User) -> Access<'a> {
    let resource = spec.field("resourceAttributes");
    if resource.is_null() {
        let other = spec.field("nonResourceAttributes");
        let access = Access::to_resource(user, other.str_at(&["verb"]));
        return Access { is_resource: false, path: other.str_at(&["path"]), ..access };
    }
    Access {
        group: resource.str_at(&["group"]),
        // No version means any.
        version: Some(resource.str_at(&["version"])).filter(|version| !version.is_empty()).unwrap_or("*"),
        resource: resource.str_at(&["resource"]),
        subresource: resource.str_at(&["subresource"]),
        namespace: resource.str_at(&["namespace"]),
        name: resource.str_at(&["name"]),
        field_selector: Selection::Requirements(&selectors.fields),
        label_selector: Selection::Requirements(&selectors.labels),
        ..Access::to_resource(user, resource.str_at(&["verb"]))
    }
}

fn status(decision: &Decision, problems: Vec<String>) -> Value {
    let mut status = Map::new();
    status.insert("allowed", decision.is_allowed());
    if decision.verdict == Verdict::Deny {
        status.insert("denied", true);
    }
    if !decision.reason.is_empty() {
        status.insert("reason", decision.reason.as_str());
    }
    let errors: Vec<String> = decision.error.iter().cloned().chain(problems).collect();
    if !errors.is_empty() {
        status.insert("evaluationError", errors.join("; "));
    }
    Value::Map(status)
}
