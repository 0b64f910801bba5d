//! [`tunnel`]: a byte stream inside binary WebSocket messages, as port-forward has it.

use std::io;
use std::time::Duration;

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc;

use crate::input::Input;
use crate::output::Output;
use crate::websocket::{CLOSE_NORMAL, Incoming, Kind, Reader, Writer};

/// How long a client may take to receive the close frame.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);
/// How long a backend may take to receive what a client sent before it left.
const LAST_TIMEOUT: Duration = Duration::from_secs(10);
/// Pings that wait for their answer; further ones are left unanswered.
const WAITING_PINGS_MAX: usize = 4;

/// Unwraps what the client sends and wraps what the backend sends, until one of them closes.
pub async fn tunnel<C, B>(client: C, backend: B) -> io::Result<()>
where
    C: AsyncRead + AsyncWrite + Unpin,
    B: AsyncRead + AsyncWrite + Unpin,
{
    let (reads, writes) = tokio::io::split(client);
    let (backend_reads, backend_writes) = tokio::io::split(backend);
    let mut backend = Output::new(backend_writes);
    let (pongs, pings) = mpsc::channel(WAITING_PINGS_MAX);
    let mut writer = Writer::new(writes);
    let ended = tokio::select! {
        ended = unwrap(Reader::new(reads), &mut backend, pongs) => ended,
        ended = wrap(Input::new(backend_reads), &mut writer, pings) => ended,
    };
    let _ = tokio::time::timeout(CLOSE_TIMEOUT, writer.close(CLOSE_NORMAL)).await;
    let _ = tokio::time::timeout(LAST_TIMEOUT, backend.close()).await;
    ended
}

async fn unwrap<R, W>(mut client: Reader<R>, backend: &mut Output<W>, pongs: mpsc::Sender<Bytes>) -> io::Result<()>
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    loop {
        let incoming = tokio::select! {
            biased;
            incoming = client.next(), if !backend.is_full() => incoming?,
            flushed = backend.flush(), if !backend.is_flushed() => {
                flushed?;
                continue;
            }
        };
        match incoming {
            Some(Incoming::Data { kind: Kind::Binary, bytes, .. }) => {
                backend.frame(bytes.len()).extend_from_slice(&bytes);
            }
            Some(Incoming::Data { kind: Kind::Text, .. }) => {
                return Err(io::Error::other("invalid message type received"));
            }
            Some(Incoming::Ping(payload)) => {
                let _ = pongs.try_send(payload);
            }
            Some(Incoming::Close) | None => return Ok(()),
        }
    }
}

async fn wrap<R, W>(mut backend: Input<R>, client: &mut Writer<W>, mut pings: mpsc::Receiver<Bytes>) -> io::Result<()>
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    loop {
        tokio::select! {
            chunk = backend.chunk() => match chunk? {
                Some(chunk) => client.message(Kind::Binary, &[], &chunk),
                None => return Ok(()),
            },
            Some(payload) = pings.recv() => client.pong(&payload),
        }
        client.flush().await?;
    }
}
