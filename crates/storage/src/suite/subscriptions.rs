//! Being called instead of polling.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use parking_lot::Mutex;
use tokio::sync::Notify;

use super::{brief, delete, put, soon};
use crate::{Batch, Error, KeyRange, Revision, Store, Subscriber, WatchRequest};

#[derive(Default)]
struct Recorder {
    seen: Mutex<Vec<(Revision, String)>>,
    applied: AtomicI64,
    changed: Notify,
}

impl Subscriber for Recorder {
    fn apply(&self, batch: &Batch) {
        assert!(batch.revision >= self.applied.load(Ordering::SeqCst), "went back in time");
        self.seen.lock().extend(batch.events.iter().map(|event| (event.revision, brief(event))));
        self.applied.store(batch.revision, Ordering::SeqCst);
        self.changed.notify_waiters();
    }

    fn end(&self, error: Error) {
        self.seen.lock().push((0, error.to_string()));
    }
}

impl Recorder {
    async fn reach(&self, revision: Revision) {
        loop {
            let changed = self.changed.notified();
            if self.applied.load(Ordering::SeqCst) >= revision {
                return;
            }
            soon("the subscriber", changed).await;
        }
    }
}

pub async fn a_subscriber_sees_everything_in_order(store: Arc<dyn Store>) {
    let start = put(&store, "/sub/start", 0).await;
    let mut expected = vec![(put(&store, "/sub/a", 1).await, "+/sub/a=1".to_string())];
    let recorder = Arc::new(Recorder::default());
    let request = WatchRequest::after(KeyRange::prefix("/sub/"), start);
    let _subscription = store.subscribe(request, recorder.clone()).await.unwrap();
    expected.push((put(&store, "/sub/a", 2).await, "~/sub/a=2 (1)".to_string()));
    put(&store, "/other", 1).await;
    expected.push((delete(&store, "/sub/a").await, "-/sub/a (2)".to_string()));
    recorder.reach(expected[2].0).await;
    assert_eq!(*recorder.seen.lock(), expected);
    // Progress counts even if nothing in the range changes.
    put(&store, "/other", 2).await;
    recorder.reach(store.progress().await.unwrap()).await;
    assert_eq!(*recorder.seen.lock(), expected);
}

pub async fn a_read_after_a_write_finds_the_subscriber_ready(store: Arc<dyn Store>) {
    let start = put(&store, "/ready/start", 0).await;
    let recorder = Arc::new(Recorder::default());
    let request = WatchRequest::after(KeyRange::prefix("/ready/"), start);
    let _subscription = store.subscribe(request, recorder.clone()).await.unwrap();
    let writers = (0..4).map(|writer| {
        let (store, recorder) = (store.clone(), recorder.clone());
        async move {
            for n in 0..50 {
                let written = put(&store, format!("/ready/{writer}"), n).await;
                if !store.delivers_in_commit() {
                    recorder.reach(store.progress().await.unwrap()).await;
                }
                assert!(recorder.applied.load(Ordering::SeqCst) >= written);
                assert!(recorder.seen.lock().iter().any(|(revision, _)| *revision == written));
            }
        }
    });
    futures::future::join_all(writers).await;
    assert_eq!(recorder.seen.lock().len(), 200);
    assert!(recorder.seen.lock().is_sorted());
}

pub async fn a_dropped_subscription_is_quiet(store: Arc<dyn Store>) {
    let start = put(&store, "/quiet/a", 0).await;
    let request = || WatchRequest::after(KeyRange::prefix("/quiet/"), start);
    let (first, second) = (Arc::new(Recorder::default()), Arc::new(Recorder::default()));
    let dropped = store.subscribe(request(), first.clone()).await.unwrap();
    let _kept = store.subscribe(request(), second.clone()).await.unwrap();
    let one = put(&store, "/quiet/a", 1).await;
    first.reach(one).await;
    drop(dropped);
    let two = put(&store, "/quiet/a", 2).await;
    second.reach(two).await;
    second.reach(store.progress().await.unwrap()).await;
    assert_eq!(second.seen.lock().len(), 2);
    if store.delivers_in_commit() {
        assert_eq!(first.seen.lock().len(), 1);
    }
    // The recorder is let go of, so a subscription does not leak what it feeds.
    soon("the subscriber to be released", async {
        while Arc::strong_count(&first) > 1 {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

pub async fn a_subscriber_who_comes_too_late_is_told(store: Arc<dyn Store>) {
    let old = put(&store, "/late/a", 0).await;
    let new = put(&store, "/late/a", 1).await;
    store.compact(new).await.unwrap();
    let recorder = Arc::new(Recorder::default());
    let request = WatchRequest::after(KeyRange::prefix("/late/"), old - 1);
    match store.subscribe(request, recorder.clone()).await {
        Err(Error::Compacted { compacted, .. }) => assert!(compacted >= new),
        Err(other) => panic!("{other:?}"),
        Ok(_subscription) => {
            soon("the end of the subscription", async {
                while recorder.seen.lock().is_empty() {
                    tokio::task::yield_now().await;
                }
            })
            .await;
            assert!(recorder.seen.lock()[0].1.contains("compacted"), "{:?}", recorder.seen.lock());
        }
    }
}
