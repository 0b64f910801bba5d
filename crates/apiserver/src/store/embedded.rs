//! The store in the data directory.

use std::path::Path;
use std::sync::Arc;

use storage::Store;
use storage_embedded::{EmbeddedOptions, EmbeddedStore, Reserve};

use super::{Ask, Cluster, OpenedStore, StoreConfig};
use crate::admin::Admin;
use crate::own_console::Console;
use crate::{StartError, store_path};

/// Blocks of the file system that keep deletions in the store possible when it is full.
const RESERVE_BYTES: u64 = 16 << 20;

/// Opens the store in the data directory, or makes it.
pub(super) async fn open(
    data_dir: &Path,
    config: &StoreConfig,
    console: Option<Arc<Console>>,
) -> Result<OpenedStore, StartError> {
    let path = store_path(data_dir);
    let mut options = EmbeddedOptions {
        quota_bytes: config.quota_bytes,
        reserve: Some(Reserve::beside(&path, RESERVE_BYTES)),
        ..EmbeddedOptions::at(path)
    };
    if !config.compaction_interval.is_zero() {
        options.history_age = config.compaction_interval;
    }
    let opened = tokio::task::spawn_blocking(move || EmbeddedStore::open(options)).await;
    let store = opened.map_err(|error| StartError::Store(error.to_string()))?;
    let store = Arc::new(store.map_err(|error| StartError::Store(crate::admin::with_way_out(&error)))?);
    let asked = store.clone();
    // A restart would not help a disk that is full or broken: reads go on, and writes do when it works again.
    let ask: Ask = Arc::new(move || {
        let store = asked.clone();
        Box::pin(async move { if store.is_closed() { Err("the store is closed".into()) } else { Ok(()) } })
    });
    // The socket in the data directory takes requests for backups and for links to the console.
    let admin = Admin::open(data_dir, store.clone(), console);
    let background: Vec<Box<dyn Send + Sync>> = vec![Box::new(admin)];
    let cluster = Cluster { store, ask, is_embedded: true, keys_per_lease: None };
    Ok(OpenedStore { background, ..OpenedStore::of(cluster) })
}
