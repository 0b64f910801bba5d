//! Reviews of access and identity: answered in the response, never stored.

mod access;

use std::sync::Arc;

use async_trait::async_trait;
use authn::Authenticator;
use authz::{Authorizer, RulesFor};
use object::timestamp::Time;
use object::{Map, Meta, Status, Value};
use registry::{Action, ActionCall};
use request::Rule;

pub use self::access::{AccessReview, Who};
use super::token::strings;

/// SelfSubjectRulesReview: everything the asker may do in a namespace.
pub struct Rules {
    pub authorizer: Arc<dyn Authorizer>,
}

#[async_trait]
impl Action for Rules {
    async fn check(&self, call: &mut ActionCall<'_>) -> Result<(), Status> {
        if call.body.str_at(&["spec", "namespace"]).is_empty() {
            return Err(Status::bad_request("no namespace on request"));
        }
        Ok(())
    }

    async fn create(&self, call: ActionCall<'_>) -> Result<Value, Status> {
        let namespace = call.body.str_at(&["spec", "namespace"]).to_string();
        let RulesFor { rules, incomplete, errors } = self.authorizer.rules_for(call.cx.user, &namespace);
        let mut review = fresh(&call.body);
        review.set(&["spec"], Value::map());
        let (urls, resources): (Vec<&Rule>, Vec<&Rule>) = rules.iter().partition(|rule| !rule.urls.is_empty());
        review.set(&["status", "resourceRules"], Value::List(resources.into_iter().map(resource_rule).collect()));
        review.set(&["status", "nonResourceRules"], Value::List(urls.into_iter().map(url_rule).collect()));
        review.set(&["status", "incomplete"], incomplete);
        if !errors.is_empty() {
            review.set(&["status", "evaluationError"], object::aggregate(errors));
        }
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
        let mut review = fresh(&call.body);
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
    async fn check(&self, call: &mut ActionCall<'_>) -> Result<(), Status> {
        if call.body.str_at(&["spec", "token"]).is_empty() {
            return Err(Status::bad_request("token is required for TokenReview in authentication"));
        }
        Ok(())
    }

    async fn create(&self, call: ActionCall<'_>) -> Result<Value, Status> {
        let token = call.body.str_at(&["spec", "token"]);
        let wanted = strings(call.body.at(&["spec", "audiences"]));
        let mut review = call.body.clone();
        match self.authenticator.review(token, &wanted, call.cx.now.secs).await {
            Ok(identity) => {
                review.set(&["status", "authenticated"], true);
                review.set(&["status", "user"], identity.user.to_value());
                review.set(&["status", "audiences"], identity.audiences);
            }
            Err(refused) => {
                review.remove(&["status", "authenticated"]);
                review.set_default(&["status", "user"], Value::map());
                review.set(&["status", "error"], refused.to_string());
            }
        }
        Ok(review)
    }
}

/// An answer that repeats nothing of the question.
fn fresh(question: &Value) -> Value {
    let mut answer = Value::map();
    answer.set(&["apiVersion"], question.api_version());
    answer.set(&["kind"], question.kind());
    answer.set(&["metadata"], Value::map());
    answer
}
