//! The mode Webhook: a server that answers SubjectAccessReviews.

mod answers;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use codec::Notes;
use futures::StreamExt;
use object::{Value, value};
use outbound::{CallError, Client, Egress, Kubeconfig, Pauses, Request};
use parking_lot::Mutex;
use request::{Access, User};
use tokio::time::Instant;

use self::answers::Answers;
use crate::conditions::{Conditions, Matched};
use crate::review::{self, Version};
use crate::{Authorizer, AuthzMeters, Changes, Decision, DecisionsChanged, RulesFor, Verdict};

/// The largest answer that is read.
const RESPONSE_BYTES_MAX: usize = 1024 * 1024;
/// Requests that say more about themselves than this are not remembered.
const REMEMBERED_BYTES_MAX: usize = 10_000;

/// What a configuration says about a webhook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebhookAuthorizerSettings {
    pub name: String,
    pub kubeconfig: PathBuf,
    pub version: Version,
    /// For one call.
    pub timeout: Duration,
    /// How long answers are remembered; zero for not at all.
    pub authorized_ttl: Duration,
    pub unauthorized_ttl: Duration,
    /// The verdict when the webhook or a condition fails.
    pub on_failure: Verdict,
    /// Expressions that must all hold for the webhook to be asked.
    pub conditions: Vec<String>,
}

/// Watches of what their user may see ask again after this time.
const ASK_AGAIN: Duration = Duration::from_secs(60);

/// Asks a webhook.
pub struct Webhook {
    settings: WebhookAuthorizerSettings,
    conditions: Conditions,
    client: Client,
    url: String,
    answers: Mutex<Answers>,
    meters: Arc<AuthzMeters>,
    opened: Instant,
}

/// What a webhook said.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Answer {
    allowed: bool,
    denied: bool,
    reason: String,
}

impl Webhook {
    /// Reads the kubeconfig file and compiles the conditions.
    pub fn open(
        settings: WebhookAuthorizerSettings,
        egress: &Egress,
        meters: Arc<AuthzMeters>,
    ) -> Result<Webhook, String> {
        let (server, options) = Kubeconfig::read(&settings.kubeconfig)?.current()?;
        let client = Client::new(&egress.of_control_plane(options)).map_err(|error| error.to_string())?;
        let mut conditions = Conditions::default();
        settings.conditions.iter().try_for_each(|text| conditions.add(text))?;
        let timeout = object::duration::Duration(i64::try_from(settings.timeout.as_nanos()).unwrap_or(i64::MAX));
        let url = format!("{}?timeout={timeout}", with_path(&server));
        let opened = Instant::now();
        Ok(Webhook { settings, conditions, client, url, answers: Mutex::default(), meters, opened })
    }

    fn failed(&self, error: String) -> Decision {
        Decision { verdict: self.settings.on_failure, reason: String::new(), error: Some(error) }
    }

    /// What the webhook says, called again after errors that may pass.
    async fn ask(&self, body: &Bytes) -> Result<Answer, String> {
        let mut pauses = Pauses::default();
        loop {
            let began = Instant::now();
            let called = self.call(body).await;
            let result = match &called {
                Ok(_) => "success",
                Err(FailedCall { timed_out: true, .. }) => "timeout",
                Err(_) => "error",
            };
            self.meters.called(&self.settings.name, result, began.elapsed());
            let failure = match called {
                Ok(answer) => return Ok(answer),
                Err(failure) => failure,
            };
            let Some(pause) = pauses.next().filter(|_| failure.may_pass) else {
                tracing::error!(
                    webhook = self.settings.name,
                    error = failure.message,
                    "an authorization webhook failed"
                );
                if self.settings.on_failure == Verdict::NoOpinion {
                    self.meters.failed_open(&self.settings.name, result);
                }
                return Err(failure.message);
            };
            tokio::time::sleep(pause).await;
        }
    }

    async fn call(&self, body: &Bytes) -> Result<Answer, FailedCall> {
        let request = Request {
            url: &self.url,
            address: None,
            body: body.clone(),
            deadline: Instant::now() + self.settings.timeout,
            response_bytes_max: RESPONSE_BYTES_MAX,
        };
        let bytes = self.client.post(&request).await.map_err(FailedCall::of)?;
        Answer::read(&bytes, self.settings.version).map_err(|message| FailedCall {
            message,
            may_pass: false,
            timed_out: false,
        })
    }
}

/// Go's HTTP client sends the path `/` where a URL has none.
fn with_path(server: &str) -> String {
    let has_path = server.split_once("://").is_some_and(|(_, rest)| rest.contains('/'));
    if has_path { server.to_string() } else { format!("{server}/") }
}

#[async_trait]
impl Authorizer for Webhook {
    async fn decide(&self, access: &Access<'_>) -> Decision {
        if !self.conditions.is_empty() {
            let began = Instant::now();
            let matched = self.conditions.matched(&review::for_conditions(access));
            self.meters.conditions(&self.settings.name, began.elapsed(), &matched);
            match matched {
                Matched::Yes => {}
                Matched::No => return Decision::no_opinion(""),
                Matched::Failed(error) => return self.failed(error),
            }
        }
        let body = body(access, self.settings.version);
        let known = self.answers.lock().get(&body, Instant::now());
        let answer = match known {
            Some(answer) => answer,
            None => match self.ask(&body).await {
                Err(error) => return self.failed(error),
                Ok(answer) => {
                    let ttl =
                        if answer.allowed { self.settings.authorized_ttl } else { self.settings.unauthorized_ttl };
                    if !ttl.is_zero() && is_short(access) {
                        self.answers.lock().put(body, answer.clone(), Instant::now(), ttl);
                    }
                    answer
                }
            },
        };
        answer.decision()
    }

    /// A webhook does not tell when it decides otherwise, so it is asked again from time to time.
    fn changed(&self) -> DecisionsChanged {
        let generation = self.opened.elapsed().as_secs() / ASK_AGAIN.as_secs();
        DecisionsChanged { generation: i64::try_from(generation).unwrap_or(i64::MAX), revision: 0 }
    }

    fn changes(&self) -> Vec<Changes> {
        let ticks = futures::stream::unfold((), |()| async {
            tokio::time::sleep(ASK_AGAIN).await;
            Some(((), ()))
        });
        vec![ticks.boxed()]
    }

    fn rules_for(&self, _: &User, _: &str) -> RulesFor {
        let errors = vec!["webhook authorizer does not support user rule resolution".to_string()];
        RulesFor { incomplete: true, errors, ..RulesFor::default() }
    }
}

fn body(access: &Access<'_>, version: Version) -> Bytes {
    let review = value!({
        "apiVersion": (version.api_version()),
        "kind": "SubjectAccessReview",
        "metadata": {},
        "spec": (review::spec(access, version)),
        "status": {"allowed": false}
    });
    let mut json = Vec::new();
    codec::json::encode(&review, None, &mut json);
    json.into()
}

/// Whether what the client chose of an access is short enough to be remembered.
fn is_short(access: &Access<'_>) -> bool {
    let texts = [
        access.namespace,
        access.verb,
        access.group,
        access.version,
        access.resource,
        access.subresource,
        access.name,
        access.path,
    ];
    texts.iter().map(|text| text.len()).sum::<usize>() < REMEMBERED_BYTES_MAX
}

impl Answer {
    fn read(bytes: &[u8], version: Version) -> Result<Answer, String> {
        let review = codec::json::decode(bytes, None, &mut Notes::ignore())
            .map_err(|error| format!("couldn't get version/kind; json parse error: {error}"))?;
        let (api_version, kind) = (review.str_at(&["apiVersion"]), review.str_at(&["kind"]));
        for (field, text) in [("Kind", kind), ("apiVersion", api_version)] {
            if text.is_empty() {
                return Err(format!("Object '{field}' is missing in '{}'", String::from_utf8_lossy(bytes)));
            }
        }
        if kind != "SubjectAccessReview" || api_version != version.api_version() {
            return Err(format!("the webhook answered with a {kind} of {api_version}"));
        }
        let status = review.field("status");
        Ok(Answer {
            allowed: boolean(status, "allowed")?,
            denied: boolean(status, "denied")?,
            reason: status.str_at(&["reason"]).to_string(),
        })
    }

    fn decision(self) -> Decision {
        match (self.denied, self.allowed) {
            (true, true) => {
                let error = "webhook subject access review returned both allow and deny response".to_string();
                Decision { error: Some(error), ..Decision::deny(self.reason) }
            }
            (true, false) => Decision::deny(self.reason),
            (false, true) => Decision::allow(self.reason),
            (false, false) => Decision::no_opinion(self.reason),
        }
    }
}

fn boolean(status: &Value, field: &str) -> Result<bool, String> {
    match status.field(field) {
        Value::Null => Ok(false),
        Value::Bool(value) => Ok(*value),
        _ => Err(format!(
            "json: cannot unmarshal value into Go struct field SubjectAccessReviewStatus.status.{field} of type bool"
        )),
    }
}

/// A call without an answer.
struct FailedCall {
    message: String,
    /// Whether the same call may succeed a little later.
    may_pass: bool,
    timed_out: bool,
}

impl FailedCall {
    fn of(error: CallError) -> FailedCall {
        let message = error.to_string();
        let (may_pass, timed_out) = match &error {
            CallError::Status(status) => {
                let asks_to_wait = status.details.as_ref().is_some_and(|details| details.retry_after_seconds > 0);
                (matches!(status.code, 429 | 500 | 504) || asks_to_wait, status.code == 504)
            }
            CallError::Transport { error: outbound::Error::Deadline, .. } => (false, true),
            CallError::Transport { .. } => {
                let lost = ["connection reset by peer", "http2: client connection lost"];
                (lost.iter().any(|text| message.contains(text)), message.contains("i/o timeout"))
            }
            CallError::Response(_) => (false, false),
        };
        FailedCall { message, may_pass, timed_out }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_read() {
        let check = |text: &str, want: Result<(Verdict, bool), &str>| {
            let got = Answer::read(text.as_bytes(), Version::V1).map(Answer::decision);
            let got = got.as_ref().map(|decision| (decision.verdict, decision.error.is_some()));
            assert_eq!(got.map_err(String::as_str), want, "{text}");
        };
        let with = |status: &str| {
            format!(r#"{{"apiVersion":"authorization.k8s.io/v1","kind":"SubjectAccessReview","status":{status}}}"#)
        };
        check(&with(r#"{"allowed":true}"#), Ok((Verdict::Allow, false)));
        check(&with(r#"{"allowed":false}"#), Ok((Verdict::NoOpinion, false)));
        check(&with(r#"{"denied":true}"#), Ok((Verdict::Deny, false)));
        check(&with(r#"{"allowed":true,"denied":true}"#), Ok((Verdict::Deny, true)));
        check(&with("{}"), Ok((Verdict::NoOpinion, false)));
        check("{}", Err("Object 'Kind' is missing in '{}'"));
        check(
            r#"{"apiVersion":"authorization.k8s.io/v1beta1","kind":"SubjectAccessReview"}"#,
            Err("the webhook answered with a SubjectAccessReview of authorization.k8s.io/v1beta1"),
        );
        assert!(Answer::read(with(r#"{"allowed":"yes"}"#).as_bytes(), Version::V1).is_err());
        assert_eq!((with_path("https://a"), with_path("https://a/b")), ("https://a/".into(), "https://a/b".into()));
    }
}
