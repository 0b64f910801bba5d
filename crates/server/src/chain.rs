//! The filters, in the order a request meets them.

use std::convert::Infallible;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::{Duration, Instant};

use authn::{Authenticator, Credentials, Identity};
use authz::Authorizer;
use bytes::Bytes;
use futures::FutureExt;
use http::{HeaderName, HeaderValue, Request, Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use hyper::body::{Body as _, Incoming};
use object::{GroupResource, GroupVersionKind, Status};
use request::RequestInfo;
use rest::{Accept, Api, Body, Call, Reply, ReplyBody, failure};
use rustls_pki_types::CertificateDer;

use crate::health::Endpoint;
use crate::{Health, Metrics, Paths, Version, call, impersonate};

/// What goes back over the connection.
pub type HttpResponse = Response<UnsyncBoxBody<Bytes, Infallible>>;

/// Everything a request can need.
pub struct Server {
    pub api: Arc<Api>,
    pub authenticator: Arc<Authenticator>,
    pub authorizer: Arc<dyn Authorizer>,
    pub health: Health,
    pub metrics: Arc<Metrics>,
    pub version: Version,
    pub paths: Vec<Arc<dyn Paths>>,
    /// How long a request that is not long-running may take: `--request-timeout`.
    pub request_timeout: Duration,
    /// `--strict-transport-security-directives`, "" for none.
    pub hsts: String,
}

impl Server {
    /// Answers one request. Whatever happens, there is an answer.
    pub async fn serve(
        self: Arc<Self>,
        request: Request<Incoming>,
        certificates: Arc<[CertificateDer<'static>]>,
    ) -> HttpResponse {
        let began = Instant::now();
        let query = call::query(request.uri());
        let info = RequestInfo::parse(request.method().as_str(), request.uri().path(), &query);
        let audit_id = audit_id(&request);
        let known =
            info.is_resource && self.api.catalog.load().get(&info.group, &info.version, &info.resource).is_some();
        let recorded = info.clone();
        let _in_flight = self.metrics.begin(&recorded);
        let gzip = accepts_gzip(&request);

        // A bug in one request must not take the others with it.
        let answer = AssertUnwindSafe(self.filter(request, info, query, &certificates)).catch_unwind().await;
        let reply = answer.unwrap_or_else(|_| {
            self.metrics.panicked();
            failure(&Status::internal("the request ended in a bug of the server"), &Accept::json())
        });
        self.metrics.record(&recorded, known || !recorded.is_resource, reply.status.as_u16(), began.elapsed());
        let reply = crate::compress::compress(reply, gzip && !recorded.is_long_running());
        self.finish(reply, &audit_id)
    }

    async fn filter(
        &self,
        request: Request<Incoming>,
        info: RequestInfo,
        query: Vec<(String, String)>,
        certificates: &[CertificateDer<'static>],
    ) -> Reply {
        // Long-running requests end when their client or their own timeout says so.
        if info.is_long_running() {
            return self.pass(request, info, query, certificates).await;
        }
        let limit = self.timeout(&query);
        match tokio::time::timeout(limit, self.pass(request, info, query, certificates)).await {
            Ok(reply) => reply,
            Err(_) => {
                let message = "request did not complete within the allotted timeout";
                failure(&Status::timeout(message, 0), &Accept::json())
            }
        }
    }

    /// The part of the chain that knows who is asking.
    async fn pass(
        &self,
        request: Request<Incoming>,
        info: RequestInfo,
        query: Vec<(String, String)>,
        certificates: &[CertificateDer<'static>],
    ) -> Reply {
        let refuse = |status: Status| failure(&status, &Accept::json());
        // Who is it? A credential that is not good ends here.
        let Identity { user, warnings, .. } = match self.authenticate(&request, certificates).await {
            Ok(identity) => identity,
            Err(()) => return refuse(Status::unauthorized("Unauthorized")),
        };
        // May they act as somebody else?
        let user = match impersonate::impersonate(&*self.authorizer, &info, user, request.headers()).await {
            Ok(user) => user,
            Err(status) => return refuse(status),
        };
        // May they do this? From here on there is a permit, and verbs cannot be called without one.
        let permit = match authz::authorize(&*self.authorizer, &info, &user).await {
            Ok(permit) => permit,
            Err(status) => return refuse(status),
        };
        let (parts, incoming) = request.into_parts();
        let body = if incoming.is_end_stream() { Body::Empty } else { Body::Incoming(incoming) };
        let timeout = self.timeout(&query);
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
        let header = request.headers().get(http::header::AUTHORIZATION);
        let authorization = header.and_then(|value| value.to_str().ok()).unwrap_or("");
        let credentials = Credentials { certificates, authorization, now: self.api.clock.now().secs };
        self.authenticator.authenticate(&credentials).await.map_err(|refused| {
            tracing::warn!(%refused, "unable to authenticate the request");
        })
    }

    fn timeout(&self, query: &[(String, String)]) -> Duration {
        let asked = query.iter().find(|(key, _)| key == "timeout").map(|(_, value)| value.as_str());
        match asked.and_then(|text| object::duration::Duration::parse(text).ok()) {
            Some(asked) if asked.0 > 0 => Duration::from_nanos(asked.0.unsigned_abs()).min(self.request_timeout),
            _ => self.request_timeout,
        }
    }

    async fn path(&self, call: Call) -> Reply {
        let path = call.info.path.trim_end_matches('/').to_string();
        if let Some(reply) = self.own_path(&path, &call) {
            return reply;
        }
        for paths in &self.paths {
            if let Some(reply) = paths.answer(&call).await {
                return reply;
            }
        }
        let below_api = path.starts_with("/api/") || (path.starts_with("/apis/") && path.matches('/').count() > 2);
        if below_api {
            return failure(&Status::generic(404, "", &GroupResource::default(), "", ""), &Accept::json());
        }
        text(StatusCode::NOT_FOUND, "404 page not found\n")
    }

    /// Paths the server itself answers.
    fn own_path(&self, path: &str, call: &Call) -> Option<Reply> {
        let health = |endpoint, prefix: &str| {
            let name = path.strip_prefix(prefix)?;
            let name = if name.is_empty() { "" } else { name.strip_prefix('/')? };
            let (code, body) = self.health.answer(endpoint, name, &call.query);
            Some(text(code, &body))
        };
        let probe = health(Endpoint::Healthz, "/healthz")
            .or_else(|| health(Endpoint::Livez, "/livez"))
            .or_else(|| health(Endpoint::Readyz, "/readyz"));
        if probe.is_some() {
            return probe;
        }
        match path {
            "/version" if call.method != http::Method::GET => {
                Some(failure(&Status::generic(405, "", &GroupResource::default(), "", ""), &Accept::json()))
            }
            "/version" => {
                let accept = Accept { pretty: true, ..Accept::json() };
                let kind = GroupVersionKind::new("", "", "Info");
                Some(Reply::value(StatusCode::OK, &accept, &kind, &self.version.to_value()))
            }
            "/metrics" => {
                let body = ReplyBody::Ready(self.metrics.render().into());
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
        let accept = Accept { pretty: true, ..Accept::json() };
        let listing = rest::encode_value(&accept, &GroupVersionKind::new("", "", "Paths"), &listing);
        // Objects end with a newline, and this is none.
        let listing = listing.slice(..listing.len().saturating_sub(1));
        Reply::new(StatusCode::OK, "application/json", ReplyBody::Ready(listing))
    }

    /// Headers that every answer carries.
    fn finish(&self, mut reply: Reply, audit_id: &str) -> HttpResponse {
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

/// The client's audit id if it sent a plausible one, else a new one.
fn audit_id(request: &Request<Incoming>) -> String {
    let sent = request.headers().get("audit-id").and_then(|value| value.to_str().ok()).unwrap_or("");
    if (1..=64).contains(&sent.len()) { sent.to_string() } else { uuid::Uuid::new_v4().to_string() }
}

fn accepts_gzip(request: &Request<Incoming>) -> bool {
    let encodings = request.headers().get(http::header::ACCEPT_ENCODING).and_then(|value| value.to_str().ok());
    encodings.is_some_and(|text| text.split(',').any(|item| item.split(';').next().unwrap_or("").trim() == "gzip"))
}
