//! `/console/session` and `/console/api/…`: the paths of the console behind the chain. All but the session are only read.

use std::sync::Arc;

use async_trait::async_trait;
use authn::Authenticator;
use authz::Permitted;
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use object::{GroupResource, Status};
use request::{RequestInfo, User};
use rest::{Accept, Body, Call, Reply, ReplyBody, failure};
use serde::Serialize;
use serde_json::{Value, json};
use server::{Metrics, Paths, Seats};

use crate::recent::milliseconds;
use crate::sessions::Credential;
use crate::sign_in::{came_by_link, is_of_same_origin, session_of};
use crate::{COOKIE, Console, PROOF, SESSION_PATH};

const API: &str = "/console/api/";
/// The largest body of a sign-in: a token.
const BODY_BYTES_MAX: usize = 64 * 1024;
/// How many rows an answer has at most.
const CLIENTS_SHOWN: usize = 100;
const ERRORS_SHOWN: usize = 50;
const REQUESTS_SHOWN: usize = 200;

/// Answers the console's paths. They are not listed at `/`, where clients find what upstream has.
pub struct ConsolePaths {
    pub console: Arc<Console>,
    pub authenticator: Arc<Authenticator>,
    pub metrics: Arc<Metrics>,
    pub seats: Seats,
    /// The version that the server says it has.
    pub version: String,
    pub memory: MemoryParts,
    pub certificates: ReadCertificates,
}

/// Reads the certificates that the server uses.
pub type ReadCertificates = Arc<dyn Fn() -> Vec<CertificateRow> + Send + Sync>;

/// A certificate in a file that the server uses.
#[derive(Debug, Serialize)]
pub struct CertificateRow {
    pub purpose: &'static str,
    pub file: String,
    /// The common name of its subject.
    pub name: String,
    /// In seconds since the epoch; None if the file cannot be read.
    pub ends: Option<i64>,
    /// Why it cannot be read, "" if it can.
    pub problem: String,
}

/// Tells the parts of the server's memory that are counted, in bytes, by their names.
pub type MemoryParts = Box<dyn Fn() -> Vec<(&'static str, usize)> + Send + Sync>;

#[async_trait]
impl Paths for ConsolePaths {
    async fn answer(&self, call: &Permitted<Call>, body: &mut Body) -> Option<Reply> {
        if call.info.path == SESSION_PATH {
            return Some(self.session(call, std::mem::take(body)).await.unwrap_or_else(|status| refused(&status)));
        }
        let page = call.info.path.strip_prefix(API)?;
        if call.method != Method::GET {
            return Some(refused(&not_this_method(&call.method)));
        }
        let value = match page {
            "now" => self.now(),
            "requests" => self.requests(call),
            "certificates" => {
                let read = self.certificates.clone();
                let rows = tokio::task::spawn_blocking(move || read()).await.unwrap_or_default();
                json!({ "items": rows })
            }
            "flow" => match self.flow(call) {
                Ok(value) => value,
                Err(status) => return Some(refused(&status)),
            },
            _ => return None,
        };
        Some(json_reply(StatusCode::OK, &value))
    }

    fn listed(&self) -> Vec<String> {
        Vec::new()
    }
}

impl ConsolePaths {
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
        let credential = match came_by_link(&call.user) {
            true => Credential::Administrator,
            false => self.token_of(&call.user, &bytes).await?,
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
            "memory": (self.memory)().iter().map(|(name, bytes)| json!({"name": name, "bytes": bytes})).collect::<Vec<_>>(),
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

    /// Which FlowSchema and priority level a request would get.
    fn flow(&self, call: &Call) -> Result<Value, Status> {
        let flow = self.seats.flow().ok_or_else(|| Status::bad_request("priority and fairness is off".to_string()))?;
        let method = call.query("method").unwrap_or("GET");
        let uri: http::Uri =
            call.query("path").unwrap_or("/").parse().map_err(|error: http::uri::InvalidUri| {
                Status::bad_request(format!("the path cannot be read: {error}"))
            })?;
        let unreadable = || Status::bad_request("the path has an invalid escape".to_string());
        let path = request::unescape(uri.path()).ok_or_else(unreadable)?;
        let info = RequestInfo::parse(method, &path, &server::query(&uri));
        let user = User {
            name: call.query("user").unwrap_or(User::ANONYMOUS).to_string(),
            groups: call.query_all("group").map(str::to_string).collect(),
            ..User::default()
        };
        let found = flow.classify(&info, &user);
        Ok(json!({
            "verb": info.verb.as_str(),
            "group": info.group,
            "resource": info.resource,
            "namespace": info.namespace,
            "name": info.name,
            "flowSchema": found.schema.as_str(),
            "priorityLevel": found.level.as_str(),
        }))
    }
}

fn not_this_method(method: &Method) -> Status {
    Status::generic(405, method.as_str(), &GroupResource::default(), "", "")
}

fn refused(status: &Status) -> Reply {
    private(failure(status, &Accept::json()))
}

fn json_reply(code: StatusCode, value: &Value) -> Reply {
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
