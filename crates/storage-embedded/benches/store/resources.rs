//! What a commit costs with few and with many resources, each of which has a cache that follows the store.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use cache::{Budget, Cache, CacheOptions, Describe, Header};
use storage::{Entry, KeyRange, Store};
use storage_embedded::{EmbeddedOptions, EmbeddedStore};

use crate::{Settings, directory, quantile};

const RESOURCES: [usize; 3] = [5, 500, 5_000];
const VALUE_BYTES: usize = 1536;
/// How many writes are under way at once; the store commits them in groups.
const WRITERS: usize = 64;

pub async fn run(settings: &Settings) {
    println!(
        "resources: {WRITERS} writers of {VALUE_BYTES} bytes to one resource, {} s each",
        settings.duration.as_secs()
    );
    for resources in RESOURCES {
        let directory = directory(settings);
        let store = Arc::new(EmbeddedStore::open(EmbeddedOptions::at(directory.path().join("store"))).unwrap());
        let mut caches = Vec::with_capacity(resources);
        for number in 0..resources {
            let range = KeyRange::prefix(format!("/registry/group-{number}.example.com/things/"));
            let options = CacheOptions { ring_events: 64, ..CacheOptions::default() };
            let started = Cache::start(store.clone(), range, Arc::new(Unread), Budget::new(0), options);
            caches.push(started.await.unwrap());
        }
        let before = cpu();
        let (rate, p50, p99) = measure(&store, settings.duration).await;
        let written = caches[0].len().max(1);
        let cost = (cpu() - before) / u32::try_from(written).unwrap_or(u32::MAX);
        let seen: usize = caches.iter().map(|cache| cache.len()).sum();
        assert_eq!(seen, caches[0].len(), "only one resource was written to");
        println!("{resources:>10} caches: {cost:.1?} of CPU a write, {rate:.0} writes/s, p50 {p50:.2?}, p99 {p99:.2?}");
    }
}

async fn measure(store: &Arc<EmbeddedStore>, duration: Duration) -> (f64, Duration, Duration) {
    let began = Instant::now();
    let writers: Vec<_> = (0..WRITERS)
        .map(|writer| {
            let store = store.clone();
            tokio::spawn(async move {
                let mut delays = Vec::new();
                while began.elapsed() < duration {
                    let key = format!("/registry/group-0.example.com/things/{writer}-{}", delays.len());
                    let sent = Instant::now();
                    store.create(key.into(), Bytes::from(vec![b'x'; VALUE_BYTES]), None).await.unwrap();
                    delays.push(sent.elapsed());
                }
                delays
            })
        })
        .collect();
    let mut delays = Vec::new();
    for writer in writers {
        delays.extend(writer.await.unwrap());
    }
    let rate = delays.len() as f64 / began.elapsed().as_secs_f64();
    delays.sort_unstable();
    (rate, quantile(&delays, 0.5), quantile(&delays, 0.99))
}

/// User and system time of this process so far, writers included.
fn cpu() -> Duration {
    const TICKS_PER_SECOND: u64 = 100;
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<&str> = stat.rsplit_once(") ").unwrap().1.split(' ').collect();
    let ticks: u64 = fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap();
    Duration::from_millis(ticks * 1000 / TICKS_PER_SECOND)
}

/// Nothing is selected, so nothing is decoded.
struct Unread;

impl Describe for Unread {
    fn describe(&self, _: &Entry) -> Header {
        Header::default()
    }
}
