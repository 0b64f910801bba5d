//! Where events go: a file or a webhook, at once or in batches.

mod batch;
mod calls;
mod log;
mod rotate;
mod sink;
mod webhook;

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

pub use log::{LogFormat, LogOptions};
pub use sink::EventSink;
pub use webhook::WebhookOptions;

use batch::{Batch, Batches};
use calls::Calls;

use crate::event::Event;
use crate::numbers::Numbers;
use crate::policy::Level;

/// The most bytes of events that one backend holds in memory. What comes on top is lost and counted.
pub const BUFFER_BYTES_MAX: usize = 64 << 20;

/// Stores events: at once, or in batches.
pub struct Backend {
    mode: Mode,
    output: Arc<dyn Output>,
    batches: Option<Batches>,
}

/// Stores or sends events: a file or a webhook.
trait Output: Send + Sync + 'static {
    /// Its name in metrics.
    fn name(&self) -> &'static str;

    /// Stores events; false if one of them could not be stored.
    fn store<'a>(&'a self, events: &'a [Arc<Event>]) -> Done<'a, bool>;

    /// Begins to store a batch; ends when the next one can be taken.
    fn begin(self: Arc<Self>, batch: Batch) -> Done<'static, ()>;

    /// Begins to store an event without waiting. It is lost and counted if too much waits already.
    fn send(self: Arc<Self>, event: Arc<Event>);

    /// Ends when everything that was begun is stored or has failed.
    fn finish(&self) -> Done<'_, ()>;

    fn numbers(&self) -> &Arc<Numbers>;
}

type Done<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

impl Backend {
    /// Writes events to a file, which is opened here and readable by its owner only.
    pub fn log(options: LogOptions, numbers: Arc<Numbers>) -> io::Result<Backend> {
        let (mode, batch) = (options.mode, options.batch);
        Ok(Backend::new(log::Writer::start(options, numbers)?, mode, batch))
    }

    /// Posts events to a server.
    pub fn webhook(options: WebhookOptions, numbers: Arc<Numbers>) -> Backend {
        let (mode, batch) = (options.mode, options.batch);
        Backend::new(Calls::new(webhook::Caller::new(options), numbers), mode, batch)
    }

    /// Hands events to a part of the program, in batches.
    pub fn sink(sink: Arc<dyn EventSink>, batch: BatchOptions, numbers: Arc<Numbers>) -> Backend {
        Backend::new(Calls::new(sink, numbers), Mode::Batch, batch)
    }

    fn new(output: Arc<dyn Output>, mode: Mode, batch: BatchOptions) -> Backend {
        let batches = (mode == Mode::Batch).then(|| Batches::start(output.clone(), batch));
        Backend { mode, output, batches }
    }

    /// Whether a request fails when its first event cannot be stored.
    pub fn is_strict(&self) -> bool {
        self.mode == Mode::BlockingStrict
    }

    /// Takes an event. In blocking modes this ends when it is stored or has failed, in batch mode at once.
    pub async fn store(&self, event: Arc<Event>) -> bool {
        match &self.batches {
            Some(batches) => {
                batches.push(event);
                true
            }
            None => self.output.store(&[event]).await,
        }
    }

    /// Takes an event without waiting for it to be stored.
    pub fn send(&self, event: Arc<Event>) {
        match &self.batches {
            Some(batches) => batches.push(event),
            None => self.output.clone().send(event),
        }
    }

    /// Stores everything taken so far and stops.
    pub async fn stop(&self) {
        if let Some(batches) = &self.batches {
            batches.stop().await;
        }
        self.output.finish().await;
    }

    pub fn numbers(&self) -> Arc<Numbers> {
        self.output.numbers().clone()
    }
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
