//! Writes of definitions are answered when the catalog has followed them and their status says so.

use std::sync::{Arc, OnceLock, Weak};

use async_trait::async_trait;
use registry::Catalog;
use storage::{Layer, Store};

use crate::Definitions;
use crate::definitions::{GROUP, RESOURCE};

/// A store whose writes wait until the catalog has followed them and the status that follows is stored.
pub struct FollowedStore {
    store: Arc<dyn Store>,
    definitions: Arc<OnceLock<Weak<Definitions>>>,
}

/// Lets writes of definitions wait for the [`Definitions`] that are connected later.
#[derive(Clone, Default)]
pub struct Followers(Arc<OnceLock<Weak<Definitions>>>);

impl Followers {
    /// Wraps the store of definitions in a catalog that is not in use yet.
    pub fn wrap(&self, catalog: &mut Catalog) {
        catalog.wrap_store(GROUP, RESOURCE, &|store| {
            Arc::new(FollowedStore { store, definitions: self.0.clone() }) as Arc<dyn Store>
        });
    }

    pub fn connect(&self, definitions: &Arc<Definitions>) {
        let _ = self.0.set(Arc::downgrade(definitions));
    }
}

#[async_trait]
impl Layer for FollowedStore {
    fn below(&self) -> &dyn Store {
        &*self.store
    }

    async fn write(&self, write: storage::Write) -> storage::Result<storage::Written> {
        let key = write.key.clone();
        let written = self.store.write(write).await?;
        if let Some(definitions) = self.definitions.get().and_then(Weak::upgrade) {
            definitions.settled(&key, written.revision).await;
        }
        Ok(written)
    }
}
