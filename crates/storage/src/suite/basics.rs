//! One key at a time.

use std::sync::Arc;

use bytes::Bytes;

use super::{delete, put, text, value_of};
use crate::{Change, Error, Expect, Health, Key, Store, Write};

pub async fn create_update_delete(store: Arc<dyn Store>) {
    let key = Key::from("/basics/a");
    assert!(store.get(&key, None).await.unwrap().entry.is_none());

    let created = store.create(key.clone(), text("one"), None).await.unwrap();
    let entry = created.entry.unwrap();
    assert_eq!((entry.value.as_ref(), entry.mod_revision, entry.lease), (b"one".as_ref(), created.revision, 0));
    assert!(created.previous.is_none());
    let found = store.get(&key, None).await.unwrap();
    assert_eq!(found.entry.unwrap(), entry);
    assert!(found.revision >= created.revision);

    let updated = store.update(key.clone(), text("two"), created.revision, None).await.unwrap();
    assert!(updated.revision > created.revision);
    assert!(updated.previous.is_none());
    assert_eq!(store.get(&key, None).await.unwrap().entry, updated.entry);

    let deleted = store.delete(key.clone(), Some(updated.revision)).await.unwrap();
    assert!(deleted.revision > updated.revision);
    assert!(deleted.entry.is_none());
    assert_eq!(deleted.previous, updated.entry);
    assert!(store.get(&key, None).await.unwrap().entry.is_none());
}

pub async fn preconditions_return_the_current_entry(store: Arc<dyn Store>) {
    let key = Key::from("/basics/b");
    let missing = [
        store.update(key.clone(), text("x"), 1, None).await,
        store.delete(key.clone(), None).await,
        store.delete(key.clone(), Some(1)).await,
    ];
    for result in missing {
        assert!(matches!(result, Err(Error::NotFound)), "{result:?}");
    }

    let first = put(&store, key.clone(), "one").await;
    let second = put(&store, key.clone(), "two").await;
    match store.create(key.clone(), text("x"), None).await {
        Err(Error::KeyExists(entry)) => assert_eq!((entry.value.as_ref(), entry.mod_revision), (&b"two"[..], second)),
        other => panic!("{other:?}"),
    }
    let conflicts = [
        store.update(key.clone(), text("x"), first, None).await,
        store.update(key.clone(), text("x"), second + 1000, None).await,
        store.delete(key.clone(), Some(first)).await,
    ];
    for result in conflicts {
        match result {
            Err(Error::Conflict(entry)) => assert_eq!((&entry.value[..], entry.mod_revision), (&b"two"[..], second)),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(value_of(&store, "/basics/b", None).await.unwrap(), "two", "a failed write must change nothing");

    // What a failed write returned is enough to retry.
    let error = store.update(key.clone(), text("x"), first, None).await.unwrap_err();
    let current = error.current().unwrap().mod_revision;
    store.update(key, text("three"), current, None).await.unwrap();
}

pub async fn counters_of_an_entry(store: Arc<dyn Store>) {
    let key = "/basics/c";
    let read = async || {
        let entry = store.get(key.as_bytes(), None).await.unwrap().entry.unwrap();
        (entry.create_revision, entry.mod_revision, entry.version)
    };
    let one = put(&store, key, 1).await;
    assert_eq!(read().await, (one, one, 1));
    let two = put(&store, key, 2).await;
    assert_eq!(read().await, (one, two, 2));
    let three = put(&store, key, 2).await;
    assert_eq!(read().await, (one, three, 3), "writing the same value is a change");
    delete(&store, key).await;
    let again = put(&store, key, 1).await;
    assert_eq!(read().await, (again, again, 1), "a new life starts from one");
}

pub async fn unconditional_writes(store: Arc<dyn Store>) {
    let key = Key::from("/basics/d");
    let write = |value: &str| Write {
        key: key.clone(),
        change: Change::Put { value: text(value), ttl: None },
        expect: Expect::Any,
    };
    let created = store.write(write("one")).await.unwrap();
    assert_eq!(created.entry.unwrap().version, 1);
    let replaced = store.write(write("two")).await.unwrap();
    assert_eq!(replaced.entry.unwrap().version, 2);
    let deleted = store.delete(key.clone(), None).await.unwrap();
    assert_eq!(deleted.previous.unwrap().value, "two");
}

pub async fn keys_and_values_are_any_bytes(store: Arc<dyn Store>) {
    let keys: [&[u8]; 4] = [b"/bytes/\x00", b"/bytes/\xff\xfe", "/bytes/ключ".as_bytes(), b"/bytes/a\nb"];
    let value: Bytes = (0..=255u8).collect::<Vec<u8>>().into();
    for key in keys {
        store.create(key.into(), value.clone(), None).await.unwrap();
    }
    store.create("/bytes/empty".into(), Bytes::new(), None).await.unwrap();
    for key in keys {
        let entry = store.get(key, None).await.unwrap().entry.unwrap();
        assert_eq!((entry.key.as_bytes(), &entry.value), (key, &value));
    }
    assert_eq!(store.get(b"/bytes/empty", None).await.unwrap().entry.unwrap().value, Bytes::new());
}

pub async fn old_revisions_of_a_key(store: Arc<dyn Store>) {
    let key = "/basics/old";
    let before = put(&store, "/basics/other", 0).await;
    let one = put(&store, key, "one").await;
    let two = put(&store, key, "two").await;
    let gone = delete(&store, key).await;
    let three = put(&store, key, "three").await;
    let cases = [(before, None), (one, Some("one")), (two, Some("two")), (gone, None), (three, Some("three"))];
    for (at, expected) in cases {
        let found = store.get(key.as_bytes(), Some(at)).await.unwrap();
        assert_eq!(found.revision, at);
        assert_eq!(value_of(&store, key, Some(at)).await.as_deref(), expected, "at {at}");
    }
    let entry = store.get(key.as_bytes(), Some(two)).await.unwrap().entry.unwrap();
    assert_eq!((entry.create_revision, entry.mod_revision, entry.version), (one, two, 2));

    let future = three + 1_000_000;
    match store.get(key.as_bytes(), Some(future)).await {
        Err(Error::FutureRevision { requested, .. }) => assert_eq!(requested, future),
        other => panic!("{other:?}"),
    }
}

pub async fn too_large_values_are_refused(store: Arc<dyn Store>) {
    let key = Key::from("/basics/large");
    let large = Bytes::from(vec![b'x'; 8 << 20]);
    let refused = store.create(key.clone(), large, None).await;
    assert!(matches!(refused, Err(Error::TooLarge { .. })), "{refused:?}");
    assert!(store.get(&key, None).await.unwrap().entry.is_none());

    let fits = Bytes::from(vec![b'x'; 1 << 20]);
    store.create(key.clone(), fits.clone(), None).await.unwrap();
    assert_eq!(store.get(&key, None).await.unwrap().entry.unwrap().value, fits);
}

pub async fn status_tells_the_revision(store: Arc<dyn Store>) {
    let written = put(&store, "/basics/status", "x").await;
    let status = store.status().await.unwrap();
    assert!(status.revision >= written && status.compacted < written, "{status:?}");
    assert!(status.size > 0 && status.size_in_use > 0 && status.size_in_use <= status.size, "{status:?}");
    assert_eq!(status.health, Health::Healthy);
    assert!(store.progress().await.unwrap() >= written);
}

/// An engine may not know, but what it says is true.
pub async fn what_has_changed_is_not_unchanged(store: Arc<dyn Store>) {
    let key = "/unchanged/one";
    let mut last = 0;
    for n in 0..20 {
        let now = put(&store, key, n).await;
        assert!(!store.is_unchanged(key.as_bytes(), last).await.unwrap(), "{last} before {now}");
        last = now;
    }
    delete(&store, key).await;
    assert!(!store.is_unchanged(key.as_bytes(), last).await.unwrap());
}
