//! The filters, in the order a request meets them.

use std::future::poll_fn;
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use ::audit::Auditor;
use aggregator::Aggregator;
use authn::{Authenticator, Credentials, Identity};
use authz::{Authorizer, Permitted, Refusal, Refused};
use bytes::Bytes;
use futures::FutureExt;
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response, StatusCode, Version as HttpVersion};
use http_body_util::combinators::UnsyncBoxBody;
use hyper::body::Body as _;
use hyper::upgrade::OnUpgrade;
use object::{GroupResource, GroupVersionKind, Status};
use peers::Peers;
use request::{RequestInfo, User};
use rest::{Accept, Api, Body, Call, Reply, ReplyBody, failure, untyped_failure};
use tokio::time::Instant;

use crate::arrival::ArrivingBody;
use crate::audit;
use crate::compress::compress;
use crate::finish::Finish;
use crate::health::Endpoint;
use crate::http_log::HttpLog;
use crate::metrics::Labels;
use crate::peer::Peer;
use crate::receive::{Discarding, Receiving, timed_out};
use crate::seats::{Full, Seat};
use crate::sparing::Sparing;
use crate::trace::{self, Tracer};
use crate::track::Tracked;
use crate::unfinished::Unfinished;
use crate::{Cors, Health, Impersonation, Lifecycle, Metrics, Paths, Seats, Version, call, impersonate};

const JSON: &str = "application/json";
const METRICS: &str = "text/plain; version=0.0.4; charset=utf-8; escaping=underscores";

/// Audit annotations with the decision of authorization.
const DECISION: &str = "authorization.k8s.io/decision";
const REASON: &str = "authorization.k8s.io/reason";
/// Audit annotations of requests for a deprecated API.
const DEPRECATED: &str = "k8s.io/deprecated";
const REMOVED_RELEASE: &str = "k8s.io/removed-release";

/// Response headers that name the FlowSchema and the priority level of a request.
static FLOW_SCHEMA_UID: HeaderName = HeaderName::from_static("x-kubernetes-pf-flowschema-uid");
static PRIORITY_LEVEL_UID: HeaderName = HeaderName::from_static("x-kubernetes-pf-prioritylevel-uid");
static AUDIT_ID: HeaderName = HeaderName::from_static("audit-id");

/// What goes back over the connection.
pub type HttpResponse = Response<UnsyncBoxBody<Bytes, rest::Aborted>>;

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
    /// Knows which requests other API servers answer.
    pub aggregator: Option<Arc<Aggregator>>,
    /// Knows which requests other servers on the same store answer, if any are passed on to them.
    pub peers: Option<Arc<Peers>>,
    /// Refuses writes that have to wait until other servers know how this one stores objects.
    pub write_barrier: Option<WriteBarrier>,
    pub lifecycle: Lifecycle,
    pub seats: Seats,
    /// Bodies that are being received.
    pub unfinished: Unfinished,
    /// Who was not authenticated lately.
    pub refusals: Sparing,
    /// Keeps the audit log, if there is one.
    pub auditor: Option<Arc<Auditor>>,
    /// Traces requests, if a collector is configured.
    pub tracer: Option<Tracer>,
    pub cors: Cors,
    /// How long a request that is not long-running may take: `--request-timeout`.
    pub request_timeout: Duration,
    /// `--strict-transport-security-directives`, "" for none.
    pub hsts: String,
    /// The feature gate `UnauthenticatedHTTP2DOSMitigation`: anonymous clients get one request over an HTTP/2 connection.
    pub limits_anonymous_http2: bool,
    /// `--shutdown-send-retry-after`: requests that come while the last ones finish are answered with 429.
    pub refuses_while_leaving: bool,
}

/// Why a request of a user has to wait; None if it may go on.
pub type WriteBarrier = Arc<dyn Fn(&RequestInfo, &User) -> Option<Status> + Send + Sync>;

/// A request that was parsed, and what the filters know about it.
struct Parsed<'a> {
    info: RequestInfo,
    query: Vec<(String, String)>,
    tracked: &'a mut Tracked,
}

/// A request whose user is known, be it by impersonation.
struct Identified {
    /// In a box because it is large and every further step would move it.
    call: Box<Call>,
    body: Receiving<Discarding>,
    upgrade: Option<OnUpgrade>,
    version: HttpVersion,
    warnings: Vec<String>,
}

impl Server {
    /// Answers one request; every failure and panic becomes a response, too.
    pub async fn serve(self: Arc<Self>, request: Request<ArrivingBody>, peer: Arc<Peer>) -> HttpResponse {
        let began = Instant::now();
        // Request info: verb, resource, namespace and name, which every later filter uses, of a path that is decoded only here.
        let path = match call::path(&request) {
            Ok(path) => path,
            Err(answer) => {
                drop(peer.begin());
                return answer;
            }
        };
        let query = call::query(request.uri());
        let info = RequestInfo::parse(request.method().as_str(), &path, &query);
        let audit_id = audit_id(&request);
        let long_running = info.is_long_running();
        let mut tracked = Tracked {
            record: None,
            span: None,
            log: HttpLog::of(&request, &info, &audit_id, peer.address, long_running),
            series: self.series(&info, &query, &request),
            began,
            long_running,
            _ticket: self.lifecycle.enter(long_running),
            open: peer.begin(),
            seat: None,
            first: None,
            head: None,
            watch: None,
            code: 0,
            bytes: 0,
        };
        let timeout = self.timeout(&query);
        let gzip = !long_running && accepts_gzip(&request);
        let cors = self.cors.allow(request.headers());
        let reply = match self.turn_away(&request, &path, cors.is_some()) {
            Some(reply) => reply,
            None => {
                let parsed = Parsed { info, query, tracked: &mut tracked };
                // A panic ends only the request it happens in.
                let answer = AssertUnwindSafe(self.filter(request, parsed, &audit_id, &timeout)).catch_unwind().await;
                answer.unwrap_or_else(|_| {
                    self.metrics.panicked();
                    tracing::error!(audit_id, "a request ended in a panic");
                    if let Some(record) = tracked.record.take() {
                        record.panicked("the request ended in a bug of the server");
                    }
                    failure(&Status::internal("the request ended in a bug of the server"), &Accept::json())
                })
            }
        };
        let mut reply = reply;
        tracked.leave_seat(&mut reply).await;
        // A write that goes on is recorded with its own outcome, not with what its client was told.
        tracked.record.take_if(|record| record.is_handed_over());
        if let Some(record) = &tracked.record {
            audit::note_reply(record, &mut reply, long_running).await;
            tracked.record_reply(&reply).await;
        }
        // A watch ends when the server shuts down, every other response when the request's time is over.
        let (end, deadline) = match long_running {
            true => (Some(self.lifecycle.watch_end()), None),
            false => (None, Some(began + timeout.unwrap_or(self.request_timeout))),
        };
        let reply = tracked.follow(compress(reply, gzip), end, deadline);
        self.finish(reply, &audit_id, cors)
    }

    /// The metrics that the request counts for; None if it asks for what is not served, so that clients cannot make up labels.
    fn series(
        &self,
        info: &RequestInfo,
        query: &[(String, String)],
        request: &Request<ArrivingBody>,
    ) -> Option<Arc<crate::metrics::Series>> {
        let catalog = self.api.catalog.load();
        let resource = match info.is_resource {
            true => {
                let resource = catalog.get(&info.group, &info.version, &info.resource)?;
                if !info.subresource.is_empty() {
                    resource.subresource(&info.subresource)?;
                }
                Some(resource)
            }
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

    /// Filters before authentication: shutdown and CORS preflight.
    fn turn_away(&self, request: &Request<ArrivingBody>, path: &str, from_allowed_page: bool) -> Option<Reply> {
        // During shutdown requests get 429 with Retry-After if that was asked for, except health checks and metrics. Otherwise
        // those that were sent before the client got the GOAWAY are served.
        let is_check = ["/readyz", "/livez", "/healthz", "/metrics"].iter().any(|known| path.starts_with(known));
        if self.refuses_while_leaving && self.lifecycle.phase().is_leaving() && !is_check {
            let mut reply = too_many("The apiserver is shutting down, please try again later.\n", 5);
            if request.version() != HttpVersion::HTTP_2 {
                reply.headers.insert(http::header::CONNECTION, HeaderValue::from_static("close"));
            }
            return Some(reply);
        }
        // CORS: a browser's preflight request.
        if from_allowed_page && request.method() == http::Method::OPTIONS {
            let mut reply = Reply::new(StatusCode::NO_CONTENT, "", ReplyBody::Ready(Bytes::new()));
            reply.headers.clear();
            return Some(reply);
        }
        None
    }

    /// Sets the deadline, which long-running requests do not have.
    async fn filter(
        &self,
        request: Request<ArrivingBody>,
        parsed: Parsed<'_>,
        audit_id: &str,
        timeout: &Result<Duration, Status>,
    ) -> Reply {
        if parsed.tracked.long_running {
            return self.pass(request, parsed, audit_id, self.request_timeout).await;
        }
        let limit = match timeout {
            Ok(limit) => *limit,
            Err(status) => {
                self.record_refusal(status, &request, &parsed.info, audit_id, parsed.tracked.open.peer());
                return failure(status, &self.api.accept_of_status(request.headers(), &parsed.query));
            }
        };
        let deadline = parsed.tracked.began + limit;
        match tokio::time::timeout_at(deadline, self.pass(request, parsed, audit_id, limit)).await {
            Ok(reply) => reply,
            Err(_) => {
                self.metrics.requests.terminated();
                untyped_failure(&timed_out())
            }
        }
    }

    /// Authentication, audit and impersonation; then the request is limited, authorized and carried out.
    async fn pass(
        &self,
        request: Request<ArrivingBody>,
        parsed: Parsed<'_>,
        audit_id: &str,
        timeout: Duration,
    ) -> Reply {
        let Parsed { info, query, tracked } = parsed;
        let readable = || self.api.accept_of_status(request.headers(), &query);
        // Authentication: a bad credential is a 401.
        let peer = tracked.open.peer().clone();
        let Identity { user, warnings, .. } = match self.authenticate(&request, &info.path, &peer).await {
            Ok(identity) => identity,
            Err(()) => {
                self.send_anonymous_away(request.version(), &peer);
                let status = Status::unauthorized("Unauthorized");
                self.record_refusal(&status, &request, &info, audit_id, &peer);
                return failure(&status, &readable());
            }
        };
        if is_anonymous(&user) {
            self.send_anonymous_away(request.version(), &peer);
        }
        let took = tracked.began.elapsed();
        tracked.span = self.tracer.as_ref().and_then(|tracer| tracer.begin(&request, &info, &user, audit_id, took));
        // Audit: from here on every outcome is recorded.
        if let Some(auditor) = &self.auditor {
            let span = trace::filter(&tracked.span, "audit");
            tracked.record = audit::begin(auditor, &request, &info, &user, audit_id, &peer);
            let record = tracked.record.as_ref();
            record.inspect(|record| record.took("authentication", took));
            if let Some(record) = record
                && !record.received().await
            {
                return failure(&Status::internal("failed to store audit event"), &readable());
            }
            drop(span);
        }
        // Impersonation: from here on the user is the impersonated one.
        let span = trace::filter(&tracked.span, self.impersonation.filter());
        let wanted = self.impersonation.impersonate(&*self.authorizer, &info, user, request.headers());
        let asked = tracked.record.as_deref().filter(|_| impersonate::is_asked(request.headers()));
        let (user, constraint) = match audit::timed(asked, "impersonation", wanted).await {
            Ok(impersonated) => impersonated,
            Err(status) => return forbidden(&status, &readable(), &warnings),
        };
        if let Some(record) = asked {
            record.impersonated(&user, constraint);
        }
        drop(span);
        let (mut parts, incoming) = request.into_parts();
        // Proxied servers must not see the client's credentials.
        self.authenticator.strip(&mut parts.headers);
        impersonate::strip(&mut parts.headers);
        let upgrade = parts.extensions.remove::<OnUpgrade>();
        let upgrade = upgrade.filter(|_| parts.headers.contains_key(http::header::UPGRADE));
        let (client, record) = (Some(peer.address.ip()), tracked.record.clone());
        let head = self.unfinished.head(&user, &parts);
        tracked.head = match head {
            Ok(head) => head,
            Err(status) => return failure(&status, &self.api.accept_of_status(&parts.headers, &query)),
        };
        let http::request::Parts { method, uri, headers, version, .. } = parts;
        let body = Receiving::new(incoming, || self.unfinished.account(&user.name));
        let call = Box::new(Call { info, user, method, uri, headers, query, timeout, client, record, finish: None });
        self.limit(Identified { call, body, upgrade, version, warnings }, tracked, audit_id).await
    }

    /// Flow control: a request waits for a seat or is refused with 429.
    async fn limit(&self, mut identified: Identified, tracked: &mut Tracked, audit_id: &str) -> Reply {
        let Call { info, query, user, timeout, .. } = &*identified.call;
        let span = trace::filter(&tracked.span, "priorityandfairness");
        let waits_until = tracked.began + *timeout / 4;
        let work = |flow: &flow::Flow, most: u64| flow.work(info, most, || self.list_cost(info, query));
        let taken = self.seats.take(info, user, waits_until, work);
        let taken = audit::timed(tracked.record.as_deref(), "apf-queue-wait", taken);
        tracked.seat = match while_reading(&mut identified.body, taken).await {
            Ok(Ok(seat)) => seat,
            Ok(Err(full)) => return self.refuse(full),
            Err(status) => return failure(&status, &self.api.accept_of_status(&identified.call.headers, query)),
        };
        drop(span);
        let mut turn = tracked.seat.clone().filter(Seat::has_turn);
        let mut admitted = pin!(self.authorize(identified, tracked, audit_id));
        poll_fn(|cx| {
            let polled = admitted.as_mut().poll(cx);
            // The request has run, to its end or until it had to wait for something.
            if let Some(seat) = turn.take() {
                seat.end_turn();
            }
            polled
        })
        .await
    }

    /// Authorization; then the request is carried out.
    async fn authorize(&self, identified: Identified, tracked: &mut Tracked, audit_id: &str) -> Reply {
        let Identified { mut call, body, upgrade, version, warnings } = identified;
        let peer = tracked.open.peer().clone();
        tracked.watch = self.seats.flow().and_then(|flow| flow.watches.register(&call.info));
        let admission = tracked.seat.as_ref().and_then(Seat::admission);
        let content = match body.is_empty() {
            true => Body::Empty,
            false => Body::Stream(body.admitted(tracked.seat.clone(), is_exempt(&call.user, admission.as_deref()))),
        };
        let body = match upgrade {
            Some(upgrade) => Body::Upgradable(upgrade, Box::new(content)),
            None => content,
        };
        if call.info.is_resource && !call.info.verb.is_read() {
            call.finish = Some(Finish::of(tracked, self.lifecycle.clone()));
        }
        // Authorization: verbs take nothing but a call that was permitted.
        let (span, began) = (trace::filter(&tracked.span, "authorization"), std::time::Instant::now());
        let decided = authz::authorize(&*self.authorizer, call);
        let decided = audit::timed(tracked.record.as_deref(), "authorization", decided).await;
        self.metrics.authorization.decided(decided.is_ok(), began.elapsed());
        drop(span);
        let call = match decided {
            Ok(call) => call,
            Err(refused) => return not_allowed(&self.api, *refused, tracked.record.as_deref(), &warnings),
        };
        if let Some(record) = &tracked.record {
            record.annotate(DECISION, "allow");
            record.annotate(REASON, call.reason());
        }
        let handler = trace::handler(&tracked.span, &call, version, audit_id);
        let reply = match handler.as_ref().or(tracked.span.as_ref()) {
            None => self.carry_out(call, body, &peer, audit_id).await,
            Some(span) => Box::pin(span.run(self.carry_out(call, body, &peer, audit_id))).await,
        };
        drop(handler);
        let removed = tracked.series.as_ref().and_then(|series| series.removed_release());
        if let (Some(record), Some(removed)) = (&tracked.record, removed) {
            record.annotate(DEPRECATED, "true");
            if !removed.is_empty() {
                record.annotate(REMOVED_RELEASE, removed);
            }
        }
        classified(reply.warn(&warnings), admission.as_deref())
    }

    /// Passes requests for other API servers on; resources are in the catalog; all other paths are answered by `path`.
    async fn carry_out(&self, call: Permitted<Call>, body: Body, peer: &Peer, audit_id: &str) -> Reply {
        if let Some(status) = self.write_barrier.as_ref().and_then(|barrier| barrier(&call.info, &call.user)) {
            return failure(&status, &self.api.accept_of_status(&call.headers, &call.query));
        }
        if call.info.is_resource && !call.info.is_routed() {
            return page_not_found();
        }
        let backend = self.aggregator.as_ref().and_then(|aggregator| aggregator.backend(&call.info.path));
        if let Some(backend) = backend {
            return Box::pin(backend.answer(&call, body, peer.address.ip(), audit_id)).await;
        }
        if let Some(peers) = &self.peers {
            let able = peers.serving(&call);
            if !able.is_empty() {
                return Box::pin(peers.answer(&able, &call, body, peer.address.ip(), audit_id)).await;
            }
        }
        match call.info.is_resource {
            true => rest::serve(&self.api, call, body).await,
            false => self.path(&call, body).await,
        }
    }

    /// 429 for a request that got no seat.
    fn refuse(&self, Full(rejected): Full) -> Reply {
        self.metrics.requests.terminated();
        let retry_after = rejected.as_ref().map_or(1, |rejected| rejected.retry_after);
        let reply = too_many("Too many requests, please try again later.\n", retry_after as u64);
        classified(reply, rejected.as_ref().map(|rejected| &*rejected.admission))
    }

    /// What the number of seats of a list or watch depends on.
    fn list_cost<'a>(
        &self,
        info: &RequestInfo,
        query: &'a [(String, String)],
    ) -> (flow::ListOptions<'a>, Option<flow::ObjectStats>) {
        let value = |name: &str| query.iter().find(|(key, _)| key == name).map_or("", |(_, value)| value.as_str());
        let resource_version = value("resourceVersion");
        let options = flow::ListOptions {
            limit: value("limit").parse().unwrap_or(0),
            has_selector: !info.field_selector.is_empty() || !info.label_selector.is_empty(),
            from_cache: value("continue").is_empty() && value("resourceVersionMatch") != "Exact",
            resource_version,
            send_initial_events: value("sendInitialEvents") == "true",
        };
        let catalog = self.api.catalog.load();
        let storage = catalog.get(&info.group, &info.version, &info.resource).and_then(|found| found.storage.as_ref());
        let stats = storage.map(|storage| {
            let (count, bytes) = (storage.cache.len() as u64, storage.cache.encoded_bytes() as u64);
            flow::ObjectStats { count, average_bytes: bytes.checked_div(count).unwrap_or(0) }
        });
        (options, stats)
    }

    async fn authenticate(&self, request: &Request<ArrivingBody>, path: &str, peer: &Peer) -> Result<Identity, ()> {
        if let Some(user) = &peer.user {
            return Ok(Identity { user: user.clone(), ..Identity::default() });
        }
        let now = self.api.clock.now().secs;
        let credentials = Credentials { certificates: &peer.certificates, headers: request.headers(), path, now };
        let identity = self.authenticator.authenticate(&credentials).await;
        let identity = identity.map_err(|refused| match self.refusals.line(peer.address.ip()) {
            None => {}
            Some(0) => tracing::warn!(%refused, "unable to authenticate the request"),
            Some(withheld) => tracing::warn!(%refused, withheld, "unable to authenticate the request"),
        })?;
        if let Some(ends) = identity.certificate_ends {
            self.metrics.certificate_seen(ends - now);
        }
        Ok(identity)
    }

    /// Records a request that is refused before its user is known.
    fn record_refusal(
        &self,
        status: &Status,
        request: &Request<ArrivingBody>,
        info: &RequestInfo,
        audit_id: &str,
        peer: &Peer,
    ) {
        let begin = |auditor: &Arc<Auditor>| audit::begin(auditor, request, info, &User::default(), audit_id, peer);
        if let Some(record) = self.auditor.as_ref().and_then(begin) {
            record.refused(status);
        }
    }

    /// Over HTTP/2 a client that has not authenticated must make a new connection for its next request, because requests over an
    /// open one cost it next to nothing.
    fn send_anonymous_away(&self, version: HttpVersion, peer: &Peer) {
        if self.limits_anonymous_http2 && version == HttpVersion::HTTP_2 {
            peer.go_away();
        }
    }

    /// How long the request may take: its `timeout` parameter, but no more than `--request-timeout`.
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

    async fn path(&self, call: &Permitted<Call>, mut body: Body) -> Reply {
        if let Some(reply) = self.own_path(&call.info.path, call).await {
            return reply;
        }
        for paths in &self.paths {
            if let Some(reply) = paths.answer(call, &mut body).await {
                return reply;
            }
        }
        let path = call.info.path.trim_end_matches('/');
        let below_group = path.strip_prefix("/apis/").is_some_and(|rest| !rest.starts_with('/') && rest.contains('/'));
        if path.starts_with("/api/") || below_group {
            let readable = self.api.accept_of_status(&call.headers, &call.query);
            return failure(&Status::generic(404, "", &GroupResource::default(), "", ""), &readable);
        }
        page_not_found()
    }

    /// Paths the server itself answers. All but those behind upstream's router for resources are exactly these.
    async fn own_path(&self, path: &str, call: &Call) -> Option<Reply> {
        for endpoint in Endpoint::ALL {
            if let Some(name) = endpoint.check_in(path) {
                let (code, body) = self.health.answer(endpoint, name, &call.query).await;
                return Some(text(code, &body));
            }
        }
        match path {
            path if path.trim_end_matches('/') == "/version" => {
                Some(match rest::accept::check_route(call, &[JSON], &[JSON]) {
                    Ok(()) => Reply::new(StatusCode::OK, JSON, ReplyBody::Ready(self.version.to_json().into())),
                    Err(status) => failure(&status, &self.api.accept_of_status(&call.headers, &call.query)),
                })
            }
            "/metrics/slis" => Some(Reply::new(StatusCode::OK, METRICS, ReplyBody::Ready(self.health.slis().into()))),
            "/metrics" => {
                let body = ReplyBody::Ready(self.metrics.render(self.seats.taken()).into());
                Some(Reply::new(StatusCode::OK, METRICS, body))
            }
            "/" | "/index.html" => Some(self.root()),
            _ => {
                let page = path.strip_prefix("/debug/api_priority_and_fairness/")?;
                self.seats.flow()?.dump(page).map(|body| text(StatusCode::OK, &body))
            }
        }
    }

    /// `/`: the list of paths.
    fn root(&self) -> Reply {
        let mut paths: Vec<String> = self.paths.iter().flat_map(|paths| paths.listed()).collect();
        paths.extend(self.health.paths());
        paths.extend(["/metrics", "/metrics/slis", "/version"].map(str::to_string));
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
        let mut set = |name: &HeaderName, value: &str| {
            if let Ok(value) = HeaderValue::from_str(value) {
                reply.headers.insert(name, value);
            }
        };
        set(&AUDIT_ID, audit_id);
        if !self.hsts.is_empty() {
            set(&http::header::STRICT_TRANSPORT_SECURITY, &self.hsts);
        }
        // Responses are not cached by proxies unless their handler said otherwise.
        let private = HeaderValue::from_static("no-cache, private");
        reply.headers.entry(http::header::CACHE_CONTROL).or_insert(private);
        reply.into_response()
    }
}

/// Waits for something, and meanwhile takes what arrives of the body.
async fn while_reading<T>(body: &mut Receiving<Discarding>, future: impl Future<Output = T>) -> Result<T, Status> {
    let mut future = pin!(future);
    poll_fn(|cx| match future.as_mut().poll(cx) {
        Poll::Ready(output) => Poll::Ready(Ok(output)),
        Poll::Pending => body.read_ahead(cx).map_or_else(|status| Poll::Ready(Err(status)), |()| Poll::Pending),
    })
    .await
}

/// Users that are never refused for load.
fn is_exempt(user: &User, admission: Option<&flow::Admission>) -> bool {
    user.is_member(User::MASTERS) || admission.is_some_and(|admission| admission.level == flow::EXEMPT)
}

fn is_anonymous(user: &User) -> bool {
    user.name == User::ANONYMOUS || user.is_member(User::UNAUTHENTICATED)
}

fn forbidden(status: &Status, readable: &Accept, warnings: &[String]) -> Reply {
    let mut reply = failure(status, readable).warn(warnings);
    reply.headers.insert(http::header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    reply
}

/// The answer to a call that authorization did not allow.
fn not_allowed(api: &Api, refused: Refused<Call>, record: Option<&::audit::Record>, warnings: &[String]) -> Reply {
    let Refused { call, refusal } = refused;
    match refusal {
        Refusal::Forbidden { status, reason } => {
            record.inspect(|record| record.annotate(DECISION, "forbid"));
            record.inspect(|record| record.annotate(REASON, reason.as_str()));
            tracing::debug!(path = call.uri.path(), reason, "Forbidden");
            forbidden(&status, &api.accept_of_status(&call.headers, &call.query), warnings)
        }
        Refusal::Failed { error } => {
            record.inspect(|record| record.annotate(REASON, "internal error"));
            undecided(&call.uri, &error)
        }
    }
}

/// 500 in plain text when authorizers failed, as upstream's filter answers.
fn undecided(uri: &http::Uri, error: &str) -> Reply {
    let uri = uri.path_and_query().map_or("/", |uri| uri.as_str());
    tracing::error!(uri, error, "authorization failed");
    let message = format!("Internal Server Error: {}: {error}\n", object::quote(uri));
    let message = message.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    text(StatusCode::INTERNAL_SERVER_ERROR, &message)
}

fn page_not_found() -> Reply {
    text(StatusCode::NOT_FOUND, "404 page not found\n")
}

fn text(code: StatusCode, body: &str) -> Reply {
    let mut reply = Reply::text(code, body.to_string());
    reply.headers.insert(http::header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    reply
}

/// 429 in plain text, as upstream's filters answer.
fn too_many(body: &str, retry_after_seconds: u64) -> Reply {
    let mut reply = text(StatusCode::TOO_MANY_REQUESTS, body);
    reply.headers.insert(http::header::RETRY_AFTER, HeaderValue::from(retry_after_seconds));
    reply
}

/// Says in headers which FlowSchema and priority level the request was classified by.
fn classified(mut reply: Reply, admission: Option<&flow::Admission>) -> Reply {
    let Some(admission) = admission else { return reply };
    for (name, uid) in [(&FLOW_SCHEMA_UID, &admission.schema_uid), (&PRIORITY_LEVEL_UID, &admission.level_uid)] {
        if let Ok(value) = HeaderValue::from_str(uid) {
            reply.headers.insert(name, value);
        }
    }
    reply
}

/// The client's audit id if it sent a plausible one, else a new one.
fn audit_id(request: &Request<ArrivingBody>) -> String {
    let sent = request.headers().get(&AUDIT_ID).and_then(|value| value.to_str().ok()).unwrap_or("");
    match sent.len() {
        1..=64 => sent.to_string(),
        // The thread's generator, since asking the kernel for each request takes a system call.
        _ => uuid::Builder::from_random_bytes(rand::random()).into_uuid().to_string(),
    }
}

fn accepts_gzip(request: &Request<ArrivingBody>) -> bool {
    let encodings = request.headers().get(http::header::ACCEPT_ENCODING).and_then(|value| value.to_str().ok());
    encodings.is_some_and(|text| text.split(',').any(|item| item.split(';').next().unwrap_or("").trim() == "gzip"))
}
