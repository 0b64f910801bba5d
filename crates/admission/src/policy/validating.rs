//! ValidatingAdmissionPolicy: policies that refuse, warn or leave a trace in the audit log.

use std::time::Duration;

use async_trait::async_trait;
use object::{Cause, Reason, Status, Value};

use super::authorization::Answers;
use super::definition::{Action, Annotation, Binding, Definition, Validation};
use super::evaluation::{BUDGET, Expression};
use super::subject::{Asked, Subject, namespace_object};
use super::{Hook, Policies, params};
use crate::{AdmissionMeters, Attributes, Host, Plugin, PolicyFinding, PolicyOutcome, plugins};

/// The longest message that a messageExpression can make.
const MESSAGE_MAX_BYTES: usize = 5 * 1024;
/// Longer values of audit annotations are cut.
const ANNOTATION_MAX_BYTES: usize = 10 * 1024;
/// More failures than these are not told in the audit annotation.
const FAILURES_MAX: usize = 50;

pub struct ValidatingPolicies(pub(crate) Policies);

#[async_trait]
impl Plugin for ValidatingPolicies {
    fn name(&self) -> &'static str {
        "ValidatingAdmissionPolicy"
    }

    async fn validate(
        &self,
        attributes: &Attributes<'_>,
        object: Option<&Value>,
        old: Option<&Value>,
    ) -> Result<(), Status> {
        let Some(current) = self.0.current(attributes)? else { return Ok(()) };
        let hooks = current.about(&attributes.resource.resource);
        if hooks.is_empty() {
            return Ok(());
        }
        let (host, meters) = (&*self.0.host, &*self.0.meters);
        let (answers, subjects, namespace) = (Answers::default(), Vec::new(), None);
        let request = Request { attributes, host, meters, object, old, answers, subjects, namespace };
        Box::pin(request.dispatch(&hooks)).await
    }
}

/// A request that is matched against all policies.
pub(super) struct Request<'a> {
    pub attributes: &'a Attributes<'a>,
    pub host: &'a dyn Host,
    pub meters: &'a AdmissionMeters,
    pub object: Option<&'a Value>,
    pub old: Option<&'a Value>,
    pub answers: Answers,
    /// The objects in the versions that policies asked for so far.
    pub subjects: Vec<Subject>,
    /// `namespaceObject`, once a policy has asked for it.
    pub namespace: Option<Value>,
}

/// What a policy says to one validation or annotation.
enum PolicyDecision {
    Admit,
    /// It could not be evaluated, which `failurePolicy: Ignore` lets through.
    Ignored {
        message: String,
        took: Duration,
    },
    Deny {
        message: String,
        reason: String,
        took: Duration,
    },
}

impl PolicyDecision {
    fn finding(&self, policy: &Definition, binding: &Binding, validation: usize) -> PolicyFinding {
        let (outcome, message) = match self {
            PolicyDecision::Admit => (PolicyOutcome::Holds, ""),
            PolicyDecision::Ignored { message, .. } => (PolicyOutcome::Ignored, message.as_str()),
            PolicyDecision::Deny { message, .. } => (PolicyOutcome::Fails, message.as_str()),
        };
        let (policy, binding) = (policy.name.clone(), binding.name.clone());
        PolicyFinding { policy, binding, validation, outcome, message: message.to_string() }
    }
}

/// What came of all policies.
struct PolicyVerdict<'m> {
    meters: &'m AdmissionMeters,
    /// The first refusal counts.
    denied: Option<(String, String)>,
    /// For the audit annotation, as JSON.
    failures: Vec<String>,
}

impl Request<'_> {
    /// Asks all policies about the request.
    pub async fn dispatch(mut self, hooks: &[&Hook]) -> Result<(), Status> {
        let mut verdict = PolicyVerdict { meters: self.meters, denied: None, failures: Vec::new() };
        for hook in hooks {
            self.ask(hook, &mut verdict).await?;
        }
        verdict.settle(self.attributes)
    }

    async fn ask(&mut self, hook: &Hook, verdict: &mut PolicyVerdict<'_>) -> Result<(), Status> {
        let policy = &*hook.policy;
        let matched = match policy.matcher.matches(self.attributes, self.object, self.old) {
            Ok(Some(matched)) => matched,
            Ok(None) => return Ok(()),
            Err(status) => {
                verdict.misconfigured(policy, None, &status.message);
                return Ok(());
            }
        };
        if let Some(kind) = &policy.param_kind
            && let Err(why) = params::resource(kind, self.attributes)
        {
            verdict.misconfigured(policy, None, &why);
            return Ok(());
        }
        let mut published: Vec<(&str, Vec<String>)> = Vec::new();
        for binding in hook.bindings.iter() {
            match binding.matcher.as_ref().map(|matcher| matcher.matches(self.attributes, self.object, self.old)) {
                None | Some(Ok(Some(_))) => {}
                Some(Ok(None)) => continue,
                Some(Err(status)) => {
                    verdict.misconfigured(policy, Some(binding), &status.message);
                    continue;
                }
            }
            let params = binding.params.as_deref();
            let found = match params::collect(policy.param_kind.as_ref(), params, self.attributes).await {
                Ok(found) => found,
                Err(why) => {
                    verdict.misconfigured(policy, Some(binding), &why);
                    continue;
                }
            };
            if found.is_empty() {
                continue;
            }
            let at = match self.subject(&matched).await {
                Ok(at) => at,
                Err(status) => {
                    let why = format!("failed to convert object version: {}", status.message);
                    verdict.misconfigured(policy, Some(binding), &why);
                    continue;
                }
            };
            if self.namespace.is_none() {
                self.namespace = Some(namespace_object(self.attributes)?);
            }
            for params in &found {
                let (Some(subject), Some(namespace)) = (self.subjects.get(at), &self.namespace) else { continue };
                let (attributes, host, meters, answers) = (self.attributes, self.host, self.meters, &self.answers);
                let (object, old, request) = (&subject.object, &subject.old, &subject.request);
                let variables = &*policy.variables;
                let asked =
                    Asked { attributes, host, meters, object, old, request, namespace, params, variables, answers };
                validate(policy, &asked, binding, verdict, &mut published).await;
            }
        }
        for (key, values) in published {
            self.attributes.annotate(format!("{}/{key}", policy.name), values.join(", "));
        }
        Ok(())
    }

    /// The place of the objects in a version.
    async fn subject(&mut self, matched: &crate::Matched) -> Result<usize, Status> {
        if let Some(at) = self.subjects.iter().position(|subject| subject.matched == *matched) {
            return Ok(at);
        }
        let subject = Subject::of(self.attributes, matched.clone(), self.object, self.old).await?;
        self.subjects.push(subject);
        Ok(self.subjects.len() - 1)
    }
}

/// Evaluates a policy for one binding and one param.
async fn validate<'p>(
    policy: &'p Definition,
    asked: &Asked<'_>,
    binding: &Binding,
    verdict: &mut PolicyVerdict<'_>,
    published: &mut Vec<(&'p str, Vec<String>)>,
) {
    match policy.conditions.hold(asked).await {
        Ok(true) => {}
        Ok(false) => return,
        Err(why) => return verdict.take(policy, binding, 0, failure(policy, why, Duration::ZERO), asked.attributes),
    }
    let decisions = match decide(policy, asked).await {
        Ok(decisions) => decisions,
        Err(why) => return verdict.take(policy, binding, 0, failure(policy, why, Duration::ZERO), asked.attributes),
    };
    let annotations: Vec<&Expression> = policy.annotations.iter().map(|annotation| &annotation.value).collect();
    let evaluated = match asked.evaluate(&annotations, BUDGET).await {
        Ok(evaluated) => evaluated,
        Err(why) => return verdict.take(policy, binding, 0, failure(policy, why, Duration::ZERO), asked.attributes),
    };
    for (index, decision) in decisions.into_iter().enumerate() {
        verdict.take(policy, binding, index, decision, asked.attributes);
    }
    let values = evaluated.values.into_iter().zip(evaluated.took);
    for (annotation, (value, took)) in policy.annotations.iter().zip(values) {
        annotate(annotation, value, (policy, binding, took), verdict, published);
    }
}

/// What an expression that cannot be evaluated means.
fn failure(policy: &Definition, message: String, took: Duration) -> PolicyDecision {
    match policy.ignores_failures {
        true => PolicyDecision::Ignored { message, took },
        false => PolicyDecision::Deny { message, reason: String::new(), took },
    }
}

/// The decisions of all validations.
async fn decide(policy: &Definition, asked: &Asked<'_>) -> Result<Vec<PolicyDecision>, String> {
    let expressions: Vec<&Expression> = policy.validations.iter().map(|validation| &validation.expression).collect();
    let evaluated = asked.evaluate(&expressions, BUDGET).await?;
    // Messages are made even for validations that hold, since they are paid for by the same budget.
    let made: Vec<&Expression> =
        policy.validations.iter().filter_map(|validation| validation.message_expression.as_ref()).collect();
    let messages = asked.evaluate(&made, evaluated.budget).await;
    let mut messages = messages.map(|messages| messages.values.into_iter());
    let mut decisions = Vec::with_capacity(policy.validations.len());
    let values = evaluated.values.into_iter().zip(evaluated.took);
    for (validation, (value, took)) in policy.validations.iter().zip(values) {
        let message = match &mut messages {
            Ok(values) if validation.message_expression.is_some() => Ok(values.next()),
            Ok(_) => Ok(None),
            Err(why) => Err(why.clone()),
        };
        decisions.push(match (value, message) {
            (Err(why), _) => failure(policy, why, took),
            (Ok(_), Err(why)) => failure(policy, format!("failed messageExpression: {why}"), took),
            (Ok(Value::Bool(true)), _) => PolicyDecision::Admit,
            (Ok(_), Ok(made)) => PolicyDecision::Deny {
                message: message_of(validation, made),
                reason: validation.reason.to_string(),
                took,
            },
        });
    }
    Ok(decisions)
}

/// The message of a validation that does not hold: what its messageExpression makes, its message, or the expression.
fn message_of(validation: &Validation, made: Option<Result<Value, String>>) -> String {
    let made = match &made {
        Some(Ok(Value::String(text))) => text.trim(),
        _ => "",
    };
    if !made.is_empty() && made.len() <= MESSAGE_MAX_BYTES && !made.contains('\n') {
        return made.to_string();
    }
    match validation.message.trim() {
        "" => format!("failed expression: {}", validation.expression.text().trim()),
        message => message.to_string(),
    }
}

fn annotate<'p>(
    annotation: &'p Annotation,
    value: Result<Value, String>,
    (policy, binding, took): (&Definition, &Binding, Duration),
    verdict: &mut PolicyVerdict<'_>,
    published: &mut Vec<(&'p str, Vec<String>)>,
) {
    let text = match value {
        Ok(Value::String(text)) => text.trim().to_string(),
        Ok(_) => return,
        Err(_) if policy.ignores_failures => return,
        Err(why) => {
            verdict.meters.policies.checked(&policy.name, &binding.name, &why, "deny", took);
            return verdict.deny(policy, Some(binding), &why, "");
        }
    };
    if text.is_empty() {
        return;
    }
    let end = text.floor_char_boundary(ANNOTATION_MAX_BYTES);
    let text = text.get(..end).unwrap_or_default().to_string();
    let key = annotation.key.as_str();
    let at = match published.iter().position(|(known, _)| *known == key) {
        Some(at) => at,
        None => {
            published.push((key, Vec::new()));
            published.len() - 1
        }
    };
    if let Some((_, values)) = published.get_mut(at)
        && !values.contains(&text)
    {
        values.push(text);
    }
}

impl PolicyVerdict<'_> {
    /// A policy or binding that cannot be used.
    fn misconfigured(&mut self, policy: &Definition, binding: Option<&Binding>, why: &str) {
        if !policy.ignores_failures {
            let what = if binding.is_some() { "binding" } else { "policy" };
            self.deny(policy, binding, &format!("failed to configure {what}: {why}"), "");
        }
    }

    fn deny(&mut self, policy: &Definition, binding: Option<&Binding>, message: &str, reason: &str) {
        let with = binding.map(|binding| format!(" with binding '{}'", binding.name)).unwrap_or_default();
        let text = || format!("ValidatingAdmissionPolicy '{}'{with} denied request: {message}", policy.name);
        self.denied.get_or_insert_with(|| (text(), reason.to_string()));
    }

    /// Does what the binding says about a decision.
    fn take(
        &mut self,
        policy: &Definition,
        binding: &Binding,
        index: usize,
        decision: PolicyDecision,
        attributes: &Attributes<'_>,
    ) {
        let meters = &self.meters.policies;
        attributes.found(|| decision.finding(policy, binding, index));
        let (message, reason, took) = match decision {
            PolicyDecision::Admit => return,
            PolicyDecision::Ignored { message, took } => {
                return meters.checked(&policy.name, &binding.name, &message, "allow", took);
            }
            PolicyDecision::Deny { message, reason, took } => (message, reason, took),
        };
        for action in binding.actions.into_iter().flatten() {
            let label = match action {
                Action::Deny => {
                    self.deny(policy, Some(binding), &message, &reason);
                    "deny"
                }
                Action::Audit => {
                    if self.failures.len() < FAILURES_MAX {
                        self.failures.push(failure_json(&message, binding, index));
                    }
                    "audit"
                }
                Action::Warn => {
                    attributes.warn(format!(
                        "Validation failed for ValidatingAdmissionPolicy '{}' with binding '{}': {message}",
                        policy.name, binding.name
                    ));
                    "warn"
                }
            };
            meters.checked(&policy.name, &binding.name, &message, label, took);
        }
    }

    fn settle(self, attributes: &Attributes<'_>) -> Result<(), Status> {
        if !self.failures.is_empty() {
            let failures = format!("[{}]", self.failures.join(","));
            attributes.annotate("validation.policy.admission.k8s.io/validation_failure".into(), failures);
        }
        let Some((message, reason)) = self.denied else { return Ok(()) };
        let mut status = plugins::forbidden(attributes, &message);
        (status.code, status.reason) = match reason.as_str() {
            "Forbidden" => (403, Reason::Forbidden),
            "Unauthorized" => (401, Reason::Unauthorized),
            "RequestEntityTooLarge" => (413, Reason::RequestEntityTooLarge),
            _ => (422, Reason::Invalid),
        };
        if let Some(details) = &mut status.details {
            details.causes.push(Cause { message, ..Cause::default() });
        }
        Err(status)
    }
}

/// A failure as the audit annotation tells it.
fn failure_json(message: &str, binding: &Binding, index: usize) -> String {
    let text = |text: &str| {
        let mut out = Vec::new();
        codec::json::encode(&Value::from(text), None, &mut out);
        String::from_utf8_lossy(&out).into_owned()
    };
    let actions: Vec<String> = binding.actions.into_iter().flatten().map(|action| text(action.as_str())).collect();
    format!(
        "{{\"message\":{},\"policy\":{},\"binding\":{},\"expressionIndex\":{index},\"validationActions\":[{}]}}",
        text(message),
        text(&binding.policy),
        text(&binding.name),
        actions.join(",")
    )
}
