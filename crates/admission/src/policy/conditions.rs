//! Match conditions of policies and webhooks.

use std::sync::Arc;
use std::time::Instant;

use cel::policy::{Compiler, Wanted};
use cel::{Mode, Pool};
use object::{Meta, Value};

use super::authorization::Answers;
use super::evaluation::{CONDITIONS_BUDGET, Expression};
use super::subject::{Asked, request};
use crate::matching::Matched;
use crate::meters::ConditionLabels;
use crate::versioned::Versioned;
use crate::webhook::Step;
use crate::{AdmissionMeters, Attributes, Host};

/// `matchConditions`, compiled.
#[derive(Debug)]
pub struct Conditions {
    expressions: Vec<Expression>,
    /// `failurePolicy: Ignore`.
    ignores_failures: bool,
    labels: ConditionLabels,
}

impl Conditions {
    /// Reads a webhook.
    pub(crate) fn of_webhook(webhook: &Value, step: Step, pool: &Arc<Pool>) -> Conditions {
        let labels = ConditionLabels { name: webhook.str_at(&["name"]).into(), kind: "webhook", step: step.label() };
        Conditions::compile(webhook, &Compiler::new(false).pooled(pool), labels)
    }

    /// Reads a policy. Upstream counts mutating policies as `validate` too.
    pub(super) fn of_policy(policy: &Value, compiler: &Compiler) -> Conditions {
        let labels = ConditionLabels { name: policy.name().into(), kind: "policy", step: "validate" };
        Conditions::compile(policy.field("spec"), compiler, labels)
    }

    fn compile(spec: &Value, compiler: &Compiler, labels: ConditionLabels) -> Conditions {
        let expressions = spec.list_at(&["matchConditions"]).iter().map(|condition| {
            let text = condition.str_at(&["expression"]);
            Expression { compiled: compiler.expression(text, Wanted::Bool, true, Mode::Stored) }
        });
        let ignores_failures = spec.str_at(&["failurePolicy"]) == "Ignore";
        Conditions { expressions: expressions.collect(), ignores_failures, labels }
    }

    pub fn is_empty(&self) -> bool {
        self.expressions.is_empty()
    }

    /// Whether a webhook's conditions hold for a request whose objects are in the form that the webhook wants. Err is why
    /// that cannot be told, where failures are not ignored.
    pub async fn hold_for_webhook(
        &self,
        attributes: &Attributes<'_>,
        host: &dyn Host,
        meters: &AdmissionMeters,
        form: &Versioned,
        object: Option<&Value>,
        old: Option<&Value>,
    ) -> Result<bool, String> {
        if self.is_empty() {
            return Ok(true);
        }
        let printed = |object: Option<&Value>| object.map_or(Value::Null, |object| form.printed(object));
        let (object, old) = (printed(object), printed(old));
        let matched = Matched { resource: attributes.resource.clone(), kind: form.kind.clone() };
        let (request, answers) = (request(attributes, &matched), Answers::default());
        let (params, namespace) = (&Value::Null, &Value::Null);
        let (object, old, request) = (&object, &old, &request);
        let (variables, answers) = (&[][..], &answers);
        let asked = Asked { attributes, host, meters, object, old, request, namespace, params, variables, answers };
        let holds = self.hold(&asked).await;
        if matches!(holds, Ok(false)) {
            meters.conditions.excluded(&self.labels, attributes.operation.as_str());
        }
        holds
    }

    /// Whether the conditions hold. They do not see the namespace.
    pub(super) async fn hold(&self, asked: &Asked<'_>) -> Result<bool, String> {
        if self.is_empty() {
            return Ok(true);
        }
        let fails = |why: String| if self.ignores_failures { Ok(false) } else { Err(why) };
        let expressions: Vec<&Expression> = self.expressions.iter().collect();
        let asked = Asked { namespace: &Value::Null, ..*asked };
        let began = Instant::now();
        let evaluated = asked.evaluate(&expressions, CONDITIONS_BUDGET).await;
        let errors = evaluated.as_ref().map_or(0, |it| it.values.iter().filter(|value| value.is_err()).count());
        let operation = asked.attributes.operation.as_str();
        asked.meters.conditions.evaluated(&self.labels, operation, began.elapsed(), errors);
        let evaluated = match evaluated {
            Ok(evaluated) => evaluated,
            Err(why) => return fails(why),
        };
        if evaluated.values.iter().any(|value| matches!(value, Ok(Value::Bool(false)))) {
            return Ok(false);
        }
        let errors: Vec<String> = evaluated.values.into_iter().filter_map(Result::err).collect();
        if errors.is_empty() { Ok(true) } else { fails(object::aggregate(errors)) }
    }
}
