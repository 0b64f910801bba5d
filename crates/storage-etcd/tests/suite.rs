//! The suite every engine passes, on a real etcd for each test.

#![allow(clippy::unwrap_used, clippy::panic)] // In tests a failed assumption is a failed test, in helpers too.

mod support;

use std::sync::Arc;

use storage::Store;
use support::OnCluster;

async fn store() -> Option<Arc<dyn Store>> {
    Some(OnCluster::single().await?)
}

storage::suite!(store);
