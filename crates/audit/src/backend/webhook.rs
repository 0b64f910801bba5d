//! The webhook backend: events are posted as an EventList.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use outbound::Client;
use tokio::time::Instant;

use super::calls::Deliver;
use super::{BatchOptions, Mode, Truncation, encode};
use crate::event::Event;
use crate::numbers::Numbers;

/// A call that fails is made again this many times, after a pause that grows by half each time.
const ATTEMPTS: u32 = 5;
const BACKOFF_FACTOR: f64 = 1.5;
const BACKOFF_JITTER: f64 = 0.2;
/// How long one call may take.
const CALL_TIMEOUT: Duration = Duration::from_secs(30);
const RESPONSE_BYTES_MAX: usize = 1 << 20;

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
}

impl Caller {
    pub fn new(options: WebhookOptions) -> Caller {
        let WebhookOptions { client, url, initial_backoff, truncation, .. } = options;
        Caller { client, url, initial_backoff, truncation }
    }

    async fn post(&self, list: List, numbers: &Numbers) -> bool {
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
                    numbers.error(Self::NAME, count, &error);
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

impl Deliver for Caller {
    const NAME: &'static str = "webhook";
    const CALLS_MAX: u32 = 16;

    /// Posts the events, in several lists if they are too large for one. False if one of them could not be delivered.
    async fn deliver(&self, events: &[Arc<Event>], numbers: &Numbers) -> bool {
        let mut delivered = true;
        let mut list = List::default();
        for event in events {
            let Some(json) = encode(event, self.truncation) else {
                numbers.error("truncate", 1, &"event is too large even after truncating");
                delivered = false;
                continue;
            };
            if self.truncation.is_some_and(|limit| list.count > 0 && list.bytes() + json.len() > limit.max_batch_bytes)
            {
                delivered &= self.post(std::mem::take(&mut list), numbers).await;
            }
            list.push(&json);
        }
        if list.count > 0 {
            delivered &= self.post(list, numbers).await;
        }
        delivered
    }
}
