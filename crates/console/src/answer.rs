//! `/console/session` and `/console/api/…`: the paths of the console behind the chain. All but the session change nothing.

use std::cmp::Reverse;
use std::sync::Arc;

use async_trait::async_trait;
use authn::Authenticator;
use authz::{Authorizer, Permitted};
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use object::{GroupResource, Status};
use request::User;
use rest::{Accept, Body, Call, Reply, ReplyBody, failure};
use serde_json::{Value, json};
use server::{Metrics, Paths, Seats};

use crate::recent::milliseconds;
use crate::sessions::Credential;
use crate::sign_in::{came_by_link, is_of_same_origin, session_of};
use crate::trial::costs_of;
use crate::{COOKIE, Console, ISSUED, PROOF, SESSION_PATH, ServerParts};

const API: &str = "/console/api/";
/// The largest body of a sign-in, which is a token; of a request to try, with an audit policy; and of a schema to judge.
const BODY_BYTES_MAX: usize = 64 * 1024;
const TRIED_BYTES_MAX: usize = 512 * 1024;
const SCHEMA_BYTES_MAX: usize = 1024 * 1024;
/// How many rows an answer has at most.
const CLIENTS_SHOWN: usize = 100;
const ERRORS_SHOWN: usize = 50;
const REQUESTS_SHOWN: usize = 200;
const WATCHES_SHOWN: usize = 200;

/// Answers the console's paths. They are not listed at `/`, where clients find what upstream has.
pub struct ConsolePaths {
    pub console: Arc<Console>,
    pub authenticator: Arc<Authenticator>,
    pub authorizer: Arc<dyn Authorizer>,
    pub metrics: Arc<Metrics>,
    pub seats: Seats,
    /// The version that the server says it has.
    pub version: String,
    pub parts: Arc<dyn ServerParts>,
}

#[async_trait]
impl Paths for ConsolePaths {
    async fn answer(&self, call: &Permitted<Call>, body: &mut Body) -> Option<Reply> {
        let path = call.info.path.as_str();
        let page = path.strip_prefix(API);
        if path != SESSION_PATH && page.is_none_or(|page| !PAGES.iter().any(|(_, name)| *name == page)) {
            return None;
        }
        let body = std::mem::take(body);
        let answered = match page {
            None => self.session(call, body).await,
            Some(page) => self.page(call, page, body).await.map(|value| json_reply(StatusCode::OK, &value)),
        };
        Some(answered.unwrap_or_else(|status| refused(&status)))
    }

    fn listed(&self) -> Vec<String> {
        Vec::new()
    }
}

/// The pages below `/console/api/`, and the method of each.
const PAGES: [(Method, &str); 8] = [
    (Method::GET, "certificates"),
    (Method::GET, "flags"),
    (Method::GET, "now"),
    (Method::POST, "request"),
    (Method::GET, "requests"),
    (Method::POST, "rules"),
    (Method::GET, "stores"),
    (Method::GET, "watches"),
];

impl ConsolePaths {
    async fn page(&self, call: &Call, page: &str, body: Body) -> Result<Value, Status> {
        if !PAGES.contains(&(call.method.clone(), page)) {
            return Err(not_this_method(&call.method));
        }
        match page {
            "now" => Ok(self.now()),
            "requests" => Ok(self.requests(call)),
            "watches" => {
                let mut rows = self.parts.watched();
                rows.sort_by_key(|row| Reverse((row.events, row.behind, row.watchers)));
                rows.truncate(WATCHES_SHOWN);
                Ok(json!({ "items": rows }))
            }
            "stores" => Ok(json!({"items": self.parts.stores().await})),
            "flags" => Ok(json!({"flags": self.parts.flags()})),
            "certificates" => {
                let parts = self.parts.clone();
                let rows = tokio::task::spawn_blocking(move || parts.certificates()).await.unwrap_or_default();
                Ok(json!({ "items": rows }))
            }
            "request" => self.tried(&body.read(TRIED_BYTES_MAX).await?).await,
            _ => {
                let schema = body.read(SCHEMA_BYTES_MAX).await?;
                // One at a time: this is all computing.
                let _turn = self.console.trials.acquire().await;
                let judged = tokio::task::spawn_blocking(move || costs_of(&schema)).await;
                judged.unwrap_or_else(|error| Err(Status::internal(error.to_string())))
            }
        }
    }

    async fn session(&self, call: &Call, body: Body) -> Result<Reply, Status> {
        match call.method {
            Method::GET => Ok(json_reply(StatusCode::OK, &self.who(&call.user))),
            Method::POST => self.sign_in(call, body).await,
            Method::DELETE => {
                if let Some(id) = session_of(&call.user) {
                    self.console.sessions.end(id);
                }
                let mut reply = json_reply(StatusCode::OK, &json!({}));
                set_cookie(&mut reply.headers, "", 0);
                Ok(reply)
            }
            _ => Err(not_this_method(&call.method)),
        }
    }

    fn who(&self, user: &User) -> Value {
        json!({
            "user": user.name,
            "groups": user.groups,
            "session": session_of(user).is_some(),
            "version": self.version,
        })
    }

    /// Begins a session for the user who sends the request: by the token that the body has as well, or by a link.
    async fn sign_in(&self, call: &Call, body: Body) -> Result<Reply, Status> {
        // Other sites can send requests, but not this header, so they cannot sign a browser in as somebody else.
        if !call.headers.contains_key(PROOF) || !is_of_same_origin(&call.headers) {
            return Err(Status::bad_request(format!("the header {PROOF} is missing")));
        }
        let bytes = body.read(BODY_BYTES_MAX).await?;
        let issued = call.headers.get(ISSUED);
        let issued = issued.and_then(|sent| self.console.issued.0.take(sent.as_bytes(), self.console.now()));
        let credential = match issued {
            _ if came_by_link(&call.user) => Credential::Administrator,
            Some((user, token)) if user == call.user.name => Credential::Token(token),
            _ => self.token_of(&call.user, &bytes).await?,
        };
        let new = self.console.sessions.begin(&call.user.name, credential, self.console.now());
        let mut answer = self.who(&call.user);
        (answer["session"], answer["key"], answer["seconds"]) = (json!(true), json!(new.key), json!(new.lasts));
        let mut reply = json_reply(StatusCode::CREATED, &answer);
        set_cookie(&mut reply.headers, &new.cookie, new.lasts);
        Ok(reply)
    }

    /// The token in a body, which must be one of the user who sends it.
    async fn token_of(&self, user: &User, body: &[u8]) -> Result<Credential, Status> {
        let asked: Value = serde_json::from_slice(body).map_err(|error| Status::bad_request(error.to_string()))?;
        let token = asked["token"].as_str().filter(|token| !token.is_empty());
        let token = token.ok_or_else(|| Status::bad_request("the body has no token".to_string()))?;
        let known = self.authenticator.review(token, &[], self.console.now()).await;
        match known {
            Ok(identity) if identity.user.name == user.name => Ok(Credential::Token(token.to_string())),
            _ => Err(Status::unauthorized("Unauthorized")),
        }
    }

    /// The figures of the first page. Asking for them begins what is measured only while somebody looks.
    fn now(&self) -> Value {
        self.console.costs.look();
        let (reads, writes) = self.seats.taken();
        let requests = self.metrics.requests.totals();
        json!({
            "time": milliseconds(self.console.clock.now()),
            "version": self.version,
            "inFlight": {"reads": reads, "writes": writes},
            "memory": self.parts.memory().iter().map(|(name, bytes)| json!({"name": name, "bytes": bytes})).collect::<Vec<_>>(),
            "bounds": requests.bounds,
            "requests": requests.verbs.iter().map(|(verb, total)| json!({
                "verb": verb,
                "codes": total.codes.iter().map(|(code, count)| (code.to_string(), json!(count))).collect::<serde_json::Map<_, _>>(),
                "open": total.open,
                "buckets": total.buckets,
            })).collect::<Vec<_>>(),
            "levels": self.seats.flow().map(|flow| flow.report()).unwrap_or_default().iter().map(|level| json!({
                "name": level.name.as_str(),
                "seats": level.seats,
                "limit": level.limit,
                "nominal": level.nominal,
                "executing": level.executing,
                "waiting": level.waiting,
                "queues": level.queues,
                "dispatched": level.dispatched,
                "rejected": level.rejected,
                "timedOut": level.timed_out,
                "cancelled": level.cancelled,
            })).collect::<Vec<_>>(),
            "clients": self.console.costs.clients(CLIENTS_SHOWN),
            "errors": self.console.costs.errors(ERRORS_SHOWN),
        })
    }

    /// The last requests of a client, of all that a page has asked to be measured.
    fn requests(&self, call: &Call) -> Value {
        self.console.costs.look();
        let is = |name: &str, value: &str| call.query(name).is_none_or(|wanted| wanted == value);
        let items = self.console.costs.requests(REQUESTS_SHOWN, |seen| {
            let client = &seen.client;
            is("user", &client.user)
                && is("agent", &client.agent)
                && is("auditID", &seen.audit_id)
                && is("address", &client.address.to_string())
        });
        json!({ "items": items })
    }
}

fn not_this_method(method: &Method) -> Status {
    Status::generic(405, method.as_str(), &GroupResource::default(), "", "")
}

fn refused(status: &Status) -> Reply {
    private(failure(status, &Accept::json()))
}

pub fn json_reply(code: StatusCode, value: &Value) -> Reply {
    let bytes = Bytes::from(value.to_string());
    private(Reply::new(code, "application/json", ReplyBody::Ready(bytes)))
}

/// Marks an answer as one for this user and this moment, and for no script of another site.
fn private(mut reply: Reply) -> Reply {
    for (name, value) in [
        (header::CACHE_CONTROL, "no-store"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    ] {
        reply.headers.insert(name, HeaderValue::from_static(value));
    }
    reply
}

fn set_cookie(headers: &mut HeaderMap, value: &str, seconds: i64) {
    let cookie = format!("{COOKIE}={value}; Path=/; Max-Age={seconds}; Secure; HttpOnly; SameSite=Strict");
    // The value is made of letters and digits, so it is one of a header.
    if let Ok(cookie) = HeaderValue::from_str(&cookie) {
        headers.insert(header::SET_COOKIE, cookie);
    }
}
