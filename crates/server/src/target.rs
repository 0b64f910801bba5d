//! Request targets with bytes that Go's server accepts and `http::Uri` refuses, such as `?labelSelector=n>2`.
//!
//! [`Escaping`] sits between TLS and hyper and percent-encodes those bytes where a target stands: in the request line of HTTP/1 and
//! in the `:path` of HTTP/2. Everything else passes unchanged, in the buffer it was read into.

mod http1;
mod http2;
mod huffman;

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::connections::ArrivingHead;
use crate::peer::Peer;

/// Whether `http::Uri` would refuse the byte in a path or a query, or cut the target there (`#`), though a target may have it.
const ESCAPED: [bool; 256] = {
    let mut escaped = [false; 256];
    let mut byte = 0x80;
    while byte < 256 {
        escaped[byte] = true;
        byte += 1;
    }
    escaped[b'"' as usize] = true;
    escaped[b'#' as usize] = true;
    escaped[b'<' as usize] = true;
    escaped[b'>' as usize] = true;
    escaped[b'`' as usize] = true;
    escaped
};

/// A stream whose requests are read with escaped targets.
pub struct Escaping<S> {
    stream: S,
    protocol: Protocol,
    /// Is told when a request of HTTP/1 may have begun.
    peer: Arc<Peer>,
    /// The account of the request that is arriving.
    head: ArrivingHead,
    /// How much of it has arrived over HTTP/1.
    head_bytes: usize,
    /// Rewritten bytes that did not fit the reader's buffer.
    rewritten: Vec<u8>,
    /// How many of them have been read.
    given: usize,
}

enum Protocol {
    Http1(http1::Requests),
    Http2(http2::Frames),
    /// The rest of the connection passes unchanged.
    Other,
}

/// How bytes that arrived are read on.
#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    Unchanged,
    /// These bytes are read in their place.
    Instead(Vec<u8>),
}

impl<S> Escaping<S> {
    pub fn new(stream: S, is_http2: bool, peer: Arc<Peer>, head: ArrivingHead) -> Escaping<S> {
        let protocol = match is_http2 {
            true => Protocol::Http2(http2::Frames::default()),
            false => Protocol::Http1(http1::Requests::default()),
        };
        Escaping { stream, protocol, peer, head, head_bytes: 0, rewritten: Vec::new(), given: 0 }
    }

    /// Counts the head of the request that is arriving. False if its address may not have more.
    fn count(&mut self, arrived: usize) -> bool {
        let unfinished = match &self.protocol {
            Protocol::Http2(frames) => frames.unfinished_head(),
            _ if self.peer.arrived() => self.head_bytes + arrived,
            _ => 0,
        };
        self.head_bytes = unfinished;
        self.head.set(unfinished)
    }

    /// Notes that a request is being answered, so that its head is complete.
    fn is_answering(&mut self) {
        if self.head_bytes > 0 && !matches!(self.protocol, Protocol::Http2(_)) {
            self.head_bytes = 0;
            self.head.set(0);
        }
    }

    /// Moves rewritten bytes to the reader.
    fn give(&mut self, buffer: &mut ReadBuf<'_>) {
        let rest = &self.rewritten[self.given..];
        let (now, later) = rest.split_at(rest.len().min(buffer.remaining()));
        buffer.put_slice(now);
        self.given += now.len();
        if later.is_empty() {
            (self.rewritten, self.given) = (Vec::new(), 0);
        }
    }
}

impl Protocol {
    fn arrived(&mut self, bytes: &[u8]) -> Outcome {
        let (outcome, goes_on) = match self {
            Protocol::Http1(requests) => (requests.arrived(bytes), requests.can_be_followed()),
            Protocol::Http2(frames) => (frames.arrived(bytes), frames.can_be_followed()),
            Protocol::Other => return Outcome::Unchanged,
        };
        if !goes_on {
            *self = Protocol::Other;
        }
        outcome
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Escaping<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        loop {
            if !self.rewritten.is_empty() {
                self.give(buffer);
                return Poll::Ready(Ok(()));
            }
            let before = buffer.filled().len();
            ready!(Pin::new(&mut self.stream).poll_read(cx, buffer))?;
            let arrived = &buffer.filled()[before..];
            if arrived.is_empty() {
                return Poll::Ready(Ok(()));
            }
            let outcome = self.protocol.arrived(arrived);
            if !self.count(arrived.len()) {
                return Poll::Ready(Err(io::Error::other("too much of unfinished requests arrives from this address")));
            }
            match outcome {
                Outcome::Unchanged => return Poll::Ready(Ok(())),
                Outcome::Instead(bytes) => {
                    buffer.set_filled(before);
                    self.rewritten = bytes;
                }
            }
        }
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Escaping<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.is_answering();
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.is_answering();
        Pin::new(&mut self.stream).poll_write_vectored(cx, pieces)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

fn is_escaped(byte: &u8) -> bool {
    ESCAPED[usize::from(*byte)]
}

/// Appends a target with its bytes escaped where they must be.
fn escape(target: &[u8], out: &mut Vec<u8>) {
    const HEX: &[u8; 16] = b"0123456789ABCDEF";
    for byte in target {
        match is_escaped(byte) {
            true => out.extend([b'%', HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]),
            false => out.push(*byte),
        }
    }
}

#[cfg(test)]
mod tests;
