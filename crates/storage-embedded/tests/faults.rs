//! Disks that fail: writes fail with a reason, reads go on, nothing acknowledged is lost, and it recovers by itself.

#![allow(clippy::unwrap_used, clippy::panic)] // In tests a failed assumption is a failed test, in helpers too.

mod support;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use rand::{Rng, SeedableRng};
use storage::suite::linearizability::{Recorder, check};
use storage::{Error, Health, KeyRange, RangeQuery, Revision, Store, WatchRequest};
use storage_embedded::{EmbeddedOptions, EmbeddedStore};
use support::{Fault, Faults, PowerDisk, soon};

fn value(number: usize) -> Bytes {
    Bytes::from(format!("{number}:{}", "x".repeat(2000)))
}

/// Writes until it works, and says how often it did not.
async fn until_it_works(store: &Arc<dyn Store>, key: &str) -> usize {
    for failures in 0.. {
        match store.create(format!("{key}/{failures}").into(), value(0), None).await {
            Ok(_) => return failures,
            Err(Error::Unavailable(_) | Error::OutcomeUnknown(_)) => {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            Err(other) => panic!("{other:?}"),
        }
    }
    unreachable!()
}

async fn keys(store: &Arc<dyn Store>, prefix: &str) -> BTreeMap<String, (Bytes, Revision)> {
    let page = store.range(RangeQuery::new(KeyRange::prefix(prefix))).await.unwrap();
    page.entries.iter().map(|entry| (entry.key.to_string(), (entry.value.clone(), entry.mod_revision))).collect()
}

/// Some writes, a fault, more writes, the end of the fault, more writes.
async fn survives(fault: Fault) {
    let directory = tempfile::tempdir().unwrap();
    let faults = Faults::default();
    // With so little room in the write-ahead log, a database that cannot be written is noticed soon.
    let options = EmbeddedOptions {
        backend: Some(faults.factory()),
        wal_bytes: 16 << 10,
        ..EmbeddedOptions::at(directory.path().join("store"))
    };
    let store: Arc<dyn Store> = Arc::new(EmbeddedStore::open(options.clone()).unwrap());
    let mut acknowledged = BTreeMap::new();
    for number in 0..50 {
        let key = format!("/before/{number}");
        let written = store.create(key.clone().into(), value(number), None).await.unwrap();
        acknowledged.insert(key, written.revision);
    }

    faults.set(fault);
    let mut refused = Vec::new();
    for number in 0..60 {
        let key = format!("/during/{number}");
        match store.create(key.clone().into(), value(number), None).await {
            // As long as the write-ahead log has room on the disk.
            Ok(written) if fault == Fault::Full => drop(acknowledged.insert(key, written.revision)),
            Err(Error::Unavailable(reason)) => {
                let expected = if matches!(fault, Fault::Full | Fault::ShortWrite) { "No space left" } else { "error" };
                assert!(reason.contains(expected), "{reason}");
                refused.push(format!("/during/{number}"));
            }
            // A disk that takes writes but not syncs leaves this open.
            Err(Error::OutcomeUnknown(_)) => assert_ne!(fault, Fault::Full),
            other => panic!("a write on a broken disk: {other:?}"),
        }
    }
    assert!(refused.len() > 20, "only {} writes were refused", refused.len());
    assert!(matches!(store.status().await.unwrap().health, Health::Degraded(_)));
    assert_eq!(keys(&store, "/before/").await.len(), 50, "reads must go on");
    let again = store.create("/during/again".into(), value(0), None).await;
    assert!(matches!(again, Err(Error::Unavailable(_))), "{again:?}");

    faults.set(None);
    soon("recovery", until_it_works(&store, "/after")).await;
    assert_eq!(store.status().await.unwrap().health, Health::Healthy);
    for key in &refused {
        assert!(store.get(key.as_bytes(), None).await.unwrap().entry.is_none(), "{key} was refused and is there");
    }
    // What a reader sees now is what is in the file.
    let before = keys(&store, "/").await;
    drop(store);
    let store: Arc<dyn Store> = Arc::new(EmbeddedStore::open(options.clone()).unwrap());
    assert_eq!(keys(&store, "/").await, before);
    for (key, revision) in acknowledged {
        assert_eq!(before[&key].1, revision);
    }
    drop(store);
    storage_embedded::check(&options.path).unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk() {
    survives(Fault::Full).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_short_write() {
    survives(Fault::ShortWrite).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failed_sync() {
    survives(Fault::Sync).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_disk_that_is_gone() {
    survives(Fault::Everything).await;
}

/// Faults of every kind come and go under load; whatever callers were told must be explainable.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn faults_under_load_stay_linearizable() {
    for seed in 0..3 {
        let directory = tempfile::tempdir().unwrap();
        let faults = Faults::default();
        let options = EmbeddedOptions {
            backend: Some(faults.factory()),
            wal_bytes: 4 << 10,
            ..EmbeddedOptions::at(directory.path().join("store"))
        };
        let store: Arc<dyn Store> = Arc::new(EmbeddedStore::open(options.clone()).unwrap());
        let recorder = Arc::new(Recorder::default());
        let clients: Vec<_> = (0..4)
            .map(|client| {
                let (store, recorder) = (store.clone(), recorder.clone());
                tokio::spawn(async move {
                    for round in 0..10 {
                        recorder.drive(&store, seed * 1000 + client * 100 + round, 12).await;
                        tokio::time::sleep(Duration::from_millis(7)).await;
                    }
                })
            })
            .collect();
        let mut random = rand::rngs::StdRng::seed_from_u64(seed);
        while clients.iter().any(|client| !client.is_finished()) {
            let all = [Fault::Full, Fault::ShortWrite, Fault::Sync, Fault::Everything];
            faults.set(all[random.random_range(0..4)]);
            tokio::time::sleep(Duration::from_millis(random.random_range(1..20))).await;
            faults.set(None);
            tokio::time::sleep(Duration::from_millis(random.random_range(20..120))).await;
        }
        for client in clients {
            client.await.unwrap();
        }
        soon("recovery", until_it_works(&store, "/after")).await;
        // A last look pins down what unknown writes did.
        for key in 0..3 {
            recorder.run(&store, format!("/linear/{key}"), storage::suite::linearizability::Call::Get).await;
        }
        check(&recorder.history()).unwrap_or_else(|complaint| panic!("seed {seed}: {complaint}"));
        // Watchers see the same: a replay of the log ends in the present.
        let before = keys(&store, "/linear/").await;
        drop(store);
        let store: Arc<dyn Store> = Arc::new(EmbeddedStore::open(options).unwrap());
        assert_eq!(keys(&store, "/linear/").await, before);
    }
}

/// The power goes at any moment; what was acknowledged before is there afterwards.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn power_cuts() {
    let mut random = rand::rngs::StdRng::seed_from_u64(7);
    let mut disk = PowerDisk::default();
    let mut expected: BTreeMap<String, Revision> = BTreeMap::new();
    let mut last = 0;
    for cut in 0..60 {
        // Small enough for the files of the write-ahead log to change often.
        let options =
            EmbeddedOptions { backend: Some(disk.factory()), wal_bytes: 50_000, ..EmbeddedOptions::at("in-memory") };
        let store: Arc<dyn Store> = Arc::new(EmbeddedStore::open(options).unwrap());
        let found = keys(&store, "/").await;
        for (key, revision) in &expected {
            let (_, at) = found.get(key).unwrap_or_else(|| panic!("cut {cut}: {key} is lost"));
            assert!(at >= revision, "cut {cut}: {key} went back from {revision} to {at}");
        }
        let now = store.progress().await.unwrap();
        assert!(now >= last, "cut {cut}: revision {now} after {last}");
        if last > 2 {
            // History up to the last acknowledged write is there too, unless it was compacted.
            let resumed = store.watch(WatchRequest::after(KeyRange::all(), last)).await;
            assert!(matches!(resumed, Ok(_) | Err(Error::Compacted { .. })));
        }
        if cut % 7 == 6 {
            store.compact(now).await.unwrap();
        }
        let writers: Vec<_> = (0..4)
            .map(|writer| {
                let store = store.clone();
                tokio::spawn(async move {
                    let mut acknowledged = BTreeMap::new();
                    for number in 0.. {
                        let key = format!("/power/{writer}/{}", number % 9);
                        let change = storage::Change::Put { value: value(number), ttl: None };
                        let write = storage::Write { key: key.clone().into(), change, expect: storage::Expect::Any };
                        match store.write(write).await {
                            Ok(written) => drop(acknowledged.insert(key, written.revision)),
                            Err(_) => break,
                        }
                    }
                    acknowledged
                })
            })
            .collect();
        let goal = disk.syncs() + random.random_range(1..25);
        soon("some commits", async {
            while disk.syncs() < goal {
                tokio::task::yield_now().await;
            }
        })
        .await;
        let next = disk.cut(&mut random);
        for writer in writers {
            for (key, revision) in soon("a writer", writer).await.unwrap() {
                last = last.max(revision);
                let before = expected.insert(key, revision);
                assert!(before.is_none_or(|before| before < revision), "a revision was used again");
            }
        }
        drop(store);
        disk = next;
    }
}
