//! [`Cork`]: sends all HTTP/2 frames of one poll in full TLS records and one system call.
//!
//! h2 flushes after every DATA frame that is not tiny. With a TLS record and a system call each, one event for fifty watches
//! on one connection would cost fifty of both. [`Cork`] buffers what is written, and the task that polls the connection sends it at the
//! end of the poll ([`Cork::poll_connection`]). Tasks of the same connection that were woken and have not run yet
//! ([`WokenTasks`]) run first, so that what they write leaves with it.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::WokenTasks;

/// How many bytes are buffered at most: four full TLS records, which is what rustls passes on to the system at once.
const HELD_MAX: usize = 64 * 1024;
/// With so much to send, which fills a TLS record, nothing is gained by waiting for more.
const RECORD_BYTES: usize = 16 * 1024;
/// A buffer that was filled with no more than this is shrunk to it, so that idle connections take little memory.
const KEPT_MAX: usize = 1024;
/// How often in a row a connection is left alone because tasks are about to write to it.
const POSTPONED_MAX: u32 = 4;

/// A stream that sends when it is told to. Clones are the same stream: one is given to the connection, one to the task that polls it.
pub struct Cork<S>(Arc<Mutex<HeldBytes<S>>>);

struct HeldBytes<S> {
    stream: S,
    bytes: Vec<u8>,
    /// How many bytes of `bytes` have been written.
    gone: usize,
    /// How often in a row the connection was not polled.
    postponed: u32,
    /// Whether the last time it had much to send.
    is_bulk: bool,
}

impl<S> Clone for Cork<S> {
    fn clone(&self) -> Cork<S> {
        Cork(self.0.clone())
    }
}

impl<S: AsyncWrite + Unpin> Cork<S> {
    pub fn new(stream: S) -> Cork<S> {
        Cork(Arc::new(Mutex::new(HeldBytes { stream, bytes: Vec::new(), gone: 0, postponed: 0, is_bulk: false })))
    }

    /// Polls the connection that uses this stream and sends what it has written. While some of `woken` have not run, the
    /// connection waits for them, or what it has written does; neither for long.
    pub fn poll_connection<C: Future>(
        &self,
        woken: &WokenTasks,
        connection: Pin<&mut C>,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<C::Output>> {
        let has_waited = {
            let mut held = self.0.lock();
            if !held.is_bulk && held.postponed < POSTPONED_MAX && woken.poll_none(cx).is_pending() {
                held.postponed += 1;
                return Poll::Pending;
            }
            held.postponed = 0;
            !held.bytes.is_empty()
        };
        if let Poll::Ready(output) = connection.poll(cx) {
            // It has sent everything before it ended, unless the client is gone.
            return Poll::Ready(Ok(output));
        }
        if !has_waited && (1..RECORD_BYTES).contains(&self.0.lock().bytes.len()) && woken.poll_none(cx).is_pending() {
            return Poll::Pending;
        }
        self.poll_send(cx)
    }

    /// Sends what is held. The connection is polled again when the peer has read some of it.
    pub fn poll_send<T>(&self, cx: &mut Context<'_>) -> Poll<io::Result<T>> {
        match self.0.lock().let_go(cx) {
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            _ => Poll::Pending,
        }
    }

    /// Whether something is held.
    pub fn is_holding(&self) -> bool {
        !self.0.lock().bytes.is_empty()
    }
}

impl<S: AsyncWrite + Unpin> HeldBytes<S> {
    fn let_go(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.bytes.is_empty() {
            return Poll::Ready(Ok(()));
        }
        while self.gone < self.bytes.len() {
            match ready!(Pin::new(&mut self.stream).poll_write(cx, &self.bytes[self.gone..]))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                written => self.gone += written,
            }
        }
        (self.gone, self.is_bulk) = (0, self.bytes.len() >= RECORD_BYTES);
        if self.bytes.len() <= KEPT_MAX {
            self.bytes.shrink_to(KEPT_MAX);
        }
        self.bytes.clear();
        Pin::new(&mut self.stream).poll_flush(cx)
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Cork<S> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0.lock().stream).poll_read(cx, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Cork<S> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(cx, &[IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let mut held = self.0.lock();
        if held.bytes.len() >= HELD_MAX {
            ready!(held.let_go(cx))?;
        }
        let before = held.bytes.len();
        for piece in pieces {
            let room = HELD_MAX - held.bytes.len();
            held.bytes.extend_from_slice(&piece[..piece.len().min(room)]);
        }
        Poll::Ready(Ok(held.bytes.len() - before))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    /// Does nothing if something is held: that is sent at the end of the poll.
    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut held = self.0.lock();
        match held.bytes.is_empty() {
            true => Pin::new(&mut held.stream).poll_flush(cx),
            false => Poll::Ready(Ok(())),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut held = self.0.lock();
        ready!(held.let_go(cx))?;
        Pin::new(&mut held.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests;
