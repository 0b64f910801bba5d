//! exec and attach: the WebSocket channels of `v5.channel.k8s.io` towards the client, SPDY streams towards the kubelet.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncWrite, ReadHalf, WriteHalf};
use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior};

use crate::spdy;
use crate::websocket::{CLOSE_NORMAL, CLOSE_PROTOCOL_ERROR, Incoming, Kind, Reader, Writer, offered};

/// The only subprotocol that is translated; it has a signal for the end of a stream.
pub const PROTOCOL: &str = "v5.channel.k8s.io";
/// What kubelets are offered, the favourite first.
pub const KUBELET_PROTOCOLS: [&str; 5] =
    ["v5.channel.k8s.io", "v4.channel.k8s.io", "v3.channel.k8s.io", "v2.channel.k8s.io", "channel.k8s.io"];

/// A session without any traffic ends after this time.
pub const IDLE_TIMEOUT: Duration = Duration::from_secs(4 * 3600);
/// How long a client may take to receive the final status.
const STATUS_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a kubelet may take to receive what a client sent before it left.
const LAST_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a kubelet may take to accept a stream.
const STREAM_TIMEOUT: Duration = Duration::from_secs(30);
/// How often a kubelet is pinged, so that connections through load balancers stay open.
const PING_PERIOD: Duration = Duration::from_secs(5);
/// The longest message on the error stream: a Status.
const ERROR_BYTES_MAX: usize = 64 * 1024;
/// Pings of either side that wait for their answer; further ones are left unanswered.
const WAITING_PINGS_MAX: usize = 4;

const STDIN: u8 = 0;
const STDOUT: u8 = 1;
const STDERR: u8 = 2;
const ERROR: u8 = 3;
const RESIZE: u8 = 4;
/// The first byte of a message that ends the channel named by the second.
const CLOSE_CHANNEL: u8 = 255;

/// Whether a client offers the subprotocol that is translated.
pub fn is_offered(headers: &http::HeaderMap) -> bool {
    offered(headers).iter().any(|protocol| protocol == PROTOCOL)
}

/// Which streams a command has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamOptions {
    pub stdin: bool,
    pub stdout: bool,
    pub stderr: bool,
    pub tty: bool,
}

/// Why a session has no result.
#[derive(Debug, PartialEq, Eq)]
pub enum Ended {
    /// The client left, or broke the protocol.
    ByClient,
    /// There was no traffic for too long.
    Idle,
    /// The kubelet did not open the streams.
    ByKubelet(String),
}

/// A client that wants to run a command.
pub struct Session<C> {
    reader: Reader<ReadHalf<C>>,
    writer: Writer<WriteHalf<C>>,
    options: StreamOptions,
}

impl<C: AsyncRead + AsyncWrite + Unpin> Session<C> {
    /// Tells the client by an empty message that the connection stands.
    pub async fn open(client: C, options: StreamOptions) -> io::Result<Session<C>> {
        let (reads, writes) = tokio::io::split(client);
        let mut session = Session { reader: Reader::new(reads), writer: Writer::new(writes), options };
        let first = match options {
            StreamOptions { stdout: true, .. } => STDOUT,
            StreamOptions { stderr: true, .. } => STDERR,
            _ => ERROR,
        };
        session.writer.message(Kind::Binary, &[first], &[]);
        session.writer.flush().await?;
        Ok(session)
    }

    /// Runs the command on a kubelet. Ok is what the kubelet wrote to the error stream.
    pub async fn run<K: AsyncRead + AsyncWrite + Unpin>(&mut self, kubelet: K) -> Result<Bytes, Ended> {
        let (reads, writes) = tokio::io::split(kubelet);
        let (mut frames, mut writer) = (spdy::Reader::new(reads), spdy::Writer::new(writes));
        let opening = tokio::time::timeout(STREAM_TIMEOUT, Streams::open(self.options, &mut writer, &mut frames));
        let streams = match opening.await {
            Ok(Ok(streams)) => streams,
            Ok(Err(error)) => return Err(Ended::ByKubelet(error.to_string())),
            Err(_) => return Err(Ended::ByKubelet("Timeout occurred".into())),
        };
        let activity = Activity::new();
        let (pongs, client_pings) = mpsc::channel(WAITING_PINGS_MAX);
        let (replies, kubelet_pings) = mpsc::channel(WAITING_PINGS_MAX);
        let to_kubelet = ToKubelet { streams, writer, open: true, activity: &activity, pongs };
        let to_client = ToClient { streams, writer: &mut self.writer, activity: &activity, replies };
        tokio::select! {
            message = to_client.run(frames, client_pings) => message,
            () = to_kubelet.run(&mut self.reader, kubelet_pings) => Err(Ended::ByClient),
            () = activity.idle() => Err(Ended::Idle),
        }
    }

    /// Sends the final status on the error channel and closes the connection.
    pub async fn finish(mut self, status: &[u8]) {
        let sending = async {
            self.writer.message(Kind::Binary, &[ERROR], status);
            self.writer.close(CLOSE_NORMAL).await
        };
        let _ = tokio::time::timeout(STATUS_TIMEOUT, sending).await;
    }

    /// Closes the connection without a status.
    pub async fn abandon(mut self) {
        let _ = tokio::time::timeout(STATUS_TIMEOUT, self.writer.close(CLOSE_PROTOCOL_ERROR)).await;
    }
}

/// When there was traffic last.
struct Activity {
    since: Instant,
    latest_ms: AtomicU64,
}

impl Activity {
    fn new() -> Activity {
        Activity { since: Instant::now(), latest_ms: AtomicU64::new(0) }
    }

    fn note(&self) {
        self.latest_ms.store(self.since.elapsed().as_millis() as u64, Ordering::Relaxed);
    }

    /// Returns when there was no traffic for too long.
    async fn idle(&self) {
        loop {
            let ends = self.since + Duration::from_millis(self.latest_ms.load(Ordering::Relaxed)) + IDLE_TIMEOUT;
            if ends <= Instant::now() {
                return;
            }
            tokio::time::sleep_until(ends).await;
        }
    }
}

/// The numbers of a command's SPDY streams; 0 for those it does not have.
#[derive(Clone, Copy, Debug, Default)]
struct Streams {
    error: u32,
    stdin: u32,
    stdout: u32,
    stderr: u32,
    resize: u32,
}

impl Streams {
    /// Opens all streams and waits until the kubelet has accepted each: it reads none of them before it has all.
    async fn open<R: AsyncRead + Unpin, W: AsyncWrite + Unpin>(
        options: StreamOptions,
        writer: &mut spdy::Writer<W>,
        frames: &mut spdy::Reader<R>,
    ) -> io::Result<Streams> {
        let mut streams = Streams::default();
        let wanted = [
            (&mut streams.error, "error", true),
            (&mut streams.stdin, "stdin", options.stdin),
            (&mut streams.stdout, "stdout", options.stdout),
            (&mut streams.stderr, "stderr", options.stderr && !options.tty),
            (&mut streams.resize, "resize", options.tty),
        ];
        for (number, name, _) in wanted.into_iter().filter(|(_, _, wanted)| *wanted) {
            *number = writer.open("streamtype", name);
            loop {
                writer.flush().await?;
                match frames.next().await? {
                    Some(spdy::Frame::Reply { stream, .. }) if stream == *number => break,
                    Some(spdy::Frame::Reset { .. }) => return Err(io::Error::other("Stream reset")),
                    Some(spdy::Frame::Ping(number)) if number % 2 == 0 => writer.pong(number),
                    Some(spdy::Frame::GoAway) | None => return Err(io::Error::other("connection closed")),
                    Some(_) => {}
                }
            }
        }
        Ok(streams)
    }
}

/// From the client's channels to the kubelet's streams.
struct ToKubelet<'a, W> {
    streams: Streams,
    writer: spdy::Writer<W>,
    /// Whether the kubelet still takes data.
    open: bool,
    activity: &'a Activity,
    pongs: mpsc::Sender<Bytes>,
}

impl<W: AsyncWrite + Unpin> ToKubelet<'_, W> {
    /// Returns when the client has left and the kubelet has what it sent before.
    async fn run<R: AsyncRead + Unpin>(mut self, reader: &mut Reader<R>, pings: mpsc::Receiver<u32>) {
        self.follow(reader, pings).await;
        if self.open {
            let _ = tokio::time::timeout(LAST_TIMEOUT, self.writer.flush()).await;
        }
    }

    /// Passes on what the client sends until it leaves.
    async fn follow<R: AsyncRead + Unpin>(&mut self, reader: &mut Reader<R>, mut pings: mpsc::Receiver<u32>) {
        let mut ticks = tokio::time::interval_at(Instant::now() + PING_PERIOD, PING_PERIOD);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut message = ArrivingMessage::default();
        loop {
            let has_room = !self.open || !self.writer.is_full();
            let incoming = tokio::select! {
                biased;
                Some(number) = pings.recv(), if self.open && has_room => {
                    self.writer.pong(number);
                    continue;
                }
                _ = ticks.tick(), if self.open && has_room => {
                    self.writer.ping();
                    continue;
                }
                incoming = reader.next(), if has_room => incoming,
                // A kubelet whose command is over closes the connection; what it wrote before is still being read.
                flushed = self.writer.flush(), if self.open && !self.writer.is_flushed() => {
                    self.open = flushed.is_ok();
                    continue;
                }
            };
            self.activity.note();
            match incoming {
                Ok(Some(Incoming::Data { bytes, last, .. })) => {
                    if self.pass_on(&mut message, bytes, last).is_err() {
                        return;
                    }
                }
                Ok(Some(Incoming::Ping(payload))) => {
                    let _ = self.pongs.try_send(payload);
                }
                Ok(Some(Incoming::Close) | None) | Err(_) => return,
            }
        }
    }

    /// Passes a piece of a message on. Err if the client broke the protocol.
    fn pass_on(&mut self, message: &mut ArrivingMessage, mut bytes: Bytes, last: bool) -> Result<(), ()> {
        if message.channel.is_none() && !bytes.is_empty() {
            message.channel = Some(bytes[0]);
            bytes = bytes.slice(1..);
        }
        let channel = message.channel;
        let stream = match channel {
            Some(STDIN) => self.streams.stdin,
            Some(RESIZE) => self.streams.resize,
            Some(CLOSE_CHANNEL) => {
                for byte in bytes.iter() {
                    if message.closes.replace(*byte).is_some() {
                        return Err(());
                    }
                }
                0
            }
            _ => 0,
        };
        if stream > 0 && !bytes.is_empty() {
            self.send(stream, &bytes, false);
        }
        if !last {
            return Ok(());
        }
        let closes = std::mem::take(message).closes;
        match closes {
            Some(STDIN) => self.end(|streams| &mut streams.stdin),
            Some(RESIZE) => self.end(|streams| &mut streams.resize),
            Some(STDOUT | STDERR | ERROR) => {}
            Some(_) => return Err(()),
            None if channel == Some(CLOSE_CHANNEL) => return Err(()),
            None => {}
        }
        Ok(())
    }

    /// Ends a stream, once.
    fn end(&mut self, which: fn(&mut Streams) -> &mut u32) {
        let stream = std::mem::take(which(&mut self.streams));
        if stream > 0 {
            self.send(stream, &[], true);
        }
    }

    fn send(&mut self, stream: u32, bytes: &[u8], fin: bool) {
        if self.open {
            self.writer.data(stream, bytes, fin);
        }
    }
}

/// What is known of the message that is being received.
#[derive(Default)]
struct ArrivingMessage {
    channel: Option<u8>,
    /// The channel that it ends.
    closes: Option<u8>,
}

/// From the kubelet's streams to the client's channels.
struct ToClient<'a, W> {
    streams: Streams,
    writer: &'a mut Writer<W>,
    activity: &'a Activity,
    replies: mpsc::Sender<u32>,
}

impl<W: AsyncWrite + Unpin> ToClient<'_, W> {
    /// Returns what came on the error stream, when all streams have ended.
    async fn run<R: AsyncRead + Unpin>(
        mut self,
        mut frames: spdy::Reader<R>,
        mut pings: mpsc::Receiver<Bytes>,
    ) -> Result<Bytes, Ended> {
        let mut message = Vec::new();
        while self.streams.error + self.streams.stdout + self.streams.stderr > 0 {
            let has_room = !self.writer.is_full();
            let frame = tokio::select! {
                biased;
                Some(payload) = pings.recv(), if has_room => {
                    self.writer.pong(&payload);
                    continue;
                }
                frame = frames.next(), if has_room => frame,
                flushed = self.writer.flush(), if !self.writer.is_flushed() => {
                    flushed.map_err(|_| Ended::ByClient)?;
                    continue;
                }
            };
            self.activity.note();
            match frame {
                Ok(Some(spdy::Frame::Data { stream, bytes, fin })) => {
                    self.pass_on(stream, &bytes, &mut message);
                    if fin {
                        self.ended(stream);
                    }
                }
                Ok(Some(spdy::Frame::Reset { stream } | spdy::Frame::Reply { stream, fin: true })) => {
                    self.ended(stream)
                }
                Ok(Some(spdy::Frame::Ping(number))) if number % 2 == 0 => {
                    let _ = self.replies.try_send(number);
                }
                Ok(Some(spdy::Frame::Ping(_) | spdy::Frame::Reply { .. })) => {}
                Ok(Some(spdy::Frame::GoAway) | None) | Err(_) => break,
            }
        }
        Ok(message.into())
    }

    fn pass_on(&mut self, stream: u32, bytes: &[u8], message: &mut Vec<u8>) {
        let channel = match stream {
            0 => return,
            stream if stream == self.streams.stdout => STDOUT,
            stream if stream == self.streams.stderr => STDERR,
            stream if stream == self.streams.error => {
                let room = ERROR_BYTES_MAX - message.len();
                message.extend_from_slice(&bytes[..bytes.len().min(room)]);
                return;
            }
            _ => return,
        };
        if !bytes.is_empty() {
            self.writer.message(Kind::Binary, &[channel], bytes);
        }
    }

    fn ended(&mut self, stream: u32) {
        for number in [&mut self.streams.error, &mut self.streams.stdout, &mut self.streams.stderr] {
            if *number == stream {
                *number = 0;
            }
        }
    }
}

#[cfg(test)]
mod tests;
