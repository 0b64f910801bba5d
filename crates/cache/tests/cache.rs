//! The cache over a store that delivers within the commit, and over one that delivers later, as etcd does.

#![allow(clippy::unwrap_used, clippy::panic)] // In tests a failed assumption is a failed test, in helpers too.

mod support;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake};

use cache::{Cache, CacheOptions, Error, Item, Part, Start, Watcher};
use object::fields::Selector;
use storage::{KeyRange, RangeQuery, Revision, Store};
use support::{Late, by_node, delete, put, soon, start};

/// A short form of what a watcher is told.
fn brief(item: &Item) -> String {
    let text = |object: &cache::Object| String::from_utf8_lossy(object.value()).into_owned();
    match item {
        Item::Initial(object) => format!("={} {}", object.key(), text(object)),
        Item::InitialDone(_) => "initial done".into(),
        Item::Event(event) => match (&event.object, &event.previous) {
            (Some(object), None) => format!("+{} {}", object.key(), text(object)),
            (Some(object), Some(_)) => format!("~{} {}", object.key(), text(object)),
            (None, Some(previous)) => format!("-{}", previous.key()),
            (None, None) => "nothing".into(),
        },
    }
}

/// The next things.
async fn take(watcher: &mut Watcher, count: usize) -> Vec<String> {
    let mut seen = Vec::new();
    while seen.len() < count {
        seen.push(brief(&soon(watcher.next()).await.unwrap()));
    }
    seen
}

/// The revisions of events up to `last`.
async fn revisions(watcher: &mut Watcher, last: Revision) -> Vec<Revision> {
    let mut seen = Vec::new();
    while seen.last() != Some(&last) {
        if let Item::Event(event) = soon(watcher.next()).await.unwrap() {
            seen.push(event.revision);
        }
    }
    seen
}

#[tokio::test]
async fn a_watch_begins_with_what_is_there() {
    for store in [Late::never(), Late::always()] {
        put(&store, "/pods/a/1", "one").await;
        put(&store, "/pods/b/1", "two").await;
        let cache = start(&store, CacheOptions::default()).await;
        let mut all = cache.watch(KeyRange::prefix("/pods/").into(), Start::Now).await.unwrap();
        let mut some = cache.watch(KeyRange::prefix("/pods/a/").into(), Start::Now).await.unwrap();
        put(&store, "/pods/b/1", "three").await;
        put(&store, "/pods/a/2", "four").await;
        delete(&store, "/pods/a/1").await;
        assert_eq!(
            take(&mut all, 6).await,
            ["=/pods/a/1 one", "=/pods/b/1 two", "initial done", "~/pods/b/1 three", "+/pods/a/2 four", "-/pods/a/1"]
        );
        assert_eq!(take(&mut some, 4).await, ["=/pods/a/1 one", "initial done", "+/pods/a/2 four", "-/pods/a/1"]);
    }
}

#[tokio::test]
async fn slow_watchers_read_the_log_and_come_back() {
    for store in [Late::never(), Late::always()] {
        let cache = start(&store, CacheOptions { ring_events: 4, ..CacheOptions::default() }).await;
        let from = put(&store, "/pods/a/0", "0").await;
        let mut watcher = cache.watch(KeyRange::prefix("/pods/").into(), Start::After(from)).await.unwrap();
        let mut written = Vec::new();
        for round in 0..5 {
            // Far more than the ring holds, then few enough to be found in it.
            for n in 0..(if round % 2 == 0 { 50 } else { 3 }) {
                written.push(put(&store, &format!("/pods/a/{n}"), &format!("{round}")).await);
            }
            let last = *written.last().unwrap();
            let missing: Vec<Revision> = revisions(&mut watcher, last).await;
            assert_eq!(missing, written[written.len() - missing.len()..]);
        }
        // Together they were everything; one from the start of history sees the same.
        let mut again = cache.watch(KeyRange::prefix("/pods/").into(), Start::After(from)).await.unwrap();
        assert_eq!(revisions(&mut again, *written.last().unwrap()).await, written);
    }
}

#[tokio::test]
async fn who_is_too_slow_for_the_log_is_told() {
    let store = Late::never();
    let cache = start(&store, CacheOptions { ring_events: 4, ..CacheOptions::default() }).await;
    let from = put(&store, "/pods/a/0", "0").await;
    let mut slow = cache.watch(KeyRange::prefix("/pods/").into(), Start::After(from)).await.unwrap();
    let mut last = from;
    for n in 0..20 {
        last = put(&store, "/pods/a/0", &n.to_string()).await;
    }
    store.compact(last).await.unwrap();
    assert!(matches!(soon(slow.next()).await, Err(Error::Expired { requested, .. }) if requested == from));
    let late = cache.watch(KeyRange::prefix("/pods/").into(), Start::After(from)).await;
    assert!(matches!(late, Err(Error::Expired { .. })));
    // What the ring still has needs no log.
    let mut quick = cache.watch(KeyRange::prefix("/pods/").into(), Start::After(last - 2)).await.unwrap();
    assert_eq!(revisions(&mut quick, last).await, [last - 1, last]);
}

#[tokio::test]
async fn old_states_come_from_the_ring_as_long_as_it_reaches_back() {
    let store = Late::never();
    let cache = start(&store, CacheOptions { ring_events: 20, ..CacheOptions::default() }).await;
    let mut points = Vec::new();
    for step in 0..60u32 {
        let key = format!("/pods/ns/{}", (step * step * 7 + step) % 8);
        let there = cache.get(key.as_bytes()).is_some();
        points.push(if there && step % 3 == 0 { delete(&store, &key).await } else { put(&store, &key, "x").await });
    }
    let range = KeyRange { start: "/pods/ns/2".into(), end: Some("/pods/ns/7".into()) };
    let mut answered = 0;
    for point in &points {
        let Some(snapshot) = cache.snapshot_at(&range, *point) else { continue };
        let expected = store.range(RangeQuery::new(range.clone()).at(*point)).await.unwrap().entries;
        let found: Vec<_> = snapshot.objects.iter().map(|object| object.entry().clone()).collect();
        assert_eq!((found, snapshot.revision), (expected, *point));
        answered += 1;
    }
    assert_eq!(answered, 21, "the ring's events, and the state before the first of them");
    assert!(cache.snapshot_at(&range, points.last().unwrap() + 1).is_none(), "the future");
    store.compact(points[50]).await.unwrap();
    assert!(
        cache.snapshot_at(&range, points[49]).is_none(),
        "what was compacted is not known, even if the ring has it"
    );
    assert!(cache.snapshot_at(&range, points[50]).is_some());
}

#[tokio::test]
async fn an_index_finds_what_a_filter_would() {
    let store = Late::never();
    let cache = start(&store, CacheOptions { index: Some("spec.nodeName".into()), ..CacheOptions::default() }).await;
    let check = |cache: &Arc<Cache>| {
        let range = KeyRange::prefix("/pods/");
        for node in ["n1", "n2", "n3", ""] {
            let indexed = cache.snapshot(&of_node(cache, node)).objects;
            let mut filtered = cache.snapshot(&range.clone().into()).objects;
            filtered.retain(|object| object.header(&by_node()).field("spec.nodeName") == Some(node));
            let keys = |objects: &[Arc<cache::Object>]| objects.iter().map(|o| o.key().clone()).collect::<Vec<_>>();
            assert_eq!(keys(&indexed), keys(&filtered), "{node}");
        }
    };
    for step in 0..80u32 {
        let key = format!("/pods/ns/{}", step * 5 % 9);
        match step % 7 {
            6 if cache.get(key.as_bytes()).is_some() => drop(delete(&store, &key).await),
            _ => drop(put(&store, &key, ["n1", "n2", "", "n3"][(step * step % 4) as usize]).await),
        }
        check(&cache);
    }
    // One namespace of one node.
    put(&store, "/pods/other/1", "n1").await;
    let part = cache.part(KeyRange::prefix("/pods/other/"), &Selector::equals("spec.nodeName", "n1"));
    assert_eq!(cache.snapshot(&part).objects.len(), 1);
    // Without an index there is nothing to narrow by.
    let other = cache.part(KeyRange::prefix("/pods/other/"), &Selector::equals("spec.other", "n1"));
    assert_eq!(cache.snapshot(&other).objects.len(), 1);
}

fn of_node(cache: &Cache, node: &str) -> Part {
    cache.part(KeyRange::prefix("/pods/"), &Selector::equals("spec.nodeName", node))
}

#[derive(Default)]
struct Wakes(AtomicUsize);

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// What a watcher has for the one it follows, without waiting.
fn poll(watcher: &mut Watcher, wakes: &Arc<Wakes>) -> Vec<String> {
    let waker = wakes.clone().into();
    let mut seen = Vec::new();
    while let Poll::Ready(item) = watcher.poll_next(&mut Context::from_waker(&waker)) {
        seen.push(brief(&item.unwrap()));
    }
    seen
}

#[tokio::test]
async fn watchers_that_are_behind_are_told_of() {
    let store = Late::never();
    let cache = start(&store, CacheOptions::default()).await;
    let check = |want: (usize, usize, u64)| {
        let lag = cache.watch_lag();
        assert_eq!((lag.watchers, lag.behind, lag.events_max), want);
    };
    check((0, 0, 0));
    let from = put(&store, "/pods/a/0", "0").await;
    put(&store, "/pods/a/0", "1").await;
    let all = || cache.watch(KeyRange::prefix("/pods/").into(), Start::After(from));
    let (mut quick, slow, wakes) = (all().await.unwrap(), all().await.unwrap(), Arc::default());
    check((2, 2, 1));
    assert_eq!(poll(&mut quick, &wakes).len(), 1);
    check((2, 1, 1));
    for n in 0..3 {
        put(&store, "/pods/a/1", &n.to_string()).await;
    }
    check((2, 2, 4));
    assert_eq!(poll(&mut quick, &wakes).len(), 3);
    check((2, 1, 4));
    drop(slow);
    check((1, 0, 0));
}

#[tokio::test]
async fn watchers_of_one_node_are_not_woken_for_others() {
    let store = Late::never();
    let cache =
        start(&store, CacheOptions { index: Some("spec.nodeName".into()), ring_events: 4, ..CacheOptions::default() })
            .await;
    let from = put(&store, "/pods/a/0", "n1").await;
    let mut watcher = cache.watch(of_node(&cache, "n1"), Start::After(from)).await.unwrap();
    let wakes = Arc::new(Wakes::default());
    assert_eq!(poll(&mut watcher, &wakes), [""; 0]);
    for n in 0..20 {
        put(&store, &format!("/pods/b/{n}"), "n2").await;
    }
    put(&store, "/elsewhere", "n1").await;
    assert_eq!(wakes.0.load(Ordering::Relaxed), 0);
    // Its own events: one that comes, one that changes, one that leaves for another node, one that is deleted.
    put(&store, "/pods/a/1", "n1").await;
    put(&store, "/pods/a/0", "n2").await;
    assert_eq!(wakes.0.load(Ordering::Relaxed), 1, "once until it has looked");
    assert_eq!(
        poll(&mut watcher, &wakes),
        ["+/pods/a/1 n1", "~/pods/a/0 n2"],
        "though the ring has moved on meanwhile"
    );
    let last = put(&store, "/pods/b/1", "n3").await;
    assert_eq!(wakes.0.load(Ordering::Relaxed), 1);
    assert_eq!(poll(&mut watcher, &wakes), [""; 0]);
    assert_eq!(watcher.seen(), last, "it knows that nothing else has happened");
    delete(&store, "/pods/a/1").await;
    assert_eq!((wakes.0.load(Ordering::Relaxed), poll(&mut watcher, &wakes)), (2, vec!["-/pods/a/1".to_string()]));
}

/// However slow they are and whatever happens to the feed, watchers of a node are told everything about it.
#[tokio::test]
async fn watchers_of_one_node_miss_nothing() {
    for store in [Late::never(), Late::always()] {
        let cache = start(
            &store,
            CacheOptions { index: Some("spec.nodeName".into()), ring_events: 4, ..CacheOptions::default() },
        )
        .await;
        let nodes = ["n1", "n2", "n3"];
        let mut watchers = Vec::new();
        let mut expected = vec![Vec::new(); nodes.len()];
        let from = put(&store, "/pods/a/x", "n1").await;
        cache.wait_for(from).await.unwrap();
        for node in nodes {
            watchers.push(cache.watch(of_node(&cache, node), Start::After(from)).await.unwrap());
        }
        let mut before = HashMap::from([("/pods/a/x".to_string(), "n1")]);
        for step in 0..400usize {
            let (key, node) = (format!("/pods/a/{}", step * step % 11), nodes[(step * 7 + step / 13) % 3]);
            let revision = put(&store, &key, node).await;
            let was = before.insert(key, node);
            for (index, each) in nodes.iter().enumerate() {
                if *each == node || Some(*each) == was {
                    expected[index].push(revision);
                }
            }
            if step % 60 == 59 {
                store.break_feeds();
            }
            // One looks all the time, one now and then, one at the end.
            let (index, every) = [(0, 1), (1, 17), (2, 400)][step % 3];
            if step % every == 0 {
                check(&mut watchers[index], &mut expected[index], nodes[index]).await;
            }
        }
        for index in 0..3 {
            check(&mut watchers[index], &mut expected[index], nodes[index]).await;
        }
    }

    /// Reads all that is expected; what is about other nodes only may be there, too.
    async fn check(watcher: &mut Watcher, expected: &mut Vec<Revision>, node: &str) {
        for revision in expected.drain(..) {
            loop {
                let Item::Event(event) = soon(watcher.next()).await.unwrap() else { panic!("not an event") };
                let is_at = |object: &Option<Arc<cache::Object>>| {
                    object.as_ref().is_some_and(|object| object.value() == node.as_bytes())
                };
                if is_at(&event.object) || is_at(&event.previous) {
                    assert_eq!(event.revision, revision);
                    break;
                }
            }
        }
    }
}

#[tokio::test]
async fn consistent_reads_see_every_acknowledged_write() {
    for store in [Late::never(), Late::always()] {
        let cache = start(&store, CacheOptions::default()).await;
        for n in 0..50 {
            // Written past the cache, as another server would.
            let written = put(&store, "/pods/a/1", &n.to_string()).await;
            put(&store, "/elsewhere", &n.to_string()).await;
            let fresh = cache.fresh().await.unwrap();
            assert!(fresh > written);
            assert_eq!(cache.get(b"/pods/a/1").unwrap().revision(), written);
        }
    }
}

#[tokio::test]
async fn who_writes_through_the_cache_finds_it_there() {
    for store in [Late::never(), Late::always()] {
        let cache = start(&store, CacheOptions::default()).await;
        let through = cache.through();
        for n in 0..50 {
            let written = put(&through, "/pods/a/1", &n.to_string()).await;
            assert_eq!(cache.get(b"/pods/a/1").unwrap().revision(), written);
        }
        put(&through, "/pods/a/2", "12345").await;
        assert_eq!((cache.len(), cache.encoded_bytes()), (2, 7));
        delete(&through, "/pods/a/1").await;
        assert!(cache.get(b"/pods/a/1").is_none());
        assert_eq!((cache.len(), cache.encoded_bytes()), (1, 5));
    }
}

/// A client that comes from another server may know a revision before this cache does.
#[tokio::test]
async fn a_watch_from_ahead_is_not_told_the_past() {
    let store = Late::always();
    let cache = start(&store, CacheOptions::default()).await;
    let hold = store.hold().await;
    let seen_elsewhere = put(&store, "/pods/a/1", "seen elsewhere").await;
    let mut watcher = cache.watch(KeyRange::prefix("/pods/").into(), Start::After(seen_elsewhere)).await.unwrap();
    drop(hold);
    let next = put(&store, "/pods/a/1", "next").await;
    assert_eq!(revisions(&mut watcher, next).await, [next]);
}

/// A watch that begins before the ring reads the log, which may be ahead of the cache: nothing is told twice.
#[tokio::test]
async fn what_the_log_has_told_the_ring_does_not_tell_again() {
    let store = Late::always();
    let old = put(&store, "/pods/a/1", "before the cache").await;
    let first = put(&store, "/pods/a/1", "before the cache too").await;
    let cache = start(&store, CacheOptions::default()).await;
    let hold = store.hold().await;
    let ahead = put(&store, "/pods/a/1", "not in the cache yet").await;
    let mut watcher = cache.watch(KeyRange::prefix("/pods/").into(), Start::After(old)).await.unwrap();
    assert_eq!(revisions(&mut watcher, ahead).await, [first, ahead]);
    drop(hold);
    let next = put(&store, "/pods/a/1", "next").await;
    assert_eq!(revisions(&mut watcher, next).await, [next]);
}

/// A revision that does not come is an error, not a wait without end.
#[tokio::test(start_paused = true)]
async fn a_revision_from_the_future_is_too_large() {
    let store = Late::never();
    let cache = start(&store, CacheOptions::default()).await;
    let now = put(&store, "/pods/a/1", "x").await;
    let result = cache.wait_for(now + 1000).await;
    assert!(
        matches!(result, Err(Error::TooLarge { requested, current }) if requested == now + 1000 && current == now),
        "{result:?}"
    );
}

/// A feed that tells within the commit ends: however far other subscribers are told, this cache knows nothing until it has
/// listed again.
#[tokio::test]
async fn what_is_not_followed_is_not_claimed() {
    let store = Late::never();
    let cache = start(&store, CacheOptions::default()).await;
    let before = put(&store, "/elsewhere", "1").await;
    assert_eq!(cache.revision(), before);
    store.break_feeds();
    let missed = put(&store, "/pods/a/1", "0").await;
    assert_eq!((cache.revision(), cache.len()), (before, 0));
    soon(cache.wait_for(missed)).await.unwrap();
    assert_eq!(cache.len(), 1);
    let after = put(&store, "/elsewhere", "2").await;
    soon(cache.wait_for(after)).await.unwrap();
    assert_eq!(cache.snapshot(&KeyRange::prefix("/pods/").into()).revision, after);
}

/// The change feed fails and the cache lists again: watchers get every event of the time in between.
#[tokio::test]
async fn watchers_survive_a_broken_feed() {
    let store = Late::always();
    let cache = start(&store, CacheOptions::default()).await;
    let from = put(&store, "/pods/a/1", "0").await;
    cache.wait_for(from).await.unwrap();
    let mut up_to_date = cache.watch(KeyRange::prefix("/pods/").into(), Start::After(from)).await.unwrap();
    let mut written = Vec::new();
    for round in 0..3 {
        let hold = store.hold().await;
        for n in 0..10 {
            written.push(put(&store, "/pods/a/1", &format!("{round}-{n}")).await);
        }
        written.push(delete(&store, "/pods/a/1").await);
        store.break_feeds();
        drop(hold);
        cache.wait_for(*written.last().unwrap()).await.unwrap();
        assert!(cache.get(b"/pods/a/1").is_none());
        written.push(put(&store, "/pods/a/1", "again").await);
        let expected = &written[written.len() - 12..];
        assert_eq!(revisions(&mut up_to_date, *written.last().unwrap()).await, expected);
    }
}
