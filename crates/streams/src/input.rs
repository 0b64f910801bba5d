//! [`Input`]: the receiving half of a connection with a buffer that fits its traffic.

use std::io;

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt};

/// The buffer of a connection that is idle, or sends little at a time.
const LEAST_BYTES: usize = 4 * 1024;
/// The buffer of a connection that sends as fast as it can.
const MOST_BYTES: usize = 64 * 1024;

/// Received bytes that were not used yet. All methods can be cancelled without losing any.
pub(crate) struct Input<R> {
    source: R,
    buffer: BytesMut,
    /// How much the next read asks for: doubled when a read was full, halved when it brought little.
    wanted: usize,
}

impl<R: AsyncRead + Unpin> Input<R> {
    pub fn new(source: R) -> Input<R> {
        Input { source, buffer: BytesMut::new(), wanted: LEAST_BYTES }
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
        if self.buffer.capacity() - self.buffer.len() < LEAST_BYTES / 2 {
            self.buffer.reserve(self.wanted);
        }
        let room = self.buffer.capacity() - self.buffer.len();
        let read = self.source.read_buf(&mut self.buffer).await?;
        if read == room {
            self.wanted = (self.wanted * 2).min(MOST_BYTES);
        } else if read < self.wanted / 4 {
            self.wanted = (self.wanted / 2).max(LEAST_BYTES);
        }
        Ok(read > 0)
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
