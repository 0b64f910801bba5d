//! Writes that return when the cache has seen them.

use std::sync::{Arc, Weak};
use std::time::Duration;

use async_trait::async_trait;
use storage::{Layer, RefusedWrites, Result, Revision, Store, Write, Written};

use crate::Cache;

/// A change feed that takes longer was interrupted and is being resumed; the write is acknowledged without waiting for it.
const PATIENCE: Duration = Duration::from_millis(500);

/// A store whose writes wait for a cache.
pub(crate) struct Through {
    /// The store that is written to.
    pub store: Arc<dyn Store>,
    /// The cache that is told of the writes.
    pub cache: Weak<Cache>,
}

#[async_trait]
impl Layer for Through {
    fn below(&self) -> &dyn Store {
        &*self.store
    }

    async fn write(&self, write: Write) -> Result<Written> {
        let written = self.store.write(write).await?;
        self.seen(written.revision).await;
        Ok(written)
    }

    async fn write_all(&self, writes: Vec<Write>) -> Result<Vec<Written>, RefusedWrites> {
        let written = self.store.write_all(writes).await?;
        if let Some(last) = written.last() {
            self.seen(last.revision).await;
        }
        Ok(written)
    }
}

impl Through {
    async fn seen(&self, revision: Revision) {
        if let Some(cache) = self.cache.upgrade() {
            let _ = tokio::time::timeout(PATIENCE, cache.wait_for(revision)).await;
        }
    }
}
