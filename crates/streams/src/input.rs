//! [`Input`]: the receiving half of a connection with a buffer that fits its traffic.

use std::future::poll_fn;
use std::io;
use std::pin::pin;
use std::task::{Context, Poll};

use bytes::{BufMut, Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt};

/// The buffer of a connection that is idle, or sends little at a time.
const LEAST_BYTES: usize = 4 * 1024;
/// The buffer of a connection that sends as fast as it can: four full TLS records, which leave in one system call.
const MOST_BYTES: usize = 64 * 1024;

/// Received bytes that were not used yet. All methods can be cancelled without losing any.
pub(crate) struct Input<R> {
    source: R,
    buffer: BytesMut,
    /// How much the next read asks for: doubled when the buffer was filled, halved when little arrived.
    wanted: usize,
    /// An error that followed received bytes, which are used first.
    failed: Option<io::Error>,
}

impl<R: AsyncRead + Unpin> Input<R> {
    pub fn new(source: R) -> Input<R> {
        Input { source, buffer: BytesMut::new(), wanted: LEAST_BYTES, failed: None }
    }

    /// What was received and not used yet.
    pub fn received(&self) -> &[u8] {
        &self.buffer
    }

    /// Uses at most `limit` received bytes.
    pub fn take(&mut self, limit: usize) -> BytesMut {
        let length = self.buffer.len().min(limit);
        self.buffer.split_to(length)
    }

    /// Waits for more bytes. False at the end of the connection.
    pub async fn receive(&mut self) -> io::Result<bool> {
        let before = self.buffer.len();
        poll_fn(|cx| self.poll_fill(cx, before)).await?;
        let read = self.buffer.len() - before;
        if self.buffer.len() == self.buffer.capacity() {
            self.wanted = (self.wanted * 2).min(MOST_BYTES);
        } else if read < self.wanted / 4 {
            self.wanted = (self.wanted / 2).max(LEAST_BYTES);
        }
        Ok(read > 0)
    }

    /// Reads until the buffer is full or nothing more has arrived: small TLS records are taken together.
    fn poll_fill(&mut self, cx: &mut Context<'_>, before: usize) -> Poll<io::Result<()>> {
        if let Some(error) = self.failed.take() {
            return Poll::Ready(Err(error));
        }
        if self.buffer.capacity() - self.buffer.len() < LEAST_BYTES / 2 {
            self.buffer.reserve(self.wanted);
        }
        while self.buffer.len() < self.buffer.capacity() {
            let room = self.buffer.capacity() - self.buffer.len();
            let mut free = (&mut self.buffer).limit(room);
            match pin!(self.source.read_buf(&mut free)).poll(cx) {
                Poll::Ready(Ok(0)) => break,
                Poll::Ready(Ok(_)) => {}
                Poll::Ready(Err(error)) if self.buffer.len() == before => return Poll::Ready(Err(error)),
                Poll::Ready(Err(error)) => {
                    self.failed = Some(error);
                    break;
                }
                Poll::Pending if self.buffer.len() == before => {
                    // A large buffer is not kept while nothing arrives.
                    if self.buffer.is_empty() && self.wanted > LEAST_BYTES {
                        self.buffer = BytesMut::new();
                    }
                    return Poll::Pending;
                }
                Poll::Pending => break,
            }
        }
        Poll::Ready(Ok(()))
    }

    /// Waits until at least `length` bytes are there; `length` is small. False if the connection ends before.
    pub async fn receive_at_least(&mut self, length: usize) -> io::Result<bool> {
        while self.buffer.len() < length {
            if !self.receive().await? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The next bytes of the connection, as many as there are; None at its end.
    pub async fn chunk(&mut self) -> io::Result<Option<Bytes>> {
        if self.buffer.is_empty() && !self.receive().await? {
            return Ok(None);
        }
        Ok(Some(self.take(usize::MAX).freeze()))
    }
}
