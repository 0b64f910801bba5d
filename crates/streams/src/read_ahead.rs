//! [`ReadAhead`]: a socket that is read in large pieces while it is busy.

use std::io;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};

use bytes::{Buf, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf};

/// How much a busy socket is asked for at once.
pub const READ_AHEAD_BYTES: usize = 64 * 1024;

/// rustls reads 4 KiB at a time, which is four system calls a record. Here a read that fills its buffer makes the next one ask
/// for [`READ_AHEAD_BYTES`]. A socket on which little arrives is read without another copy, and one that is waited for has no
/// buffer.
pub struct ReadAhead<S> {
    stream: S,
    ahead: BytesMut,
    is_busy: bool,
}

impl<S> ReadAhead<S> {
    pub fn new(stream: S) -> ReadAhead<S> {
        ReadAhead { stream, ahead: BytesMut::new(), is_busy: false }
    }

    pub fn get_ref(&self) -> &S {
        &self.stream
    }
}

impl<S: AsyncRead + Unpin> ReadAhead<S> {
    fn poll_fill(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.ahead.reserve(READ_AHEAD_BYTES);
        let polled = pin!(self.stream.read_buf(&mut self.ahead)).poll(cx);
        if polled.is_pending() {
            self.ahead = BytesMut::new();
        }
        polled.map_ok(drop)
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for ReadAhead<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let room = buffer.remaining();
        if self.ahead.is_empty() {
            if !self.is_busy || room >= READ_AHEAD_BYTES {
                let before = buffer.filled().len();
                ready!(Pin::new(&mut self.stream).poll_read(cx, buffer))?;
                self.is_busy = room > 0 && buffer.filled().len() - before == room;
                return Poll::Ready(Ok(()));
            }
            ready!(self.poll_fill(cx))?;
            self.is_busy = self.ahead.len() >= room;
        }
        let given = room.min(self.ahead.len());
        buffer.put_slice(&self.ahead[..given]);
        self.ahead.advance(given);
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for ReadAhead<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tokio::io::{AsyncWriteExt, duplex};

    use super::*;

    /// Counts reads.
    struct Counted<S>(S, Arc<AtomicUsize>);

    impl<S: AsyncRead + Unpin> AsyncRead for Counted<S> {
        fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
            self.1.fetch_add(1, Ordering::Relaxed);
            Pin::new(&mut self.0).poll_read(cx, buffer)
        }
    }

    #[tokio::test]
    async fn bytes_keep_their_order_and_a_busy_stream_is_read_in_few_steps() {
        for (pieces, size, most) in [(200, 10, 200 + 2), (1, 1 << 20, 16 + 4), (7, 100_000, 20)] {
            let sent: Vec<u8> = (0..pieces * size).map(|n| (n % 251) as u8).collect();
            let (mut far, near) = duplex(1 << 20);
            let reads = Arc::new(AtomicUsize::new(0));
            let mut near = ReadAhead::new(Counted(near, reads.clone()));
            let mut got = Vec::new();
            let mut buffer = [0; 4096];
            for piece in sent.chunks(size) {
                far.write_all(piece).await.unwrap();
                let end = got.len() + size;
                while got.len() < end {
                    let read = near.read(&mut buffer).await.unwrap();
                    got.extend_from_slice(&buffer[..read]);
                }
            }
            drop(far);
            assert_eq!(near.read(&mut buffer).await.unwrap(), 0);
            assert!(got == sent);
            let reads = reads.load(Ordering::Relaxed);
            assert!(reads <= most, "{pieces} of {size}: {reads} reads");
        }
    }

    #[tokio::test]
    async fn a_stream_that_is_waited_for_has_no_buffer() {
        let (mut far, near) = duplex(1 << 20);
        let mut near = ReadAhead::new(near);
        far.write_all(&[7; 100_000]).await.unwrap();
        let mut got = vec![0; 100_000];
        near.read_exact(&mut got[..4096]).await.unwrap();
        near.read_exact(&mut got[4096..8192]).await.unwrap();
        assert!(near.ahead.capacity() > 0);
        near.read_exact(&mut got[8192..]).await.unwrap();
        let mut small = [0; 100];
        assert!(futures::poll!(pin!(near.read(&mut small))).is_pending());
        assert_eq!(near.ahead.capacity(), 0);
    }
}
