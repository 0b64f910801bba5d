//! Writes that come back when the cache has seen them.

use std::sync::{Arc, Weak};
use std::time::Duration;

use async_trait::async_trait;
use storage::{
    Found, KeyRange, Page, RangeQuery, Result, Revision, Status, Store, Subscriber, Subscription, WatchRequest,
    WatchStream, Write, Written,
};

use crate::Cache;

/// A change feed that takes longer has broken and is being resumed; the write is done and says so.
const PATIENCE: Duration = Duration::from_millis(500);

/// A store whose writes wait for a cache.
pub(crate) struct Through {
    pub store: Arc<dyn Store>,
    pub cache: Weak<Cache>,
}

#[async_trait]
impl Store for Through {
    async fn write(&self, write: Write) -> Result<Written> {
        let written = self.store.write(write).await?;
        if let Some(cache) = self.cache.upgrade() {
            let _ = tokio::time::timeout(PATIENCE, cache.wait_for(written.revision)).await;
        }
        Ok(written)
    }

    async fn get(&self, key: &[u8], at: Option<Revision>) -> Result<Found> {
        self.store.get(key, at).await
    }

    async fn range(&self, query: RangeQuery) -> Result<Page> {
        self.store.range(query).await
    }

    async fn watch(&self, request: WatchRequest) -> Result<WatchStream> {
        self.store.watch(request).await
    }

    async fn subscribe(&self, request: WatchRequest, subscriber: Arc<dyn Subscriber>) -> Result<Subscription> {
        self.store.subscribe(request, subscriber).await
    }

    fn delivers_in_commit(&self) -> bool {
        self.store.delivers_in_commit()
    }

    async fn progress(&self) -> Result<Revision> {
        self.store.progress().await
    }

    async fn progress_of(&self, range: &KeyRange) -> Result<Revision> {
        self.store.progress_of(range).await
    }

    async fn compact(&self, revision: Revision) -> Result<()> {
        self.store.compact(revision).await
    }

    async fn status(&self) -> Result<Status> {
        self.store.status().await
    }
}
