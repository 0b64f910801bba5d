//! Where events go: a file or a webhook, at once or in batches.

mod batch;
mod log;
mod rotate;
mod webhook;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

pub use log::{LogBackend, LogFormat, LogOptions};
pub use webhook::WebhookBackend;

use crate::event::Event;
use crate::numbers::Numbers;
use crate::policy::Level;

/// The most bytes of events that one backend holds in memory. What comes on top is lost and counted.
pub const BUFFER_BYTES_MAX: usize = 64 << 20;

/// Stores events.
pub trait Backend: Send + Sync {
    /// Whether a request fails when its first event cannot be stored.
    fn is_strict(&self) -> bool;

    /// Takes an event. In blocking modes the future ends when it is stored or has failed, in batch mode at once.
    fn store(&self, event: Arc<Event>) -> Pin<Box<dyn Future<Output = bool> + Send + '_>>;

    /// Takes an event without waiting for it to be stored.
    fn send(&self, event: Arc<Event>);

    /// Stores everything taken so far and stops.
    fn shut_down(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>>;

    fn numbers(&self) -> Arc<Numbers>;
}

/// When a request waits for its events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    Batch,
    Blocking,
    BlockingStrict,
}

impl Mode {
    pub const NAMES: [(&'static str, Mode); 3] =
        [("batch", Mode::Batch), ("blocking", Mode::Blocking), ("blocking-strict", Mode::BlockingStrict)];

    pub fn parse(name: &str) -> Option<Mode> {
        Mode::NAMES.iter().find(|(known, _)| *known == name).map(|(_, mode)| *mode)
    }
}

/// The `--audit-*-batch-*` flags.
#[derive(Clone, Copy, Debug)]
pub struct BatchOptions {
    /// The most events that wait to be sent.
    pub buffer: usize,
    pub max_size: usize,
    pub max_wait: Duration,
    /// Batches per second and how many may be sent at once after a pause; None for no limit.
    pub throttle: Option<(f64, u32)>,
}

/// The `--audit-*-truncate-*` flags.
#[derive(Clone, Copy, Debug)]
pub struct Truncation {
    pub max_event_bytes: usize,
    pub max_batch_bytes: usize,
}

/// An event as JSON, truncated if it is too large; None if it is too large even then.
fn encode(event: &Event, truncation: Option<Truncation>) -> Option<Vec<u8>> {
    let mut json = Vec::with_capacity(1024);
    event.write_json(&mut json);
    let Some(limit) = truncation.map(|truncation| truncation.max_event_bytes) else { return Some(json) };
    // The size that upstream compares includes the newline.
    if json.len() < limit {
        return Some(json);
    }
    if event.level < Level::Request {
        return None;
    }
    let mut event = event.clone();
    event.truncate();
    json.clear();
    event.write_json(&mut json);
    (json.len() < limit).then_some(json)
}

#[cfg(test)]
mod tests;
