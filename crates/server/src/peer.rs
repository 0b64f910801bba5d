//! [`Peer`]: the client of a connection, its certificates, its open requests, and how long it has been idle.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use rustls_pki_types::CertificateDer;
use tokio::sync::Notify;
use tokio::time::Instant;

/// How long a client may take from the TLS handshake to the end of its first request's headers.
const FIRST_REQUEST_TIMEOUT: Duration = Duration::from_secs(32);
/// How long a connection may stay open without any request.
const IDLE_TIMEOUT: Duration = Duration::from_secs(90);

/// The client of a connection.
pub struct Peer {
    pub address: SocketAddr,
    /// The client's certificate chain, its own first; empty if it showed none.
    pub certificates: Arc<[CertificateDer<'static>]>,
    since: Instant,
    open: AtomicUsize,
    /// When the last request ended, in milliseconds after `since`; 0 before the first one.
    idle_since_ms: AtomicU64,
    close: Notify,
    go_away: Notify,
}

impl Peer {
    pub fn new(address: SocketAddr, certificates: Arc<[CertificateDer<'static>]>) -> Arc<Peer> {
        Arc::new(Peer {
            address,
            certificates,
            since: Instant::now(),
            open: AtomicUsize::new(0),
            idle_since_ms: AtomicU64::new(0),
            close: Notify::new(),
            go_away: Notify::new(),
        })
    }

    /// Counts a request until its response has been sent.
    pub fn begin(self: &Arc<Peer>) -> OpenRequest {
        self.open.fetch_add(1, Ordering::AcqRel);
        OpenRequest(self.clone())
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

    /// Returns when no request has been open for too long.
    pub async fn idle(&self) {
        let mut look = self.since + FIRST_REQUEST_TIMEOUT;
        loop {
            tokio::time::sleep_until(look).await;
            let now = Instant::now();
            let ends = match self.idle_since_ms.load(Ordering::Acquire) {
                0 => self.since + FIRST_REQUEST_TIMEOUT,
                ms => self.since + Duration::from_millis(ms) + IDLE_TIMEOUT,
            };
            match self.open.load(Ordering::Acquire) {
                0 if ends <= now => return,
                0 => look = ends,
                _ => look = now + IDLE_TIMEOUT,
            }
        }
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
        let ms = u64::try_from(self.0.since.elapsed().as_millis()).unwrap_or(u64::MAX).max(1);
        self.0.idle_since_ms.store(ms, Ordering::Release);
        self.0.open.fetch_sub(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn silent_connections_end() {
        let peer = Peer::new(SocketAddr::from(([127, 0, 0, 1], 1)), Arc::new([]));
        let began = Instant::now();
        peer.idle().await;
        assert_eq!(began.elapsed(), FIRST_REQUEST_TIMEOUT);
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_is_idle_from_its_last_request_on() {
        let peer = Peer::new(SocketAddr::from(([127, 0, 0, 1], 1)), Arc::new([]));
        let began = Instant::now();
        let watch = peer.begin();
        let idle = tokio::spawn({
            let peer = peer.clone();
            async move { peer.idle().await }
        });
        tokio::time::sleep(Duration::from_secs(1000)).await;
        assert!(!idle.is_finished());
        drop(watch);
        idle.await.unwrap();
        let after = began.elapsed() - Duration::from_secs(1000);
        assert!(after >= IDLE_TIMEOUT && after <= 2 * IDLE_TIMEOUT, "{after:?}");
    }
}
