//! [`Sink`]: where finished spans wait for the exporter.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::mpsc;

use crate::Span;

/// Where spans are handed over. Those that come while too many wait are dropped and counted.
#[derive(Clone)]
pub struct Sink {
    spans: mpsc::Sender<Span>,
    dropped: Arc<AtomicU64>,
}

/// The other end of a [`Sink`].
pub struct Finished {
    spans: mpsc::Receiver<Span>,
    dropped: Arc<AtomicU64>,
}

impl Sink {
    /// A sink in which at most so many spans wait.
    pub fn new(spans_max: usize) -> (Sink, Finished) {
        let (sender, receiver) = mpsc::channel(spans_max);
        let dropped: Arc<AtomicU64> = Arc::default();
        (Sink { spans: sender, dropped: dropped.clone() }, Finished { spans: receiver, dropped })
    }

    /// Never waits.
    pub fn send(&self, span: Span) {
        if self.spans.try_send(span).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Finished {
    /// The next span; None when no sink is left.
    pub async fn next(&mut self) -> Option<Span> {
        self.spans.recv().await
    }

    /// How many spans were dropped since this was last asked.
    pub fn take_dropped(&self) -> u64 {
        self.dropped.swap(0, Ordering::Relaxed)
    }
}
