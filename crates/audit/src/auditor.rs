//! [`Auditor`]: evaluates the policy and starts records.

use std::sync::Arc;

use arc_swap::ArcSwap;
use object::{Clock, Str};
use request::{RequestInfo, User};

use crate::backend::Backend;
use crate::event::{Event, ObjectRef, Stage};
use crate::numbers::Numbers;
use crate::policy::{Level, Policy};
use crate::record::Record;

/// Longer user agents are cut off there.
const USER_AGENT_BYTES_MAX: usize = 1024;

/// The audit log of a server.
pub struct Auditor {
    policy: ArcSwap<Policy>,
    sink: Arc<Sink>,
    clock: Arc<dyn Clock>,
}

/// The facts about a request before it is served.
pub struct Request<'a> {
    pub info: &'a RequestInfo,
    pub user: &'a User,
    pub audit_id: &'a str,
    /// Path and query as they were sent.
    pub uri: &'a str,
    pub user_agent: &'a str,
    /// The addresses of `X-Forwarded-For` and `X-Real-Ip`, then that of the connection.
    pub source_ips: Vec<Str>,
}

/// The backends and what is counted about them.
pub(crate) struct Sink {
    backends: Vec<Backend>,
    numbers: Arc<Numbers>,
}

impl Auditor {
    pub fn new(policy: Policy, backends: Vec<Backend>, clock: Arc<dyn Clock>) -> Auditor {
        let numbers = backends.first().map_or_else(Arc::default, |backend| backend.numbers());
        Auditor { policy: ArcSwap::from_pointee(policy), sink: Arc::new(Sink { backends, numbers }), clock }
    }

    /// Uses another policy for requests that arrive from now on.
    pub fn set_policy(&self, policy: Policy) {
        self.policy.store(Arc::new(policy));
    }

    /// The policy in force.
    pub fn policy(&self) -> Arc<Policy> {
        self.policy.load_full()
    }

    /// Starts the record of a request; None if the policy does not ask for one.
    pub fn begin(&self, request: &Request) -> Option<Arc<Record>> {
        let decision = self.policy.load().evaluate(request.info, request.user);
        self.sink.numbers.level(decision.map_or(Level::None, |decision| decision.level));
        let decision = decision?;
        let received = self.clock.now();
        let event = Event {
            level: decision.level,
            audit_id: request.audit_id.into(),
            stage: Stage::RequestReceived,
            request_uri: request.uri.into(),
            verb: request.info.verb.as_str(),
            user: request.user.clone(),
            impersonated_user: None,
            impersonation_constraint: Str::default(),
            source_ips: request.source_ips.clone(),
            user_agent: shortened(request.user_agent),
            object_ref: request.info.is_resource.then(|| object_ref(request.info)),
            response_status: None,
            request_object: None,
            response_object: None,
            received,
            stage_time: received,
            annotations: Vec::new(),
        };
        Some(Arc::new(Record::new(decision, self.sink.clone(), self.clock.clone(), event)))
    }

    /// Writes everything that backends still hold; called when the server has answered its last request.
    pub async fn stop(&self) {
        for backend in &self.sink.backends {
            backend.stop().await;
        }
    }

    pub fn write_metrics(&self, out: &mut String) -> std::fmt::Result {
        self.sink.numbers.write(out)
    }
}

fn object_ref(info: &RequestInfo) -> ObjectRef {
    ObjectRef {
        resource: info.resource.as_str().into(),
        namespace: info.namespace.as_str().into(),
        name: info.name.as_str().into(),
        api_group: info.group.as_str().into(),
        api_version: info.version.as_str().into(),
        subresource: info.subresource.as_str().into(),
        ..ObjectRef::default()
    }
}

fn shortened(user_agent: &str) -> Str {
    if user_agent.len() <= USER_AGENT_BYTES_MAX {
        return user_agent.into();
    }
    let end = user_agent.floor_char_boundary(USER_AGENT_BYTES_MAX);
    format!("{}...TRUNCATED", &user_agent[..end]).into()
}

impl Sink {
    /// Hands the event to all backends and waits until those that block have stored it. False if a strict one has not.
    pub async fn process_and_wait(&self, event: Event) -> bool {
        self.numbers.event();
        let event = Arc::new(event);
        let mut stored = true;
        for backend in &self.backends {
            stored &= backend.store(event.clone()).await || !backend.is_strict();
        }
        stored
    }

    /// Counts a request that fails because its event could not be stored.
    pub fn request_rejected(&self) {
        self.numbers.request_rejected();
    }

    /// Hands the event to all backends.
    pub fn process(&self, event: Event) {
        self.numbers.event();
        let event = Arc::new(event);
        self.backends.iter().for_each(|backend| backend.send(event.clone()));
    }
}
