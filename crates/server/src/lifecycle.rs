//! How a server shuts down: readiness fails, the listener closes, requests finish, watches end.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use async_trait::async_trait;
use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use crate::Check;

/// The phases of a server, which only move forward.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Phase {
    Serving,
    /// `/readyz` fails so that load balancers use other servers; every request is still served.
    Draining,
    /// No new connections, or none that get an answer; watches end one after the other until `watches_end`.
    Leaving {
        watches_end: Instant,
    },
    /// Open connections are closed.
    Over,
}

impl Phase {
    pub fn is_leaving(&self) -> bool {
        matches!(self, Phase::Leaving { .. } | Phase::Over)
    }
}

/// How long each step may take.
#[derive(Clone, Debug)]
pub struct ShutdownTimeouts {
    /// `--shutdown-delay-duration`: between readiness failing and the listener closing.
    pub delay: Duration,
    /// How long requests that are under way may take: `--request-timeout`.
    pub requests: Duration,
    /// `--shutdown-watch-termination-grace-period`: watches end at random times within it, so that their clients do not
    /// all come to the next server at once.
    pub watches: Duration,
}

/// The server's phase, and the requests that shutdown waits for.
#[derive(Clone)]
pub struct Lifecycle {
    phase: Arc<watch::Sender<Phase>>,
    requests: Arc<RequestGroup>,
    watches: Arc<RequestGroup>,
}

impl Default for Lifecycle {
    fn default() -> Lifecycle {
        let phase = Arc::new(watch::Sender::new(Phase::Serving));
        Lifecycle { phase, requests: Arc::default(), watches: Arc::default() }
    }
}

impl Lifecycle {
    pub fn phase(&self) -> Phase {
        *self.phase.borrow()
    }

    pub fn follow(&self) -> watch::Receiver<Phase> {
        self.phase.subscribe()
    }

    /// Counts a request until the ticket is dropped.
    pub fn enter(&self, long_running: bool) -> Ticket {
        let group = if long_running { &self.watches } else { &self.requests };
        group.count.fetch_add(1, Ordering::AcqRel);
        Ticket(group.clone())
    }

    /// Stops step by step. The listener follows the phase. `pre_shutdown` is done while requests are still served, besides
    /// waiting for load balancers to notice that the server is not ready.
    pub async fn stop(&self, timeouts: &ShutdownTimeouts, pre_shutdown: impl Future<Output = ()>) {
        self.phase.send_replace(Phase::Draining);
        tokio::join!(tokio::time::sleep(timeouts.delay), pre_shutdown);
        let watches_end = Instant::now() + timeouts.watches;
        self.phase.send_replace(Phase::Leaving { watches_end });
        let requests = tokio::time::timeout(timeouts.requests, self.requests.empty());
        let watches = tokio::time::timeout(timeouts.watches + WATCHES_LATE, self.watches.empty());
        let (requests, watches) = tokio::join!(requests, watches);
        if requests.is_err() {
            tracing::warn!(left = self.requests.len(), "some requests did not finish in time and are cut off");
        }
        if watches.is_err() {
            tracing::warn!(left = self.watches.len(), "some watches did not end in time and are cut off");
        }
        self.phase.send_replace(Phase::Over);
    }

    /// Ends everything at once, for a server that is dropped.
    pub fn end(&self) {
        self.phase.send_replace(Phase::Over);
    }

    /// When a watch has to end: at a random time during shutdown.
    pub fn watch_end(&self) -> WatchEnd {
        let phase = self.follow();
        let is_leaving = phase.borrow().is_leaving();
        let mut followed = phase.clone();
        let end = async move {
            let leaving = followed.wait_for(Phase::is_leaving).await.map(|phase| *phase);
            if let Ok(Phase::Leaving { watches_end }) = leaving {
                let left = watches_end.saturating_duration_since(Instant::now());
                tokio::time::sleep(left.mul_f64(rand::random::<f64>())).await;
            }
        };
        WatchEnd { phase, is_leaving, end: end.boxed(), asked: None }
    }
}

/// The moment a watch has to end. Every event that is sent asks for it, so asking in vain is cheap.
pub struct WatchEnd {
    phase: watch::Receiver<Phase>,
    is_leaving: bool,
    end: BoxFuture<'static, ()>,
    /// The waker of the task that waits.
    asked: Option<Waker>,
}

impl Future for WatchEnd {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let is_waiting = self.asked.as_ref().is_some_and(|asked| asked.will_wake(cx.waker()));
        if is_waiting && !self.is_leaving && matches!(self.phase.has_changed(), Ok(false)) {
            return Poll::Pending;
        }
        self.asked = Some(cx.waker().clone());
        self.end.poll_unpin(cx)
    }
}

/// How long after the last planned end of a watch shutdown still waits for watches.
const WATCHES_LATE: Duration = Duration::from_secs(5);

/// Counts open requests, and tells when there is none left.
#[derive(Default)]
struct RequestGroup {
    count: AtomicUsize,
    left: Notify,
}

impl RequestGroup {
    fn len(&self) -> usize {
        self.count.load(Ordering::Acquire)
    }

    async fn empty(&self) {
        loop {
            let left = self.left.notified();
            tokio::pin!(left);
            // Registered before the count is read, so that the notification of the last request is not missed.
            left.as_mut().enable();
            if self.len() == 0 {
                return;
            }
            left.await;
        }
    }
}

/// Counts as an open request until it is dropped.
pub struct Ticket(Arc<RequestGroup>);

impl Drop for Ticket {
    fn drop(&mut self) {
        if self.0.count.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.0.left.notify_waiters();
        }
    }
}

/// The `shutdown` check: readiness ends before the listener does.
pub struct ShutdownCheck(pub Lifecycle);

#[async_trait]
impl Check for ShutdownCheck {
    fn name(&self) -> &str {
        "shutdown"
    }

    async fn check(&self) -> Result<(), String> {
        match self.0.phase() {
            Phase::Serving => Ok(()),
            _ => Err("process is shutting down".into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_end_comes_step_by_step() {
        let life = Lifecycle::default();
        let (request, watch) = (life.enter(false), life.enter(true));
        let timeouts = ShutdownTimeouts {
            delay: Duration::from_secs(10),
            requests: Duration::from_secs(60),
            watches: Duration::from_secs(20),
        };
        let began = Instant::now();
        // A watch under way, which is asked for something every second.
        let mut end = life.watch_end();
        let watching = tokio::spawn(async move {
            let mut events = tokio::time::interval(Duration::from_secs(1));
            loop {
                tokio::select! {
                    () = &mut end => return,
                    _ = events.tick() => {}
                }
            }
        });
        let ending = tokio::spawn({
            let life = life.clone();
            async move { life.stop(&timeouts, async {}).await }
        });
        let mut phases = life.follow();
        phases.wait_for(|phase| *phase == Phase::Draining).await.unwrap();
        assert!(ShutdownCheck(life.clone()).check().await.is_err());
        assert_eq!(began.elapsed(), Duration::ZERO);
        phases.wait_for(|phase| matches!(phase, Phase::Leaving { .. })).await.unwrap();
        assert_eq!(began.elapsed(), Duration::from_secs(10));
        life.watch_end().await;
        watching.await.unwrap();
        assert!(began.elapsed() <= Duration::from_secs(30));
        drop(watch);
        drop(request);
        ending.await.unwrap();
        assert_eq!(life.phase(), Phase::Over);
        assert!(began.elapsed() <= Duration::from_secs(30));
    }

    #[tokio::test(start_paused = true)]
    async fn what_does_not_end_is_cut_off() {
        let life = Lifecycle::default();
        let _request = life.enter(false);
        let seconds = Duration::from_secs;
        let began = Instant::now();
        life.stop(&ShutdownTimeouts { delay: seconds(0), requests: seconds(3), watches: seconds(0) }, async {}).await;
        assert_eq!((life.phase(), began.elapsed()), (Phase::Over, seconds(3)));
    }
}
