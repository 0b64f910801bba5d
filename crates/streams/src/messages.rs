//! Sending a stream of chunks as WebSocket messages: logs and watches. What the client sends is ignored.

use std::io;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use futures::{Stream, StreamExt};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc;

use crate::websocket::{CLOSE_NORMAL, Incoming, Kind, Reader, Writer};

/// How long a client may take to receive the close frame.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);
/// Pings that wait for their answer; further ones are left unanswered.
const WAITING_PINGS_MAX: usize = 4;

/// How a chunk becomes a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    Text,
    Binary,
    /// A text message in base64.
    Base64,
}

/// Sends each chunk as a message, until there are no more or the client leaves.
pub async fn send<C, S, E>(client: C, encoding: Encoding, mut chunks: S) -> io::Result<()>
where
    C: AsyncRead + AsyncWrite + Unpin,
    S: Stream<Item = Result<Bytes, E>> + Unpin,
{
    let (reads, writes) = tokio::io::split(client);
    let (pongs, mut pings) = mpsc::channel::<Bytes>(WAITING_PINGS_MAX);
    let mut writer = Writer::new(writes);
    let sending = async {
        loop {
            tokio::select! {
                chunk = chunks.next() => match chunk {
                    Some(Ok(chunk)) => message(&mut writer, encoding, &chunk),
                    Some(Err(_)) | None => return io::Result::Ok(()),
                },
                Some(payload) = pings.recv() => writer.pong(&payload),
            }
            writer.flush().await?;
        }
    };
    let ended = tokio::select! {
        ended = sending => ended,
        ended = ignore(Reader::new(reads), pongs) => ended,
    };
    let _ = tokio::time::timeout(CLOSE_TIMEOUT, writer.close(CLOSE_NORMAL)).await;
    ended
}

fn message<W: AsyncWrite + Unpin>(writer: &mut Writer<W>, encoding: Encoding, chunk: &[u8]) {
    match encoding {
        Encoding::Text => writer.message(Kind::Text, &[], chunk),
        Encoding::Binary => writer.message(Kind::Binary, &[], chunk),
        Encoding::Base64 => writer.message(Kind::Text, &[], STANDARD.encode(chunk).as_bytes()),
    }
}

/// Reads until the client leaves.
async fn ignore<R: AsyncRead + Unpin>(mut reader: Reader<R>, pongs: mpsc::Sender<Bytes>) -> io::Result<()> {
    loop {
        match reader.next().await? {
            Some(Incoming::Data { .. }) => {}
            Some(Incoming::Ping(payload)) => {
                let _ = pongs.try_send(payload);
            }
            Some(Incoming::Close) | None => return Ok(()),
        }
    }
}
