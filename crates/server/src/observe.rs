//! [`RequestObserver`]: is told who sent a request, what it cost and how it ended, while somebody wants to know.
//!
//! While nobody looks, a request costs one question whether somebody does. Watches are told of in any case, since they live long.

use std::net::{IpAddr, Ipv4Addr};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use http::HeaderMap;
use http::header::{USER_AGENT, WARNING};
use request::{User, Verb};
use rest::{Call, Reply};
use rustix::time::{ClockId, clock_gettime};
use tokio::time::Instant;

use crate::seats::Seat;

/// Longer texts of clients are cut, and so are messages.
const TEXT_BYTES_MAX: usize = 256;
const MESSAGE_BYTES_MAX: usize = 1024;
/// More warnings of one request are left out of the observation.
const WARNINGS_MAX: usize = 4;
/// The same for groups of its user and annotations of its audit event.
const GROUPS_MAX: usize = 8;
const ANNOTATIONS_MAX: usize = 4;

/// Who sends requests.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ObservedClient {
    /// "" if the request was not authenticated.
    pub user: String,
    pub agent: String,
    pub address: IpAddr,
}

/// A request that has ended.
#[derive(Clone, Debug)]
pub struct ObservedRequest {
    pub client: ObservedClient,
    pub audit_id: String,
    pub verb: &'static str,
    /// The path and query as they were sent, cut if they are long.
    pub target: String,
    pub group: String,
    pub resource: String,
    pub code: u16,
    /// The message of the Status it was answered with, "" if it did not fail.
    pub message: String,
    pub warnings: Vec<String>,
    /// The first of the user's groups.
    pub groups: Vec<String>,
    /// Why it was allowed, in the authorizers' words.
    pub reason: String,
    /// The annotations of its audit event.
    pub annotations: Vec<(String, String)>,
    pub is_long_running: bool,
    /// The bytes of the response's body.
    pub bytes: u64,
    /// From the first byte of the request to the last of the response.
    pub took: Duration,
    /// When its user was known.
    pub authenticated: Duration,
    /// When it had a seat, from the beginning.
    pub admitted: Duration,
    pub authorization: Duration,
    /// CPU time of the tasks that served it.
    pub cpu: Duration,
    /// Seats times the time they were taken.
    pub seat_seconds: f64,
    /// The FlowSchema and the priority level.
    pub flow: Option<Arc<flow::Admission>>,
}

/// A request that is being observed.
pub struct Observed {
    observer: Arc<dyn RequestObserver>,
    seen: ObservedRequest,
    /// Whether CPU time is measured.
    measures: bool,
    is_open: bool,
    /// The seats it has, and since when.
    seated: Option<(u64, Instant)>,
}

impl Observed {
    pub fn begin(observer: &Arc<dyn RequestObserver>, call: &Call, audit_id: &str) -> Option<Box<Observed>> {
        let (measures, info) = (observer.is_looking(), &call.info);
        if !measures && info.verb != Verb::Watch {
            return None;
        }
        let target = call.uri.path_and_query().map_or("", |target| target.as_str());
        let client = ObservedClient {
            user: String::new(),
            agent: cut(&agent(&call.headers), TEXT_BYTES_MAX),
            address: IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        };
        let seen = ObservedRequest {
            client,
            audit_id: audit_id.to_string(),
            verb: info.verb.as_str(),
            target: cut(target, TEXT_BYTES_MAX),
            group: cut(&info.group, TEXT_BYTES_MAX),
            resource: cut(&info.resource, TEXT_BYTES_MAX),
            code: 0,
            message: String::new(),
            warnings: Vec::new(),
            groups: Vec::new(),
            reason: String::new(),
            annotations: Vec::new(),
            is_long_running: info.is_long_running(),
            bytes: 0,
            took: Duration::ZERO,
            authenticated: Duration::ZERO,
            admitted: Duration::ZERO,
            authorization: Duration::ZERO,
            cpu: Duration::ZERO,
            seat_seconds: 0.0,
            flow: None,
        };
        Some(Box::new(Observed { observer: observer.clone(), seen, measures, is_open: false, seated: None }))
    }

    /// Notes the user, as whom the request was authenticated.
    pub fn sent_by(&mut self, user: &User, address: IpAddr, took: Duration) {
        self.seen.client.user = cut(&user.name, TEXT_BYTES_MAX);
        self.seen.client.address = address;
        self.seen.groups = user.groups.iter().take(GROUPS_MAX).map(|group| cut(group, TEXT_BYTES_MAX)).collect();
        self.seen.authenticated = took;
        if self.seen.is_long_running {
            self.observer.opened(&self.seen.client);
            self.is_open = true;
        }
    }

    /// Notes that the request waits for seats no longer.
    pub fn admitted(&mut self, seat: Option<&Seat>, took: Duration) {
        self.seen.admitted = took;
        self.seen.flow = seat.and_then(Seat::admission);
        self.seated = seat.map(|seat| (seat.width(), Instant::now()));
    }

    pub fn authorized(&mut self, reason: &str, took: Duration) {
        self.seen.reason = cut(reason, TEXT_BYTES_MAX);
        self.seen.authorization = took;
    }

    /// Notes the answer, whose body may still have to be made, and the CPU time up to it.
    pub fn answered(&mut self, reply: &Reply, cpu: &CpuClock) {
        self.seen.cpu += cpu.spent;
        self.seen.message =
            reply.failure.as_ref().map_or(String::new(), |status| cut(&status.message, MESSAGE_BYTES_MAX));
        let warnings = reply.headers.get_all(WARNING).iter().take(WARNINGS_MAX);
        let texts = warnings.map(|value| cut(&String::from_utf8_lossy(value.as_bytes()), TEXT_BYTES_MAX));
        self.seen.warnings = texts.collect();
        let annotations = reply.annotations.iter().filter(|annotation| !annotation.with_object).take(ANNOTATIONS_MAX);
        let text = |text: &str| cut(text, TEXT_BYTES_MAX);
        self.seen.annotations = annotations.map(|one| (text(&one.key), text(&one.value))).collect();
    }

    pub fn leaves_seat(&mut self) {
        if let Some((width, since)) = self.seated.take() {
            self.seen.seat_seconds += width as f64 * since.elapsed().as_secs_f64();
        }
    }

    /// The CPU time of this thread, if it is measured.
    pub fn clock(&self) -> Option<Duration> {
        self.measures.then(thread_time)
    }

    /// Adds the CPU time of this thread since then.
    pub fn ran(&mut self, since: Duration) {
        self.seen.cpu += thread_time().saturating_sub(since);
    }

    /// Tells the observer.
    pub fn end(mut self: Box<Self>, code: u16, bytes: u64, took: Duration) {
        self.leaves_seat();
        (self.seen.code, self.seen.bytes, self.seen.took) = (code, bytes, took);
        // A request that was not opened has nothing to be closed.
        self.seen.is_long_running = self.is_open;
        let Observed { observer, seen, .. } = *self;
        observer.ended(seen);
    }
}

/// Measures the CPU time of a future, if it is asked to.
pub struct CpuClock {
    measures: bool,
    spent: Duration,
}

impl CpuClock {
    pub fn of(observed: Option<&Observed>) -> CpuClock {
        CpuClock { measures: observed.is_some_and(|observed| observed.measures), spent: Duration::ZERO }
    }

    pub async fn measure<T>(&mut self, future: impl Future<Output = T>) -> T {
        let mut future = pin!(future);
        std::future::poll_fn(|cx| {
            if !self.measures {
                return future.as_mut().poll(cx);
            }
            let began = thread_time();
            let polled = future.as_mut().poll(cx);
            self.spent += thread_time().saturating_sub(began);
            polled
        })
        .await
    }
}

/// Gets observations.
pub trait RequestObserver: Send + Sync + 'static {
    /// Whether requests that begin now are to be measured.
    fn is_looking(&self) -> bool;

    /// A watch, or another long-running request, began.
    fn opened(&self, client: &ObservedClient);

    /// A request has ended, and its response was sent or given up. Long-running ones are told of in any case.
    fn ended(&self, observation: ObservedRequest);
}

fn thread_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0))
}

fn agent(headers: &HeaderMap) -> String {
    headers.get(USER_AGENT).map_or(String::new(), |agent| String::from_utf8_lossy(agent.as_bytes()).into_owned())
}

/// The first bytes of a text, up to the end of a character.
fn cut(text: &str, most: usize) -> String {
    text.get(..text.floor_char_boundary(most)).unwrap_or(text).to_string()
}
