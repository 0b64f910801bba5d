//! Compaction, also of revisions that are being read.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use futures::StreamExt;

use super::{PATIENCE, brief, delete, is_compacted, next_events, put, soon, take_events, text, value_of, watch};
use crate::{Error, KeyRange, RangeQuery, Store, WatchRequest};

pub async fn the_past_is_gone_the_present_stays(store: Arc<dyn Store>) {
    let key = "/compact/a";
    let one = put(&store, key, 1).await;
    let two = put(&store, key, 2).await;
    let middle = put(&store, "/compact/b", "x").await;
    let three = put(&store, key, 3).await;
    store.compact(middle).await.unwrap();

    assert!(store.status().await.unwrap().compacted >= middle);
    for old in [one, two] {
        let result = store.get(key.as_bytes(), Some(old)).await;
        assert!(is_compacted(&result), "{result:?}");
        let result = store.range(RangeQuery::new(KeyRange::prefix("/compact/")).at(old)).await;
        assert!(is_compacted(&result), "{result:?}");
    }
    assert_eq!(value_of(&store, key, Some(middle)).await.as_deref(), Some("2"));
    assert_eq!(value_of(&store, key, Some(three)).await.as_deref(), Some("3"));
    assert_eq!(value_of(&store, key, None).await.as_deref(), Some("3"));
    let page = store.range(RangeQuery::new(KeyRange::prefix("/compact/")).at(middle)).await.unwrap();
    assert_eq!(page.entries.len(), 2);

    let request = WatchRequest::after(KeyRange::prefix("/compact/"), one);
    let outcome = match store.watch(request).await {
        Ok(mut stream) => soon("the end of the watch", stream.next()).await.unwrap().map(drop),
        Err(error) => Err(error),
    };
    match outcome {
        Err(Error::Compacted { compacted, .. }) => assert!(compacted >= middle),
        other => panic!("{other:?}"),
    }
    let mut stream = watch(&store, "/compact/", middle).await;
    assert_eq!(brief(&take_events(&mut stream, 1).await[0]), "~/compact/a=3 (2)");
}

pub async fn compaction_does_nothing_twice(store: Arc<dyn Store>) {
    let one = put(&store, "/twice/a", 1).await;
    let two = put(&store, "/twice/a", 2).await;
    store.compact(two).await.unwrap();
    store.compact(two).await.unwrap();
    store.compact(one).await.unwrap();
    assert_eq!(value_of(&store, "/twice/a", Some(two)).await.as_deref(), Some("2"));
    let ahead = store.compact(two + 1_000_000).await;
    assert!(matches!(ahead, Err(Error::FutureRevision { .. })), "{ahead:?}");
    put(&store, "/twice/a", 3).await;
}

pub async fn the_first_event_after_compaction_has_its_previous_entry(store: Arc<dyn Store>) {
    put(&store, "/after/a", 1).await;
    put(&store, "/after/b", 1).await;
    let compacted = put(&store, "/after/a", 2).await;
    put(&store, "/after/a", 3).await;
    delete(&store, "/after/b").await;
    store.compact(compacted).await.unwrap();
    let mut stream = watch(&store, "/after/", compacted).await;
    let events: Vec<_> = take_events(&mut stream, 2).await.iter().map(|event| brief(event)).collect();
    assert_eq!(events, ["~/after/a=3 (2)", "-/after/b (1)"]);
}

pub async fn deleted_keys_stay_deleted(store: Arc<dyn Store>) {
    for n in 0..20 {
        put(&store, format!("/deleted/{n}"), n).await;
    }
    let full = put(&store, "/deleted/19", 19).await;
    let mut last = full;
    for n in 0..20 {
        last = delete(&store, format!("/deleted/{n}")).await;
    }
    store.compact(full).await.unwrap();
    assert_eq!(store.range(RangeQuery::new(KeyRange::prefix("/deleted/")).at(full)).await.unwrap().count, 20);
    store.compact(last).await.unwrap();
    for query in
        [RangeQuery::new(KeyRange::prefix("/deleted/")), RangeQuery::new(KeyRange::prefix("/deleted/")).at(last)]
    {
        assert_eq!(store.range(query).await.unwrap().count, 0);
    }
    let again = put(&store, "/deleted/7", "again").await;
    assert!(again > last);
    assert_eq!(store.get(b"/deleted/7", None).await.unwrap().entry.unwrap().version, 1);
}

/// Whatever compaction does, a watcher sees a run without gaps from its start, and ends with `Compacted` if at all.
pub async fn watchers_race_compaction(store: Arc<dyn Store>) {
    let start = put(&store, "/race/start", 0).await;
    let writer = {
        let store = store.clone();
        tokio::spawn(async move {
            let mut revisions = Vec::new();
            for n in 0..400 {
                revisions.push(put(&store, format!("/race/{}", n % 9), n).await);
                if n % 10 == 9 {
                    store.compact(revisions[revisions.len() - 5]).await.unwrap();
                }
            }
            revisions
        })
    };
    let watchers: Vec<_> = (0..4)
        .map(|_| {
            let store = store.clone();
            tokio::spawn(async move {
                let mut runs = Vec::new();
                let mut position = start;
                let mut total = 0;
                while total < 60 {
                    let mut run = (position, Vec::new());
                    let opened = store.watch(WatchRequest::after(KeyRange::prefix("/race/"), position)).await;
                    let error = match opened {
                        Err(error) => error,
                        Ok(mut stream) => loop {
                            match next_events(&mut stream).await {
                                Ok(batch) => run.1.extend(batch.events.iter().map(|event| event.revision)),
                                Err(error) => break error,
                            }
                            if total + run.1.len() >= 60 {
                                break Error::NotFound;
                            }
                        },
                    };
                    match error {
                        Error::Compacted { compacted, .. } => position = compacted,
                        Error::NotFound => {}
                        other => panic!("{other:?}"),
                    }
                    total += run.1.len();
                    runs.push(run);
                }
                runs
            })
        })
        .collect();
    let revisions = soon("the writer", writer).await.unwrap();
    // A watcher that was left behind at the very end needs one more thing to see.
    let more = tokio::spawn({
        let store = store.clone();
        async move {
            for n in 0.. {
                put(&store, "/race/more", n).await;
                tokio::task::yield_now().await;
            }
        }
    });
    for watcher in watchers {
        for (position, run) in soon("a watcher", watcher).await.unwrap() {
            let known: Vec<_> = run.iter().copied().filter(|seen| seen <= revisions.last().unwrap()).collect();
            let expected: Vec<_> =
                revisions.iter().copied().filter(|revision| *revision > position).take(known.len()).collect();
            assert_eq!(known, expected, "a gap or a duplicate after {position}");
        }
    }
    more.abort();
}

/// Constant compaction up to the current revision does not disturb writers.
pub async fn writers_race_compaction(store: Arc<dyn Store>) {
    put(&store, "/writerace/counter", 0).await;
    let writers: Vec<_> = (0..4)
        .map(|_| {
            let store = store.clone();
            tokio::spawn(async move {
                for _ in 0..40 {
                    let mut current = store.get(b"/writerace/counter", None).await.unwrap().entry.unwrap();
                    loop {
                        let number: usize = String::from_utf8_lossy(&current.value).parse().unwrap();
                        let next = text(number + 1);
                        match store.update(current.key.clone(), next, current.mod_revision, None).await {
                            Ok(_) => break,
                            Err(Error::Conflict(entry)) => current = entry,
                            Err(other) => panic!("{other:?}"),
                        }
                    }
                }
            })
        })
        .collect();
    let compactor = tokio::spawn({
        let store = store.clone();
        async move {
            loop {
                let now = store.progress().await.unwrap();
                store.compact(now).await.unwrap();
                tokio::task::yield_now().await;
            }
        }
    });
    for writer in writers {
        soon("a writer", writer).await.unwrap();
    }
    compactor.abort();
    assert_eq!(value_of(&store, "/writerace/counter", None).await.as_deref(), Some("160"));
}

/// A page at a revision is right, or it is `Compacted`; never anything in between.
pub async fn pages_race_compaction(store: Arc<dyn Store>) {
    const KEYS: usize = 20;
    for n in 0..KEYS {
        put(&store, format!("/pagerace/{n:02}"), 0).await;
    }
    let enough = Arc::new(AtomicBool::new(false));
    let states: Arc<parking_lot::Mutex<BTreeMap<i64, Vec<usize>>>> = Arc::default();
    let writer = {
        let (store, states, enough) = (store.clone(), states.clone(), enough.clone());
        tokio::spawn(async move {
            let mut state = vec![0; KEYS];
            let mut n = 0;
            while !enough.load(Ordering::SeqCst) {
                n += 1;
                let index = n * 7 % KEYS;
                let revision = put(&store, format!("/pagerace/{index:02}"), n).await;
                state[index] = n;
                states.lock().insert(revision, state.clone());
                if n % 7 == 0 {
                    store.compact(revision).await.unwrap();
                }
            }
        })
    };
    let mut checked = 0;
    let began = Instant::now();
    while checked < 50 {
        assert!(began.elapsed() < PATIENCE, "every page came too late");
        let point = states.lock().iter().rev().nth(3).map(|(revision, state)| (*revision, state.clone()));
        let Some((revision, expected)) = point else {
            tokio::task::yield_now().await;
            continue;
        };
        match store.range(RangeQuery::new(KeyRange::prefix("/pagerace/")).at(revision)).await {
            Ok(page) => {
                let values: Vec<usize> =
                    page.entries.iter().map(|entry| String::from_utf8_lossy(&entry.value).parse().unwrap()).collect();
                assert_eq!(values, expected, "at {revision}");
                checked += 1;
            }
            Err(Error::Compacted { .. }) => {}
            Err(other) => panic!("{other:?}"),
        }
        tokio::task::yield_now().await;
    }
    enough.store(true, Ordering::SeqCst);
    soon("the writer", writer).await.unwrap();
}
