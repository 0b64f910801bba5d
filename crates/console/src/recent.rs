//! [`RecentRequests`]: the last requests, and the last that failed.

use std::collections::VecDeque;
use std::sync::Arc;

use object::Timestamp;
use serde_json::{Value, json};
use server::ObservedRequest;

/// How many of each are kept. An observation has texts of up to 8 KiB.
const REQUESTS_MAX: usize = 1024;
const ERRORS_MAX: usize = 128;

/// A request, and the time in milliseconds since the epoch when it had ended.
struct EndedRequest {
    ended: i64,
    seen: ObservedRequest,
}

/// The last requests. Errors are kept apart, so that many good requests do not push them out.
#[derive(Default)]
pub struct RecentRequests {
    requests: VecDeque<Arc<EndedRequest>>,
    errors: VecDeque<Arc<EndedRequest>>,
}

impl RecentRequests {
    pub fn add(&mut self, seen: ObservedRequest, ended: Timestamp) {
        let is_error = seen.code >= 400 || !seen.warnings.is_empty();
        let kept = Arc::new(EndedRequest { ended: milliseconds(ended), seen });
        if is_error {
            push(&mut self.errors, kept.clone(), ERRORS_MAX);
        }
        push(&mut self.requests, kept, REQUESTS_MAX);
    }

    pub fn requests(&self, most: usize, wants: impl Fn(&ObservedRequest) -> bool) -> Vec<Value> {
        self.requests.iter().rev().filter(|kept| wants(&kept.seen)).take(most).map(|kept| kept.shown()).collect()
    }

    pub fn errors(&self, most: usize) -> Vec<Value> {
        self.errors.iter().rev().take(most).map(|kept| kept.shown()).collect()
    }
}

/// Milliseconds since the epoch, which is how browsers count.
pub fn milliseconds(time: Timestamp) -> i64 {
    time.secs.saturating_mul(1000).saturating_add(i64::from(time.nanos / 1_000_000))
}

fn push(ring: &mut VecDeque<Arc<EndedRequest>>, kept: Arc<EndedRequest>, most: usize) {
    if ring.len() >= most {
        ring.pop_front();
    }
    ring.push_back(kept);
}

impl EndedRequest {
    fn shown(&self) -> Value {
        let seen = &self.seen;
        let flow = seen.flow.as_ref();
        json!({
            "time": self.ended,
            "user": seen.client.user,
            "agent": seen.client.agent,
            "address": seen.client.address.to_string(),
            "auditID": seen.audit_id,
            "verb": seen.verb,
            "target": seen.target,
            "group": seen.group,
            "resource": seen.resource,
            "code": seen.code,
            "message": seen.message,
            "warnings": seen.warnings,
            "groups": seen.groups,
            "reason": seen.reason,
            "annotations": seen.annotations,
            "bytes": seen.bytes,
            "seconds": seen.took.as_secs_f64(),
            "cpu": seen.cpu.as_secs_f64(),
            "seatSeconds": seen.seat_seconds,
            "flowSchema": flow.map_or("", |flow| flow.schema.as_str()),
            "priorityLevel": flow.map_or("", |flow| flow.level.as_str()),
            "stages": {
                "authenticated": seen.authenticated.as_secs_f64(),
                "admitted": seen.admitted.as_secs_f64(),
                "authorization": seen.authorization.as_secs_f64(),
            },
        })
    }
}
