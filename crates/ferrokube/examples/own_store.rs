//! A server on an own store: one that counts what is written, in front of another. A store that keeps objects elsewhere implements
//! `Store` itself in the same way.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use ferrokube::store::{Layer, MemoryStore, Result, Store, Write, Written};
use ferrokube::{Server, async_trait};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::PostParams;
use serde_json::json;

struct Counted {
    below: MemoryStore,
    writes: AtomicUsize,
}

#[async_trait]
impl Layer for Counted {
    fn below(&self) -> &dyn Store {
        &self.below
    }

    async fn write(&self, write: Write) -> Result<Written> {
        self.writes.fetch_add(1, Ordering::Relaxed);
        self.below.write(write).await
    }
}

#[tokio::main]
async fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let store = Arc::new(Counted { below: MemoryStore::new(), writes: AtomicUsize::new(0) });
    let server = Server::builder().bare().without_listener().store(store.clone()).start().await?;
    let before = store.writes.load(Ordering::Relaxed);
    let map: ConfigMap = serde_json::from_value(json!({"metadata": {"name": "x"}}))?;
    let maps: Api<ConfigMap> = Api::default_namespaced(server.client());
    maps.create(&PostParams::default(), &map).await?;
    assert!(store.writes.load(Ordering::Relaxed) > before);
    server.stop().await;

    // The store goes on: a later server finds everything.
    let server = Server::builder().bare().without_listener().store(store).start().await?;
    let maps: Api<ConfigMap> = Api::default_namespaced(server.client());
    assert!(maps.get_opt("x").await?.is_some());
    Ok(())
}
