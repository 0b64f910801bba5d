//! Kills a process that writes, again and again, and looks at what is left.
//!
//! The child runs concurrent writers, a watcher, compaction and expiring keys, and reports on its output what was
//! acknowledged and what the watcher saw. After each SIGKILL the parent opens the file and checks that
//!
//! - every writer's keys are as after its last acknowledged write, or one further (the one it was waiting for); the last writer makes
//!   two changes in one step, so its keys are never as after one of them;
//! - every acknowledged revision is in the log with its key and value, and none is used twice;
//! - the log goes on without gap or duplicate from where it ended before, and what the watcher saw is what is in it.
//!
//! ```text
//! cargo test -p ferrokube-storage-embedded --test crash -- --kills 1000 --seed 7
//! ```

#![allow(clippy::unwrap_used, clippy::panic)] // In tests a failed assumption is a failed test, in helpers too.

mod support;

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write as _};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::StreamExt;
use rand::{Rng, SeedableRng};
use storage::{Change, Event, Expect, KeyRange, RangeQuery, Revision, Store, WatchRequest, Write};
use storage_embedded::{EmbeddedOptions, EmbeddedStore};
use support::Arguments;

const KILLS: u64 = 40;
/// Stores that are tortured at the same time: most of the time is spent waiting.
const LANES: usize = 4;
const WRITERS: u64 = 6;
const KEYS_PER_WRITER: u64 = 4;
/// The writer that makes two changes at once.
const WRITER_OF_STEPS: u64 = WRITERS - 1;

/// How many operations a writer makes in one step.
fn at_once(writer: u64) -> u64 {
    if writer == WRITER_OF_STEPS { 2 } else { 1 }
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if args.first().is_some_and(|first| first == "--child") {
        return child(&args[1..]);
    }
    if let Some(arguments) = Arguments::read("crash") {
        parent(arguments.number("--kills", KILLS), arguments.seed());
    }
}

/// What operation `number` of a writer does: a key and its new value, or none to delete it.
fn operation(writer: u64, number: u64) -> (String, Option<String>) {
    let key = format!("/crash/{writer}/{}", number % KEYS_PER_WRITER);
    // Each key is written some rounds, then deleted, then made again.
    let value = (number / KEYS_PER_WRITER % 5 != 4)
        .then(|| format!("{writer}:{number}:{}", "x".repeat((number % 700) as usize)));
    (key, value)
}

/// The keys of a writer after so many operations.
fn model(writer: u64, done: u64) -> BTreeMap<String, String> {
    let mut keys = BTreeMap::new();
    for number in done.saturating_sub(KEYS_PER_WRITER * 5)..=done {
        if number == 0 {
            continue;
        }
        match operation(writer, number) {
            (key, Some(value)) => drop(keys.insert(key, value)),
            (key, None) => drop(keys.remove(&key)),
        }
    }
    keys
}

// ---- The child ----

/// Arguments: the file, the size of its write-ahead log, the revision up to which it may compact, and how far each writer
/// has got.
fn child(args: &[String]) {
    let wal_bytes: u64 = args[1].parse().unwrap();
    let compact_at: Revision = args[2].parse().unwrap();
    let done: Vec<u64> = args[3..].iter().map(|number| number.parse().unwrap()).collect();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let store =
            Arc::new(EmbeddedStore::open(EmbeddedOptions { wal_bytes, ..EmbeddedOptions::at(&args[0]) }).unwrap());
        let mut tasks = Vec::new();
        for (writer, done) in done.into_iter().enumerate() {
            tasks.push(tokio::spawn(write_forever(store.clone(), writer as u64, done)));
        }
        tasks.push(tokio::spawn(watch_forever(store.clone())));
        tasks.push(tokio::spawn(expire_forever(store.clone())));
        if compact_at > 0 {
            store.compact(compact_at).await.unwrap();
        }
        for task in tasks {
            task.await.unwrap();
        }
    });
}

async fn write_forever(store: Arc<EmbeddedStore>, writer: u64, mut done: u64) {
    loop {
        let writes = (1..=at_once(writer)).map(|next| {
            let (key, value) = operation(writer, done + next);
            let change = match value {
                Some(value) => Change::Put { value: Bytes::from(value), ttl: None },
                None => Change::Delete,
            };
            Write { key: key.into(), change, expect: Expect::Any }
        });
        let mut writes: Vec<Write> = writes.collect();
        let written = match writes.len() {
            1 => vec![store.write(writes.remove(0)).await.unwrap()],
            _ => store.write_all(writes).await.unwrap(),
        };
        for written in written {
            done += 1;
            say(&format!("ack {writer} {done} {}", written.revision));
        }
    }
}

async fn watch_forever(store: Arc<EmbeddedStore>) {
    let mut stream = store.watch(WatchRequest::after(KeyRange::all(), store.progress().await.unwrap())).await.unwrap();
    while let Some(batch) = stream.next().await {
        for event in batch.unwrap().events {
            say(&format!("saw {} {}", event.revision, event.key));
        }
    }
}

/// Keys that come and go by themselves, so that a kill may hit an expiry.
async fn expire_forever(store: Arc<EmbeddedStore>) {
    for number in 0u64.. {
        let change = Change::Put { value: Bytes::from_static(b"short"), ttl: Some(Duration::from_millis(5)) };
        let key = format!("/expire/{}", number % 10).into();
        store.write(Write { key, change, expect: Expect::Any }).await.unwrap();
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// One line in one write, so that a kill cannot cut it.
fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    out.write_all(format!("{line}\n").as_bytes()).unwrap();
    out.flush().unwrap();
}

// ---- The parent ----

fn parent(kills: u64, seed: u64) {
    let began = Instant::now();
    eprintln!("crash test: seed {seed}");
    let lanes: Vec<_> = (0..LANES)
        .map(|lane| {
            std::thread::spawn(move || {
                let directory = tempfile::tempdir().unwrap();
                let mut lane = Lane::new(directory.path().join("store"), seed + lane as u64);
                for _ in 0..kills.div_ceil(LANES as u64) {
                    lane.round();
                }
                lane.acknowledged
            })
        })
        .collect();
    let acknowledged: u64 = lanes.into_iter().map(|lane| lane.join().expect("a lane failed")).sum();
    assert!(acknowledged > kills * 5, "too little was written to mean anything: {acknowledged}");
    eprintln!("crash test: {kills} kills, {acknowledged} acknowledged writes, none lost, in {:.1?}", began.elapsed());
}

struct Lane {
    file: PathBuf,
    /// Small ones make the files of the write-ahead log change, and the database be written, all the time.
    wal_bytes: u64,
    random: rand::rngs::StdRng,
    runtime: tokio::runtime::Runtime,
    /// Where the log ended after the last round.
    end: Revision,
    /// How far each writer has got.
    done: Vec<u64>,
    acknowledged: u64,
    rounds: u64,
}

/// What a child said before it died.
#[derive(Default)]
struct Said {
    /// By writer and number, the revision.
    acks: BTreeMap<(u64, u64), Revision>,
    seen: Vec<(Revision, String)>,
}

impl Lane {
    fn new(file: PathBuf, seed: u64) -> Self {
        Lane {
            file,
            wal_bytes: [8 << 10, 32 << 20][seed as usize % 2],
            random: rand::rngs::StdRng::seed_from_u64(seed),
            runtime: tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap(),
            end: 0,
            done: vec![0; WRITERS as usize],
            acknowledged: 0,
            rounds: 0,
        }
    }

    fn round(&mut self) {
        let said = self.run_and_kill();
        self.acknowledged += said.acks.len() as u64;
        self.rounds += 1;
        let store = EmbeddedStore::open(EmbeddedOptions::at(&self.file)).unwrap();
        let events = self.runtime.block_on(log_after(&store, self.end));
        self.check_log(&said, &events);
        self.runtime.block_on(check_keys(&store, &mut self.done, &said));
        self.end = events.last().map_or(self.end, |event| event.revision);
        drop(store);
        if self.rounds.is_multiple_of(16) {
            storage_embedded::check(&self.file).unwrap();
        }
    }

    /// Runs a child until a random moment after its first word.
    fn run_and_kill(&mut self) -> Said {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .arg("--child")
            .arg(&self.file)
            .arg(self.wal_bytes.to_string())
            .arg(self.end.to_string())
            .args(self.done.iter().map(u64::to_string))
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let (sender, lines) = mpsc::channel();
        let reader = std::thread::spawn(move || {
            for line in output.lines() {
                if sender.send(line.unwrap()).is_err() {
                    break;
                }
            }
        });
        let mut said = Said::default();
        said.hear(&lines.recv_timeout(Duration::from_secs(30)).expect("the child says nothing"));
        let end = Instant::now() + Duration::from_micros(self.random.random_range(0..100_000));
        while let Ok(line) = lines.recv_timeout(end.saturating_duration_since(Instant::now())) {
            said.hear(&line);
        }
        child.kill().unwrap();
        child.wait().unwrap();
        // What it said before it died is still in the pipe.
        for line in lines.iter() {
            said.hear(&line);
        }
        reader.join().unwrap();
        said
    }

    fn check_log(&self, said: &Said, events: &[Arc<Event>]) {
        let mut expected = self.end.max(1);
        for event in events {
            expected += 1;
            assert_eq!(event.revision, expected, "a gap or a duplicate in the log");
        }
        let at = |revision: Revision| {
            let index = usize::try_from(revision - self.end.max(1) - 1).expect("a revision was used again");
            events.get(index).unwrap_or_else(|| panic!("revision {revision} is lost"))
        };
        for ((writer, number), revision) in &said.acks {
            let (key, value) = operation(*writer, *number);
            let event = at(*revision);
            assert_eq!(event.key.to_string(), key, "revision {revision} was used again");
            assert_eq!(event.entry.as_ref().map(|entry| entry.value.clone()), value.map(Bytes::from));
        }
        for pair in said.seen.windows(2) {
            assert_eq!(pair[0].0 + 1, pair[1].0, "the watcher saw a gap or a duplicate");
        }
        for (revision, key) in &said.seen {
            assert_eq!(at(*revision).key.to_string(), *key, "what a watcher saw is not what happened");
        }
    }
}

impl Said {
    fn hear(&mut self, line: &str) {
        let words: Vec<&str> = line.split(' ').collect();
        match words.as_slice() {
            ["ack", writer, number, revision] => {
                let key = (writer.parse().unwrap(), number.parse().unwrap());
                assert!(self.acks.insert(key, revision.parse().unwrap()).is_none());
            }
            ["saw", revision, key] => self.seen.push((revision.parse().unwrap(), (*key).to_string())),
            other => panic!("{other:?}"),
        }
    }
}

/// Everything after a revision, which must resume there.
async fn log_after(store: &EmbeddedStore, after: Revision) -> Vec<Arc<Event>> {
    let last = store.progress().await.unwrap();
    let mut events = Vec::new();
    let mut stream = store.watch(WatchRequest::after(KeyRange::all(), after)).await.unwrap();
    loop {
        let batch = stream.next().await.unwrap().unwrap();
        events.extend(batch.events);
        if batch.revision >= last {
            // Keys may expire meanwhile; they belong to the next round.
            events.retain(|event: &Arc<Event>| event.revision <= last);
            return events;
        }
    }
}

/// Every writer's keys are as after its last acknowledged operation, or the next one.
async fn check_keys(store: &EmbeddedStore, done: &mut [u64], said: &Said) {
    for (writer, done) in done.iter_mut().enumerate() {
        let writer = writer as u64;
        let acknowledged = said.acks.keys().filter(|(by, _)| *by == writer).map(|(_, number)| *number).max();
        let step = at_once(writer);
        // A kill can come between the lines about one step.
        *done = (*done).max(acknowledged.unwrap_or(0).next_multiple_of(step));
        let query = RangeQuery::new(KeyRange::prefix(format!("/crash/{writer}/")));
        let page = store.range(query).await.unwrap();
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        let found: BTreeMap<_, _> =
            page.entries.iter().map(|entry| (entry.key.to_string(), text(&entry.value))).collect();
        if found == model(writer, *done + step) && found != model(writer, *done) {
            *done += step;
        }
        assert_eq!(found, model(writer, *done), "writer {writer} after {done} operations");
    }
}
