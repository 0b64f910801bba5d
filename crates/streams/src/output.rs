//! [`Output`]: the sending half of a connection, on which frames leave together.

use std::io;

use bytes::BytesMut;
use tokio::io::{AsyncWrite, AsyncWriteExt};

/// With so much in it nothing more is added before it has left.
const FULL_BYTES: usize = 64 * 1024;
/// A larger buffer is freed when it has been sent.
const KEPT_BYTES: usize = 4 * 1024;

/// Frames that were not sent yet. They are sent when there is nothing more to add for the moment, or when they are many.
pub(crate) struct Output<W> {
    sink: W,
    held: BytesMut,
    is_flushed: bool,
}

impl<W: AsyncWrite + Unpin> Output<W> {
    pub fn new(sink: W) -> Output<W> {
        Output { sink, held: BytesMut::new(), is_flushed: true }
    }

    /// Where a frame with a payload of this length is appended.
    pub fn frame(&mut self, payload: usize) -> &mut BytesMut {
        if payload > KEPT_BYTES {
            self.held.reserve(payload + FULL_BYTES);
        }
        self.is_flushed = false;
        &mut self.held
    }

    pub fn is_full(&self) -> bool {
        self.held.len() >= FULL_BYTES
    }

    /// Whether everything has left.
    pub fn is_flushed(&self) -> bool {
        self.is_flushed
    }

    /// Sends what there is. Can be cancelled and called again without losing or repeating any.
    pub async fn flush(&mut self) -> io::Result<()> {
        while !self.held.is_empty() {
            if self.sink.write_buf(&mut self.held).await? == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
        }
        if self.held.capacity() > KEPT_BYTES {
            self.held = BytesMut::new();
        }
        self.sink.flush().await?;
        self.is_flushed = true;
        Ok(())
    }

    /// Sends what there is and ends the connection.
    pub async fn close(&mut self) -> io::Result<()> {
        self.flush().await?;
        self.sink.shutdown().await
    }
}
