//! Watches.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::StreamExt;

use super::{brief, delete, next_events, put, soon, take_events, watch};
use crate::{KeyRange, Revision, Store, WatchRequest};

/// A little of everything; returns the revision before and the events that a watcher must see.
async fn script(store: &Arc<dyn Store>, prefix: &str) -> (Revision, Vec<(Revision, String)>) {
    let start = put(store, "/somewhere/else", 0).await;
    let mut events = Vec::new();
    for round in 0..4 {
        let key = format!("{prefix}{}", round % 2);
        events.push((put(store, key.clone(), "a").await, format!("+{key}=a")));
        put(store, "/somewhere/else", round).await;
        events.push((put(store, key.clone(), "b").await, format!("~{key}=b (a)")));
        events.push((put(store, key.clone(), "b").await, format!("~{key}=b (b)")));
        events.push((delete(store, key.clone()).await, format!("-{key} (b)")));
    }
    (start, events)
}

pub async fn every_kind_of_event(store: Arc<dyn Store>) {
    let start = put(&store, "/somewhere/else", 0).await;
    let mut live = watch(&store, "/kinds/", start).await;
    let (_, expected) = script(&store, "/kinds/").await;
    let mut replayed = watch(&store, "/kinds/", start).await;
    for stream in [&mut live, &mut replayed] {
        let events = take_events(stream, expected.len()).await;
        let seen: Vec<_> = events.iter().map(|event| (event.revision, brief(event))).collect();
        assert_eq!(seen, expected);
        for event in &events {
            let text = brief(event);
            assert_eq!(
                (event.is_create(), event.is_delete()),
                (text.starts_with('+'), text.starts_with('-')),
                "{text}"
            );
            if let Some(entry) = &event.entry {
                assert_eq!((&entry.key, entry.mod_revision), (&event.key, event.revision));
            }
        }
    }
}

pub async fn resume_after_every_revision(store: Arc<dyn Store>) {
    let (start, expected) = script(&store, "/resume/").await;
    // Also after revisions that are of other keys, or of none.
    let end = expected.last().map_or(start, |(revision, _)| *revision);
    for point in start..=end {
        let rest: Vec<_> = expected.iter().filter(|(revision, _)| *revision > point).cloned().collect();
        let mut stream = watch(&store, "/resume/", point).await;
        let events = take_events(&mut stream, rest.len()).await;
        assert_eq!(
            events.iter().map(|event| (event.revision, brief(event))).collect::<Vec<_>>(),
            rest,
            "after {point}"
        );
    }
}

pub async fn from_now_on(store: Arc<dyn Store>) {
    put(&store, "/now/a", "before").await;
    let request = WatchRequest { range: KeyRange::prefix("/now/"), after: None, previous: true, marks: false };
    let mut stream = store.watch(request).await.unwrap();
    put(&store, "/now/a", "after").await;
    let events = take_events(&mut stream, 1).await;
    assert_eq!(brief(&events[0]), "~/now/a=after (before)");
}

pub async fn from_the_future(store: Arc<dyn Store>) {
    let now = put(&store, "/future/a", 0).await;
    let mut stream = watch(&store, "/future/", now + 3).await;
    let early = tokio::time::timeout(std::time::Duration::from_millis(100), stream.next()).await;
    assert!(early.is_err(), "there is nothing to tell yet: {early:?}");
    let mut last = now;
    while last <= now + 3 {
        last = put(&store, "/future/a", last).await;
    }
    loop {
        let batch = soon("what was the future", stream.next()).await.unwrap().unwrap();
        assert!(batch.revision <= store.progress().await.unwrap(), "a mark that has not happened: {batch:?}");
        assert!(batch.events.iter().all(|event| event.revision > now + 3), "{batch:?}");
        if !batch.events.is_empty() {
            break;
        }
    }
}

pub async fn only_the_range(store: Arc<dyn Store>) {
    let start = put(&store, "/x", 0).await;
    let range = KeyRange { start: "/only/b".into(), end: Some("/only/d".into()) };
    let request = WatchRequest { range, after: Some(start), previous: false, marks: false };
    let mut stream = store.watch(request).await.unwrap();
    let mut single = store.watch(WatchRequest::after(KeyRange::single("/only/b"), start)).await.unwrap();
    for key in ["/only/a", "/only/b", "/only/b/x", "/only/c", "/only/d", "/only", "/onlyb"] {
        put(&store, key, 1).await;
    }
    put(&store, "/only/c", "last").await;
    let events = take_events(&mut stream, 4).await;
    let keys: Vec<_> = events.iter().map(|event| event.key.to_string()).collect();
    assert_eq!(keys, ["/only/b", "/only/b/x", "/only/c", "/only/c"]);
    put(&store, "/only/b", 2).await;
    let events = take_events(&mut single, 2).await;
    assert!(events.iter().all(|event| event.key.as_bytes() == b"/only/b"));
}

pub async fn marks_follow_progress(store: Arc<dyn Store>) {
    let start = put(&store, "/marks/a", 0).await;
    let mut stream = watch(&store, "/marks/", start).await;
    for round in 0..3 {
        let elsewhere = put(&store, "/not/watched", round).await;
        let target = store.progress().await.unwrap();
        assert!(target >= elsewhere);
        loop {
            let batch = soon("a mark", stream.next()).await.unwrap().unwrap();
            assert!(batch.events.is_empty());
            if batch.revision >= target {
                break;
            }
        }
    }
    // An event and the marks around it: a mark must never run ahead of an event.
    let written = put(&store, "/marks/a", 1).await;
    let batch = next_events(&mut stream).await.unwrap();
    assert_eq!(batch.events[0].revision, written);
    assert!(batch.revision >= written);
}

/// Progress that is asked for while others write: every event after a progress mark is newer than the mark.
pub async fn marks_never_run_ahead(store: Arc<dyn Store>) {
    let start = put(&store, "/ahead/start", 0).await;
    let mut stream = watch(&store, "/ahead/", start).await;
    let writers: Vec<_> = (0..3)
        .map(|writer| {
            let store = store.clone();
            tokio::spawn(async move {
                let mut written = Vec::new();
                for n in 0..100 {
                    written.push(put(&store, format!("/ahead/{writer}"), n).await);
                    // What is written elsewhere moves marks, too.
                    put(&store, format!("/beside/{writer}"), n).await;
                    store.progress_of(&KeyRange::prefix("/ahead/")).await.unwrap();
                }
                written
            })
        })
        .collect();
    let (mut seen, mut marks, mut position) = (Vec::new(), 0, start);
    while seen.len() < 300 {
        let batch = soon("a batch", stream.next()).await.unwrap().unwrap();
        assert!(batch.revision >= position, "{} after {position}", batch.revision);
        assert!(batch.events.iter().all(|event| event.revision > position && event.revision <= batch.revision));
        position = batch.revision;
        marks += usize::from(batch.events.is_empty());
        seen.extend(batch.events.iter().map(|event| event.revision));
    }
    let mut expected = Vec::new();
    for writer in writers {
        expected.extend(soon("a writer", writer).await.unwrap());
    }
    expected.sort_unstable();
    assert_eq!(seen, expected, "after {marks} marks");
}

pub async fn a_slow_watcher_loses_nothing(store: Arc<dyn Store>) {
    const CHANGES: usize = 3000;
    let start = put(&store, "/slow/start", 0).await;
    let mut slow = watch(&store, "/slow/", start).await;
    let mut revisions = Vec::new();
    // In parallel, or an engine with a slow disk would make this a long test.
    let writers = (0..10).map(|writer| {
        let store = store.clone();
        async move {
            let mut written = Vec::new();
            for n in 0..CHANGES / 10 {
                written.push(put(&store, format!("/slow/{writer}/{}", n % 7), n).await);
            }
            written
        }
    });
    for written in futures::future::join_all(writers).await {
        revisions.extend(written);
    }
    revisions.sort_unstable();
    let events = take_events(&mut slow, CHANGES).await;
    assert_eq!(events.iter().map(|event| event.revision).collect::<Vec<_>>(), revisions);
}

pub async fn watchers_among_writers(store: Arc<dyn Store>) {
    let start = put(&store, "/among/start", 0).await;
    let count = 4 * 100;
    let watchers: Vec<_> = (0..8)
        .map(|number| {
            let store = store.clone();
            tokio::spawn(async move {
                // Half of them let go and come back all the time, as clients do.
                let mut seen = Vec::new();
                let mut position = start;
                while seen.len() < count {
                    let mut stream = watch(&store, "/among/", position).await;
                    let batch = next_events(&mut stream).await.unwrap();
                    position = batch.revision;
                    seen.extend(batch.events.iter().map(|event| event.revision));
                    while number % 2 == 0 && seen.len() < count {
                        let batch = next_events(&mut stream).await.unwrap();
                        seen.extend(batch.events.iter().map(|event| event.revision));
                    }
                }
                seen
            })
        })
        .collect();
    let writers = (0..4).map(|writer| {
        let store = store.clone();
        async move {
            let mut written = Vec::new();
            for n in 0..100 {
                written.push(put(&store, format!("/among/{writer}/{}", n % 5), n).await);
            }
            written
        }
    });
    let mut expected: Vec<_> = futures::future::join_all(writers).await.into_iter().flatten().collect();
    expected.sort_unstable();
    for watcher in watchers {
        assert_eq!(soon("a watcher", watcher).await.unwrap(), expected);
    }
}

pub async fn previous_entries_are_what_was_replaced(store: Arc<dyn Store>) {
    let start = put(&store, "/previous/start", 0).await;
    let writers = (0..6).map(|writer| {
        let store = store.clone();
        async move {
            for n in 0..40 {
                let key = format!("/previous/{}", (writer + n) % 3);
                if n % 5 == 4 {
                    // Another writer may have deleted it already.
                    drop(store.delete(key.into(), None).await);
                } else {
                    put(&store, key, format!("{writer}-{n}")).await;
                }
            }
        }
    });
    let mut live = watch(&store, "/previous/", start).await;
    futures::future::join_all(writers).await;
    let end = put(&store, "/previous/end", 0).await;
    let mut replayed = watch(&store, "/previous/", start).await;
    for stream in [&mut live, &mut replayed] {
        let mut model = BTreeMap::new();
        'stream: loop {
            for event in next_events(stream).await.unwrap().events {
                if event.revision == end {
                    break 'stream;
                }
                assert_eq!(event.previous, model.remove(&event.key), "{event:?}");
                if let Some(entry) = &event.entry {
                    model.insert(event.key.clone(), entry.clone());
                }
            }
        }
    }
}
