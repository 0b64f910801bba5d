//! A store in front of another store.

use std::sync::Arc;

use async_trait::async_trait;

use crate::{
    Found, KeyRange, Page, RangeQuery, RefusedWrites, Result, Revision, Status, Store, Subscriber, Subscription,
    WatchRequest, WatchStream, Write, WriteLimits, Written,
};

/// A store that does something of its own with some operations and leaves the others to the store below it. Everything
/// that implements this is a [`Store`].
#[async_trait]
pub trait Layer: Send + Sync + 'static {
    /// The store below.
    fn below(&self) -> &dyn Store;

    /// [`Store::get`].
    async fn get(&self, key: &[u8], at: Option<Revision>) -> Result<Found> {
        self.below().get(key, at).await
    }

    /// [`Store::range`].
    async fn range(&self, query: RangeQuery) -> Result<Page> {
        self.below().range(query).await
    }

    /// [`Store::write`].
    async fn write(&self, write: Write) -> Result<Written> {
        self.below().write(write).await
    }

    /// [`Store::write_all`]. A layer that does something with a write does it here too.
    async fn write_all(&self, writes: Vec<Write>) -> Result<Vec<Written>, RefusedWrites> {
        self.below().write_all(writes).await
    }

    /// [`Store::watch`].
    async fn watch(&self, request: WatchRequest) -> Result<WatchStream> {
        self.below().watch(request).await
    }

    /// [`Store::subscribe`].
    async fn subscribe(&self, request: WatchRequest, subscriber: Arc<dyn Subscriber>) -> Result<Subscription> {
        self.below().subscribe(request, subscriber).await
    }

    /// [`Store::close`].
    async fn close(&self) {
        self.below().close().await;
    }

    /// [`Store::delivers_in_commit`].
    fn delivers_in_commit(&self) -> bool {
        self.below().delivers_in_commit()
    }
}

#[async_trait]
impl<L: Layer> Store for L {
    async fn get(&self, key: &[u8], at: Option<Revision>) -> Result<Found> {
        Layer::get(self, key, at).await
    }

    async fn range(&self, query: RangeQuery) -> Result<Page> {
        Layer::range(self, query).await
    }

    async fn write(&self, write: Write) -> Result<Written> {
        Layer::write(self, write).await
    }

    async fn write_all(&self, writes: Vec<Write>) -> Result<Vec<Written>, RefusedWrites> {
        Layer::write_all(self, writes).await
    }

    fn write_limits(&self) -> WriteLimits {
        self.below().write_limits()
    }

    async fn watch(&self, request: WatchRequest) -> Result<WatchStream> {
        Layer::watch(self, request).await
    }

    async fn subscribe(&self, request: WatchRequest, subscriber: Arc<dyn Subscriber>) -> Result<Subscription> {
        Layer::subscribe(self, request, subscriber).await
    }

    fn delivers_in_commit(&self) -> bool {
        Layer::delivers_in_commit(self)
    }

    async fn progress(&self) -> Result<Revision> {
        self.below().progress().await
    }

    async fn progress_of(&self, range: &KeyRange) -> Result<Revision> {
        self.below().progress_of(range).await
    }

    async fn is_unchanged(&self, key: &[u8], revision: Revision) -> Result<bool> {
        self.below().is_unchanged(key, revision).await
    }

    async fn compact(&self, revision: Revision) -> Result<()> {
        self.below().compact(revision).await
    }

    fn compacted(&self, range: &KeyRange) -> Revision {
        self.below().compacted(range)
    }

    async fn status(&self) -> Result<Status> {
        self.below().status().await
    }

    async fn close(&self) {
        Layer::close(self).await;
    }

    fn is_closed(&self) -> bool {
        self.below().is_closed()
    }
}
