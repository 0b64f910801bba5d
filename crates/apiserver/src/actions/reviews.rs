//! Reviews: questions about access and identity, answered and forgotten.

use std::sync::Arc;

use async_trait::async_trait;
use authn::{Authenticator, Credentials};
use authz::rbac::{Rbac, Rule};
use authz::{Attributes, Authorizer, Decision};
use object::timestamp::Time;
use object::{BadValue, Cursor, Errors, GroupKind, Map, Meta, Status, Value};
use registry::{Action, ActionCall};
use request::User;

/// Whose access is asked about.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Who {
    /// The user in the spec.
    Named,
    /// The user in the spec, within the review's namespace.
    NamedHere,
    /// Whoever asks.
    Asker,
}

/// SubjectAccessReview and its two relatives.
pub struct Access {
    pub authorizer: Arc<dyn Authorizer>,
    pub who: Who,
}

#[async_trait]
impl Action for Access {
    async fn create(&self, call: ActionCall<'_>) -> Result<Value, Status> {
        self.validate(&call)?;
        let mut review = call.body.clone();
        let user = match self.who {
            Who::Asker => call.cx.user.clone(),
            _ => named_user(review.field("spec")),
        };
        let decision = self.authorizer.decide(&attributes(review.field("spec"), user)).await;
        call.admit.validate(Some(&review), None).await?;
        review.set(&["status"], status(&decision));
        Ok(review)
    }
}

impl Access {
    fn validate(&self, call: &ActionCall<'_>) -> Result<(), Status> {
        let mut errors = Errors::new();
        let spec = Cursor::root(&call.body).field("spec");
        let (resource, other) = (spec.field("resourceAttributes"), spec.field("nonResourceAttributes"));
        if resource.is_set() == other.is_set() {
            let shown = if resource.is_set() { resource.value().clone() } else { Value::Null };
            let path = if resource.is_set() { spec.field("nonResourceAttributes") } else { spec.clone() };
            let why = if resource.is_set() {
                "cannot be specified in combination with resourceAttributes"
            } else {
                "exactly one of nonResourceAttributes or resourceAttributes must be specified"
            };
            path.invalid_as(&mut errors, BadValue::Value(shown), why);
        }
        if self.who != Who::Asker && spec.field("user").is_empty() && spec.field("groups").is_empty() {
            spec.field("user").invalid_as(&mut errors, "", "at least one of user or group must be specified");
        }
        if self.who == Who::NamedHere && resource.field("namespace").str() != call.cx.namespace {
            let path = resource.field("namespace");
            path.invalid(&mut errors, "must match metadata.namespace");
        }
        if errors.is_empty() {
            return Ok(());
        }
        // Upstream leaves the kind out here.
        Err(Status::invalid(&GroupKind::new("authorization.k8s.io", ""), "", &errors))
    }
}

fn named_user(spec: &Value) -> User {
    let strings = |value: &Value| -> Vec<String> {
        value.as_list().unwrap_or(&[]).iter().filter_map(Value::as_str).map(str::to_string).collect()
    };
    let extra = spec.field("extra").as_map().into_iter().flat_map(Map::iter);
    User {
        name: spec.str_at(&["user"]).to_string(),
        uid: spec.str_at(&["uid"]).to_string(),
        groups: strings(spec.field("groups")),
        extra: extra.map(|(key, values)| (key.to_lowercase(), strings(values))).collect(),
    }
}

fn attributes(spec: &Value, user: User) -> Attributes {
    let resource = spec.field("resourceAttributes");
    let text = |value: &Value, field: &str| value.str_at(&[field]).to_string();
    if resource.is_null() {
        let other = spec.field("nonResourceAttributes");
        return Attributes { user, verb: text(other, "verb"), path: text(other, "path"), ..Attributes::default() };
    }
    Attributes {
        user,
        verb: text(resource, "verb"),
        is_resource: true,
        group: text(resource, "group"),
        version: text(resource, "version"),
        resource: text(resource, "resource"),
        subresource: text(resource, "subresource"),
        namespace: text(resource, "namespace"),
        name: text(resource, "name"),
        ..Attributes::default()
    }
}

fn status(decision: &Decision) -> Value {
    let mut status = Map::new();
    let (allowed, denied, reason) = match decision {
        Decision::Allow(reason) => (true, false, reason),
        Decision::Deny(reason) => (false, true, reason),
        Decision::NoOpinion(reason) => (false, false, reason),
    };
    status.insert("allowed", allowed);
    if denied {
        status.insert("denied", true);
    }
    if !reason.is_empty() {
        status.insert("reason", reason.as_str());
    }
    Value::Map(status)
}

/// SelfSubjectRulesReview: everything the asker may do in a namespace.
pub struct Rules {
    pub rbac: Option<Arc<Rbac>>,
}

#[async_trait]
impl Action for Rules {
    async fn create(&self, call: ActionCall<'_>) -> Result<Value, Status> {
        let namespace = call.body.str_at(&["spec", "namespace"]).to_string();
        if namespace.is_empty() {
            return Err(Status::bad_request("no namespace on request"));
        }
        let rules = self.rbac.as_ref().map(|rbac| rbac.rules_for(call.cx.user, &namespace)).unwrap_or_default();
        let mut review = call.body.clone();
        let (urls, resources): (Vec<&Rule>, Vec<&Rule>) = rules.iter().partition(|rule| !rule.urls.is_empty());
        review.set(&["status", "resourceRules"], Value::List(resources.into_iter().map(resource_rule).collect()));
        review.set(&["status", "nonResourceRules"], Value::List(urls.into_iter().map(url_rule).collect()));
        review.set(&["status", "incomplete"], self.rbac.is_none());
        Ok(review)
    }
}

fn resource_rule(rule: &Rule) -> Value {
    let mut map = Map::new();
    map.insert("verbs", rule.verbs.clone());
    for (key, list) in [("apiGroups", &rule.groups), ("resources", &rule.resources), ("resourceNames", &rule.names)] {
        if !list.is_empty() {
            map.insert(key, list.clone());
        }
    }
    Value::Map(map)
}

fn url_rule(rule: &Rule) -> Value {
    let mut map = Map::new();
    map.insert("verbs", rule.verbs.clone());
    map.insert("nonResourceURLs", rule.urls.clone());
    Value::Map(map)
}

/// SelfSubjectReview: who am I?
pub struct Myself;

#[async_trait]
impl Action for Myself {
    async fn create(&self, call: ActionCall<'_>) -> Result<Value, Status> {
        let mut review = Value::map();
        review.set(&["apiVersion"], call.body.api_version());
        review.set(&["kind"], call.body.kind());
        review.set_meta_str("creationTimestamp", &Time(call.cx.now).to_string());
        review.set(&["status", "userInfo"], call.cx.user.to_value());
        Ok(review)
    }
}

/// TokenReview: whose token is this?
pub struct Token {
    pub authenticator: Arc<Authenticator>,
}

#[async_trait]
impl Action for Token {
    async fn create(&self, call: ActionCall<'_>) -> Result<Value, Status> {
        let token = call.body.str_at(&["spec", "token"]).to_string();
        if token.is_empty() {
            return Err(Status::bad_request("token is required for TokenReview in authentication"));
        }
        let authorization = format!("Bearer {token}");
        let credentials = Credentials { certificates: &[], authorization: &authorization, now: call.cx.now.secs };
        let mut review = call.body.clone();
        match self.authenticator.authenticate(&credentials).await {
            Ok(user) => {
                review.set(&["status", "authenticated"], true);
                review.set(&["status", "user"], user.to_value());
            }
            Err(_) => {
                review.set(&["status", "user"], Value::map());
                review.set(&["status", "error"], "invalid bearer token");
            }
        }
        Ok(review)
    }
}
