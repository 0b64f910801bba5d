//! Keys with a time to live.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{brief, put, soon, take_events, text, watch};
use crate::{Change, Error, Expect, Key, Store, Write};

/// etcd may round a lease up, never down.
const TTL: Duration = Duration::from_secs(1);

pub async fn a_key_expires_by_itself(store: Arc<dyn Store>) {
    let start = put(&store, "/ttl/stays", 1).await;
    let mut stream = watch(&store, "/ttl/", start).await;
    let began = Instant::now();
    let created = store.create("/ttl/goes".into(), text("x"), Some(TTL)).await.unwrap();
    assert_ne!(created.entry.as_ref().unwrap().lease, 0);
    assert_eq!(store.get(b"/ttl/goes", None).await.unwrap().entry, created.entry);

    let events = take_events(&mut stream, 2).await;
    assert!(began.elapsed() >= TTL, "gone after {:?}", began.elapsed());
    assert_eq!(events.iter().map(|event| brief(event)).collect::<Vec<_>>(), ["+/ttl/goes=x", "-/ttl/goes (x)"]);
    assert!(events[1].revision > created.revision);
    assert!(store.get(b"/ttl/goes", None).await.unwrap().entry.is_none());
    assert!(store.get(b"/ttl/stays", None).await.unwrap().entry.is_some());
    assert_eq!(store.get(b"/ttl/goes", Some(created.revision)).await.unwrap().entry, created.entry);
}

pub async fn writing_again_renews_or_ends_the_ttl(store: Arc<dyn Store>) {
    let put_for = async |key: &str, ttl| {
        let change = Change::Put { value: text("x"), ttl };
        let write = Write { key: key.into(), change, expect: Expect::Any };
        store.write(write).await.unwrap()
    };
    let start = put_for("/renew/ended", Some(TTL)).await.revision;
    put_for("/renew/renewed", Some(TTL)).await;
    put_for("/renew/again", Some(TTL)).await;
    let ended = put_for("/renew/ended", None).await;
    assert_eq!(ended.entry.unwrap().lease, 0);
    put_for("/renew/renewed", Some(TTL * 3600)).await;
    // A key that was deleted and created again must not inherit the old deadline.
    store.delete("/renew/again".into(), None).await.unwrap();
    put_for("/renew/again", None).await;
    put_for("/renew/witness", Some(TTL)).await;

    let mut stream = watch(&store, "/renew/", start).await;
    let events = take_events(&mut stream, 8).await;
    assert_eq!(brief(&events[7]), "-/renew/witness (x)");
    for key in ["/renew/ended", "/renew/renewed", "/renew/again"] {
        assert!(store.get(key.as_bytes(), None).await.unwrap().entry.is_some(), "{key}");
    }
}

pub async fn many_keys_expire(store: Arc<dyn Store>) {
    let start = put(&store, "/many/start", 0).await;
    let creates = (0..200).map(|n| store.create(format!("/many/{n}").into(), text(n), Some(TTL)));
    for created in futures::future::join_all(creates).await {
        created.unwrap();
    }
    let mut stream = watch(&store, "/many/", start).await;
    let events = soon("expiry of all", take_events(&mut stream, 400)).await;
    assert_eq!(events.iter().filter(|event| event.is_delete()).count(), 200);
    assert!(events.iter().filter(|event| event.is_delete()).all(|event| event.previous.is_some()));
}

/// For compare-and-swap a key that has expired does not exist.
pub async fn what_has_expired_is_not_there(store: Arc<dyn Store>) {
    let start = put(&store, "/expired/start", 0).await;
    let key = || Key::from("/expired/a");
    let first = store.create(key(), text("x"), Some(TTL)).await.unwrap().revision;
    let mut stream = watch(&store, "/expired/", start).await;
    let gone = take_events(&mut stream, 2).await[1].revision;
    for refused in [store.update(key(), text("y"), first, None).await, store.delete(key(), Some(first)).await] {
        assert!(matches!(refused, Err(Error::NotFound)), "{refused:?}");
    }
    let again = store.create(key(), text("z"), None).await.unwrap();
    let entry = again.entry.unwrap();
    assert!(again.revision > gone);
    assert_eq!((entry.version, entry.lease, entry.create_revision), (1, 0, again.revision));
}
