//! [`Cork`]: sends several HTTP/2 frames in one TLS record and one system call.
//!
//! h2 flushes after every DATA frame that is not tiny. With a TLS record and a system call each, one event for fifty watches
//! on one connection would cost fifty of both. [`Cork`] buffers what is written and asks for the connection to be polled once
//! more, after the tasks that are ready now. What h2 had to write by then leaves together. Large responses are sent in pieces
//! that fill their TLS records and share a system call.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// How many bytes are buffered at most: four full TLS records, which is what rustls passes on to the system at once.
const HELD_MAX: usize = 64 * 1024;
/// A buffer that was filled with no more than this is shrunk to it, so that idle connections take little memory.
const KEPT_MAX: usize = 1024;

pub struct Cork<S> {
    stream: S,
    held: Vec<u8>,
    /// How many bytes of `held` have been written.
    gone: usize,
    /// How often h2 has read since something is buffered: once in each poll of the connection, and again for every frame.
    reads: u32,
    /// False for HTTP/1, which does not always read after it has written, so that nothing may be buffered.
    holds: bool,
}

impl<S: AsyncWrite + Unpin> Cork<S> {
    pub fn new(stream: S, holds: bool) -> Cork<S> {
        Cork { stream, held: Vec::new(), gone: 0, reads: 0, holds }
    }

    fn let_go(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.held.is_empty() {
            return Poll::Ready(Ok(()));
        }
        while self.gone < self.held.len() {
            match ready!(Pin::new(&mut self.stream).poll_write(cx, &self.held[self.gone..]))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                written => self.gone += written,
            }
        }
        (self.gone, self.reads) = (0, 0);
        if self.held.len() <= KEPT_MAX {
            self.held.shrink_to(KEPT_MAX);
        }
        self.held.clear();
        Pin::new(&mut self.stream).poll_flush(cx)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for Cork<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if !self.held.is_empty() {
            self.reads += 1;
            // The first read begins the poll whose flush sends everything. A peer that does not read must not keep us from
            // reading; the write wakes the task when it can go on.
            if self.reads > 1
                && let Poll::Ready(Err(error)) = self.let_go(cx)
            {
                return Poll::Ready(Err(error));
            }
        }
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Cork<S> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(cx, &[IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if !self.holds {
            return Pin::new(&mut self.stream).poll_write_vectored(cx, pieces);
        }
        if self.held.len() >= HELD_MAX {
            ready!(self.let_go(cx))?;
        }
        let before = self.held.len();
        for piece in pieces {
            let room = HELD_MAX - self.held.len();
            self.held.extend_from_slice(&piece[..piece.len().min(room)]);
        }
        Poll::Ready(Ok(self.held.len() - before))
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.held.is_empty() {
            return Pin::new(&mut self.stream).poll_flush(cx);
        }
        if self.reads == 0 {
            cx.waker().wake_by_ref();
        } else if let Poll::Ready(Err(error)) = self.let_go(cx) {
            return Poll::Ready(Err(error));
        }
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.let_go(cx))?;
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    use super::*;

    #[tokio::test]
    async fn what_is_written_in_two_polls_leaves_together() {
        let (near, mut far) = duplex(1 << 20);
        let mut cork = Cork::new(near, true);
        let (mut byte, mut text) = ([0], [0; 18]);
        for words in [["one ", "two "], ["three ", "four"]] {
            let nothing =
                Pin::new(&mut far).poll_read(&mut Context::from_waker(Waker::noop()), &mut ReadBuf::new(&mut text));
            assert!(nothing.is_pending(), "before {words:?}");
            // As h2 does it: it reads what has arrived, writes what it has, and flushes.
            let answer = cork.read(&mut byte);
            tokio::pin!(answer);
            assert!(futures::poll!(answer).is_pending());
            for word in words {
                cork.write_all(word.as_bytes()).await.unwrap();
            }
            cork.flush().await.unwrap();
        }
        far.read_exact(&mut text).await.unwrap();
        assert_eq!(&text, b"one two three four");
    }

    #[tokio::test]
    async fn a_second_read_sends_what_was_not_flushed() {
        let (near, mut far) = duplex(1 << 20);
        let mut cork = Cork::new(near, true);
        cork.write_all(b"now").await.unwrap();
        let (mut byte, mut text) = ([0], [0; 3]);
        let answer = cork.read(&mut byte);
        tokio::pin!(answer);
        assert!(futures::poll!(&mut answer).is_pending());
        assert!(futures::poll!(&mut answer).is_pending());
        far.read_exact(&mut text).await.unwrap();
        assert_eq!(&text, b"now");
    }

    #[tokio::test]
    async fn order_is_kept_whatever_the_sizes() {
        let (near, mut far) = duplex(100);
        let expected: Vec<u8> = (0..200_000u32).map(|n| (n % 251) as u8).collect();
        let sent = expected.clone();
        tokio::spawn(async move {
            let mut cork = Cork::new(near, true);
            let mut rest = &sent[..];
            for size in [1, 100, HELD_MAX, 7, HELD_MAX + 1, 3 * HELD_MAX].into_iter().cycle() {
                let (part, after) = rest.split_at(size.min(rest.len()));
                cork.write_all(part).await.unwrap();
                cork.flush().await.unwrap();
                rest = after;
                if rest.is_empty() {
                    break;
                }
            }
            cork.shutdown().await.unwrap();
        });
        let mut got = Vec::new();
        far.read_to_end(&mut got).await.unwrap();
        assert_eq!(got, expected);
    }

    #[tokio::test]
    async fn a_peer_that_does_not_read_is_waited_for_without_spinning() {
        let (near, mut far) = duplex(10);
        let mut cork = Cork::new(near, true);
        cork.write_all(&[7; 100]).await.unwrap();
        let (mut byte, mut polls) = ([0], 0);
        let task = async {
            std::future::poll_fn(|cx| {
                polls += 1;
                assert!(Pin::new(&mut cork).poll_flush(cx).is_ready());
                let read = Pin::new(&mut cork).poll_read(cx, &mut ReadBuf::new(&mut byte));
                if cork.held.is_empty() { Poll::Ready(()) } else { read.map(|_| ()) }
            })
            .await;
        };
        let reader = async {
            tokio::task::yield_now().await;
            let mut all = [0; 100];
            far.read_exact(&mut all).await.unwrap();
        };
        tokio::join!(task, reader);
        assert!(polls < 30, "{polls} polls");
    }

    #[tokio::test]
    async fn without_holding_everything_leaves_at_once() {
        let (near, mut far) = duplex(100);
        Cork::new(near, false).write_all(b"now").await.unwrap();
        let mut text = String::new();
        far.read_to_string(&mut text).await.unwrap();
        assert_eq!(text, "now");
    }
}
