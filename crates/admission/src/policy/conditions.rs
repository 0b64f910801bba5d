//! Match conditions of policies and webhooks.

use std::collections::BTreeSet;

use cel::Mode;
use cel::policy::{Compiler, Wanted};
use object::Value;

use super::authorization::Answers;
use super::evaluation::{CONDITIONS_BUDGET, Expression};
use super::subject::{Asked, request};
use crate::matching::Matched;
use crate::versioned::Form;
use crate::{Attributes, Host};

/// `matchConditions`, compiled.
#[derive(Debug)]
pub struct Conditions {
    expressions: Vec<Expression>,
    /// `failurePolicy: Ignore`.
    ignores_failures: bool,
}

impl Conditions {
    /// Reads a webhook.
    pub fn of_webhook(webhook: &Value) -> Conditions {
        let ignores_failures = webhook.str_at(&["failurePolicy"]) == "Ignore";
        Conditions::compile(webhook, &Compiler::new(false), ignores_failures)
    }

    /// Reads the `matchConditions` of a policy's spec or of a webhook.
    pub(super) fn compile(spec: &Value, compiler: &Compiler, ignores_failures: bool) -> Conditions {
        let expressions = spec.list_at(&["matchConditions"]).iter().map(|condition| {
            let text = condition.str_at(&["expression"]);
            let compiled = compiler.expression(text, Wanted::Bool, true, Mode::Stored);
            Expression { text: text.into(), compiled }
        });
        Conditions { expressions: expressions.collect(), ignores_failures }
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
        form: &Form,
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
        let asked =
            Asked { attributes, host, object, old, request, namespace, params, variables: &[], answers: &answers };
        self.hold(&asked).await
    }

    /// Whether the conditions hold. They do not see the namespace.
    pub(super) async fn hold(&self, asked: &Asked<'_>) -> Result<bool, String> {
        if self.is_empty() {
            return Ok(true);
        }
        let fails = |why: String| if self.ignores_failures { Ok(false) } else { Err(why) };
        let expressions: Vec<&Expression> = self.expressions.iter().collect();
        let asked = Asked { namespace: &Value::Null, ..*asked };
        let evaluated = match asked.evaluate(&expressions, CONDITIONS_BUDGET).await {
            Ok(evaluated) => evaluated,
            Err(why) => return fails(why),
        };
        if evaluated.values.iter().any(|value| matches!(value, Ok(Value::Bool(false)))) {
            return Ok(false);
        }
        let mut seen = BTreeSet::new();
        let errors = evaluated.values.into_iter().filter_map(Result::err);
        let errors: Vec<String> = errors.filter(|error| seen.insert(error.clone())).collect();
        match errors.as_slice() {
            [] => Ok(true),
            [one] => fails(one.clone()),
            several => fails(format!("[{}]", several.join(", "))),
        }
    }
}
