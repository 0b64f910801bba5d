//! A week of a cluster on a simulated clock: what its history takes on disk, what it costs the writes, and how long reads of any moment take.
//!
//! ```text
//! cargo bench -p ferrokube-history --bench week -- --changes 10000000 --objects 100000
//! ```

#![allow(clippy::unwrap_used, clippy::print_stdout, clippy::disallowed_methods)] // A benchmark fails as a test does, and prints.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use history::{Archive, Clock, Options, Origin, RecordedStore, Recorder, attributed};
use storage::memory::MemoryStore;
use storage::{Change, Expect, KeyRange, RangeQuery, Revision, Store, Write};
use storage_embedded::{EmbeddedOptions, EmbeddedStore};

const WEEK_MS: i64 = 7 * 86_400_000;
const PER_NAMESPACE: u64 = 1000;
/// Writers at the same time, where the cost of a write is measured.
const WRITERS: u64 = 32;
const WRITES: u64 = 40_000;
const READS: usize = 200;

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let number = |name: &str, otherwise: u64| {
        let at = arguments.iter().position(|argument| argument == name);
        at.and_then(|at| arguments.get(at + 1)?.parse().ok()).unwrap_or(otherwise)
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    match arguments.iter().find(|argument| argument.starts_with("--writes-")) {
        Some(kind) => runtime.block_on(writes(kind == "--writes-recorded")),
        None => {
            runtime.block_on(week(number("--changes", 300_000), number("--objects", 20_000)));
            for kind in ["--writes-plain", "--writes-recorded", "--writes-plain", "--writes-recorded"] {
                let status = std::process::Command::new(std::env::current_exe().unwrap()).arg(kind).status();
                assert!(status.unwrap().success());
            }
        }
    }
}

/// RandomNumbers that are the same in every run.
struct RandomNumbers(u64);

impl RandomNumbers {
    fn next(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % below
    }
}

fn key(object: u64) -> String {
    format!("/registry/pods/ns{}/web-{object}", object / PER_NAMESPACE)
}

/// About as a pod is: much that is like every other pod, something of its own, a status that changes.
fn value(object: u64, version: u64) -> Bytes {
    let mut text = String::with_capacity(2600);
    let mut own = RandomNumbers(object);
    for field in 0..60 {
        text.push_str("{\"name\":\"CONFIGURATION_OPTION_");
        text.push_str(&field.to_string());
        text.push_str("\",\"value\":\"");
        if field % 6 == 0 {
            text.push_str(&own.next(u64::MAX >> 34).to_string());
        }
        text.push_str("\"},");
    }
    let mut random = RandomNumbers(object ^ (version << 20));
    text.push_str(&format!(
        "\"status\":{{\"phase\":\"Running\",\"observed\":{version},\"lastTransitionTime\":\"2026-11-{:02}T{:02}:{:02}:{:02}Z\",\"podIP\":\"10.{}.{}.{}\"}}",
        random.next(30), random.next(24), random.next(60), random.next(60), random.next(256), random.next(256), random.next(256)
    ));
    text.into()
}

fn put(object: u64, version: u64) -> Write {
    let change = Change::Put { value: value(object, version), ttl: None };
    Write { key: key(object).as_str().into(), change, expect: Expect::Any }
}

fn origin(number: u64) -> Option<Arc<Origin>> {
    Some(Arc::new(Origin {
        user: format!("system:node:n{}", number % 50),
        user_agent: "kubelet/v1.37.0 (linux/amd64) kubernetes/abcdef0".into(),
        verb: "patch".into(),
        subresource: "status".into(),
        audit_id: format!("{:08x}-0000-4000-8000-{number:012x}", number.wrapping_mul(2_654_435_761) as u32),
        ..Origin::default()
    }))
}

fn options(directory: &Path, time: &Arc<AtomicI64>) -> Options {
    let now = time.clone();
    let clock = Clock { now: Arc::new(move || now.load(Ordering::Relaxed)), ..Clock::default() };
    Options { age: Duration::from_millis(WEEK_MS as u64 * 2), bytes: 1 << 40, clock, ..Options::at(directory) }
}

async fn week(changes: u64, objects: u64) {
    let directory = tempfile::tempdir().unwrap();
    let time = Arc::new(AtomicI64::new(0));
    let memory = MemoryStore::with_history(64 << 20);
    let archive = Archive::open(options(directory.path(), &time)).unwrap();
    let (recorder, store) = Recorder::start(Arc::new(memory.clone()), archive);
    recorder.caught_up().await.unwrap();
    let (mut numbers, mut written, began) = (RandomNumbers(1), 0u64, Instant::now());
    let mut versions = vec![0u64; objects as usize];
    for number in 0..changes {
        time.store(WEEK_MS * number as i64 / changes as i64, Ordering::Relaxed);
        let object = numbers.next(objects);
        versions[object as usize] += 1;
        let write = put(object, versions[object as usize]);
        written += write.size() as u64;
        attributed(origin(number), store.write(write)).await.unwrap();
        if number % 5000 == 0 {
            let archive = recorder.caught_up().await.map(|_| recorder.archive().clone()).unwrap();
            while archive.maintain().unwrap() {}
        }
    }
    let last = recorder.caught_up().await.unwrap();
    while recorder.archive().maintain().unwrap() {}
    let status = recorder.archive().status();
    println!("{changes} changes of {objects} objects in 7 days, recorded in {:.0?}", began.elapsed());
    println!(
        "  written {:.1} MiB, history {:.1} MiB in {} files: {:.3} bytes per written byte",
        mib(written),
        mib(status.bytes),
        status.files,
        status.bytes as f64 / written as f64
    );
    memory.compact(last).await.unwrap();
    recorder.close().await;
    drop((recorder, store));
    reads(directory.path(), &time, &memory, objects).await;
}

async fn reads(directory: &Path, time: &Arc<AtomicI64>, memory: &MemoryStore, objects: u64) {
    let mut numbers = RandomNumbers(7);
    let (mut cold, mut warm, mut lists) = (Vec::new(), Vec::new(), Vec::new());
    let (mut recorder, mut store) = open(directory, time, memory).await;
    for number in 0..READS {
        // A new archive has nothing in memory; what the system keeps of the files it keeps.
        if number % 4 == 0 {
            recorder.close().await;
            drop((recorder, store));
            (recorder, store) = open(directory, time, memory).await;
        }
        let at = numbers.next(WEEK_MS as u64) as i64;
        let key = key(numbers.next(objects));
        cold.push(get(&recorder, &store, &key, at).await);
        warm.push(get(&recorder, &store, &key, at).await);
    }
    for _ in 0..20 {
        let moment = recorder.archive().moment(numbers.next(WEEK_MS as u64) as i64).unwrap();
        let prefix = format!("/registry/pods/ns{}/", numbers.next(objects / PER_NAMESPACE));
        let began = Instant::now();
        let range = RangeQuery::new(KeyRange::prefix(prefix)).at(moment.revision).recorded(true);
        store.range(range).await.unwrap();
        lists.push(began.elapsed());
    }
    for (name, mut times) in
        [("GET at a time, first", cold), ("GET at a time, again", warm), ("LIST of 1,000 at a time", lists)]
    {
        times.sort();
        println!("  {name}: median {:.2?}, 99 % {:.2?}", times[times.len() / 2], times[times.len() * 99 / 100]);
    }
}

async fn open(directory: &Path, time: &Arc<AtomicI64>, memory: &MemoryStore) -> (Arc<Recorder>, Arc<RecordedStore>) {
    let archive = Archive::open(options(directory, time)).unwrap();
    let (recorder, store) = Recorder::start(Arc::new(memory.clone()), archive);
    recorder.caught_up().await.unwrap();
    (recorder, store)
}

async fn get(recorder: &Recorder, store: &RecordedStore, key: &str, at: i64) -> Duration {
    let began = Instant::now();
    let revision: Revision = recorder.archive().moment(at).unwrap().revision;
    let query = RangeQuery::new(KeyRange::single(key)).at(revision).recorded(true);
    store.range(query).await.unwrap();
    began.elapsed()
}

/// Writes of many clients to the embedded store, with a history or without: how long one takes, its CPU, and the memory at the end.
async fn writes(is_recorded: bool) {
    let directory = tempfile::tempdir().unwrap();
    let below: Arc<dyn Store> =
        Arc::new(EmbeddedStore::open(EmbeddedOptions::at(directory.path().join("store"))).unwrap());
    let mut recorder = None;
    let store: Arc<dyn Store> = match is_recorded {
        false => below,
        true => {
            let archive = Archive::open(Options::at(directory.path().join("history"))).unwrap();
            let (started, store) = Recorder::start(below, archive);
            started.caught_up().await.unwrap();
            recorder = Some(started);
            store
        }
    };
    let began = Instant::now();
    let tasks: Vec<_> = (0..WRITERS)
        .map(|writer| {
            let store = store.clone();
            tokio::spawn(async move {
                for number in 0..WRITES / WRITERS {
                    let object = writer * 100 + number % 100;
                    attributed(origin(number), store.write(put(object, number))).await.unwrap();
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    let took = began.elapsed();
    if let Some(recorder) = &recorder {
        recorder.caught_up().await.unwrap();
    }
    let name = if is_recorded { "with a history" } else { "without a history" };
    println!("  {WRITES} writes by {WRITERS} clients {name}: {took:.2?}, {} of memory", resident());
}

fn resident() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.map_or_else(|| "an unknown amount".into(), |line| line.trim().to_string())
}

fn mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}
