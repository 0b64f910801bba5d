//! A store that brings its own etcd.

use std::sync::Arc;

use storage::Store;
use storage_etcd::testing::Cluster;
use storage_etcd::{EtcdOptions, EtcdStore};

/// Keeps the cluster until the store is closed.
pub struct OnCluster {
    store: EtcdStore,
    _cluster: Cluster,
}

impl OnCluster {
    pub async fn single() -> Option<Arc<OnCluster>> {
        let cluster = Cluster::single()?;
        let store = EtcdStore::connect(EtcdOptions::at(cluster.endpoints())).await.unwrap();
        Some(Arc::new(OnCluster { store, _cluster: cluster }))
    }
}

impl storage::Layer for OnCluster {
    fn below(&self) -> &dyn Store {
        &self.store
    }
}
