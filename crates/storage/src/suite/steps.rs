//! Several keys in one step.

use std::sync::Arc;

use bytes::Bytes;

use super::{brief, put, soon, take_events, text, value_of, watch};
use crate::{Change, Error, Expect, Key, KeyRange, RangeQuery, Revision, Store, Write};

fn write(key: &str, value: Option<&str>, expect: Expect) -> Write {
    let change = value.map_or(Change::Delete, |value| Change::Put { value: text(value), ttl: None });
    Write { key: key.into(), change, expect }
}

pub async fn several_keys_change_in_one_step(store: Arc<dyn Store>) {
    let first = put(&store, "/steps/a", "one").await;
    let second = put(&store, "/steps/b", "two").await;
    let mut stream = watch(&store, "/steps/", second).await;
    let writes = vec![
        write("/steps/c", Some("three"), Expect::Absent),
        write("/steps/a", Some("ONE"), Expect::At(first)),
        write("/steps/b", None, Expect::At(second)),
        write("/steps/d", Some("four"), Expect::Any),
    ];
    let written = store.write_all(writes).await.unwrap();
    assert!(written.is_sorted_by_key(|written| written.revision) && written[0].revision > second, "{written:?}");
    let updated = written[1].entry.clone().unwrap();
    assert_eq!((updated.create_revision, updated.mod_revision, updated.version), (first, written[1].revision, 2));
    assert!(written[2].entry.is_none());
    assert_eq!(written[2].previous.as_ref().map(|entry| entry.value.clone()), Some(text("two")));
    for (at, key) in [(0, "/steps/c"), (1, "/steps/a"), (3, "/steps/d")] {
        assert_eq!(store.get(key.as_bytes(), None).await.unwrap().entry, written[at].entry, "{key}");
    }
    let mut seen: Vec<String> = take_events(&mut stream, 4).await.iter().map(|event| brief(event)).collect();
    // An engine that gives all of them one revision delivers them in any order.
    seen.sort();
    assert_eq!(seen, ["+/steps/c=three", "+/steps/d=four", "-/steps/b (two)", "~/steps/a=ONE (one)"]);
    assert_eq!(value_of(&store, "/steps/b", Some(second)).await.as_deref(), Some("two"));
    assert!(store.write_all(Vec::new()).await.unwrap().is_empty());
}

pub async fn a_step_that_is_refused_changes_nothing(store: Arc<dyn Store>) {
    let first = put(&store, "/steps/a", "one").await;
    let new = || write("/steps/new", Some("x"), Expect::Absent);
    let other = || write("/steps/other", Some("x"), Expect::Any);
    for (writes, at, wanted) in [
        (vec![new(), write("/steps/a", Some("x"), Expect::Absent), other()], 1, "exists"),
        (vec![write("/steps/a", Some("x"), Expect::At(first + 1000)), new()], 0, "conflict"),
        (vec![other(), new(), write("/steps/none", None, Expect::Any)], 2, "not found"),
        (vec![other(), write("/steps/none", Some("x"), Expect::At(first)), new()], 1, "not found"),
    ] {
        let refused = store.write_all(writes).await.unwrap_err();
        let found = match &refused.error {
            Error::KeyExists(entry) if entry.mod_revision == first => "exists",
            Error::Conflict(entry) if entry.mod_revision == first => "conflict",
            Error::NotFound => "not found",
            other => panic!("{other:?}"),
        };
        assert_eq!((refused.at, found), (at, wanted));
    }
    for key in ["/steps/new", "/steps/other", "/steps/none"] {
        assert_eq!(value_of(&store, key, None).await, None, "{key}");
    }
    let entry = store.get(b"/steps/a", None).await.unwrap().entry.unwrap();
    assert_eq!((entry.mod_revision, entry.version), (first, 1));
    // What was refused leaves nothing behind that a later write could meet.
    store.write_all(vec![new(), other()]).await.unwrap();
}

pub async fn a_step_has_limits(store: Arc<dyn Store>) {
    let limits = store.write_limits();
    let many = |count: usize| -> Vec<Write> {
        (0..count).map(|at| write(&format!("/steps/{at:05}"), Some("x"), Expect::Any)).collect()
    };
    let twice = vec![write("/steps/a", Some("x"), Expect::Any), write("/steps/a", None, Expect::Any)];
    let large = Change::Put { value: Bytes::from(vec![b'x'; 4 << 20]), ttl: None };
    let large = vec![Write { key: "/steps/a".into(), change: large, expect: Expect::Any }];
    for writes in [twice, large, many(limits.keys + 1)] {
        store.write_all(writes).await.unwrap_err();
    }
    assert_eq!(store.range(RangeQuery::new(KeyRange::prefix("/steps/"))).await.unwrap().count, 0);
    assert_eq!(store.write_all(many(limits.keys)).await.unwrap().len(), limits.keys);
    assert_eq!(store.range(RangeQuery::new(KeyRange::prefix("/steps/"))).await.unwrap().count, limits.keys);
}

/// Two writers take turns by preconditions; every reader sees the same number under all keys.
pub async fn readers_see_all_of_a_step_or_nothing(store: Arc<dyn Store>) {
    const KEYS: [&str; 3] = ["/steps/a", "/steps/b", "/steps/c"];
    const ROUNDS: u64 = 60;
    store.write_all(KEYS.iter().map(|key| write(key, Some("0"), Expect::Absent)).collect()).await.unwrap();
    let writer = |store: Arc<dyn Store>| async move {
        let mut made = 0;
        while made < ROUNDS {
            let page = store.range(RangeQuery::new(KeyRange::prefix("/steps/"))).await.unwrap();
            let number: u64 = std::str::from_utf8(&page.entries[0].value).unwrap().parse().unwrap();
            let next = (number + 1).to_string();
            let at: Vec<(Key, Revision)> = page.entries.iter().map(|e| (e.key.clone(), e.mod_revision)).collect();
            let writes = at.into_iter().map(|(key, revision)| Write {
                key,
                change: Change::Put { value: text(&next), ttl: None },
                expect: Expect::At(revision),
            });
            match store.write_all(writes.collect()).await {
                Ok(_) => made += 1,
                Err(refused) => assert!(matches!(refused.error, Error::Conflict(_)), "{refused:?}"),
            }
        }
    };
    let writers = [tokio::spawn(writer(store.clone())), tokio::spawn(writer(store.clone()))];
    loop {
        let page = store.range(RangeQuery::new(KeyRange::prefix("/steps/"))).await.unwrap();
        let values: Vec<&Bytes> = page.entries.iter().map(|entry| &entry.value).collect();
        assert!(values.len() == KEYS.len() && values.iter().all(|value| *value == values[0]), "{values:?}");
        if *values[0] == text(2 * ROUNDS) {
            break;
        }
    }
    for writer in writers {
        soon("the writers", writer).await.unwrap();
    }
}
