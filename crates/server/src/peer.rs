//! [`Peer`]: the client of a connection, its certificates, its open requests, and how long it has been idle.

use std::future::poll_fn;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::task::{Poll, ready};
use std::time::Duration;

use request::User;
use rustls_pki_types::CertificateDer;
use tokio::sync::Notify;
use tokio::time::Instant;

/// How long a connection may be without a request, as upstream's server has it.
#[derive(Clone, Copy, Debug)]
pub struct Timeouts {
    /// From the TLS handshake to the end of the first request's headers, and over HTTP/1.1 from the first byte of every later request
    /// to the end of its headers: `ReadHeaderTimeout`.
    pub headers: Duration,
    /// From the end of a request to the first byte of the next one: `IdleTimeout`.
    pub idle: Duration,
}

impl Default for Timeouts {
    fn default() -> Timeouts {
        Timeouts { headers: Duration::from_secs(32), idle: Duration::from_secs(90) }
    }
}

/// The client of a connection.
pub struct Peer {
    pub address: SocketAddr,
    /// The client's certificate chain, its own first; empty if it showed none.
    pub certificates: Arc<[CertificateDer<'static>]>,
    timeouts: Timeouts,
    /// Who a client in the same process acts as; nothing it sends can say otherwise. None for connections.
    pub user: Option<User>,
    since: Instant,
    open: AtomicUsize,
    /// When the last request ended, in milliseconds after `since`; 0 before the first one.
    idle_since_ms: AtomicU64,
    /// When the first byte of the next request arrived, as above; 0 if it did not yet.
    headers_since_ms: AtomicU64,
    close: Notify,
    go_away: Notify,
}

impl Peer {
    pub fn new(address: SocketAddr, certificates: Arc<[CertificateDer<'static>]>, timeouts: Timeouts) -> Arc<Peer> {
        Peer::of(address, certificates, timeouts, None)
    }

    /// A client in the same process, which acts as this user.
    pub fn in_process(user: User) -> Arc<Peer> {
        Peer::of(SocketAddr::from(([127, 0, 0, 1], 0)), Arc::new([]), Timeouts::default(), Some(user))
    }

    fn of(
        address: SocketAddr,
        certificates: Arc<[CertificateDer<'static>]>,
        timeouts: Timeouts,
        user: Option<User>,
    ) -> Arc<Peer> {
        Arc::new(Peer {
            address,
            certificates,
            timeouts,
            user,
            since: Instant::now(),
            open: AtomicUsize::new(0),
            idle_since_ms: AtomicU64::new(0),
            headers_since_ms: AtomicU64::new(0),
            close: Notify::new(),
            go_away: Notify::new(),
        })
    }

    /// Counts a request until its response has been sent.
    pub fn begin(self: &Arc<Peer>) -> OpenRequest {
        self.open.fetch_add(1, Ordering::AcqRel);
        self.headers_since_ms.store(0, Ordering::Release);
        OpenRequest(self.clone())
    }

    /// Notes that bytes arrived over HTTP/1.1, and tells whether they are of a request's head, as they are unless one is open.
    pub fn arrived(&self) -> bool {
        if self.open.load(Ordering::Acquire) > 0 {
            return false;
        }
        if self.headers_since_ms.load(Ordering::Acquire) == 0 {
            self.headers_since_ms.store(self.elapsed_ms(), Ordering::Release);
        }
        true
    }

    /// Never 0, which stands for none.
    fn elapsed_ms(&self) -> u64 {
        u64::try_from(self.since.elapsed().as_millis()).unwrap_or(u64::MAX).max(1)
    }

    /// Asks for the connection to be closed at once, with everything on it.
    pub fn close(&self) {
        self.close.notify_one();
    }

    /// Returns when [`Peer::close`] was called.
    pub async fn closed(&self) {
        self.close.notified().await;
    }

    /// Asks for the connection to be closed when its open requests have been answered: a GOAWAY over HTTP/2.
    pub fn go_away(&self) {
        self.go_away.notify_one();
    }

    /// Returns when [`Peer::go_away`] was called.
    pub async fn sent_away(&self) {
        self.go_away.notified().await;
    }

    /// When the connection has been without a request for too long; None while one is open.
    fn deadline(&self) -> Option<Instant> {
        if self.open.load(Ordering::Acquire) > 0 {
            return None;
        }
        let after = |ms: u64, timeout: Duration| self.since + Duration::from_millis(ms) + timeout;
        Some(match (self.idle_since_ms.load(Ordering::Acquire), self.headers_since_ms.load(Ordering::Acquire)) {
            (0, _) => after(0, self.timeouts.headers),
            (idle, 0) => after(idle, self.timeouts.idle),
            (_, headers) => after(headers, self.timeouts.headers),
        })
    }

    /// Returns when no request has been open for too long. Looks again whenever it is polled, so it belongs into the task that reads
    /// the connection.
    pub async fn idle(&self) {
        let mut sleep = pin!(tokio::time::sleep_until(self.since + self.timeouts.headers));
        poll_fn(|cx| {
            loop {
                let deadline = self.deadline();
                if let Some(sooner) = deadline.filter(|at| *at < sleep.deadline()) {
                    sleep.as_mut().reset(sooner);
                }
                ready!(sleep.as_mut().poll(cx));
                let now = Instant::now();
                match deadline {
                    Some(at) if at <= now => return Poll::Ready(()),
                    Some(at) => sleep.as_mut().reset(at),
                    None => sleep.as_mut().reset(now + self.timeouts.idle),
                }
            }
        })
        .await;
    }
}

/// A request that is being served.
pub struct OpenRequest(Arc<Peer>);

impl OpenRequest {
    pub fn peer(&self) -> &Arc<Peer> {
        &self.0
    }
}

impl Drop for OpenRequest {
    fn drop(&mut self) {
        self.0.idle_since_ms.store(self.0.elapsed_ms(), Ordering::Release);
        self.0.open.fetch_sub(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADERS: Duration = Duration::from_secs(32);
    const IDLE: Duration = Duration::from_secs(90);

    fn peer() -> Arc<Peer> {
        Peer::new(SocketAddr::from(([127, 0, 0, 1], 1)), Arc::new([]), Timeouts::default())
    }

    #[tokio::test(start_paused = true)]
    async fn silent_connections_end() {
        for sends in [false, true] {
            let peer = peer();
            let began = Instant::now();
            if sends {
                tokio::time::sleep(Duration::from_secs(10)).await;
                peer.arrived();
            }
            peer.idle().await;
            assert_eq!(began.elapsed(), HEADERS, "{sends}");
        }
    }

    /// How long a connection lives after its first request, with bytes of a next one at this time.
    async fn lives(next: Option<Duration>) -> Duration {
        let peer = peer();
        peer.arrived();
        let first = peer.begin();
        let mut idle = Box::pin({
            let peer = peer.clone();
            async move { peer.idle().await }
        });
        // As long as it takes.
        assert!(tokio::time::timeout(Duration::from_secs(1000), &mut idle).await.is_err());
        peer.arrived();
        drop(first);
        let ended = Instant::now();
        if let Some(next) = next {
            assert!(tokio::time::timeout(next, &mut idle).await.is_err());
            peer.arrived();
            assert!(tokio::time::timeout(Duration::from_secs(1), &mut idle).await.is_err());
            // A byte more does not begin it again.
            peer.arrived();
        }
        idle.await;
        ended.elapsed()
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_is_idle_from_its_last_request_to_the_next_byte() {
        assert_eq!(lives(None).await, IDLE);
        for next in [0, 1, 50, 89].map(Duration::from_secs) {
            assert_eq!(lives(Some(next)).await, next + HEADERS);
        }
    }
}
