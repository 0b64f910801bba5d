//! The webhook backend: events are posted as an EventList.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use outbound::Client;
use tokio::time::Instant;

use super::{Batch, BatchOptions, Done, Mode, Output, Truncation, encode};
use crate::event::Event;
use crate::numbers::Numbers;

/// A call that fails is made again this many times, after a pause that grows by half each time.
const ATTEMPTS: u32 = 5;
const BACKOFF_FACTOR: f64 = 1.5;
const BACKOFF_JITTER: f64 = 0.2;
/// How long one call may take.
const CALL_TIMEOUT: Duration = Duration::from_secs(30);
const RESPONSE_BYTES_MAX: usize = 1 << 20;
/// Batches are sent side by side so that a slow answer does not hold up the next; this many at most.
const CALLS_MAX: usize = 16;

/// The `--audit-webhook-*` flags, and where the server is.
pub struct WebhookOptions {
    pub client: Client,
    pub url: String,
    pub mode: Mode,
    pub initial_backoff: Duration,
    pub batch: BatchOptions,
    pub truncation: Option<Truncation>,
}

/// Posts events, a few lists at a time.
pub struct Caller {
    client: Client,
    url: String,
    initial_backoff: Duration,
    truncation: Option<Truncation>,
    calls: Arc<tokio::sync::Semaphore>,
    numbers: Arc<Numbers>,
}

impl Caller {
    pub fn new(options: WebhookOptions, numbers: Arc<Numbers>) -> Arc<Caller> {
        let WebhookOptions { client, url, initial_backoff, truncation, .. } = options;
        let calls = Arc::new(tokio::sync::Semaphore::new(CALLS_MAX));
        Arc::new(Caller { client, url, initial_backoff, truncation, calls, numbers })
    }

    /// Posts the events, in several lists if they are too large for one. False if one of them could not be delivered.
    async fn deliver(&self, events: &[Arc<Event>]) -> bool {
        let mut delivered = true;
        let mut list = List::default();
        for event in events {
            let Some(json) = encode(event, self.truncation) else {
                self.numbers.error("truncate", 1, &"event is too large even after truncating");
                delivered = false;
                continue;
            };
            if self.truncation.is_some_and(|limit| list.count > 0 && list.bytes() + json.len() > limit.max_batch_bytes)
            {
                delivered &= self.post(std::mem::take(&mut list)).await;
            }
            list.push(&json);
        }
        if list.count > 0 {
            delivered &= self.post(list).await;
        }
        delivered
    }

    async fn post(&self, list: List) -> bool {
        let count = list.count;
        let body = Bytes::from(list.finish());
        let mut pause = self.initial_backoff;
        let mut attempt = 1;
        loop {
            let request = outbound::Request {
                url: &self.url,
                address: None,
                body: body.clone(),
                deadline: Instant::now() + CALL_TIMEOUT,
                response_bytes_max: RESPONSE_BYTES_MAX,
            };
            match self.client.post(&request).await {
                Ok(_) => return true,
                Err(error) if attempt == ATTEMPTS => {
                    self.numbers.error("webhook", count, &error);
                    return false;
                }
                Err(error) => tracing::debug!(%error, "audit events are sent again"),
            }
            let jitter = 1.0 + rand::random::<f64>() * BACKOFF_JITTER;
            tokio::time::sleep(pause.mul_f64(jitter)).await;
            pause = pause.mul_f64(BACKOFF_FACTOR);
            attempt += 1;
        }
    }
}

/// An EventList that is being written.
#[derive(Default)]
struct List {
    items: Vec<u8>,
    count: usize,
}

impl List {
    fn bytes(&self) -> usize {
        self.items.len()
    }

    fn push(&mut self, json: &[u8]) {
        if self.count > 0 {
            self.items.push(b',');
        }
        self.items.extend_from_slice(json);
        self.count += 1;
    }

    fn finish(self) -> Vec<u8> {
        let head = b"{\"kind\":\"EventList\",\"apiVersion\":\"audit.k8s.io/v1\",\"metadata\":{},\"items\":[";
        [head.as_slice(), &self.items, b"]}\n"].concat()
    }
}

impl Output for Caller {
    fn name(&self) -> &'static str {
        "webhook"
    }

    fn store<'a>(&'a self, events: &'a [Arc<Event>]) -> Done<'a, bool> {
        Box::pin(self.deliver(events))
    }

    fn begin(self: Arc<Self>, batch: Batch) -> Done<'static, ()> {
        Box::pin(async move {
            let Ok(call) = self.calls.clone().acquire_owned().await else { return };
            tokio::spawn(async move {
                self.deliver(&batch.events).await;
                drop((batch, call));
            });
        })
    }

    fn send(self: Arc<Self>, event: Arc<Event>) {
        // As many calls as may be under way; what comes on top is lost and counted, so that memory is bounded.
        match self.calls.clone().try_acquire_owned() {
            Ok(call) => drop(tokio::spawn(async move {
                self.deliver(&[event]).await;
                drop(call);
            })),
            Err(_) => self.numbers.error("webhook", 1, &"too many calls are under way"),
        }
    }

    fn finish(&self) -> Done<'_, ()> {
        Box::pin(async move {
            // All permits are free when all calls have ended.
            let _ = self.calls.acquire_many(CALLS_MAX as u32).await;
        })
    }

    fn numbers(&self) -> &Arc<Numbers> {
        &self.numbers
    }
}
