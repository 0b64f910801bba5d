//! One call of one webhook, and what its failure means for the request.

use std::time::Instant;

use bytes::Bytes;
use object::{Status, quote};
use outbound::CallError;
use spans::KeyValue;

use super::Hooks;
use super::budget::time_for;
use super::configuration::{Hook, SideEffects};
use super::meters::ErrorType;
use super::review::{self, Response, Subject, Unusable};
use crate::Attributes;

/// Why a webhook's call did not let the request through.
#[derive(Debug)]
pub enum Failure {
    /// It could not be called, or answered nonsense: `failurePolicy` decides.
    Calling { reason: String, code: u16 },
    /// It refused the request.
    Rejected(Status),
    /// The server could not do its part.
    Internal(Status),
}

impl Failure {
    fn unavailable(reason: String) -> Failure {
        Failure::Calling { reason, code: 503 }
    }
}

/// Which of the two plugins calls: the names differ in metrics and annotations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    Mutating,
    Validating,
}

impl Step {
    /// The `type` label of metrics.
    pub fn label(self) -> &'static str {
        match self {
            Step::Mutating => "admit",
            Step::Validating => "validating",
        }
    }

    fn span(self) -> &'static str {
        match self {
            Step::Mutating => "Call mutating webhook",
            Step::Validating => "Call validating webhook",
        }
    }

    pub fn failed_open_prefix(self) -> &'static str {
        match self {
            Step::Mutating => "failed-open.mutation.webhook.admission.k8s.io/",
            Step::Validating => "failed-open.validating.webhook.admission.k8s.io/",
        }
    }
}

impl Hooks {
    /// Asks a webhook about a request. Its warnings and audit annotations are noted.
    pub(super) async fn call(
        &self,
        step: Step,
        hook: &Hook,
        attributes: &Attributes<'_>,
        subject: &Subject<'_>,
    ) -> Result<Response, Failure> {
        if attributes.cx.dry_run {
            check_dry_run(hook)?;
        }
        let version = hook.review.ok_or_else(|| Failure::Calling {
            reason: "could not create admission objects: webhook does not accept known AdmissionReview versions (v1, v1beta1)"
                .into(),
            code: 400,
        })?;
        let no_client =
            |why: String| Failure::Calling { reason: format!("could not get REST client: {why}"), code: 500 };
        let target = hook.target.as_ref().map_err(|why| no_client(why.clone()))?;
        let client = self.clients.client(target).map_err(no_client)?;
        let time = time_for(hook, attributes, self.ignore_budget, &self.breaker)
            .map_err(|why| Failure::unavailable(format!("failed to call webhook: {why}")))?;
        let uid = attributes.cx.randomness.uuid();
        let body = Bytes::from(review::request(version, &uid, attributes, subject));
        let call = self.clients.call(&client, target, body, (time.told, time.waited));
        let sent = spans::traced(step.span(), || describe(hook, attributes, &uid), call).await;
        let bytes = sent.map_err(|error| {
            let code = match &error {
                CallError::Status(status) => status.code,
                _ => 503,
            };
            Failure::Calling { reason: format!("failed to call webhook: {error}"), code }
        })?;
        let response = review::response(version, &uid, step == Step::Mutating, &bytes);
        let response = response.map_err(|unusable| match unusable {
            Unusable::Undecodable(text) => Failure::unavailable(format!("failed to call webhook: {text}")),
            Unusable::Invalid(text) => Failure::unavailable(format!("received invalid webhook response: {text}")),
        })?;
        for (key, value) in &response.audit_annotations {
            attributes.annotate(format!("{}/{key}", hook.name), value.clone());
        }
        response.warnings.iter().for_each(|warning| attributes.warn(warning.clone()));
        if !response.allowed {
            return Err(Failure::Rejected(review::refusal(&hook.name, response.result.as_ref())));
        }
        Ok(response)
    }

    /// Counts a call, and decides by the failure policy whether its failure fails the request.
    pub(super) fn settle<T>(
        &self,
        step: Step,
        (round, index): (usize, usize),
        hook: &Hook,
        attributes: &Attributes<'_>,
        began: Instant,
        outcome: Result<T, Failure>,
    ) -> Result<Option<T>, Status> {
        let (operation, label, took) = (attributes.operation.as_str(), step.label(), began.elapsed());
        if hook.ignores_failures && self.ignore_budget.is_some() {
            self.breaker.record(hook, matches!(outcome, Err(Failure::Calling { .. })));
        }
        let called = |rejected, code| self.meters.webhooks.called(&hook.name, label, operation, took, rejected, code);
        let rejected = |why, code| self.meters.webhooks.rejected(&hook.name, label, operation, why, code);
        match outcome {
            Ok(outcome) => {
                called(false, 200);
                Ok(Some(outcome))
            }
            Err(Failure::Calling { reason, code }) => {
                called(!hook.ignores_failures, code);
                let text = format!("failed calling webhook {}: {reason}", quote(&hook.name));
                if hook.ignores_failures {
                    tracing::warn!(webhook = %hook.name, %reason, "failed calling webhook, failing open");
                    self.meters.webhooks.failed_open(&hook.name, label);
                    let key = format!("{}round_{round}_index_{index}", step.failed_open_prefix());
                    attributes.annotate(key, hook.name.to_string());
                    return Ok(None);
                }
                rejected(ErrorType::CallingWebhook, code);
                tracing::warn!(webhook = %hook.name, %reason, "failed calling webhook, failing closed");
                Err(Status::internal(text))
            }
            Err(Failure::Rejected(status)) => {
                rejected(ErrorType::None, status.code);
                called(true, status.code);
                Err(status)
            }
            Err(Failure::Internal(status)) => {
                rejected(ErrorType::Internal, 0);
                called(true, 0);
                Err(status)
            }
        }
    }
}

/// What the span of a call says about it.
fn describe(hook: &Hook, attributes: &Attributes<'_>, uid: &str) -> Vec<KeyValue> {
    vec![
        KeyValue::text("configuration", hook.configuration.as_str()),
        KeyValue::text("webhook", hook.name.as_str()),
        KeyValue::text("resource", attributes.resource.to_string()),
        KeyValue::text("subresource", attributes.subresource),
        KeyValue::text("operation", attributes.operation.as_str()),
        KeyValue::text("UID", uid),
    ]
}

fn check_dry_run(hook: &Hook) -> Result<(), Failure> {
    match hook.side_effects {
        SideEffects::None => Ok(()),
        SideEffects::Absent => Err(Failure::Calling { reason: "Webhook SideEffects is nil".into(), code: 400 }),
        SideEffects::Some => {
            let why = format!("admission webhook {} does not support dry run", quote(&hook.name));
            Err(Failure::Internal(Status::bad_request(why)))
        }
    }
}
