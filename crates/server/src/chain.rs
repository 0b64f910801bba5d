//! The stages of a request, in upstream's order. Read [`Server::serve`], then `Server::pass`, from top to bottom.

use std::future::poll_fn;
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use ::audit::Auditor;
use aggregator::Aggregator;
use authn::{Authenticator, Credentials, Identity};
use authz::{Ask, Authorizer, Permitted};
use bytes::Bytes;
use futures::FutureExt;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode, Version as HttpVersion};
use http_body_util::combinators::UnsyncBoxBody;
use hyper::body::Body as _;
use hyper::upgrade::OnUpgrade;
use object::Status;
use peers::Peers;
use request::{RequestInfo, User};
use rest::{Accept, Api, Body, Call, CarryOut, Reply, ReplyBody, failure, untyped_failure};
use tokio::time::Instant;

use crate::arrival::ArrivingBody;
use crate::call::Arrived;
use crate::finish::Finish;
use crate::http_log::HttpLog;
use crate::metrics::ChainFilter;
use crate::observe::{CpuClock, Observed};
use crate::parts::RequestParts;
use crate::peer::Peer;
use crate::receive::{Discarding, Receiving, timed_out};
use crate::refused::{classified, forbidden, no_seat, not_allowed, shutting_down};
use crate::seats::{self, Seat};
use crate::sparing::Sparing;
use crate::trace::{self, Tracer};
use crate::track::Tracked;
use crate::unfinished::Unfinished;
use crate::{Cors, Health, Impersonation, Lifecycle, Metrics, Paths, PublicPages, RequestObserver, Seats, Version};
use crate::{audit, call, compress, impersonate, origin};

/// Audit annotations with the decision of authorization.
pub const DECISION: &str = "authorization.k8s.io/decision";
pub const REASON: &str = "authorization.k8s.io/reason";
/// Audit annotations of requests for a deprecated API.
const DEPRECATED: &str = "k8s.io/deprecated";
const REMOVED_RELEASE: &str = "k8s.io/removed-release";

static AUDIT_ID: HeaderName = HeaderName::from_static("audit-id");

/// The response as it goes over the connection.
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
    /// The console's pages, if it is on.
    pub pages: Option<Arc<dyn PublicPages>>,
    /// Is told what requests cost, if the console is on.
    pub observer: Option<Arc<dyn RequestObserver>>,
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

/// A request on its way through the stages. Its call is changed by them until it is permitted.
struct Passing<'a, C = Box<Call>> {
    call: C,
    tracked: &'a mut Tracked,
    audit_id: &'a str,
    version: HttpVersion,
    upgrade: Option<OnUpgrade>,
    /// Whether a page sent it that may: `--cors-allowed-origins`.
    from_allowed_page: bool,
    /// Warnings for the client because of its credential.
    warnings: Vec<String>,
    /// How priority and fairness classified it.
    admission: Option<Arc<flow::Admission>>,
}

/// The answer of a stage that lets the request go no further.
type Stopped = Box<Reply>;

impl Server {
    /// Answers one request; every failure and panic becomes a response, too.
    pub async fn serve(self: Arc<Self>, request: Request<ArrivingBody>, peer: Arc<Peer>) -> HttpResponse {
        // The path is decoded here and nowhere else: all stages go by the request info that is made of it.
        let arrived = match call::parse(request, &peer, self.request_timeout) {
            Ok(arrived) => arrived,
            Err(answer) => {
                drop(peer.begin());
                return answer;
            }
        };
        let Arrived { call, body, upgrade, version } = arrived;
        let audit_id = audit::id(&call.headers, &*self.api.randomness);
        let gzip = compress::is_accepted(&call);
        let cors = self.cors.allow(&call.headers);
        let container = self.pages.as_ref().filter(|pages| pages.must_contain(&call.headers));
        // What is counted and logged when the response was sent; until then shutdown waits.
        let mut tracked = self.track(&call, &body, &audit_id, &peer);
        // A watch ends when the server shuts down, every other response when the request's time is over.
        let (end, deadline) = match tracked.long_running {
            true => (Some(self.lifecycle.watch_end()), None),
            false => (None, Some(tracked.began + call.timeout)),
        };
        let mut cpu = CpuClock::of(tracked.observed.as_deref());
        let passing = Passing {
            call,
            tracked: &mut tracked,
            audit_id: &audit_id,
            version,
            upgrade,
            from_allowed_page: cors.is_some(),
            warnings: Vec::new(),
            admission: None,
        };
        // A panic ends only the request it happens in.
        let answer = AssertUnwindSafe(self.pass_in_time(passing, body, deadline)).catch_unwind();
        let answer = cpu.measure(answer).await;
        let mut reply = answer.unwrap_or_else(|_| self.panicked(&mut tracked, &audit_id));
        if let Some(container) = container.filter(|_| reply.passed_back) {
            container.contain(&mut reply.headers);
        }
        if let Some(observed) = &mut tracked.observed {
            observed.answered(&reply, &cpu);
        }
        // What is sent needs no seat.
        tracked.leave_seat(&mut reply).await;
        // The audit log has the answer before the client has it.
        tracked.record_reply(&mut reply).await;
        let reply = tracked.follow(compress::compress(reply, gzip), end, deadline);
        self.finish(reply, &audit_id, cors)
    }

    /// The deadline, which long-running requests do not have.
    async fn pass_in_time(&self, request: Passing<'_>, body: ArrivingBody, deadline: Option<Instant>) -> Reply {
        let answer = match deadline {
            None => self.pass(request, body).await,
            Some(at) => match tokio::time::timeout_at(at, self.pass(request, body)).await {
                Ok(answer) => answer,
                Err(_) => {
                    self.metrics.requests.terminated();
                    return untyped_failure(&timed_out());
                }
            },
        };
        answer.unwrap_or_else(|stopped| *stopped)
    }

    /// All stages. Each lets the request go on, or answers it.
    async fn pass(&self, mut request: Passing<'_>, body: ArrivingBody) -> Result<Reply, Stopped> {
        // During shutdown, 429 for all but health checks and metrics, if that was asked for.
        self.refuse_while_leaving(&request)?;
        // CORS: a browser asks whether a page may send a request.
        answer_preflight(&request)?;
        // The console's pages, which are the same for everyone.
        self.answer_page(&request)?;
        // A `timeout` parameter that says no time: 400.
        self.check_timeout(&request)?;
        // Authentication: 401 for a bad credential. A request without one is anonymous.
        self.authenticate(&mut request).await?;
        // Audit: from here on every outcome is recorded.
        self.record(&mut request).await?;
        // Impersonation: from here on the user is the impersonated one, and no credential is seen any more.
        self.impersonate(&mut request).await?;
        // Long headers count among what their user holds of the memory for requests that arrive, or 429.
        self.count_head(&mut request)?;
        // Flow control: the request waits for a seat, or 429. What arrives of its body meanwhile counts among its user's.
        let body = self.seat(&mut request, body).await?;
        let turn = request.tracked.seat.clone().filter(Seat::has_turn);
        until_it_waits(turn, async move {
            // Authorization: 403. Handlers take nothing but a call that was permitted.
            let request = self.authorize(request).await?;
            Ok(self.handle(request, body).await)
        })
        .await
    }

    /// What is known of a request from its arrival to the end of its response.
    fn track(&self, call: &Call, body: &ArrivingBody, audit_id: &str, peer: &Arc<Peer>) -> Tracked {
        let long_running = call.info.is_long_running();
        Tracked {
            record: None,
            span: None,
            log: HttpLog::of(call, audit_id, peer.address, long_running),
            observed: self.observer.as_ref().and_then(|observer| Observed::begin(observer, call, audit_id)),
            series: self.metrics.series(&self.api.catalog.load(), call, body.size_hint().exact()),
            began: Instant::now(),
            stage_began: std::time::Instant::now(),
            long_running,
            _ticket: self.lifecycle.enter(long_running),
            open: peer.begin(),
            seat: None,
            first: None,
            head: None,
            watch: None,
            code: 0,
            bytes: 0,
        }
    }

    /// Health checks and metrics are answered to the end. Without `--shutdown-send-retry-after` so is all that was sent before the
    /// client got the GOAWAY.
    fn refuse_while_leaving(&self, request: &Passing<'_>) -> Result<(), Stopped> {
        let path = request.call.info.path.as_str();
        let is_check = ["/readyz", "/livez", "/healthz", "/metrics"].iter().any(|known| path.starts_with(known));
        if !self.refuses_while_leaving || !self.lifecycle.phase().is_leaving() || is_check {
            return Ok(());
        }
        Err(Box::new(shutting_down(request.version)))
    }

    fn answer_page(&self, request: &Passing<'_>) -> Result<(), Stopped> {
        let Some(pages) = self.pages.as_ref().filter(|_| !request.call.info.is_resource) else { return Ok(()) };
        let call = &request.call;
        pages.page(&call.method, &call.info.path, &call.headers).map_or(Ok(()), |page| Err(Box::new(page)))
    }

    fn check_timeout(&self, request: &Passing<'_>) -> Result<(), Stopped> {
        match call::timeout(&request.call.query, self.request_timeout) {
            Err(status) if !request.tracked.long_running => Err(self.refuse_stranger(request, &status)),
            _ => Ok(()),
        }
    }

    async fn authenticate(&self, request: &mut Passing<'_>) -> Result<(), Stopped> {
        let identity = self.identify(&request.call, request.tracked.open.peer()).await;
        // Over HTTP/2 a client that has not authenticated must make a new connection for its next request, because requests over
        // an open one cost it next to nothing.
        self.metrics.filters.passed(ChainFilter::Authentication, request.tracked);
        let is_stranger = identity.as_ref().map_or(true, |identity| is_anonymous(&identity.user));
        if is_stranger && self.limits_anonymous_http2 && request.version == HttpVersion::HTTP_2 {
            request.tracked.open.peer().go_away();
        }
        let Ok(identity) = identity else {
            return Err(self.refuse_stranger(request, &Status::unauthorized("Unauthorized")));
        };
        (request.call.user, request.warnings) = (identity.user, identity.warnings);
        let took = request.tracked.began.elapsed();
        let address = request.tracked.open.peer().address.ip();
        if let Some(observed) = &mut request.tracked.observed {
            observed.sent_by(&request.call.user, address, took);
        }
        let begin = |tracer: &Tracer| tracer.begin(&request.call, request.audit_id, took);
        request.tracked.span = self.tracer.as_ref().and_then(begin);
        Ok(())
    }

    async fn identify(&self, call: &Call, peer: &Peer) -> Result<Identity, ()> {
        if let Some(user) = &peer.user {
            return Ok(Identity { user: user.clone(), ..Identity::default() });
        }
        let (now, path) = (self.api.clock.now().secs, call.info.path.as_str());
        let (certificates, client) = (&peer.certificates, peer.address.ip());
        let credentials = Credentials { certificates, headers: &call.headers, path, client, now };
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

    /// Refuses a request before its user is known, which is recorded at once.
    fn refuse_stranger(&self, request: &Passing<'_>, status: &Status) -> Stopped {
        let begin = |auditor: &Arc<Auditor>| request.begin_record(auditor);
        if let Some(record) = self.auditor.as_ref().and_then(begin) {
            record.refused(status);
        }
        request.failed(&self.api, status)
    }

    async fn record(&self, request: &mut Passing<'_>) -> Result<(), Stopped> {
        let Some(auditor) = &self.auditor else { return Ok(()) };
        let _span = trace::filter(&request.tracked.span, "audit");
        let Some(record) = request.begin_record(auditor) else { return Ok(()) };
        record.took("authentication", request.tracked.began.elapsed());
        request.tracked.record = Some(record.clone());
        request.call.record = Some(record.clone());
        let is_logged = record.received().await;
        self.metrics.filters.passed(ChainFilter::Audit, request.tracked);
        match is_logged {
            true => Ok(()),
            false => Err(request.failed(&self.api, &Status::internal("failed to store audit event"))),
        }
    }

    async fn impersonate(&self, request: &mut Passing<'_>) -> Result<(), Stopped> {
        let requestor = std::mem::take(&mut request.call.user);
        let (call, tracked) = (&mut request.call, &request.tracked);
        let sender = RequestParts::is_wanted(&call.info).then(|| requestor.clone());
        let origin = origin::of(&self.api, call, &requestor, request.audit_id);
        let _span = trace::filter(&tracked.span, self.impersonation.filter().name());
        let wanted = self.impersonation.impersonate(&*self.authorizer, &call.info, requestor, &call.headers);
        let asked = tracked.record.as_deref().filter(|_| impersonate::is_asked(&call.headers));
        let (user, constraint) = match audit::timed(asked, "impersonation", wanted).await {
            Ok(impersonated) => impersonated,
            Err(status) => return Err(forbidden(&self.api, call, &status, &request.warnings)),
        };
        if let Some(record) = asked {
            record.impersonated(&user, constraint);
        }
        call.origin = origin.map(|origin| Arc::new(origin.acting_as(&user.name)));
        call.only_visible = self.api.limits.authorized_lists_for.iter().any(|group| user.is_member(group));
        let peer = tracked.open.peer();
        let parts = sender.map(|sender| RequestParts::of(self, peer, sender, constraint, request.audit_id));
        call.parts = parts.map(|parts| parts as Arc<dyn CarryOut>);
        call.user = user;
        // Proxied servers must not see the client's credentials.
        self.authenticator.strip(&mut call.headers);
        impersonate::strip(&mut call.headers);
        self.metrics.filters.passed(self.impersonation.filter(), request.tracked);
        Ok(())
    }

    fn count_head(&self, request: &mut Passing<'_>) -> Result<(), Stopped> {
        let call = &request.call;
        match self.unfinished.head(&call.user, &call.headers, &call.uri) {
            Ok(head) => request.tracked.head = head,
            Err(status) => return Err(request.failed(&self.api, &status)),
        }
        Ok(())
    }

    async fn seat(&self, request: &mut Passing<'_>, body: ArrivingBody) -> Result<Body, Stopped> {
        let (call, tracked) = (&mut request.call, &mut *request.tracked);
        let mut body = Receiving::new(body, || self.unfinished.account(&call.user.name));
        let span = trace::filter(&tracked.span, "priorityandfairness");
        let cost = || seats::list_cost(&self.api.catalog.load(), call);
        let work = |flow: &flow::Flow, asked: &flow::WorkRequest<'_>| flow.work(&call.info, asked, cost);
        let taken = self.seats.take(&call.info, &call.user, tracked.began + call.timeout / 4, work);
        let taken = audit::timed(tracked.record.as_deref(), "apf-queue-wait", taken);
        tracked.seat = match while_reading(&mut body, taken).await {
            Ok(Ok(seat)) => seat,
            Ok(Err(full)) => {
                self.metrics.requests.terminated();
                return Err(no_seat(full));
            }
            Err(status) => return Err(request.failed(&self.api, &status)),
        };
        drop(span);
        if self.seats.flow().is_some() {
            self.metrics.filters.passed(ChainFilter::PriorityAndFairness, tracked);
        }
        if let Some(observed) = &mut tracked.observed {
            observed.admitted(tracked.seat.as_ref(), tracked.began.elapsed());
        }
        tracked.watch = self.seats.flow().and_then(|flow| flow.watches.register(&call.info));
        request.admission = tracked.seat.as_ref().and_then(Seat::admission);
        if call.info.is_resource && !call.info.verb.is_read() {
            call.finish = Some(Finish::of(tracked, self.lifecycle.clone()));
        }
        let is_exempt = is_exempt(&call.user, request.admission.as_deref());
        let body = match body.is_empty() {
            true => Body::Empty,
            false => Body::Stream(body.admitted(tracked.seat.clone(), is_exempt)),
        };
        Ok(match request.upgrade.take() {
            Some(upgrade) => Body::Upgradable(upgrade, Box::new(body)),
            None => body,
        })
    }

    async fn authorize<'a>(&self, request: Passing<'a>) -> Result<Passing<'a, Permitted<Call>>, Stopped> {
        let Passing { call, tracked, audit_id, version, upgrade, from_allowed_page, warnings, admission } = request;
        let record = tracked.record.as_deref();
        let (span, began) = (trace::filter(&tracked.span, "authorization"), std::time::Instant::now());
        let decided = audit::timed(record, "authorization", authz::authorize(&*self.authorizer, call)).await;
        self.metrics.authorization.decided(decided.is_ok(), began.elapsed());
        if let Some(observed) = &mut tracked.observed {
            let reason = decided.as_ref().map_or("", |call| call.reason());
            observed.authorized(reason, began.elapsed());
        }
        drop(span);
        let call = decided.map_err(|refused| not_allowed(&self.api, *refused, record, &warnings))?;
        if let Some(record) = record {
            record.annotate(DECISION, "allow");
            record.annotate(REASON, call.reason());
        }
        self.metrics.filters.passed(ChainFilter::Authorization, tracked);
        Ok(Passing { call, tracked, audit_id, version, upgrade, from_allowed_page, warnings, admission })
    }

    /// Carries the call out, and notes what is deprecated.
    async fn handle(&self, request: Passing<'_, Permitted<Call>>, body: Body) -> Reply {
        let Passing { call, tracked, audit_id, version, warnings, admission, .. } = request;
        let peer = tracked.open.peer().clone();
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

    /// Refuses a call that is permitted in part, or with Secrets redacted: another server would not know that.
    fn not_elsewhere(&self, call: &Permitted<Call>) -> Reply {
        let status = call.access().refusal("");
        failure(&status, &self.api.accept_of_status(call))
    }

    /// Passes requests for other API servers on; resources are in the catalog; all other paths are answered by `path`.
    async fn carry_out(&self, call: Permitted<Call>, body: Body, peer: &Peer, audit_id: &str) -> Reply {
        if let Some(status) = self.write_barrier.as_ref().and_then(|barrier| barrier(&call.info, &call.user)) {
            return failure(&status, &self.api.accept_of_status(&call));
        }
        if call.info.is_resource && !call.info.is_routed() {
            return rest::page_not_found();
        }
        let backend = self.aggregator.as_ref().and_then(|aggregator| aggregator.backend(&call.info.path));
        if let Some(backend) = backend {
            if call.is_limited() {
                return self.not_elsewhere(&call);
            }
            return Box::pin(backend.answer(&call, body, peer.address.ip(), audit_id)).await;
        }
        if let Some(peers) = &self.peers {
            let able = peers.serving(&call);
            if !able.is_empty() {
                if call.is_limited() {
                    return self.not_elsewhere(&call);
                }
                return Box::pin(peers.answer(&able, &call, body, peer.address.ip(), audit_id)).await;
            }
        }
        match call.info.is_resource {
            true => rest::serve(&self.api, call, body).await,
            false => self.path(&call, body).await,
        }
    }

    fn panicked(&self, tracked: &mut Tracked, audit_id: &str) -> Reply {
        self.metrics.panicked();
        tracing::error!(audit_id, "a request ended in a panic");
        if let Some(record) = tracked.record.take() {
            record.panicked("the request ended in a bug of the server");
        }
        failure(&Status::internal("the request ended in a bug of the server"), &Accept::json())
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

impl Passing<'_> {
    /// A failure as the client reads it.
    fn failed(&self, api: &Api, status: &Status) -> Stopped {
        Box::new(failure(status, &api.accept_of_status(&self.call)))
    }

    fn begin_record(&self, auditor: &Auditor) -> Option<Arc<::audit::Record>> {
        audit::begin(auditor, &self.call, self.audit_id, self.tracked.open.peer())
    }
}

/// 204 with the headers of CORS, which every answer gets.
fn answer_preflight(request: &Passing<'_>) -> Result<(), Stopped> {
    if !request.from_allowed_page || request.call.method != Method::OPTIONS {
        return Ok(());
    }
    Err(Box::new(Reply::with(StatusCode::NO_CONTENT, HeaderMap::new(), ReplyBody::Ready(Bytes::new()))))
}

/// Runs the rest of a request, and ends its turn on the processor when it has run, to its end or until it had to wait for something.
async fn until_it_waits<T>(mut turn: Option<Seat>, rest: impl Future<Output = T>) -> T {
    let mut rest = pin!(rest);
    poll_fn(|cx| {
        let polled = rest.as_mut().poll(cx);
        if let Some(seat) = turn.take() {
            seat.end_turn();
        }
        polled
    })
    .await
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
