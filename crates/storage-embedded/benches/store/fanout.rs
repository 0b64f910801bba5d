//! A thousand watchers on one prefix, two thousand writes a second.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::StreamExt;
use storage::{Change, Expect, KeyRange, Store, WatchRequest, Write};
use storage_embedded::{EmbeddedOptions, EmbeddedStore};

use crate::{Settings, directory};

const WATCHERS: usize = 1000;
const WRITES_PER_SECOND: u64 = 2000;
const SECONDS: u64 = 10;
const VALUE_BYTES: usize = 1536;

pub async fn run(settings: &Settings) {
    let directory = directory(settings);
    let store = Arc::new(EmbeddedStore::open(EmbeddedOptions::at(directory.path().join("store"))).unwrap());
    let start = store.progress().await.unwrap();
    let origin = Instant::now();
    let total = (WRITES_PER_SECOND * SECONDS) as usize;
    let watchers: Vec<_> = (0..WATCHERS)
        .map(|_| {
            let store = store.clone();
            tokio::spawn(async move { follow(store, start, origin, total).await })
        })
        .collect();
    let written = produce(&store, origin, total).await;
    // Only these writes happen, so their revisions are consecutive, and so must be what a watcher sees.
    assert_eq!(written, ((start + 1)..=(start + total as i64)).collect::<Vec<_>>());
    let (mut gaps, mut duplicates, mut delays) = (0, 0, Delays::default());
    for watcher in watchers {
        let seen = watcher.await.unwrap();
        gaps += seen.gaps;
        duplicates += seen.duplicates;
        delays.add(&seen.delays);
    }
    println!(
        "fan-out: {WATCHERS} watchers, {WRITES_PER_SECOND} writes/s for {SECONDS} s: {} deliveries, {gaps} gaps, \
         {duplicates} duplicates, delay from sending the write p50 {:.2?} p99 {:.2?} p99.9 {:.2?}",
        delays.count(),
        delays.quantile(0.5),
        delays.quantile(0.99),
        delays.quantile(0.999),
    );
}

#[derive(Default)]
struct Seen {
    gaps: usize,
    duplicates: usize,
    delays: Delays,
}

/// How many deliveries took how many steps of 50 microseconds; the last step has all that took longer.
struct Delays(Vec<u32>);

const STEP: Duration = Duration::from_micros(50);

impl Default for Delays {
    fn default() -> Self {
        Delays(vec![0; 20_000])
    }
}

impl Delays {
    fn note(&mut self, delay: Duration) {
        let step = (delay.as_micros() / STEP.as_micros()) as usize;
        let last = self.0.len() - 1;
        self.0[step.min(last)] += 1;
    }

    fn add(&mut self, other: &Delays) {
        self.0.iter_mut().zip(&other.0).for_each(|(sum, more)| *sum += more);
    }

    fn count(&self) -> u64 {
        self.0.iter().map(|count| u64::from(*count)).sum()
    }

    fn quantile(&self, share: f64) -> Duration {
        let mut rest = (self.count() as f64 * share) as u64;
        let step = self.0.iter().position(|count| {
            let here = rest < u64::from(*count);
            rest = rest.saturating_sub(u64::from(*count));
            here
        });
        STEP * (step.unwrap_or(self.0.len() - 1) as u32 + 1)
    }
}

async fn follow(store: Arc<EmbeddedStore>, start: i64, origin: Instant, total: usize) -> Seen {
    let request =
        WatchRequest { range: KeyRange::prefix("/registry/pods/"), after: Some(start), previous: false, marks: false };
    let mut stream = store.watch(request).await.unwrap();
    let mut seen = Seen::default();
    let mut last = start;
    while last < start + total as i64 {
        let batch = stream.next().await.unwrap().unwrap();
        let now = origin.elapsed();
        for event in batch.events {
            seen.duplicates += usize::from(event.revision <= last);
            seen.gaps += usize::from(event.revision > last + 1);
            last = last.max(event.revision);
            // The value begins with the moment it was sent, so the delay includes the commit itself.
            let sent = u64::from_le_bytes(event.entry.as_ref().unwrap().value[..8].try_into().unwrap());
            seen.delays.note(now.saturating_sub(Duration::from_nanos(sent)));
        }
    }
    seen
}

/// Writes at a steady rate without waiting for each other, and returns the revisions in order.
async fn produce(store: &Arc<EmbeddedStore>, origin: Instant, total: usize) -> Vec<i64> {
    let began = Instant::now();
    let mut ticks = tokio::time::interval(Duration::from_millis(1));
    let mut sent = 0;
    let mut writes = tokio::task::JoinSet::new();
    while sent < total {
        ticks.tick().await;
        let due = (began.elapsed().as_secs_f64() * WRITES_PER_SECOND as f64) as usize;
        while sent < due.min(total) {
            let mut value = vec![b'x'; VALUE_BYTES];
            value[..8].copy_from_slice(&(origin.elapsed().as_nanos() as u64).to_le_bytes());
            let change = Change::Put { value: Bytes::from(value), ttl: None };
            let key = format!("/registry/pods/default/{}", sent % 500).into();
            let store = store.clone();
            writes
                .spawn(async move { store.write(Write { key, change, expect: Expect::Any }).await.unwrap().revision });
            sent += 1;
        }
    }
    let mut revisions = writes.join_all().await;
    revisions.sort_unstable();
    revisions
}
