//! Calls to a cluster: one member at a time, the next one when it fails.

use std::error::Error as _;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::time::Duration;

use http::uri::PathAndQuery;
use spans::{KeyValue, Kind, OpenSpan};
use storage::{Error, Result, Revision};
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_stream::wrappers::ReceiverStream;
use tonic::client::Grpc;
use tonic::{Code, Request, Status, Streaming};
use tonic_prost::ProstCodec;

use crate::channel::Channel;
use crate::connect::CannotConnect;
use crate::proto::{self, WatchAction, WatchRequest, WatchResponse};
use crate::{EtcdOptions, StartError};

/// How long to wait before asking again when every member has failed: the first time, and at most.
const BACKOFF_MIN: Duration = Duration::from_millis(20);
const BACKOFF_MAX: Duration = Duration::from_millis(500);

pub(crate) struct Client {
    members: Vec<Member>,
    /// The member that is asked now.
    current: AtomicUsize,
    /// The newest revision any answer has told of.
    seen: AtomicI64,
    pub attempt_timeout: Duration,
    pub read_timeout: Duration,
    pub write_timeout: Duration,
}

struct Member {
    endpoint: String,
    channel: Channel,
}

/// Why a call has no answer.
#[derive(Debug)]
pub(crate) enum Failed {
    /// It never left this machine.
    NotSent(String),
    /// It may have arrived, and if it was a write it may have been made.
    Lost(String),
    /// etcd has answered that it will not.
    Refused(Status),
}

impl Failed {
    pub fn message(&self) -> &str {
        match self {
            Failed::NotSent(why) | Failed::Lost(why) => why,
            Failed::Refused(status) => status.message(),
        }
    }
}

/// A watch under way: where to send requests, and where answers come from.
pub(crate) struct WatchCall {
    pub requests: mpsc::Sender<WatchRequest>,
    pub answers: Streaming<WatchResponse>,
    pub member: usize,
}

impl Client {
    pub fn new(options: &EtcdOptions) -> Result<Client, StartError> {
        if options.endpoints.is_empty() {
            return Err(StartError("no etcd endpoint is given".into()));
        }
        let member = |endpoint: &String| {
            Channel::new(endpoint, options).map(|channel| Member { endpoint: endpoint.clone(), channel })
        };
        Ok(Client {
            members: options.endpoints.iter().map(member).collect::<Result<_, _>>()?,
            current: AtomicUsize::new(0),
            seen: AtomicI64::new(0),
            attempt_timeout: options.attempt_timeout,
            read_timeout: options.read_timeout,
            write_timeout: options.write_timeout,
        })
    }

    /// The newest revision any answer has told of: nothing that begins now happens before it.
    pub fn seen(&self) -> Revision {
        self.seen.load(Ordering::Acquire)
    }

    pub fn saw(&self, revision: Revision) {
        self.seen.fetch_max(revision, Ordering::AcqRel);
    }

    pub fn endpoints(&self) -> impl Iterator<Item = &str> {
        self.members.iter().map(|member| member.endpoint.as_str())
    }

    /// From now on the next member is asked, unless another caller has already switched.
    pub fn leave(&self, member: usize) {
        let next = (member + 1) % self.members.len();
        let _ = self.current.compare_exchange(member, next, Ordering::AcqRel, Ordering::Acquire);
    }

    fn pick(&self) -> (usize, Grpc<Channel>) {
        let index = self.current.load(Ordering::Acquire);
        (index, self.members[index].channel.client())
    }

    /// A call that may be made any number of times: tried until a member answers or the time is over.
    pub async fn repeat<Q, A>(&self, path: &'static str, request: Q) -> Result<A, Failed>
    where
        Q: prost::Message + Clone + 'static,
        A: prost::Message + Default + 'static,
    {
        let mut pause = Pause::until(Instant::now() + self.read_timeout, self.members.len());
        loop {
            match self.once(path, request.clone()).await {
                Ok(answer) => return Ok(answer),
                Err(Failed::Refused(status)) => return Err(Failed::Refused(status)),
                Err(failed) if !pause.wait().await => return Err(failed),
                Err(_) => {}
            }
        }
    }

    /// One attempt with the current member.
    pub async fn once<Q, A>(&self, path: &'static str, request: Q) -> Result<A, Failed>
    where
        Q: prost::Message + 'static,
        A: prost::Message + Default + 'static,
    {
        let (member, mut client) = self.pick();
        let mut request = Request::new(request);
        let mut span = spans::begin(Kind::Client, || path.trim_start_matches('/').into());
        if let Some(span) = &mut span {
            describe(span, path, &mut request);
        }
        let call = async {
            let codec = ProstCodec::<Q, A>::default();
            client.unary(request, PathAndQuery::from_static(path), codec).await
        };
        let failed = match tokio::time::timeout(self.attempt_timeout, call).await {
            Ok(Ok(answer)) => return Ok(answer.into_inner()),
            Ok(Err(status)) => {
                if let Some(span) = &mut span {
                    span.add([KeyValue::int("rpc.grpc.status_code", status.code() as i64)]);
                    span.fail(status.message());
                }
                classify(status)
            }
            Err(_) => Failed::Lost(format!("{} did not answer in time", self.members[member].endpoint)),
        };
        if !matches!(failed, Failed::Refused(_)) {
            self.leave(member);
        }
        Err(failed)
    }

    /// Opens a stream of watch answers.
    pub async fn watch(&self, create: proto::WatchCreate) -> Result<WatchCall, Failed> {
        let (member, mut client) = self.pick();
        let (requests, outgoing) = mpsc::channel(4);
        let call = async {
            let first = WatchRequest { action: Some(WatchAction::Create(create)) };
            requests.send(first).await.map_err(|_| Status::internal("the stream was just opened"))?;
            let mut request = Request::new(ReceiverStream::new(outgoing));
            // A member that loses its leader ends the stream instead of leaving us without news.
            request.metadata_mut().insert("hasleader", tonic::metadata::MetadataValue::from_static("true"));
            let codec = ProstCodec::<WatchRequest, WatchResponse>::default();
            client.streaming(request, PathAndQuery::from_static(proto::WATCH), codec).await
        };
        let failed = match tokio::time::timeout(self.attempt_timeout, call).await {
            Ok(Ok(answers)) => return Ok(WatchCall { requests, answers: answers.into_inner(), member }),
            Ok(Err(status)) => classify(status),
            Err(_) => Failed::Lost(format!("{} did not open a watch in time", self.members[member].endpoint)),
        };
        self.leave(member);
        Err(failed)
    }
}

/// Says what a traced call is, and lets etcd continue the trace.
fn describe<Q>(span: &mut OpenSpan, path: &str, request: &mut Request<Q>) {
    let (service, method) = path.trim_start_matches('/').split_once('/').unwrap_or(("", path));
    span.add([
        KeyValue::text("rpc.system", "grpc"),
        KeyValue::text("rpc.service", service),
        KeyValue::text("rpc.method", method),
    ]);
    if let Ok(traceparent) = span.traceparent().parse() {
        request.metadata_mut().insert("traceparent", traceparent);
    }
}

fn classify(status: Status) -> Failed {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = status.source();
    while let Some(error) = cause {
        if error.is::<CannotConnect>() {
            return Failed::NotSent(error.to_string());
        }
        cause = error.source();
    }
    match status.code() {
        Code::Unavailable
        | Code::DeadlineExceeded
        | Code::Cancelled
        | Code::Unknown
        | Code::Internal
        | Code::Aborted => Failed::Lost(status.message().to_string()),
        _ => Failed::Refused(status),
    }
}

/// The rhythm of attempts: each member once without waiting, then slower and slower until the time is over.
pub(crate) struct Pause {
    deadline: Instant,
    at_once: usize,
    next: Duration,
}

impl Pause {
    pub fn until(deadline: Instant, members: usize) -> Pause {
        Pause { deadline, at_once: members.saturating_sub(1), next: BACKOFF_MIN }
    }

    pub fn for_writes(client: &Client) -> Pause {
        Pause::until(Instant::now() + client.write_timeout, client.members.len())
    }

    /// For callers that retry without limit.
    pub fn for_ever(client: &Client) -> Pause {
        // So far in the future that it is never reached.
        Pause::until(Instant::now() + Duration::from_secs(1 << 30), client.members.len())
    }

    /// Waits before the next attempt; false if there is no time for one.
    pub async fn wait(&mut self) -> bool {
        if self.at_once > 0 {
            self.at_once -= 1;
            return true;
        }
        // Servers that have lost the same member do not all come back at once.
        let pause = self.next.mul_f64(0.5 + rand::random::<f64>());
        if Instant::now() + pause >= self.deadline {
            return false;
        }
        tokio::time::sleep(pause).await;
        self.next = (self.next * 2).min(BACKOFF_MAX);
        true
    }
}

/// What a failed read means to the store's callers, if it was about no particular revision.
pub(crate) fn read_failed(failed: &Failed) -> Error {
    match failed {
        Failed::NotSent(why) => Error::Unavailable(why.clone()),
        Failed::Lost(why) => Error::Timeout(why.clone()),
        Failed::Refused(status) => Error::Unavailable(status.message().to_string()),
    }
}
