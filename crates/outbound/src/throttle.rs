//! [`Throttle`]: connections that carry no more than so many bytes a second.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use async_trait::async_trait;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};

use crate::{Address, Dial, Error, Stream};

/// Opens connections with another dialer and limits each direction of each of them.
pub struct Throttle {
    pub dial: Arc<dyn Dial>,
    pub bytes_per_second: u64,
}

#[async_trait]
impl Dial for Throttle {
    async fn dial(&self, address: &Address) -> Result<Box<dyn Stream>, Error> {
        let stream = self.dial.dial(address).await?;
        let pace = || ThrottlePace::new(self.bytes_per_second);
        Ok(Box::new(Throttled { stream, reads: pace(), writes: pace() }))
    }
}

struct Throttled {
    stream: Box<dyn Stream>,
    reads: ThrottlePace,
    writes: ThrottlePace,
}

/// When one direction may carry its next bytes.
struct ThrottlePace {
    bytes_per_second: u64,
    next: Instant,
    pause: Option<Pin<Box<Sleep>>>,
}

impl ThrottlePace {
    fn new(bytes_per_second: u64) -> ThrottlePace {
        ThrottlePace { bytes_per_second: bytes_per_second.max(1), next: Instant::now(), pause: None }
    }

    /// Waits for the next bytes' turn; returns how many they may be: a tenth of a second's.
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<usize> {
        if Instant::now() < self.next {
            let next = self.next;
            let pause = self.pause.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(next)));
            ready!(pause.as_mut().poll(cx));
        }
        self.pause = None;
        Poll::Ready(usize::try_from(self.bytes_per_second / 10).unwrap_or(usize::MAX).max(1))
    }

    fn carried(&mut self, bytes: usize) {
        let takes = Duration::from_secs_f64(bytes as f64 / self.bytes_per_second as f64);
        self.next = Instant::now() + takes;
    }
}

impl AsyncRead for Throttled {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let most = ready!(self.reads.poll_ready(cx));
        let mut part = vec![0; most.min(buffer.remaining())];
        let mut part = ReadBuf::new(&mut part);
        ready!(Pin::new(&mut self.stream).poll_read(cx, &mut part))?;
        buffer.put_slice(part.filled());
        self.reads.carried(part.filled().len());
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Throttled {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let most = ready!(self.writes.poll_ready(cx));
        let written = ready!(Pin::new(&mut self.stream).poll_write(cx, &bytes[..bytes.len().min(most)]))?;
        self.writes.carried(written);
        Poll::Ready(Ok(written))
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
    use std::sync::Mutex;

    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};

    use super::*;

    struct Once(Mutex<Option<DuplexStream>>);

    #[async_trait]
    impl Dial for Once {
        async fn dial(&self, _: &Address) -> Result<Box<dyn Stream>, Error> {
            Ok(Box::new(self.0.lock().unwrap().take().unwrap()))
        }
    }

    #[tokio::test(start_paused = true)]
    async fn both_directions_are_limited() {
        let (near, mut far) = duplex(1 << 20);
        let dial: Arc<dyn Dial> = Arc::new(Once(Mutex::new(Some(near))));
        let throttle = Throttle { dial, bytes_per_second: 1000 };
        let mut stream = throttle.dial(&Address { host: "x".into(), port: 1 }).await.unwrap();
        let began = Instant::now();
        stream.write_all(&[7; 5000]).await.unwrap();
        let took = began.elapsed().as_secs_f64();
        assert!((4.8..5.2).contains(&took), "{took}");
        far.write_all(&[8; 3000]).await.unwrap();
        let began = Instant::now();
        stream.read_exact(&mut [0; 3000]).await.unwrap();
        let took = began.elapsed().as_secs_f64();
        assert!((2.8..3.2).contains(&took), "{took}");
    }
}
