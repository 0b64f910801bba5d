//! A store that brings its own etcd.

use std::sync::Arc;

use storage::{
    Found, KeyRange, Page, RangeQuery, Result, Revision, Status, Store, WatchRequest, WatchStream, Write, Written,
};
use storage_etcd::testing::Cluster;
use storage_etcd::{EtcdStore, Options};

/// Keeps the cluster until the store is closed.
pub struct OnCluster {
    store: EtcdStore,
    _cluster: Cluster,
}

impl OnCluster {
    pub async fn single() -> Option<Arc<OnCluster>> {
        let cluster = Cluster::single()?;
        let store = EtcdStore::connect(Options::at(cluster.endpoints())).await.unwrap();
        Some(Arc::new(OnCluster { store, _cluster: cluster }))
    }
}

#[async_trait::async_trait]
impl Store for OnCluster {
    async fn get(&self, key: &[u8], at: Option<Revision>) -> Result<Found> {
        self.store.get(key, at).await
    }
    async fn range(&self, query: RangeQuery) -> Result<Page> {
        self.store.range(query).await
    }
    async fn write(&self, write: Write) -> Result<Written> {
        self.store.write(write).await
    }
    async fn watch(&self, request: WatchRequest) -> Result<WatchStream> {
        self.store.watch(request).await
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
