//! Policies and bindings, compiled.

use std::sync::Arc;

use cel::policy::{Compiler, Wanted};
use cel::{Mode, Pool};
use object::{GroupVersionKind, Str, Value};

use super::conditions::Conditions;
use super::evaluation::{Defined, Expression};
use super::params::{self, ParamRef};
use crate::compiled::name_of;
use crate::matching::Matcher;

/// A policy.
pub struct Definition {
    pub name: Str,
    pub matcher: Matcher,
    pub param_kind: Option<GroupVersionKind>,
    /// `failurePolicy: Ignore`.
    pub ignores_failures: bool,
    pub variables: Vec<Defined>,
    pub conditions: Conditions,
    pub validations: Vec<Validation>,
    pub annotations: Vec<Annotation>,
    pub mutations: Vec<Mutation>,
    /// `reinvocationPolicy: IfNeeded`.
    pub reinvoked: bool,
}

/// One of `validations`.
pub struct Validation {
    pub expression: Expression,
    pub message: Str,
    pub message_expression: Option<Expression>,
    /// "" for the default.
    pub reason: Str,
}

/// One of `auditAnnotations`.
pub struct Annotation {
    pub key: Str,
    pub value: Expression,
}

/// One of `mutations`.
pub struct Mutation {
    pub expression: Expression,
    pub kind: PatchKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PatchKind {
    JsonPatch,
    ApplyConfiguration,
}

/// A binding.
pub struct Binding {
    pub name: Str,
    pub policy: Str,
    /// None where it matches all that the policy matches.
    pub matcher: Option<Box<Matcher>>,
    pub params: Option<Box<ParamRef>>,
    /// `validationActions` in their order; each can be there once.
    pub actions: [Option<Action>; 3],
}

/// What becomes of a request that a validation refuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    Deny,
    Audit,
    Warn,
}

impl Action {
    pub fn as_str(self) -> &'static str {
        match self {
            Action::Deny => "Deny",
            Action::Audit => "Audit",
            Action::Warn => "Warn",
        }
    }

    fn parse(name: &str) -> Option<Action> {
        [Action::Deny, Action::Audit, Action::Warn].into_iter().find(|action| action.as_str() == name)
    }
}

impl Definition {
    pub fn compile(policy: &Value, pool: &Arc<Pool>) -> Definition {
        let spec = policy.field("spec");
        let param_kind = params::kind(policy);
        let mut compiler = Compiler::composed(param_kind.is_some()).pooled(pool);
        let variables = spec.list_at(&["variables"]).iter().map(|variable| {
            let (name, text) = (variable.str_at(&["name"]), variable.str_at(&["expression"]));
            let compiled = compiler.variable(name, text, Mode::Stored);
            Defined { name: name.into(), expression: Expression { compiled } }
        });
        let variables: Vec<Defined> = variables.collect();
        let expression = |text: &str, wanted: Wanted| Expression {
            compiled: compiler.expression(text, wanted, wanted != Wanted::String, Mode::Stored),
        };
        let ignores_failures = spec.str_at(&["failurePolicy"]) == "Ignore";
        let annotations = spec.list_at(&["auditAnnotations"]).iter();
        Definition {
            name: name_of(policy).into(),
            matcher: Matcher::of_policy(spec.field("matchConstraints")),
            ignores_failures,
            conditions: Conditions::of_policy(policy, &compiler),
            validations: spec.list_at(&["validations"]).iter().map(|item| validation(item, &expression)).collect(),
            annotations: annotations
                .map(|item| Annotation {
                    key: item.str_at(&["key"]).into(),
                    value: expression(item.str_at(&["valueExpression"]), Wanted::StringOrNull),
                })
                .collect(),
            mutations: spec.list_at(&["mutations"]).iter().filter_map(|item| mutation(item, &expression)).collect(),
            reinvoked: spec.str_at(&["reinvocationPolicy"]) == "IfNeeded",
            param_kind,
            variables,
        }
    }
}

fn validation(item: &Value, expression: &dyn Fn(&str, Wanted) -> Expression) -> Validation {
    let message = item.str_at(&["messageExpression"]);
    Validation {
        expression: expression(item.str_at(&["expression"]), Wanted::Bool),
        message: item.str_at(&["message"]).into(),
        message_expression: (!message.is_empty()).then(|| expression(message, Wanted::String)),
        reason: item.str_at(&["reason"]).into(),
    }
}

fn mutation(item: &Value, expression: &dyn Fn(&str, Wanted) -> Expression) -> Option<Mutation> {
    let (field, wanted, kind) = match item.str_at(&["patchType"]) {
        "JSONPatch" => ("jsonPatch", Wanted::JsonPatch, PatchKind::JsonPatch),
        "ApplyConfiguration" => ("applyConfiguration", Wanted::ApplyConfiguration, PatchKind::ApplyConfiguration),
        _ => return None,
    };
    Some(Mutation { expression: expression(item.str_at(&[field, "expression"]), wanted), kind })
}

impl Binding {
    pub fn compile(binding: &Value) -> Binding {
        let resources = binding.at(&["spec", "matchResources"]);
        let listed = binding.list_at(&["spec", "validationActions"]).iter();
        let mut listed = listed.filter_map(Value::as_str).filter_map(Action::parse);
        let actions = std::array::from_fn(|_| listed.next());
        Binding {
            name: name_of(binding).into(),
            policy: binding.str_at(&["spec", "policyName"]).into(),
            matcher: resources.as_map().map(|_| Box::new(Matcher::of_policy(resources))),
            params: ParamRef::read(binding).map(Box::new),
            actions,
        }
    }
}
