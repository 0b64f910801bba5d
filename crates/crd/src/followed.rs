//! [`FollowedDefinitions`]: how far the catalog has followed the stored definitions, for requests that wait for it.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use hashbrown::HashSet;
use object::Str;
use registry::{Catalog, DirectStorage};
use storage::{Key, Layer, Revision, Store};
use tokio::sync::watch;

use crate::definitions::{GROUP, RESOURCE};

/// How long a request waits until the catalog has followed the stored definitions.
const FOLLOW_TIMEOUT: Duration = Duration::from_secs(3);

/// How far the catalog has followed the stored definitions. It is there before the task that follows them, which says here how far
/// it is; while that task does not run, nothing waits.
pub struct FollowedDefinitions {
    /// Where the definitions themselves are; its writes do not wait for the catalog.
    pub(crate) storage: DirectStorage,
    /// The revision up to which the catalog has followed the definitions; None while no task follows them.
    followed: watch::Sender<Option<Revision>>,
    /// Definitions whose status does not say yet what was decided about them.
    owed: watch::Sender<HashSet<Str>>,
}

impl FollowedDefinitions {
    /// Lets writes of definitions wait until the catalog has followed them and the status that follows is stored; the catalog is
    /// not in use yet. None if it does not serve definitions.
    pub fn of(catalog: &mut Catalog) -> Option<Arc<FollowedDefinitions>> {
        let storage = catalog.get(GROUP, "v1", RESOURCE)?.storage.as_ref()?.direct()?;
        let (followed, owed) = (watch::Sender::new(None), watch::Sender::new(HashSet::new()));
        let definitions = Arc::new(FollowedDefinitions { storage, followed, owed });
        catalog.wrap_store(GROUP, RESOURCE, &|store| {
            Arc::new(FollowedStore { store, definitions: definitions.clone() }) as Arc<dyn Store>
        });
        Some(definitions)
    }

    /// Notes that a task follows the definitions, until what is returned is dropped.
    pub(crate) fn begin(self: &Arc<Self>) -> FollowingTask {
        self.followed.send_replace(Some(0));
        FollowingTask(self.clone())
    }

    /// Notes that the catalog has followed everything up to a revision.
    pub(crate) fn reach(&self, revision: Revision) {
        self.followed.send_modify(|followed| *followed = Some(revision.max(followed.unwrap_or(0))));
    }

    /// Waits until the catalog has followed every definition that was written before this call.
    pub async fn caught_up(&self) {
        if self.storage.cache.fresh().await.is_ok() {
            let waiting = self.reached(self.storage.cache.last_change());
            let _ = tokio::time::timeout(FOLLOW_TIMEOUT, waiting).await;
        }
    }

    async fn reached(&self, revision: Revision) {
        let is_reached = |followed: &Option<Revision>| followed.is_none_or(|followed| followed >= revision);
        let _ = self.followed.subscribe().wait_for(is_reached).await;
    }

    /// Waits until the catalog has followed a write of a definition and the status that follows from it is stored. Clients
    /// take a resource that is in discovery for Established, and the server is not to write the definition after that.
    async fn settled(&self, key: &Key, revision: Revision) {
        let name = self.name_of(key);
        let waiting = async {
            self.reached(revision).await;
            let _ = self.owed.subscribe().wait_for(|owed| !owed.contains(&name)).await;
        };
        let _ = tokio::time::timeout(FOLLOW_TIMEOUT, waiting).await;
    }

    pub(crate) fn name_of(&self, key: &Key) -> Str {
        let key = key.to_string();
        Str::from(key.strip_prefix(&self.storage.prefix).unwrap_or(&key))
    }

    /// Notes for definitions that were decided about whether their status is still to be written.
    pub(crate) fn note_owed<'n>(&self, decided: impl Iterator<Item = &'n Str>, owing: &HashSet<&Str>) {
        self.owed.send_modify(|owed| {
            for name in decided {
                match owing.contains(name) {
                    true => owed.insert(name.clone()),
                    false => owed.remove(name),
                };
            }
        });
    }

    /// Lets nothing wait for the status of a definition any more.
    pub(crate) fn forgive(&self, name: &str) {
        self.owed.send_modify(|owed| _ = owed.remove(name));
    }
}

#[async_trait]
impl rest::DefinitionBarrier for FollowedDefinitions {
    async fn caught_up(&self) {
        FollowedDefinitions::caught_up(self).await;
    }
}

/// The task that follows the definitions. When it ends, nothing waits for it any more.
pub(crate) struct FollowingTask(Arc<FollowedDefinitions>);

impl Drop for FollowingTask {
    fn drop(&mut self) {
        self.0.followed.send_replace(None);
        self.0.owed.send_modify(HashSet::clear);
    }
}

/// A store whose writes wait until the catalog has followed them and the status that follows is stored.
struct FollowedStore {
    store: Arc<dyn Store>,
    definitions: Arc<FollowedDefinitions>,
}

#[async_trait]
impl Layer for FollowedStore {
    fn below(&self) -> &dyn Store {
        &*self.store
    }

    async fn write(&self, write: storage::Write) -> storage::Result<storage::Written> {
        let key = write.key.clone();
        let written = self.store.write(write).await?;
        self.definitions.settled(&key, written.revision).await;
        Ok(written)
    }

    async fn write_all(&self, writes: Vec<storage::Write>) -> Result<Vec<storage::Written>, storage::RefusedWrites> {
        let keys: Vec<storage::Key> = writes.iter().map(|write| write.key.clone()).collect();
        let written = self.store.write_all(writes).await?;
        for (key, written) in keys.iter().zip(&written) {
            self.definitions.settled(key, written.revision).await;
        }
        Ok(written)
    }
}
