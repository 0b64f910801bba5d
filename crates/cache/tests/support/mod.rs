//! A store for tests of what is above it: it can deliver late, hold back what it delivers, and break.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use cache::{Budget, Cache, CacheOptions, Describe, Header};
use futures::StreamExt;
use parking_lot::Mutex;
use storage::memory::MemoryStore;
use storage::{
    Batch, Change, Entry, Error, Expect, KeyRange, Result, Revision, Store, Subscriber, Subscription, WatchRequest,
    Write,
};
use tokio::sync::{RwLock, RwLockWriteGuard, watch};

/// Longer than anything here takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

pub async fn soon<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future).await.expect("waited in vain")
}

/// A store in memory that delivers to subscribers after the commit, if it is late.
pub struct Late {
    inner: MemoryStore,
    late: bool,
    /// Deliveries read it; who holds it for writing stops them.
    gate: Arc<RwLock<()>>,
    broken: watch::Sender<u64>,
    /// Subscribers that are called within the commit.
    feeds: Mutex<Vec<Arc<Feed>>>,
}

/// A subscriber who hears nothing any more once its subscription has ended.
struct Feed(Mutex<Option<Arc<dyn Subscriber>>>);

impl Subscriber for Feed {
    fn apply(&self, batch: &Batch) {
        if let Some(subscriber) = &*self.0.lock() {
            subscriber.apply(batch);
        }
    }

    fn end(&self, error: Error) {
        if let Some(subscriber) = self.0.lock().take() {
            subscriber.end(error);
        }
    }
}

impl Late {
    pub fn never() -> Arc<Late> {
        Late::new(false)
    }

    pub fn always() -> Arc<Late> {
        Late::new(true)
    }

    fn new(late: bool) -> Arc<Late> {
        let (inner, broken) = (MemoryStore::new(), watch::Sender::new(0));
        Arc::new(Late { inner, late, gate: Arc::default(), broken, feeds: Mutex::default() })
    }

    /// Nothing is delivered to subscribers until the guard is dropped.
    pub async fn hold(&self) -> RwLockWriteGuard<'_, ()> {
        self.gate.write().await
    }

    /// Ends all subscriptions; those within the commit from a thread that knows nothing of tasks, as an engine would.
    pub fn break_feeds(&self) {
        self.broken.send_modify(|count| *count += 1);
        let feeds = std::mem::take(&mut *self.feeds.lock());
        let end = move || feeds.iter().for_each(|feed| feed.end(Error::Unavailable("broken".into())));
        std::thread::spawn(end).join().unwrap();
    }
}

#[async_trait::async_trait]
impl storage::Layer for Late {
    fn below(&self) -> &dyn Store {
        &self.inner
    }

    async fn subscribe(&self, request: WatchRequest, subscriber: Arc<dyn Subscriber>) -> Result<Subscription> {
        if !self.late {
            let feed = Arc::new(Feed(Mutex::new(Some(subscriber))));
            self.feeds.lock().push(feed.clone());
            return self.inner.subscribe(request, feed).await;
        }
        let stream = self.inner.watch(request).await?;
        let (gate, broken) = (self.gate.clone(), self.broken.subscribe());
        let stream = futures::stream::unfold(Some(stream), move |stream| {
            let (gate, mut broken) = (gate.clone(), broken.clone());
            async move {
                let mut stream = stream?;
                let batch: Option<Result<Batch>> = tokio::select! {
                    biased;
                    _ = broken.changed() => return Some((Err(Error::Unavailable("broken".into())), None)),
                    batch = async {
                        let batch = stream.next().await;
                        let _open = gate.read().await;
                        batch
                    } => batch,
                };
                Some((batch?, Some(stream)))
            }
        });
        Ok(Subscription::over(Box::pin(stream), subscriber))
    }
    fn delivers_in_commit(&self) -> bool {
        !self.late
    }
}

pub async fn put<S: Store + ?Sized>(store: &Arc<S>, key: &str, value: &str) -> Revision {
    let change = Change::Put { value: Bytes::copy_from_slice(value.as_bytes()), ttl: None };
    store.write(Write { key: key.into(), change, expect: Expect::Any }).await.unwrap().revision
}

pub async fn delete<S: Store + ?Sized>(store: &Arc<S>, key: &str) -> Revision {
    store.delete(key.into(), None).await.unwrap().revision
}

/// A cache of everything under `/pods/`.
pub async fn start(store: &Arc<Late>, options: CacheOptions) -> Arc<Cache> {
    let range = KeyRange::prefix("/pods/");
    Cache::start(store.clone(), range, Arc::new(by_node()), Budget::new(1 << 20), options).await.unwrap()
}

/// Values are names of nodes.
pub struct ByNode;

pub fn by_node() -> ByNode {
    ByNode
}

impl Describe for ByNode {
    fn describe(&self, Entry { value, .. }: &Entry) -> Header {
        let node = String::from_utf8_lossy(value).into_owned();
        Header { fields: vec![("spec.nodeName".into(), node.into())], ..Header::default() }
    }
}
