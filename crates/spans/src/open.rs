//! [`OpenSpan`]: a span that has not ended, and the task local that says to which span the running code belongs.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use parking_lot::Mutex;

use crate::{Event, KeyValue, Kind, Sink, Span, Status};

/// Most events that a span may have; later ones are left out. A request that lists or deletes much would have one an object.
const EVENTS_MAX: usize = 128;

tokio::task_local! {
    /// The span that the running task works for, if its request is traced.
    static CURRENT: Arc<CurrentSpan>;
}

/// What code inside a span needs to know of it.
struct CurrentSpan {
    trace_id: Bytes,
    span_id: Bytes,
    sink: Sink,
    events: Mutex<Vec<Event>>,
}

/// A span that ends when it is dropped, so that work that is given up is measured too.
pub struct OpenSpan {
    span: Span,
    current: Arc<CurrentSpan>,
}

/// Begins a span of a part of the work that this task does; None if its request is not traced.
pub fn begin(kind: Kind, name: impl FnOnce() -> String) -> Option<OpenSpan> {
    let parent = CURRENT.try_with(Arc::clone).ok()?;
    Some(OpenSpan::below(&parent, kind, name()))
}

/// Runs work as a span of its own, if the request is traced.
pub async fn traced<T>(name: &str, attributes: impl FnOnce() -> Vec<KeyValue>, work: impl Future<Output = T>) -> T {
    match begin(Kind::Internal, || name.into()) {
        None => work.await,
        Some(mut span) => {
            span.add(attributes());
            span.run(work).await
        }
    }
}

/// Notes that something happened in the span that this task works for.
pub fn event(name: &str) {
    let _ = CURRENT.try_with(|current| {
        let mut events = current.events.lock();
        if events.len() < EVENTS_MAX {
            events.push(Event { time_unix_nano: now(), name: name.into() });
        }
    });
}

impl OpenSpan {
    /// The span of a request: the first of a trace, or, in the trace of a client, below its span.
    pub fn root(trace_id: Bytes, parent_span_id: Bytes, name: String, sink: Sink) -> OpenSpan {
        let span = Span { trace_id, parent_span_id, name, kind: Kind::Server as i32, ..Span::default() };
        OpenSpan::new(span, sink)
    }

    /// A span of a part of this one.
    pub fn child(&self, kind: Kind, name: &str) -> OpenSpan {
        OpenSpan::below(&self.current, kind, name.into())
    }

    fn below(parent: &CurrentSpan, kind: Kind, name: String) -> OpenSpan {
        let span = Span {
            trace_id: parent.trace_id.clone(),
            parent_span_id: parent.span_id.clone(),
            name,
            kind: kind as i32,
            ..Span::default()
        };
        OpenSpan::new(span, parent.sink.clone())
    }

    fn new(mut span: Span, sink: Sink) -> OpenSpan {
        span.span_id = Bytes::copy_from_slice(&rand::random::<[u8; 8]>());
        span.start_time_unix_nano = now();
        let current = CurrentSpan {
            trace_id: span.trace_id.clone(),
            span_id: span.span_id.clone(),
            sink,
            events: Mutex::default(),
        };
        OpenSpan { span, current: Arc::new(current) }
    }

    /// Says that the span began earlier.
    pub fn began(mut self, nanos_ago: u64) -> OpenSpan {
        self.span.start_time_unix_nano = self.span.start_time_unix_nano.saturating_sub(nanos_ago);
        self
    }

    pub fn add(&mut self, attributes: impl IntoIterator<Item = KeyValue>) {
        self.span.attributes.extend(attributes);
    }

    /// Names another trace that this span has to do with.
    pub fn link(&mut self, trace_id: Bytes, span_id: Bytes) {
        self.span.links.push(crate::Link { trace_id, span_id });
    }

    /// Marks the span as failed.
    pub fn fail(&mut self, why: impl Into<String>) {
        self.span.status = Some(Status { code: Status::ERROR, message: why.into() });
    }

    /// Runs work whose spans and events belong to this one.
    pub fn run<T>(&self, work: impl Future<Output = T>) -> impl Future<Output = T> {
        CURRENT.scope(self.current.clone(), work)
    }

    /// The header by which another server continues the trace.
    pub fn traceparent(&self) -> String {
        format!("00-{}-{}-01", hex(&self.span.trace_id), hex(&self.span.span_id))
    }
}

impl Drop for OpenSpan {
    fn drop(&mut self) {
        let mut span = std::mem::take(&mut self.span);
        span.end_time_unix_nano = now();
        span.events = std::mem::take(&mut *self.current.events.lock());
        self.current.sink.send(span);
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[allow(clippy::disallowed_methods)] // A collector orders the spans of several machines by their clocks.
fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn root(sink: &Sink) -> OpenSpan {
        OpenSpan::root(Bytes::from_static(&[0xab; 16]), Bytes::new(), "GET".into(), sink.clone())
    }

    #[tokio::test]
    async fn parts_of_a_traced_request_are_spans_below_it() {
        let (sink, mut finished) = Sink::new(8);
        let request = root(&sink);
        let inner = async {
            event("began");
            traced("outer", || vec![KeyValue::int("n", 1)], async {
                event("inside");
                begin(Kind::Client, || "inner".into()).unwrap().traceparent()
            })
            .await
        };
        let traceparent = request.run(inner).await;
        drop(request);
        let (inner, outer) = (finished.next().await.unwrap(), finished.next().await.unwrap());
        let request = finished.next().await.unwrap();
        assert_eq!(traceparent, format!("00-{}-{}-01", "ab".repeat(16), hex(&inner.span_id)));
        assert_eq!((inner.name.as_str(), inner.kind), ("inner", Kind::Client as i32));
        assert_eq!((&inner.parent_span_id, &outer.parent_span_id), (&outer.span_id, &request.span_id));
        assert_eq!(outer.attributes, [KeyValue::int("n", 1)]);
        let names = |span: &Span| span.events.iter().map(|event| event.name.clone()).collect::<Vec<_>>();
        assert_eq!((names(&outer), names(&request)), (vec!["inside".to_string()], vec!["began".to_string()]));
        assert!(request.start_time_unix_nano <= outer.start_time_unix_nano);
        assert!(outer.end_time_unix_nano <= request.end_time_unix_nano);
    }

    #[tokio::test]
    async fn without_a_traced_request_there_are_no_spans() {
        assert!(begin(Kind::Internal, || "x".into()).is_none());
        event("nothing");
        assert_eq!(traced("x", || unreachable!("attributes are not made"), async { 7 }).await, 7);
    }

    #[tokio::test]
    async fn what_waits_is_bounded() {
        let (sink, mut finished) = Sink::new(2);
        let request = root(&sink);
        request
            .run(async {
                for _ in 0..EVENTS_MAX + 1 {
                    event("again");
                }
            })
            .await;
        drop(request);
        drop((root(&sink), root(&sink)));
        assert_eq!(finished.next().await.unwrap().events.len(), EVENTS_MAX);
        assert_eq!((finished.take_dropped(), finished.take_dropped()), (1, 0));
    }
}
