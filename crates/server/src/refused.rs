//! Answers of stages that have a form of their own: plain text, as upstream's filters give it, or headers besides.

use audit::Record;
use authz::{Refusal, Refused};
use http::{HeaderName, HeaderValue, StatusCode, Uri, Version, header};
use object::Status;
use rest::{Api, Call, Reply, failure};

use crate::chain::{DECISION, HttpResponse, REASON};
use crate::seats::Full;

/// Response headers that name the FlowSchema and the priority level of a request.
static FLOW_SCHEMA_UID: HeaderName = HeaderName::from_static("x-kubernetes-pf-flowschema-uid");
static PRIORITY_LEVEL_UID: HeaderName = HeaderName::from_static("x-kubernetes-pf-prioritylevel-uid");

pub fn shutting_down(version: Version) -> Reply {
    let mut reply = too_many("The apiserver is shutting down, please try again later.\n", 5);
    if version != Version::HTTP_2 {
        reply.headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    reply
}

/// 429 for a request that got no seat.
pub fn no_seat(Full(rejected): Full) -> Box<Reply> {
    let retry_after = rejected.as_ref().map_or(1, |rejected| rejected.retry_after);
    let reply = too_many("Too many requests, please try again later.\n", retry_after as u64);
    Box::new(classified(reply, rejected.as_ref().map(|rejected| &*rejected.admission)))
}

pub fn forbidden(api: &Api, call: &Call, status: &Status, warnings: &[String]) -> Box<Reply> {
    let mut reply = failure(status, &api.accept_of_status(call)).warn(warnings);
    reply.headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    Box::new(reply)
}

/// The answer to a call that authorization did not allow.
pub fn not_allowed(api: &Api, refused: Refused<Call>, record: Option<&Record>, warnings: &[String]) -> Box<Reply> {
    let Refused { call, refusal } = refused;
    match refusal {
        Refusal::Forbidden { status, reason } => {
            record.inspect(|record| record.annotate(DECISION, "forbid"));
            record.inspect(|record| record.annotate(REASON, reason.as_str()));
            tracing::debug!(path = call.uri.path(), reason, "Forbidden");
            forbidden(api, &call, &status, warnings)
        }
        Refusal::Failed { error } => {
            record.inspect(|record| record.annotate(REASON, "internal error"));
            Box::new(undecided(&call.uri, &error))
        }
    }
}

/// 500 in plain text when authorizers failed, as upstream's filter answers.
fn undecided(uri: &Uri, error: &str) -> Reply {
    let uri = uri.path_and_query().map_or("/", |uri| uri.as_str());
    tracing::error!(uri, error, "authorization failed");
    let message = format!("Internal Server Error: {}: {error}\n", object::quote(uri));
    let message = message.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    Reply::plain(StatusCode::INTERNAL_SERVER_ERROR, message)
}

/// 429 in plain text, as upstream's filters answer.
fn too_many(body: &'static str, retry_after_seconds: u64) -> Reply {
    let mut reply = Reply::plain(StatusCode::TOO_MANY_REQUESTS, body);
    reply.headers.insert(header::RETRY_AFTER, HeaderValue::from(retry_after_seconds));
    reply
}

/// Says in headers which FlowSchema and priority level the request was classified by.
pub fn classified(mut reply: Reply, admission: Option<&flow::Admission>) -> Reply {
    let Some(admission) = admission else { return reply };
    for (name, uid) in [(&FLOW_SCHEMA_UID, &admission.schema_uid), (&PRIORITY_LEVEL_UID, &admission.level_uid)] {
        if let Ok(value) = HeaderValue::from_str(uid) {
            reply.headers.insert(name, value);
        }
    }
    reply
}

/// The answer to what is no request that a stage could see, as Go's server gives it: HTTP/1 connections end with it.
pub fn malformed(status: StatusCode, body: &'static str, version: Version) -> HttpResponse {
    let mut reply = Reply::text(status, body);
    if version != Version::HTTP_2 {
        reply.headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    reply.into_response()
}
