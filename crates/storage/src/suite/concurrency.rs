//! Many callers at once.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use super::linearizability::{Recorder, check};
use super::{next_events, put, soon, text, value_of, watch};
use crate::{Error, Key, Store};

pub async fn increments_are_not_lost(store: Arc<dyn Store>) {
    const WRITERS: usize = 8;
    const EACH: usize = 40;
    let key = Key::from("/counter");
    put(&store, key.clone(), 0).await;
    let tasks: Vec<_> = (0..WRITERS)
        .map(|_| {
            let (store, key) = (store.clone(), key.clone());
            tokio::spawn(async move {
                let mut current = store.get(&key, None).await.unwrap().entry.unwrap();
                for _ in 0..EACH {
                    loop {
                        let number: usize = String::from_utf8_lossy(&current.value).parse().unwrap();
                        match store.update(key.clone(), text(number + 1), current.mod_revision, None).await {
                            Ok(written) => break current = written.entry.unwrap(),
                            Err(Error::Conflict(entry)) => current = entry,
                            Err(other) => panic!("{other:?}"),
                        }
                    }
                }
            })
        })
        .collect();
    for task in tasks {
        soon("a writer", task).await.unwrap();
    }
    assert_eq!(value_of(&store, "/counter", None).await.unwrap(), (WRITERS * EACH).to_string());
    assert_eq!(store.get(&key, None).await.unwrap().entry.unwrap().version, (WRITERS * EACH + 1) as i64);
}

pub async fn one_creator_wins(store: Arc<dyn Store>) {
    for round in 0..20 {
        let key = Key::from(format!("/winner/{round}"));
        let attempts = (0..8).map(|n| {
            let (store, key) = (store.clone(), key.clone());
            tokio::spawn(async move { store.create(key, text(n), None).await })
        });
        let mut winner = None;
        let mut losers = Vec::new();
        for attempt in futures::future::join_all(attempts).await {
            match attempt.unwrap() {
                Ok(written) => assert!(winner.replace(written.entry.unwrap()).is_none(), "two winners"),
                Err(Error::KeyExists(entry)) => losers.push(entry),
                Err(other) => panic!("{other:?}"),
            }
        }
        let winner = winner.expect("somebody must win");
        assert!(losers.iter().all(|seen| *seen == winner));
    }
}

/// Callers that give up at any moment: what they asked for happens whole or not at all, and the log stays in order.
pub async fn cancelled_callers_do_no_harm(store: Arc<dyn Store>) {
    let start = put(&store, "/cancel/start", 0).await;
    let mut tasks = Vec::new();
    for n in 0..300u64 {
        let store = store.clone();
        tasks.push(tokio::spawn(async move {
            let write = store.create(format!("/cancel/{n}").into(), text(n), None);
            let patience = Duration::from_micros(n * 13 % 900);
            tokio::time::timeout(patience, write).await.ok().map(|written| (n, written.unwrap().revision))
        }));
    }
    let mut acknowledged = BTreeSet::new();
    for task in tasks {
        acknowledged.extend(soon("a caller", task).await.unwrap());
    }
    let end = put(&store, "/cancel/zz", 0).await;
    let mut stream = watch(&store, "/cancel/", start).await;
    let mut seen = BTreeSet::new();
    'stream: loop {
        for event in next_events(&mut stream).await.unwrap().events {
            if event.revision == end {
                break 'stream;
            }
            let entry = event.entry.clone().expect("nothing was deleted");
            let number: u64 = String::from_utf8_lossy(&entry.value).parse().unwrap();
            assert_eq!(entry.key.to_string(), format!("/cancel/{number}"));
            assert!(seen.insert((number, event.revision)));
        }
    }
    assert!(acknowledged.is_subset(&seen), "an acknowledged write is missing");
    for (number, revision) in &seen {
        let entry = store.get(format!("/cancel/{number}").as_bytes(), None).await.unwrap().entry.unwrap();
        assert_eq!(entry.mod_revision, *revision);
    }
}

/// Callers that give up on updates and deletions, and others that go on with the same keys: every change in the log is one
/// that a caller asked for, on top of what it was asked for, and no two are the same.
pub async fn cancelled_changes_happen_whole_or_not_at_all(store: Arc<dyn Store>) {
    let start = put(&store, "/giveup/start", 0).await;
    let callers: Vec<_> = (0..6u64)
        .map(|caller| {
            let store = store.clone();
            tokio::spawn(async move {
                let mut acknowledged = BTreeSet::new();
                for n in 0..60u64 {
                    let key = Key::from(format!("/giveup/{}", (caller + n) % 3));
                    let current = store.get(&key, None).await.unwrap().entry;
                    let value = text(format!("{caller}-{n}"));
                    let change = async {
                        match current {
                            Some(current) if n % 4 == 3 => store.delete(key, Some(current.mod_revision)).await,
                            Some(current) => store.update(key, value, current.mod_revision, None).await,
                            None => store.create(key, value, None).await,
                        }
                    };
                    let patience = Duration::from_micros((caller * 131 + n * 17) % 1500);
                    match tokio::time::timeout(patience, change).await {
                        Ok(Ok(written)) => assert!(acknowledged.insert(written.revision)),
                        Ok(Err(Error::Conflict(_) | Error::KeyExists(_) | Error::NotFound)) | Err(_) => {}
                        Ok(Err(other)) => panic!("{other:?}"),
                    }
                }
                acknowledged
            })
        })
        .collect();
    let mut acknowledged = BTreeSet::new();
    for caller in callers {
        acknowledged.extend(soon("a caller", caller).await.unwrap());
    }
    // What was given up may still be under way, so the end is when all keys have been written once more.
    let mut end = 0;
    for n in 0..3 {
        end = put(&store, format!("/giveup/{n}"), "end").await;
    }
    let mut stream = watch(&store, "/giveup/", start).await;
    let (mut seen, mut values, mut position) = (BTreeSet::new(), BTreeSet::new(), start);
    let mut last = BTreeMap::new();
    while position < end {
        for event in next_events(&mut stream).await.unwrap().events {
            position = event.revision;
            seen.insert(event.revision);
            // On top of the state before, of which there is only one.
            assert_eq!(event.previous, last.remove(&event.key), "{event:?}");
            if let Some(entry) = &event.entry {
                let value = String::from_utf8_lossy(&entry.value).into_owned();
                assert!(value == "end" || values.insert(value), "made twice: {event:?}");
                last.insert(event.key.clone(), entry.clone());
            }
        }
    }
    assert!(acknowledged.is_subset(&seen), "an acknowledged change is missing");
}

/// A write that starts after another one was acknowledged has a greater revision, also where they come from different clients.
pub async fn revisions_follow_real_time(store: Arc<dyn Store>) {
    let newest = Arc::new(std::sync::atomic::AtomicI64::new(0));
    let tasks: Vec<_> = (0..6)
        .map(|writer| {
            let (store, newest) = (store.clone(), newest.clone());
            tokio::spawn(async move {
                for n in 0..60 {
                    let floor = newest.load(std::sync::atomic::Ordering::SeqCst);
                    let revision = put(&store, format!("/order/{writer}"), n).await;
                    assert!(revision > floor, "{revision} came after {floor}");
                    newest.fetch_max(revision, std::sync::atomic::Ordering::SeqCst);
                    assert!(store.progress().await.unwrap() >= revision);
                    assert!(store.get(b"/order/none", None).await.unwrap().revision >= revision);
                }
            })
        })
        .collect();
    for task in tasks {
        soon("a writer", task).await.unwrap();
    }
}

pub async fn concurrent_histories_are_linearizable(store: Arc<dyn Store>) {
    let recorder = Arc::new(Recorder::default());
    let tasks: Vec<_> = (0..6)
        .map(|client| {
            let (store, recorder) = (store.clone(), recorder.clone());
            tokio::spawn(async move { recorder.drive(&store, client, 120).await })
        })
        .collect();
    for task in tasks {
        soon("a client", task).await.unwrap();
    }
    let history = recorder.history();
    assert_eq!(history.len(), 6 * 120);
    if let Err(complaint) = check(&history) {
        panic!("{complaint}");
    }
}
