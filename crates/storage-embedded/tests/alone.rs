//! Writes that arrive alone are committed by the threads that ask for them.

#![allow(clippy::unwrap_used, clippy::panic)] // In tests a failed assumption is a failed test, in helpers too.

use std::io;
use std::ops::Bound;
use std::path::Path;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use bytes::Bytes;
use parking_lot::{Condvar, Mutex};
use redb::backends::FileBackend;
use redb::{BackendError, StorageBackend};
use storage::{Batch, Error, KeyRange, Store, Subscriber, WatchRequest};
use storage_embedded::{EmbeddedOptions, EmbeddedStore};

/// Longer than anything here takes.
const LONG: Duration = Duration::from_secs(60);

/// A disk that can stop.
#[derive(Clone, Debug, Default)]
struct Gate(Arc<(Mutex<Stopped>, Condvar)>);

#[derive(Debug, Default)]
struct Stopped {
    is_closed: bool,
    waiting: usize,
}

impl Gate {
    fn close(&self) {
        self.0.0.lock().is_closed = true;
    }

    fn open(&self) {
        self.0.0.lock().is_closed = false;
        self.0.1.notify_all();
    }

    fn pass(&self) {
        let (state, changed) = &*self.0;
        let mut state = state.lock();
        state.waiting += 1;
        changed.notify_all();
        while state.is_closed {
            changed.wait(&mut state);
        }
        state.waiting -= 1;
    }

    /// Blocks until something waits for the disk.
    fn until_one_waits(&self) {
        let (state, changed) = &*self.0;
        let mut state = state.lock();
        while state.waiting == 0 {
            changed.wait(&mut state);
        }
    }

    fn options(&self, path: &Path) -> EmbeddedOptions {
        let gate = self.clone();
        let open = move |path: &Path| {
            let file = std::fs::OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)?;
            let file = FileBackend::new(file).map_err(io::Error::other)?;
            // Only the log is needed to commit.
            let is_log = path.to_string_lossy().contains("wal");
            Ok(Box::new(GatedFile { file, gate: is_log.then(|| gate.clone()) }) as Box<dyn StorageBackend>)
        };
        EmbeddedOptions { quick_commits: 0, backend: Some(Arc::new(open)), ..EmbeddedOptions::at(path.join("store")) }
    }
}

#[derive(Debug)]
struct GatedFile {
    file: FileBackend,
    gate: Option<Gate>,
}

impl StorageBackend for GatedFile {
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.file.read(offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.gate.iter().for_each(Gate::pass);
        self.file.sync_data()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.file.write(offset, data)
    }

    fn close(&self) -> io::Result<()> {
        self.file.close()
    }

    fn try_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.file.try_lock_range(start, end)
    }

    fn unlock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.file.unlock_range(start, end)
    }
}

/// In which threads events are delivered.
#[derive(Default)]
struct Threads(Mutex<Vec<String>>);

impl Subscriber for Threads {
    fn apply(&self, _: &Batch) {
        self.0.lock().push(std::thread::current().name().unwrap_or_default().to_string());
    }

    fn end(&self, _: Error) {}
}

fn runtime(workers: usize) -> tokio::runtime::Runtime {
    let builder = &mut tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads(workers).thread_name("worker").enable_all().build().unwrap()
}

#[test]
fn a_write_alone_stays_in_its_thread_if_others_can_go_on() {
    const WRITES: usize = 50;
    for (workers, quick_commits, is_possible) in [(2, 0, true), (2, 1000, false), (1, 0, false)] {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("store");
        let store = EmbeddedStore::open(EmbeddedOptions { quick_commits, ..EmbeddedOptions::at(path) }).unwrap();
        let (store, threads) = (Arc::new(store), Arc::new(Threads::default()));
        let (own, seen) = (store.clone(), threads.clone());
        runtime(workers).block_on(async move {
            let writes = async move {
                let _subscription = own.subscribe(WatchRequest::after(KeyRange::all(), 0), seen).await.unwrap();
                // A write that comes while the writer thread is about to sleep is given to it.
                for number in 0..WRITES {
                    own.create(format!("/{number}").into(), Bytes::from("x"), None).await.unwrap();
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
            };
            tokio::spawn(writes).await.unwrap();
        });
        let alone = threads.0.lock().iter().filter(|thread| *thread == "worker").count();
        assert_eq!(alone > 0, is_possible, "{alone} of {WRITES}, {workers} workers, {quick_commits}");
    }
}

#[test]
fn a_disk_that_stops_does_not_stop_the_runtime() {
    let (directory, gate) = (tempfile::tempdir().unwrap(), Gate::default());
    let store = Arc::new(EmbeddedStore::open(gate.options(directory.path())).unwrap());
    let runtime = runtime(2);
    runtime.block_on(store.create("/before".into(), Bytes::from("x"), None)).unwrap();
    gate.close();
    let (tell, told) = mpsc::channel();
    runtime.spawn(async move {
        tokio::time::sleep(Duration::from_millis(100)).await;
        tell.send(()).unwrap();
    });
    // The worker that is woken by the timer is the one that waits for timers and sockets, and the other one sleeps.
    let own = store.clone();
    let writing = runtime.spawn(async move {
        tokio::time::sleep(Duration::from_millis(20)).await;
        own.create("/during".into(), Bytes::from("x"), None).await
    });
    gate.until_one_waits();
    told.recv_timeout(LONG).unwrap();
    // Writes that come meanwhile wait for their turn as tasks.
    let own = store.clone();
    let waiting = runtime.spawn(async move { own.create("/after".into(), Bytes::from("x"), None).await });
    gate.open();
    let written = runtime.block_on(writing).unwrap().unwrap().revision;
    assert_eq!(runtime.block_on(waiting).unwrap().unwrap().revision, written + 1);
}

#[test]
fn keys_written_alone_expire_in_time() {
    let directory = tempfile::tempdir().unwrap();
    let options = EmbeddedOptions { quick_commits: 0, ..EmbeddedOptions::at(directory.path().join("store")) };
    let store = EmbeddedStore::open(options).unwrap();
    runtime(2).block_on(async move {
        // The writer's thread sleeps without a time to wake.
        store.create("/lives".into(), Bytes::from("x"), None).await.unwrap();
        let ttl = Some(Duration::from_millis(50));
        store.create("/expires".into(), Bytes::from("x"), ttl).await.unwrap();
        let expired = async {
            while store.get(b"/expires", None).await.unwrap().entry.is_some() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(LONG, expired).await.unwrap();
        assert!(store.get(b"/lives", None).await.unwrap().entry.is_some());
    });
}
