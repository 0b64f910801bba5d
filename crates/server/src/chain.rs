//! The filters, in the order a request meets them.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::{Duration, Instant};

use authn::{Authenticator, Credentials, Identity};
use authz::Authorizer;
use bytes::Bytes;
use futures::FutureExt;
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use hyper::body::{Body as _, Incoming};
use object::{GroupResource, GroupVersionKind, Status};
use request::RequestInfo;
use rest::{Accept, Api, Body, Call, Reply, ReplyBody, failure};
use rustls_pki_types::CertificateDer;

use crate::compress::compress;
use crate::health::Endpoint;
use crate::inflight::Seat;
use crate::metrics::Labels;
use crate::track::Tracked;
use crate::{Cors, Health, Impersonation, InFlight, Lifecycle, Metrics, Paths, Version, call, impersonate};

const JSON: &str = "application/json";

/// What goes back over the connection.
pub type HttpResponse = Response<UnsyncBoxBody<Bytes, rest::Cut>>;

/// Everything a request can need.
pub struct Server {
    pub api: Arc<Api>,
    pub authenticator: Arc<Authenticator>,
    pub authorizer: Arc<dyn Authorizer>,
    pub impersonation: Impersonation,
    pub health: Health,
    pub metrics: Arc<Metrics>,
    pub version: Version,
    pub paths: Vec<Arc<dyn Paths>>,
    pub lifecycle: Lifecycle,
    pub in_flight: InFlight,
    pub cors: Cors,
    /// How long a request that is not long-running may take: `--request-timeout`.
    pub request_timeout: Duration,
    /// `--strict-transport-security-directives`, "" for none.
    pub hsts: String,
}

/// A request on its way through the filters.
struct Passage<'a> {
    info: RequestInfo,
    query: Vec<(String, String)>,
    certificates: &'a [CertificateDer<'static>],
    /// Taken on the way, kept until the answer was sent.
    seat: &'a mut Option<Seat>,
}

impl Server {
    /// Answers one request. Whatever happens, there is an answer.
    pub async fn serve(
        self: Arc<Self>,
        request: Request<Incoming>,
        certificates: Arc<[CertificateDer<'static>]>,
    ) -> HttpResponse {
        let began = Instant::now();
        // What is asked for? Everything after this goes by it.
        let query = call::query(request.uri());
        let info = RequestInfo::parse(request.method().as_str(), request.uri().path(), &query);
        let audit_id = audit_id(&request);
        let long_running = info.is_long_running();
        // The end of the server waits for whoever holds a ticket.
        let ticket = self.lifecycle.enter(long_running);
        let series = self.series(&info, &query, &request);
        let mut tracked = Tracked { series, began, long_running, _ticket: ticket, seat: None, code: 0, bytes: 0 };
        let gzip = !long_running && accepts_gzip(&request);
        let cors = self.cors.allow(request.headers());
        let reply = match self.turn_away(&request, cors.is_some()) {
            Some(reply) => reply,
            None => {
                let passage = Passage { info, query, certificates: &certificates, seat: &mut tracked.seat };
                // A bug in one request must not take the others with it.
                // Boxed, because connections move what they wait for, and this is all that a request can ever hold.
                let answer = AssertUnwindSafe(Box::pin(self.filter(request, passage))).catch_unwind().await;
                answer.unwrap_or_else(|_| {
                    self.metrics.panicked();
                    failure(&Status::internal("the request ended in a bug of the server"), &Accept::json())
                })
            }
        };
        // A watch ends when the server leaves.
        let end = long_running.then(|| self.lifecycle.watch_end());
        let reply = tracked.follow(compress(reply, gzip), end);
        self.finish(reply, &audit_id, cors)
    }

    /// Under which labels the request counts; None if nobody serves what it asks for.
    fn series(
        &self,
        info: &RequestInfo,
        query: &[(String, String)],
        request: &Request<Incoming>,
    ) -> Option<Arc<crate::metrics::Series>> {
        let catalog = self.api.catalog.load();
        let resource = match info.is_resource {
            true => Some(catalog.get(&info.group, &info.version, &info.resource)?),
            false => None,
        };
        if let Some(bytes) = request.body().size_hint().exact().filter(|bytes| *bytes > 0) {
            self.metrics.requests.body(info, bytes);
        }
        let dry_run = query.iter().any(|(key, value)| key == "dryRun" && value == "All");
        let series = self.metrics.requests.series(&Labels::of(info, request.method(), request.headers(), dry_run));
        if let Some(old) = resource.and_then(|resource| resource.deprecation.as_ref()) {
            series.deprecated(&old.removed_release);
        }
        Some(series)
    }

    /// Answers that need nothing of the request but that it came.
    fn turn_away(&self, request: &Request<Incoming>, from_allowed_page: bool) -> Option<Reply> {
        // A server that is leaving sends everybody on, except those who ask how it is.
        let path = request.uri().path();
        let asks_how_it_is = ["/readyz", "/livez", "/healthz", "/metrics"].iter().any(|known| path.starts_with(known));
        if self.lifecycle.phase().is_leaving() && !asks_how_it_is {
            let mut reply = too_many("The apiserver is shutting down, please try again later.\n", 5);
            if request.version() != http::Version::HTTP_2 {
                reply.headers.insert(http::header::CONNECTION, HeaderValue::from_static("close"));
            }
            return Some(reply);
        }
        // A browser asks before it lets a page talk to us.
        if from_allowed_page && request.method() == http::Method::OPTIONS {
            let mut reply = Reply::new(StatusCode::NO_CONTENT, "", ReplyBody::Ready(Bytes::new()));
            reply.headers.clear();
            return Some(reply);
        }
        None
    }

    async fn filter(&self, request: Request<Incoming>, passage: Passage<'_>) -> Reply {
        // Long-running requests end when their client or their own timeout says so.
        if passage.info.is_long_running() {
            return self.pass(request, passage, self.request_timeout).await;
        }
        let limit = match self.timeout(&passage.query) {
            Ok(limit) => limit,
            Err(status) => return failure(&status, &Accept::of_status(request.headers(), &passage.query)),
        };
        match tokio::time::timeout(limit, self.pass(request, passage, limit)).await {
            Ok(reply) => reply,
            Err(_) => {
                self.metrics.requests.terminated();
                let message = "request did not complete within the allotted timeout";
                failure(&Status::timeout(message, 0), &Accept::json())
            }
        }
    }

    /// The part of the chain that knows who is asking.
    async fn pass(&self, request: Request<Incoming>, passage: Passage<'_>, timeout: Duration) -> Reply {
        let Passage { info, query, certificates, seat } = passage;
        let readable = || Accept::of_status(request.headers(), &query);
        let forbid = |status: Status, warnings: &[String]| {
            let mut reply = failure(&status, &readable()).warn(warnings);
            reply.headers.insert(http::header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
            reply
        };
        // Who is it? A credential that is not good ends here.
        let Identity { user, warnings, .. } = match self.authenticate(&request, certificates).await {
            Ok(identity) => identity,
            Err(()) => return failure(&Status::unauthorized("Unauthorized"), &readable()),
        };
        // (audit) From here on every outcome will be recorded; it comes with its own issue.
        // May they act as somebody else?
        let constrained = self.api.features.enabled("ConstrainedImpersonation");
        let wanted = self.impersonation.impersonate(&*self.authorizer, &info, user, request.headers(), constrained);
        let user = match wanted.await {
            Ok(user) => user,
            Err(status) => return forbid(status, &warnings),
        };
        // (flow control) Is there room? Fair queues come with their own issue; until then a full house is a 429.
        if !info.is_long_running() {
            *seat = self.in_flight.sit(&info, &user);
            if seat.is_none() {
                self.metrics.requests.terminated();
                return too_many("Too many requests, please try again later.\n", 1);
            }
        }
        // May they do this? From here on there is a permit, and verbs cannot be called without one.
        let permit = match authz::authorize(&*self.authorizer, &info, &user).await {
            Ok(permit) => permit,
            Err(status) => return forbid(status, &warnings),
        };
        let (mut parts, incoming) = request.into_parts();
        // Proxied servers must not see the client's credentials.
        parts.headers.remove(http::header::AUTHORIZATION);
        impersonate::strip(&mut parts.headers);
        let upgrade = parts.extensions.remove::<hyper::upgrade::OnUpgrade>();
        let body = match upgrade {
            Some(upgrade) if parts.headers.contains_key(http::header::UPGRADE) => Body::Upgrade(upgrade),
            _ if incoming.is_end_stream() => Body::Empty,
            _ => Body::Incoming(incoming),
        };
        let call = Call { info, user, method: parts.method, headers: parts.headers, query, body, timeout };
        // Built-in and custom resources alike are in the catalog; everything else is a path.
        if call.info.is_resource {
            return rest::serve(self.api.clone(), permit, call).await.warn(&warnings);
        }
        self.path(call).await.warn(&warnings)
    }

    async fn authenticate(
        &self,
        request: &Request<Incoming>,
        certificates: &[CertificateDer<'static>],
    ) -> Result<Identity, ()> {
        let now = self.api.clock.now().secs;
        let identity =
            self.authenticator.authenticate(&Credentials { certificates, headers: request.headers(), now }).await;
        let identity = identity.map_err(|refused| {
            tracing::warn!(%refused, "unable to authenticate the request");
        })?;
        if let Some(ends) = identity.certificate_ends {
            self.metrics.certificate_seen(ends - now);
        }
        Ok(identity)
    }

    /// How long the request may take: what it asks for, if that is less than what everybody gets.
    fn timeout(&self, query: &[(String, String)]) -> Result<Duration, Status> {
        let asked = query.iter().find(|(key, _)| key == "timeout").map_or("", |(_, value)| value.as_str());
        if asked.is_empty() {
            return Ok(self.request_timeout);
        }
        let asked = object::duration::Duration::parse(asked)
            .map_err(|error| Status::bad_request(format!("invalid timeout specified in the request URL - {error}")))?;
        match u64::try_from(asked.0) {
            Ok(nanos) if nanos > 0 => Ok(Duration::from_nanos(nanos).min(self.request_timeout)),
            _ => Ok(self.request_timeout),
        }
    }

    async fn path(&self, call: Call) -> Reply {
        let path = call.info.path.trim_end_matches('/').to_string();
        if let Some(reply) = self.own_path(&path, &call).await {
            return reply;
        }
        for paths in &self.paths {
            if let Some(reply) = paths.answer(&call).await {
                return reply;
            }
        }
        let below_api = path.starts_with("/api/") || (path.starts_with("/apis/") && path.matches('/').count() > 2);
        if below_api {
            let readable = Accept::of_status(&call.headers, &call.query);
            return failure(&Status::generic(404, "", &GroupResource::default(), "", ""), &readable);
        }
        text(StatusCode::NOT_FOUND, "404 page not found\n")
    }

    /// Paths the server itself answers.
    async fn own_path(&self, path: &str, call: &Call) -> Option<Reply> {
        for endpoint in [Endpoint::Healthz, Endpoint::Livez, Endpoint::Readyz] {
            if let Some(name) = endpoint.check_in(path) {
                let (code, body) = self.health.answer(endpoint, name, &call.query).await;
                return Some(text(code, &body));
            }
        }
        match path {
            "/version" => Some(match rest::accept::check_route(call, &[JSON], &[JSON]) {
                Ok(()) => Reply::new(StatusCode::OK, JSON, ReplyBody::Ready(self.version.to_json().into())),
                Err(status) => failure(&status, &Accept::of_status(&call.headers, &call.query)),
            }),
            "/metrics" => {
                let body = ReplyBody::Ready(self.metrics.render(self.in_flight.now()).into());
                Some(Reply::new(StatusCode::OK, "text/plain; version=0.0.4; charset=utf-8", body))
            }
            "" => Some(self.root()),
            _ => None,
        }
    }

    /// `/`: what there is.
    fn root(&self) -> Reply {
        let mut paths: Vec<String> = self.paths.iter().flat_map(|paths| paths.listed()).collect();
        paths.extend(self.health.paths());
        paths.extend(["/metrics", "/version"].map(str::to_string));
        paths.sort();
        paths.dedup();
        let listing = object::value!({"paths": paths});
        let accept = Accept::indented();
        let listing = rest::encode_value(&accept, &GroupVersionKind::new("", "", "Paths"), &listing);
        Reply::new(StatusCode::OK, JSON, ReplyBody::Ready(listing))
    }

    /// Headers that every answer carries.
    fn finish(&self, mut reply: Reply, audit_id: &str, cors: Option<HeaderMap>) -> HttpResponse {
        reply.headers.extend(cors.into_iter().flatten());
        let mut set = |name: &'static str, value: &str| {
            if let Ok(value) = HeaderValue::from_str(value) {
                reply.headers.insert(HeaderName::from_static(name), value);
            }
        };
        set("audit-id", audit_id);
        if !self.hsts.is_empty() {
            set("strict-transport-security", &self.hsts);
        }
        // Nothing is kept by caches unless the answer itself says that it may be.
        let private = HeaderValue::from_static("no-cache, private");
        reply.headers.entry(http::header::CACHE_CONTROL).or_insert(private);
        reply.into_response()
    }
}

fn text(code: StatusCode, body: &str) -> Reply {
    let mut reply =
        Reply::new(code, "text/plain; charset=utf-8", ReplyBody::Ready(Bytes::copy_from_slice(body.as_bytes())));
    reply.headers.insert("x-content-type-options", HeaderValue::from_static("nosniff"));
    reply
}

/// Upstream's answer to whoever comes at a bad time.
fn too_many(body: &str, retry_after_seconds: u64) -> Reply {
    let mut reply = text(StatusCode::TOO_MANY_REQUESTS, body);
    reply.headers.insert(http::header::RETRY_AFTER, HeaderValue::from(retry_after_seconds));
    reply
}

/// The client's audit id if it sent a plausible one, else a new one.
fn audit_id(request: &Request<Incoming>) -> String {
    let sent = request.headers().get("audit-id").and_then(|value| value.to_str().ok()).unwrap_or("");
    if (1..=64).contains(&sent.len()) { sent.to_string() } else { uuid::Uuid::new_v4().to_string() }
}

fn accepts_gzip(request: &Request<Incoming>) -> bool {
    let encodings = request.headers().get(http::header::ACCEPT_ENCODING).and_then(|value| value.to_str().ok());
    encodings.is_some_and(|text| text.split(',').any(|item| item.split(';').next().unwrap_or("").trim() == "gzip"))
}
