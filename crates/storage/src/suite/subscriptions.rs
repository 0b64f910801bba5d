//! Subscriptions: callbacks instead of a stream.

use std::sync::Arc;

use parking_lot::Mutex;

use super::{brief, delete, put, soon};
use crate::{Batch, Error, KeyRange, Revision, Store, Subscriber, Subscription, WatchRequest};

#[derive(Default)]
struct Recorder {
    seen: Mutex<Vec<(Revision, String)>>,
    applied: Mutex<Revision>,
}

impl Subscriber for Recorder {
    fn apply(&self, batch: &Batch) {
        assert!(!batch.events.is_empty(), "called for nothing");
        self.seen.lock().extend(batch.events.iter().map(|event| (event.revision, brief(event))));
        let before = std::mem::replace(&mut *self.applied.lock(), batch.revision);
        assert!(batch.revision > before, "went back in time");
    }

    fn end(&self, error: Error) {
        self.seen.lock().push((0, error.to_string()));
    }
}

async fn reach(subscription: &Subscription, revision: Revision) {
    soon("the subscriber", subscription.progress().reach(revision)).await;
}

pub async fn a_subscriber_sees_everything_in_order(store: Arc<dyn Store>) {
    let start = put(&store, "/sub/start", 0).await;
    let mut expected = vec![(put(&store, "/sub/a", 1).await, "+/sub/a=1".to_string())];
    let recorder = Arc::new(Recorder::default());
    let request = WatchRequest::after(KeyRange::prefix("/sub/"), start);
    let subscription = store.subscribe(request, recorder.clone()).await.unwrap();
    expected.push((put(&store, "/sub/a", 2).await, "~/sub/a=2 (1)".to_string()));
    put(&store, "/other", 1).await;
    expected.push((delete(&store, "/sub/a").await, "-/sub/a (2)".to_string()));
    reach(&subscription, expected[2].0).await;
    assert_eq!(*recorder.seen.lock(), expected);
    // Progress counts even if nothing in the range changes.
    put(&store, "/other", 2).await;
    reach(&subscription, store.progress().await.unwrap()).await;
    assert_eq!(*recorder.seen.lock(), expected);
}

pub async fn a_read_after_a_write_finds_the_subscriber_ready(store: Arc<dyn Store>) {
    let start = put(&store, "/ready/start", 0).await;
    let recorder = Arc::new(Recorder::default());
    let request = WatchRequest::after(KeyRange::prefix("/ready/"), start);
    let subscription = store.subscribe(request, recorder.clone()).await.unwrap();
    let writers = (0..4).map(|writer| {
        let (store, recorder, subscription) = (store.clone(), recorder.clone(), &subscription);
        async move {
            for n in 0..50 {
                let written = put(&store, format!("/ready/{writer}"), n).await;
                if !store.delivers_in_commit() {
                    reach(subscription, store.progress().await.unwrap()).await;
                }
                assert!(subscription.progress().revision() >= written);
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
    let kept = store.subscribe(request(), second.clone()).await.unwrap();
    let one = put(&store, "/quiet/a", 1).await;
    reach(&dropped, one).await;
    drop(dropped);
    let two = put(&store, "/quiet/a", 2).await;
    reach(&kept, two).await;
    reach(&kept, store.progress().await.unwrap()).await;
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
