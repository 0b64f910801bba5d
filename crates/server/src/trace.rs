//! [`Tracer`]: the spans of each request that is sampled, for an OpenTelemetry collector.

use std::time::Duration;

use bytes::Bytes;
use http::HeaderMap;
use request::{RequestInfo, User, Verb};
use rest::Call;
use spans::{KeyValue, Kind, OpenSpan, Sink};

/// Members' requests continue the traces of their clients; the traces of other clients are linked, so that they cannot decide what
/// is sampled.
const TRUSTED: [&str; 2] = [User::MASTERS, "system:monitoring"];
/// Bytes of a user agent that a span shows.
const USER_AGENT_BYTES_MAX: usize = 1024;

/// Begins spans.
#[derive(Clone)]
pub struct Tracer {
    sink: Sink,
    /// Of 2^63: requests without a parent are sampled if the second half of their trace id is below.
    threshold: u64,
}

/// The `traceparent` header.
#[derive(Debug, PartialEq, Eq)]
struct Parent {
    trace: [u8; 16],
    span: [u8; 8],
    sampled: bool,
}

impl Tracer {
    pub fn new(sink: Sink, rate_per_million: u32) -> Tracer {
        let threshold = u128::from(rate_per_million) * (1 << 63) / 1_000_000;
        Tracer { sink, threshold: u64::try_from(threshold).unwrap_or(u64::MAX) }
    }

    /// The span of an authenticated request, with that of its authentication, which `took` so long; None if it is not sampled.
    pub fn begin(&self, call: &Call, audit_id: &str, took: Duration) -> Option<OpenSpan> {
        let parent = Parent::of(&call.headers);
        let trusted = TRUSTED.iter().any(|group| call.user.is_member(group));
        let (continued, linked) = if trusted { (parent, None) } else { (None, parent) };
        let trace = continued.as_ref().map_or_else(rand::random::<[u8; 16]>, |parent| parent.trace);
        let sampled = match &continued {
            Some(parent) => parent.sampled,
            None => self.samples(&trace),
        };
        if !sampled {
            return None;
        }
        let took = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        let above = continued.map(|parent| bytes(parent.span)).unwrap_or_default();
        let name = name(call.method.as_str(), &call.info);
        let mut span = OpenSpan::root(bytes(trace), above, name, self.sink.clone()).began(took);
        let target = call.uri.path_and_query().map_or("/", |target| target.as_str());
        span.add([
            KeyValue::text("http.request.method", call.method.as_str()),
            KeyValue::text("url.scheme", "https"),
            KeyValue::text("url.path", call.uri.path()),
            KeyValue::text("http.target", target),
            KeyValue::text("user_agent.original", user_agent(&call.headers)),
            KeyValue::text("audit-id", audit_id),
        ]);
        if let Some(parent) = linked {
            span.link(bytes(parent.trace), bytes(parent.span));
        }
        drop(span.child(Kind::Internal, "authentication").began(took));
        Some(span)
    }

    fn samples(&self, trace: &[u8; 16]) -> bool {
        let second: [u8; 8] = std::array::from_fn(|at| trace[at + 8]);
        u64::from_be_bytes(second) >> 1 < self.threshold
    }
}

/// The response of a request has been sent with this code.
pub fn end(mut request: OpenSpan, code: u16) {
    request.add([KeyValue::int("http.response.status_code", i64::from(code))]);
    if code >= 500 {
        request.fail("");
    }
}

/// A filter's work on a request, if that is traced. Its name is that of upstream's filter.
pub fn filter(request: &Option<OpenSpan>, name: &str) -> Option<OpenSpan> {
    request.as_ref().map(|request| request.child(Kind::Internal, name))
}

/// The work of the handler of a verb, by the name of upstream's; None if the request is not traced, or not for a resource.
pub fn handler(request: &Option<OpenSpan>, call: &Call, version: http::Version, audit_id: &str) -> Option<OpenSpan> {
    let info = &call.info;
    let name = match info.verb {
        Verb::Create => "Create",
        Verb::Update => "Update",
        Verb::Patch => "Patch",
        Verb::Delete | Verb::DeleteCollection => "Delete",
        Verb::Get => "Get",
        Verb::List => "List",
        Verb::Watch => "WatchServer.HandleHTTP",
        _ => return None,
    };
    let mut span = request.as_ref().filter(|_| info.is_resource)?.child(Kind::Internal, name);
    let accept = call.headers.get(http::header::ACCEPT).and_then(|value| value.to_str().ok());
    let scope = match info {
        info if !info.name.is_empty() || info.verb == Verb::Create => "resource",
        info if !info.namespace.is_empty() => "namespace",
        _ => "cluster",
    };
    // Go writes HTTP/2 with a minor version.
    let protocol = if version == http::Version::HTTP_2 { "HTTP/2.0".into() } else { format!("{version:?}") };
    span.add([
        KeyValue::text("accept", accept.unwrap_or("")),
        KeyValue::text("audit-id", audit_id),
        KeyValue::text("client", call.client.map(|client| client.to_string()).unwrap_or_default()),
        KeyValue::text("api-group", &info.group),
        KeyValue::text("api-version", &info.version),
        KeyValue::text("name", &info.name),
        KeyValue::text("subresource", &info.subresource),
        KeyValue::text("namespace", &info.namespace),
        KeyValue::text("protocol", protocol),
        KeyValue::text("resource", &info.resource),
        KeyValue::text("scope", scope),
        KeyValue::text("url", &info.path),
        KeyValue::text("user-agent", user_agent(&call.headers)),
        KeyValue::text("verb", info.verb.as_str()),
    ]);
    Some(span)
}

/// As upstream shows it: what is too long is cut.
fn user_agent(headers: &HeaderMap) -> String {
    let agent = headers.get(http::header::USER_AGENT).map_or(&b""[..], |value| value.as_bytes());
    let agent = String::from_utf8_lossy(agent);
    match agent.len() <= USER_AGENT_BYTES_MAX {
        true => agent.into_owned(),
        false => format!("{}...TRUNCATED", &agent[..agent.floor_char_boundary(USER_AGENT_BYTES_MAX)]),
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
