//! Concurrent compare-and-swap writes of 1.5 KB.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use storage::{Key, Revision, Store};
use storage_embedded::{EmbeddedOptions, EmbeddedStore};

use crate::{Settings, directory, etcd, quantile};

const VALUE_BYTES: usize = 1536;
const KEYS_PER_WRITER: usize = 50;
const WRITERS: [usize; 4] = [1, 8, 64, 512];

/// The two sides, reduced to what is measured.
#[async_trait::async_trait]
pub trait Target: Send + Sync + 'static {
    /// Writes the key, which must be at the given revision (0: absent), and returns the new one.
    async fn swap(&self, key: Key, expected: Revision, value: Bytes) -> Revision;
}

struct Embedded(EmbeddedStore);

#[async_trait::async_trait]
impl Target for Embedded {
    async fn swap(&self, key: Key, expected: Revision, value: Bytes) -> Revision {
        let written = match expected {
            0 => self.0.create(key, value, None).await,
            _ => self.0.update(key, value, expected, None).await,
        };
        written.unwrap().revision
    }
}

pub async fn run(settings: &Settings) {
    println!("writes: compare-and-swap of {VALUE_BYTES} bytes, {} s each", settings.duration.as_secs());
    println!(
        "{:>8} | {:>10} {:>10} {:>10} | {:>10} {:>10} {:>10} |",
        "writers", "ours/s", "p50", "p99", "etcd/s", "p50", "p99"
    );
    for writers in WRITERS {
        let ours = embedded(settings, writers).await;
        let theirs = match &settings.etcd {
            Some(binary) => Some(against_etcd(settings, binary, writers).await),
            None => None,
        };
        print!("{writers:>8} | {ours} |");
        match theirs {
            Some(theirs) => println!(" {theirs} | {:.1}x", ours.rate / theirs.rate),
            None => println!(),
        }
    }
}

async fn embedded(settings: &Settings, writers: usize) -> Figures {
    let directory = directory(settings);
    let store = EmbeddedStore::open(EmbeddedOptions::at(directory.path().join("store"))).unwrap();
    measure(Arc::new(Embedded(store)), writers, settings.duration).await
}

async fn against_etcd(settings: &Settings, binary: &std::path::Path, writers: usize) -> Figures {
    let directory = directory(settings);
    let server = etcd::Server::start(binary, directory.path()).await;
    let client = Arc::new(server.client().await);
    measure(client, writers, settings.duration).await
}

pub struct Figures {
    rate: f64,
    p50: Duration,
    p99: Duration,
}

impl std::fmt::Display for Figures {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (p50, p99) = (format!("{:.2?}", self.p50), format!("{:.2?}", self.p99));
        write!(f, "{:>10.0} {p50:>10} {p99:>10}", self.rate)
    }
}

async fn measure(target: Arc<dyn Target>, writers: usize, duration: Duration) -> Figures {
    let value = Bytes::from(vec![b'x'; VALUE_BYTES]);
    // Every writer swaps its own keys, so none of them fails.
    let tasks: Vec<_> = (0..writers)
        .map(|writer| {
            let (target, value) = (target.clone(), value.clone());
            tokio::spawn(async move {
                let mut keys: Vec<(Key, Revision)> = (0..KEYS_PER_WRITER)
                    .map(|n| (format!("/registry/pods/namespace-{writer}/workload-7d9f8c6b5-{n:05}").into(), 0))
                    .collect();
                let mut latencies = Vec::new();
                let warm_until = Instant::now() + Duration::from_millis(500);
                let end = warm_until + duration;
                for n in 0.. {
                    let (key, revision) = &mut keys[n % KEYS_PER_WRITER];
                    let began = Instant::now();
                    if began >= end {
                        break;
                    }
                    // A copy, as a request's body would be.
                    *revision = target.swap(key.clone(), *revision, Bytes::copy_from_slice(&value)).await;
                    if began >= warm_until {
                        latencies.push(began.elapsed());
                    }
                }
                latencies
            })
        })
        .collect();
    let mut latencies = Vec::new();
    for task in tasks {
        latencies.extend(task.await.unwrap());
    }
    latencies.sort_unstable();
    Figures {
        rate: latencies.len() as f64 / duration.as_secs_f64(),
        p50: quantile(&latencies, 0.50),
        p99: quantile(&latencies, 0.99),
    }
}
