//! [`Batches`]: collects events and hands them on in groups.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until, timeout_at};

use super::{BUFFER_BYTES_MAX, BatchOptions, Output};
use crate::event::Event;

/// Events that are stored together. They count as held until this is dropped.
pub struct Batch {
    pub events: Vec<Arc<Event>>,
    bytes: Arc<AtomicUsize>,
}

impl Drop for Batch {
    fn drop(&mut self) {
        let held = self.events.iter().map(|event| size(event)).sum();
        self.bytes.fetch_sub(held, Ordering::AcqRel);
    }
}

/// Events on their way to a backend.
pub struct Batches {
    output: Arc<dyn Output>,
    events: Mutex<Option<mpsc::Sender<Arc<Event>>>>,
    /// How much memory the events take that are not stored yet: those that wait, and those in batches.
    bytes: Arc<AtomicUsize>,
    worker: Mutex<Option<JoinHandle<()>>>,
}

impl Batches {
    pub fn start(output: Arc<dyn Output>, options: BatchOptions) -> Batches {
        let (events, received) = mpsc::channel(options.buffer.max(1));
        let bytes = Arc::new(AtomicUsize::new(0));
        let worker = tokio::spawn(work(received, options, bytes.clone(), output.clone()));
        let (events, worker) = (Mutex::new(Some(events)), Mutex::new(Some(worker)));
        Batches { output, events, bytes, worker }
    }

    /// Takes an event, or drops and counts it if too many wait already.
    pub fn push(&self, event: Arc<Event>) {
        let size = size(&event);
        let waiting = self.bytes.fetch_add(size, Ordering::AcqRel);
        let sent = match &*self.events.lock() {
            _ if waiting > BUFFER_BYTES_MAX => Err("audit buffer queue blocked"),
            Some(events) => events.try_send(event).map_err(|_| "audit buffer queue blocked"),
            None => Err("audit backend shut down"),
        };
        if let Err(why) = sent {
            self.bytes.fetch_sub(size, Ordering::AcqRel);
            self.output.numbers().error("buffered", 1, &format_args!("{why} ({})", self.output.name()));
        }
    }

    /// Hands on what is left and waits for it.
    pub async fn stop(&self) {
        self.events.lock().take();
        let worker = self.worker.lock().take();
        if let Some(worker) = worker {
            let _ = worker.await;
        }
    }
}

/// About how much memory an event takes.
fn size(event: &Event) -> usize {
    let length = |object: &Option<bytes::Bytes>| object.as_ref().map_or(0, bytes::Bytes::len);
    let annotations: usize = event.annotations.iter().map(|(key, value)| key.len() + value.len()).sum();
    1024 + event.request_uri.len() + annotations + length(&event.request_object) + length(&event.response_object)
}

async fn work(
    mut received: mpsc::Receiver<Arc<Event>>,
    options: BatchOptions,
    bytes: Arc<AtomicUsize>,
    output: Arc<dyn Output>,
) {
    let mut throttle = options.throttle.map(|(rate, burst)| Throttle::new(rate, burst));
    let mut is_open = true;
    while is_open {
        let mut batch = Batch { events: Vec::new(), bytes: bytes.clone() };
        let deadline = Instant::now() + options.max_wait;
        while batch.events.len() < options.max_size.max(1) {
            // Without batching each event goes at once.
            let next = match options.max_size {
                0 | 1 => Ok(received.recv().await),
                _ => timeout_at(deadline, received.recv()).await,
            };
            match next {
                Ok(Some(event)) => batch.events.push(event),
                Ok(None) => {
                    is_open = false;
                    break;
                }
                Err(_) => break,
            }
        }
        if batch.events.is_empty() {
            continue;
        }
        if let Some(throttle) = &mut throttle {
            throttle.wait().await;
        }
        output.clone().begin(batch).await;
    }
}

/// A token bucket.
struct Throttle {
    interval: Duration,
    burst: u32,
    tokens: u32,
    refilled: Instant,
}

impl Throttle {
    fn new(rate: f64, burst: u32) -> Throttle {
        let interval = Duration::try_from_secs_f64(1.0 / rate).unwrap_or(Duration::from_secs(1));
        Throttle { interval: interval.max(Duration::from_nanos(1)), burst, tokens: burst, refilled: Instant::now() }
    }

    async fn wait(&mut self) {
        let gained = self.refilled.elapsed().as_nanos() / self.interval.as_nanos();
        let gained = u32::try_from(gained).unwrap_or(u32::MAX);
        if gained > 0 {
            self.tokens = self.tokens.saturating_add(gained).min(self.burst);
            self.refilled += self.interval.saturating_mul(gained);
        }
        if self.tokens == 0 {
            let next = self.refilled + self.interval;
            sleep_until(next).await;
            self.refilled = next;
            return;
        }
        self.tokens -= 1;
    }
}
