use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use futures::FutureExt;
use futures::future::{BoxFuture, pending};
use object::GroupResource;

use super::*;

#[derive(Default)]
struct Counts {
    undone: AtomicUsize,
    committed: AtomicUsize,
}

struct Counted(Arc<Counts>);

#[async_trait]
impl Undo for Counted {
    async fn undo(self: Box<Self>) {
        self.0.undone.fetch_add(1, Ordering::SeqCst);
    }

    async fn commit(self: Box<Self>) {
        self.0.committed.fetch_add(1, Ordering::SeqCst);
    }
}

#[tokio::test]
async fn reservations_end_as_their_write_does() {
    let store = |error| Error::Store { error, resource: GroupResource::default(), verb: "create", name: "a".into() };
    let unknown = storage::Error::OutcomeUnknown("gone".into());
    type Written = Result<Attempt<()>, Error>;
    // Whether it was sent, what became of it, and how often it is undone and committed then.
    let cases: [(bool, BoxFuture<'static, Written>, [usize; 2]); 9] = [
        (true, Box::pin(async { Ok(Attempt::Done(())) }), [0, 1]),
        (true, Box::pin(async { Ok(Attempt::Lost(None)) }), [1, 0]),
        (true, Box::pin(async { Err(Error::Failed("no".into())) }), [1, 0]),
        (true, Box::pin(async move { Err(store(storage::Error::unavailable("gone"))) }), [1, 0]),
        (true, Box::pin(async move { Err(store(unknown)) }), [0, 0]),
        (true, Box::pin(async { std::panic::resume_unwind(Box::new("a bug")) }), [1, 0]),
        (false, Box::pin(async { std::panic::resume_unwind(Box::new("a bug")) }), [1, 0]),
        // Dropped: what may be stored is not given back.
        (true, Box::pin(pending()), [0, 0]),
        (false, Box::pin(pending()), [1, 0]),
    ];
    for (at, (sent, write, want)) in cases.into_iter().enumerate() {
        let counts = Arc::new(Counts::default());
        let reserved = Reserved { undo: Some(Box::new(Counted(counts.clone()))), sent };
        let writing = AssertUnwindSafe(async move {
            let written = write.await;
            reserved.settle(&written).await;
        });
        let _ = Box::pin(writing.catch_unwind()).now_or_never();
        tokio::task::yield_now().await;
        let got = [&counts.undone, &counts.committed].map(|count| count.load(Ordering::SeqCst));
        assert_eq!(got, want, "{at}");
    }
}
