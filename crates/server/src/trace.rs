//! [`Tracer`]: one span for each request that is sampled, for an OpenTelemetry collector.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Request};
use object::{Clock, SystemClock, Timestamp};
use outbound::otlp::{Exporter, KeyValue, Link, Span, Status};
use request::{RequestInfo, User, Verb};

/// Members' requests continue the traces of their clients; the traces of other clients are linked, so that they cannot decide what
/// is sampled.
const TRUSTED: [&str; 2] = [User::MASTERS, "system:monitoring"];
const INTERNAL: i32 = 1;
const SERVER: i32 = 2;
const ERROR: i32 = 2;

/// Begins spans.
#[derive(Clone)]
pub struct Tracer {
    exporter: Exporter,
    /// Of 2^63: requests without a parent are sampled if the second half of their trace id is below.
    threshold: u64,
}

/// A request that is traced.
pub struct RequestSpan {
    span: Span,
    exporter: Exporter,
}

/// The `traceparent` header.
#[derive(Debug, PartialEq, Eq)]
struct Parent {
    trace: [u8; 16],
    span: [u8; 8],
    sampled: bool,
}

impl Tracer {
    pub fn new(exporter: Exporter, rate_per_million: u32) -> Tracer {
        let threshold = u128::from(rate_per_million) * (1 << 63) / 1_000_000;
        Tracer { exporter, threshold: u64::try_from(threshold).unwrap_or(u64::MAX) }
    }

    /// The span of an authenticated request, with that of its authentication, which `took` so long; None if it is not sampled.
    pub fn begin<B>(
        &self,
        request: &Request<B>,
        info: &RequestInfo,
        user: &User,
        audit_id: &str,
        took: Duration,
    ) -> Option<RequestSpan> {
        let parent = Parent::of(request.headers());
        let trusted = TRUSTED.iter().any(|group| user.is_member(group));
        let (continued, linked) = if trusted { (parent, None) } else { (None, parent) };
        let trace = continued.as_ref().map_or_else(rand::random::<[u8; 16]>, |parent| parent.trace);
        let sampled = match &continued {
            Some(parent) => parent.sampled,
            None => self.samples(&trace),
        };
        if !sampled {
            return None;
        }
        let target = request.uri().path_and_query().map_or("/", |target| target.as_str());
        let agent = request.headers().get(http::header::USER_AGENT).and_then(|value| value.to_str().ok());
        let began = nanos(SystemClock.now()).saturating_sub(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX));
        let link = |parent: Parent| Link { trace_id: bytes(parent.trace), span_id: bytes(parent.span) };
        let span = Span {
            trace_id: bytes(trace),
            span_id: bytes(rand::random::<[u8; 8]>()),
            parent_span_id: continued.map(|parent| bytes(parent.span)).unwrap_or_default(),
            name: name(request.method().as_str(), info),
            kind: SERVER,
            start_time_unix_nano: began,
            attributes: vec![
                KeyValue::text("http.request.method", request.method().as_str()),
                KeyValue::text("url.scheme", "https"),
                KeyValue::text("url.path", request.uri().path()),
                KeyValue::text("http.target", target),
                KeyValue::text("user_agent.original", agent.unwrap_or("")),
                KeyValue::text("audit-id", audit_id),
            ],
            links: linked.map(link).into_iter().collect(),
            ..Span::default()
        };
        let span = RequestSpan { span, exporter: self.exporter.clone() };
        span.child("authentication", began);
        Some(span)
    }

    fn samples(&self, trace: &[u8; 16]) -> bool {
        let second: [u8; 8] = std::array::from_fn(|at| trace[at + 8]);
        u64::from_be_bytes(second) >> 1 < self.threshold
    }
}

impl RequestSpan {
    /// A part of the request that ends now.
    fn child(&self, name: &str, began: u64) {
        self.exporter.send(Span {
            trace_id: self.span.trace_id.clone(),
            span_id: bytes(rand::random::<[u8; 8]>()),
            parent_span_id: self.span.span_id.clone(),
            name: name.to_string(),
            kind: INTERNAL,
            start_time_unix_nano: began,
            end_time_unix_nano: nanos(SystemClock.now()),
            ..Span::default()
        });
    }

    /// The response has been sent with this code.
    pub fn end(mut self, code: u16) {
        self.span.attributes.push(KeyValue::int("http.response.status_code", i64::from(code)));
        self.span.status = (code >= 500).then_some(Status { code: ERROR });
        self.span.end_time_unix_nano = nanos(SystemClock.now());
        self.exporter.send(self.span);
    }
}

/// A part of a request that becomes a span of its own, if the request is traced. Its name is that of upstream's filter or handler.
pub struct Step(Option<u64>);

impl Step {
    pub fn begin(request: &Option<RequestSpan>) -> Step {
        Step(request.as_ref().map(|_| nanos(SystemClock.now())))
    }

    pub fn end(self, name: &str, request: &Option<RequestSpan>) {
        if let (Some(began), Some(request)) = (self.0, request) {
            request.child(name, began);
        }
    }

    /// Ends the work of a verb's handler; None for a path that is not a resource.
    pub fn end_of_handler(self, verb: Option<Verb>, request: &Option<RequestSpan>) {
        let name = match verb {
            Some(Verb::Create) => "Create",
            Some(Verb::Update) => "Update",
            Some(Verb::Patch) => "Patch",
            Some(Verb::Delete | Verb::DeleteCollection) => "Delete",
            Some(Verb::Get) => "Get",
            Some(Verb::List) => "List",
            Some(Verb::Watch) => "WatchServer.HandleHTTP",
            _ => return,
        };
        self.end(name, request);
    }
}

impl Parent {
    /// None if there is no header, or one that cannot be understood.
    fn of(headers: &HeaderMap) -> Option<Parent> {
        let text = headers.get("traceparent")?.to_str().ok()?;
        let mut parts = text.split('-');
        let (version, trace, span, flags) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
        if version.len() != 2 || version == "ff" || (version == "00" && parts.next().is_some()) {
            return None;
        }
        let (trace, span, [flags]) = (hex::<16>(trace)?, hex::<8>(span)?, hex::<1>(flags)?);
        let is_set = trace != [0; 16] && span != [0; 8];
        is_set.then_some(Parent { trace, span, sampled: flags & 1 == 1 })
    }
}

fn hex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let lower = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    if text.len() != 2 * N || !text.bytes().all(lower) {
        return None;
    }
    let mut decoded = [0; N];
    for (at, byte) in decoded.iter_mut().enumerate() {
        *byte = u8::from_str_radix(text.get(2 * at..2 * at + 2)?, 16).ok()?;
    }
    Some(decoded)
}

fn bytes<const N: usize>(id: [u8; N]) -> Bytes {
    Bytes::copy_from_slice(&id)
}

fn nanos(time: Timestamp) -> u64 {
    u64::try_from(time.secs).unwrap_or(0).saturating_mul(1_000_000_000).saturating_add(u64::from(time.nanos))
}

/// The method and the path without what differs from object to object.
fn name(method: &str, info: &RequestInfo) -> String {
    if !info.is_resource {
        return method.to_string();
    }
    let mut path = format!("{method} /{}", info.prefix);
    for part in [info.group.as_str(), &info.version] {
        if !part.is_empty() {
            path.push('/');
            path.push_str(part);
        }
    }
    if !info.namespace.is_empty() {
        path.push_str("/namespaces/{:namespace}");
    }
    path.push('/');
    path.push_str(&info.resource);
    if !info.name.is_empty() {
        path.push_str("/{:name}");
    }
    if !info.subresource.is_empty() {
        path.push('/');
        path.push_str(&info.subresource);
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_upstreams() {
        for (method, path, want) in [
            ("GET", "/healthz", "GET"),
            ("GET", "/api/v1/pods", "GET /api/v1/pods"),
            (
                "PUT",
                "/apis/apps/v1/namespaces/a/deployments/d/status",
                "PUT /apis/apps/v1/namespaces/{:namespace}/deployments/{:name}/status",
            ),
        ] {
            assert_eq!(name(method, &RequestInfo::parse(method, path, &[])), want);
        }
    }

    #[test]
    fn parents_are_read() {
        let parent = |text: &str| {
            let mut headers = HeaderMap::new();
            headers.insert("traceparent", text.parse().unwrap());
            Parent::of(&headers)
        };
        let (trace, span) = ("0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331");
        let sampled = parent(&format!("00-{trace}-{span}-01")).unwrap();
        assert_eq!((sampled.trace[0], sampled.span[7], sampled.sampled), (0x0a, 0x31, true));
        assert!(!parent(&format!("00-{trace}-{span}-00")).unwrap().sampled);
        for wrong in [
            "".to_string(),
            "00-1-2-01".into(),
            format!("ff-{trace}-{span}-01"),
            format!("00-{trace}-{span}-01-x"),
            format!("00-{}-{span}-01", "0".repeat(32)),
            format!("00-{}-{span}-01", trace.to_uppercase()),
        ] {
            assert_eq!(parent(&wrong), None, "{wrong}");
        }
    }
}
