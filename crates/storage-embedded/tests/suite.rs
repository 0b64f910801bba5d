//! The suite every engine passes, on this one: as it comes, with so little room in memory that everything but the
//! present is read from the file, and with commits in the threads that ask for them.

#![allow(clippy::unwrap_used, clippy::panic)] // In tests a failed assumption is a failed test, in helpers too.

use std::sync::Arc;

use storage::Store;
use storage_embedded::{EmbeddedOptions, EmbeddedStore};
use tempfile::TempDir;

/// Keeps the directory until the store is closed.
struct InDirectory {
    store: EmbeddedStore,
    _directory: TempDir,
}

fn open(change: impl FnOnce(&mut EmbeddedOptions)) -> Arc<dyn Store> {
    let directory = tempfile::tempdir().unwrap();
    let mut options = EmbeddedOptions::at(directory.path().join("store"));
    change(&mut options);
    Arc::new(InDirectory { store: EmbeddedStore::open(options).unwrap(), _directory: directory })
}

mod as_it_comes {
    use super::*;

    async fn store() -> Arc<dyn Store> {
        open(|_| {})
    }

    storage::suite!(store);
}

mod from_the_file {
    use super::*;

    async fn store() -> Arc<dyn Store> {
        // With no room in the write-ahead log, every other commit waits for the database.
        open(|options| (options.ring_events_max, options.wal_bytes) = (2, 1))
    }

    storage::suite!(store);
}

mod alone {
    use super::*;

    async fn store() -> Arc<dyn Store> {
        // Every write that finds no other one is committed by its caller's thread.
        open(|options| options.quick_commits = 0)
    }

    storage::suite!(store);
}

impl storage::Layer for InDirectory {
    fn below(&self) -> &dyn Store {
        &self.store
    }
}
