//! [`tunnel`]: a byte stream inside binary WebSocket messages, as port-forward has it.

use std::io;
use std::time::Duration;

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc;

use crate::input::Input;
use crate::websocket::{CLOSE_NORMAL, Incoming, Kind, Reader, Writer};

/// How long a client may take to receive the close frame.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);
/// Pings that wait for their answer; further ones are left unanswered.
const WAITING_PINGS_MAX: usize = 4;

/// Unwraps what the client sends and wraps what the backend sends, until one of them closes.
pub async fn tunnel<C, B>(client: C, backend: B) -> io::Result<()>
where
    C: AsyncRead + AsyncWrite + Unpin,
    B: AsyncRead + AsyncWrite + Unpin,
{
    let (reads, writes) = tokio::io::split(client);
    let (backend_reads, mut backend_writes) = tokio::io::split(backend);
    let (pongs, pings) = mpsc::channel(WAITING_PINGS_MAX);
    let mut writer = Writer::new(writes);
    let ended = tokio::select! {
        ended = unwrap(Reader::new(reads), &mut backend_writes, pongs) => ended,
        ended = wrap(Input::new(backend_reads), &mut writer, pings) => ended,
    };
    let _ = tokio::time::timeout(CLOSE_TIMEOUT, writer.close(CLOSE_NORMAL)).await;
    let _ = backend_writes.shutdown().await;
    ended
}

async fn unwrap<R, W>(mut client: Reader<R>, backend: &mut W, pongs: mpsc::Sender<Bytes>) -> io::Result<()>
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    loop {
        match client.next().await? {
            Some(Incoming::Data { kind: Kind::Binary, bytes, .. }) => {
                backend.write_all(&bytes).await?;
                backend.flush().await?;
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
                Some(chunk) => client.message(Kind::Binary, &[], &chunk).await?,
                None => return Ok(()),
            },
            Some(payload) = pings.recv() => client.pong(&payload).await?,
        }
    }
}
