//! Ranges of keys.

use std::sync::Arc;

use super::{delete, put};
use crate::{Error, KeyRange, Page, RangeQuery, Revision, Store};

fn keys(page: &Page) -> Vec<String> {
    page.entries.iter().map(|entry| entry.key.to_string()).collect()
}

fn values(page: &Page) -> Vec<String> {
    page.entries.iter().map(|entry| String::from_utf8(entry.value.to_vec()).unwrap()).collect()
}

async fn at(store: &Arc<dyn Store>, prefix: &str, revision: Revision) -> Vec<String> {
    let page = store.range(RangeQuery::new(KeyRange::prefix(prefix)).at(revision)).await.unwrap();
    assert_eq!(page.revision, revision);
    assert_eq!(page.count, page.entries.len());
    page.entries.iter().map(|entry| format!("{}={}", entry.key, String::from_utf8_lossy(&entry.value))).collect()
}

pub async fn a_prefix_and_nothing_else(store: Arc<dyn Store>) {
    for key in ["/ran", "/range", "/range/b", "/range/a", "/range/a/b", "/range0", "/ranges/a", "/range/\u{7f}"] {
        put(&store, key, key).await;
    }
    let page = store.range(RangeQuery::new(KeyRange::prefix("/range/"))).await.unwrap();
    assert_eq!(keys(&page), ["/range/a", "/range/a/b", "/range/b", "/range/\u{7f}"]);
    assert_eq!(values(&page), keys(&page));
    assert!(!page.more);

    let none = store.range(RangeQuery::new(KeyRange::prefix("/nothing/"))).await.unwrap();
    assert_eq!((none.entries.len(), none.count, none.more), (0, 0, false));
    assert!(none.revision >= page.revision);

    let part = KeyRange { start: "/range/a/b".into(), end: Some("/range0".into()) };
    assert_eq!(keys(&store.range(RangeQuery::new(part)).await.unwrap()), ["/range/a/b", "/range/b", "/range/\u{7f}"]);
    let empty = KeyRange { start: "/range/b".into(), end: Some("/range/a".into()) };
    assert_eq!(store.range(RangeQuery::new(empty)).await.unwrap().count, 0);
    let all = store.range(RangeQuery::new(KeyRange::all())).await.unwrap();
    assert!(keys(&all).contains(&"/ran".to_string()) && all.count >= 8);
}

pub async fn limit_more_and_count(store: Arc<dyn Store>) {
    for n in 0..10 {
        put(&store, format!("/limit/{n}"), n).await;
    }
    let query = || RangeQuery::new(KeyRange::prefix("/limit/"));
    for (limit, entries, more) in [(1, 1, true), (9, 9, true), (10, 10, false), (11, 10, false), (0, 0, false)] {
        let page = store.range(query().limit(limit)).await.unwrap();
        assert_eq!((page.entries.len(), page.more, page.count), (entries, more, 10), "limit {limit}");
    }
    assert_eq!(store.range(query()).await.unwrap().entries.len(), 10);
}

pub async fn keys_only_leaves_values_out(store: Arc<dyn Store>) {
    let revision = put(&store, "/keys/a", "secret").await;
    let query = RangeQuery::new(KeyRange::prefix("/keys/")).keys_only();
    for query in [query.clone(), query.at(revision)] {
        let page = store.range(query).await.unwrap();
        assert_eq!((keys(&page), values(&page)), (vec!["/keys/a".to_string()], vec![String::new()]));
        assert_eq!(page.entries[0].mod_revision, revision);
    }
}

pub async fn pages_at_a_revision_ignore_later_writes(store: Arc<dyn Store>) {
    for n in 0..23 {
        put(&store, format!("/pages/{n:02}"), n).await;
    }
    let mut range = KeyRange::prefix("/pages/");
    let mut at = None;
    let mut seen = Vec::new();
    loop {
        let page = store.range(RangeQuery { at, ..RangeQuery::new(range.clone()).limit(5) }).await.unwrap();
        at = Some(page.revision);
        assert_eq!(page.count, 23 - seen.len());
        seen.extend(values(&page));
        // Between pages everything changes: keys come, go and get other values, before and after the cursor.
        put(&store, format!("/pages/{:02}-new", seen.len()), "new").await;
        put(&store, format!("/pages/{:02}", seen.len().min(22)), "changed").await;
        delete(&store, format!("/pages/{:02}", seen.len() - 1)).await;
        if !page.more {
            break;
        }
        range = range.after(&page.entries.last().unwrap().key);
    }
    let expected: Vec<String> = (0..23).map(|n| n.to_string()).collect();
    assert_eq!(seen, expected);
}

pub async fn old_revisions_of_a_range(store: Arc<dyn Store>) {
    let start = put(&store, "/elsewhere", 0).await;
    let mut history = vec![(start, Vec::<String>::new())];
    let mut state = std::collections::BTreeMap::new();
    for step in 0..60u32 {
        // A fixed pattern that creates, changes, deletes and creates again over eight keys.
        let key = format!("/old/{}", (step * step * 7 + step) % 8);
        let revision = if state.contains_key(&key) && step % 3 == 0 {
            state.remove(&key);
            delete(&store, key).await
        } else {
            state.insert(key.clone(), step.to_string());
            put(&store, key, step).await
        };
        history.push((revision, state.iter().map(|(key, value)| format!("{key}={value}")).collect()));
    }
    for (revision, expected) in &history {
        assert_eq!(at(&store, "/old/", *revision).await, *expected, "at {revision}");
    }
    let future = history.last().unwrap().0 + 1_000_000;
    let result = store.range(RangeQuery::new(KeyRange::all()).at(future)).await;
    assert!(matches!(result, Err(Error::FutureRevision { .. })), "{result:?}");
}

/// More keys than any engine reads at a time, while they change: what comes back is the state at one revision.
pub async fn large_ranges_are_one_state(store: Arc<dyn Store>) {
    const KEYS: usize = 1203;
    let puts = (0..KEYS).map(|n| put(&store, format!("/large/{n:04}"), 0));
    futures::future::join_all(puts).await;
    let changing = tokio::spawn({
        let store = store.clone();
        async move {
            // From both ends, so that a page that is read late would differ from one that is read early.
            for n in 0.. {
                put(&store, format!("/large/{:04}", n % KEYS), n).await;
                put(&store, format!("/large/{:04}", (KEYS - 1) - n % KEYS), n).await;
                // An engine that never waits would never let go of this task.
                tokio::task::yield_now().await;
            }
        }
    });
    let query = || RangeQuery::new(KeyRange::prefix("/large/"));
    for limit in [None, Some(700), Some(KEYS - 1), Some(KEYS)] {
        let page = store.range(RangeQuery { limit, ..query() }).await.unwrap();
        let wanted = limit.unwrap_or(KEYS);
        assert_eq!((page.entries.len(), page.count, page.more), (wanted, KEYS, wanted < KEYS));
        assert!(keys(&page).is_sorted());
        let again = store.range(RangeQuery { limit, ..query().at(page.revision) }).await.unwrap();
        assert_eq!(page.entries, again.entries, "limit {limit:?}");
        let names = store.range(RangeQuery { limit, ..query().at(page.revision).keys_only() }).await.unwrap();
        assert_eq!(keys(&names), keys(&page));
        let counted = store.range(query().at(page.revision).limit(0)).await.unwrap();
        assert_eq!((counted.count, counted.entries.len()), (KEYS, 0));
    }
    changing.abort();
}
