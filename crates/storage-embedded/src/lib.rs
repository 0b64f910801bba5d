//! The default engine: redb behind one writer thread, one durable commit a group.
//!
//! Start reading at `writer`, which is where everything happens, then `state` (what is in memory) and `disk` (what is in
//! the file). Readers look at the last published state and never wait for the disk, except for history. Watchers are
//! positions in a shared ring. `outage` says what happens when the disk fails.

mod disk;
mod error;
mod expiry;
mod log;
mod maintenance;
mod options;
mod outage;
mod queue;
mod record;
mod ring;
mod shared;
mod state;
mod watcher;
mod writer;

pub use error::OpenError;
pub use maintenance::{Report, check, restore};
pub use options::{BackendFactory, Clock, Options};

use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;

use arc_swap::ArcSwap;
use async_trait::async_trait;
use parking_lot::{Mutex, RwLock};
use storage::{
    Change, Error, Found, Health, Page, RangeQuery, Result, Revision, Status, Store, Subscriber, Subscription,
    WatchRequest, WatchStream, Write, Written,
};

use crate::disk::Disk;
use crate::queue::{Job, Queue};
use crate::ring::Ring;
use crate::shared::{Herald, Shared};
use crate::writer::Writer;

/// A store in one file. Dropping it finishes what was asked and closes the file.
pub struct EmbeddedStore {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

impl EmbeddedStore {
    /// Opens or creates the file and reads it into memory. This takes as long as reading the file; call it from a thread
    /// that may block.
    pub fn open(options: Options) -> Result<Self, OpenError> {
        let disk = Disk::open(&options)?;
        let reader = disk.reader().map_err(|error| OpenError::io(&options.path, error))?;
        let loaded = reader.load(&options.path)?;
        drop(reader);
        let revision = loaded.state.revision;
        let shared = Arc::new(Shared {
            queue: Queue::new(),
            disk,
            state: ArcSwap::from_pointee(loaded.state.clone()),
            ring: RwLock::new(Ring::new(revision, options.ring_events_max, options.ring_bytes_max)),
            herald: Herald::new(revision),
            health: Mutex::new(Health::Healthy),
            file_bytes: (loaded.bytes as i64).into(),
            options,
        });
        let writer = Writer::new(shared.clone(), loaded);
        let threads = vec![
            spawn("store-writer", &shared, move |shared| {
                let _end = End(shared.clone());
                writer.run();
            })?,
            spawn("store-herald", &shared, |shared| shared.herald.run())?,
        ];
        Ok(EmbeddedStore { shared, threads })
    }

    /// Copies the store as it is now into a new file, while it goes on serving.
    pub async fn backup(&self, target: &Path) -> Result<Report> {
        let target = target.to_owned();
        self.shared.blocking(move |shared| maintenance::backup(&shared.disk, &target)).await
    }
}

impl Drop for EmbeddedStore {
    fn drop(&mut self) {
        self.shared.queue.close();
        for thread in self.threads.drain(..) {
            // A panic in it was reported when it happened.
            drop(thread.join());
        }
    }
}

#[async_trait]
impl Store for EmbeddedStore {
    async fn get(&self, key: &[u8], at: Option<Revision>) -> Result<Found> {
        self.shared.get(key, at).await
    }

    async fn range(&self, query: RangeQuery) -> Result<Page> {
        self.shared.range(query).await
    }

    async fn write(&self, write: Write) -> Result<Written> {
        let value = match &write.change {
            Change::Put { value, .. } => value.len(),
            Change::Delete => 0,
        };
        let (size, limit) = (value + write.key.len(), self.shared.options.value_bytes_max);
        if size > limit {
            return Err(Error::TooLarge { size, limit });
        }
        self.shared.queue.write(write).await
    }

    async fn watch(&self, request: WatchRequest) -> Result<WatchStream> {
        watcher::watch(self.shared.clone(), request)
    }

    async fn subscribe(&self, request: WatchRequest, subscriber: Arc<dyn Subscriber>) -> Result<Subscription> {
        let unsubscribe = self.shared.queue.ask(|reply| Job::Subscribe(request, subscriber, reply)).await?;
        Ok(Subscription::new(unsubscribe))
    }

    fn delivers_in_commit(&self) -> bool {
        true
    }

    async fn progress(&self) -> Result<Revision> {
        Ok(self.shared.state.load().revision)
    }

    async fn compact(&self, revision: Revision) -> Result<()> {
        self.shared.queue.ask(|reply| Job::Compact(revision, reply)).await
    }

    async fn status(&self) -> Result<Status> {
        Ok(self.shared.status())
    }
}

/// However the writer thread ends, nobody waits for it in vain.
struct End(Arc<Shared>);

impl Drop for End {
    fn drop(&mut self) {
        self.0.queue.abandon();
        self.0.herald.close();
    }
}

fn spawn(
    name: &str,
    shared: &Arc<Shared>,
    work: impl FnOnce(&Arc<Shared>) + Send + 'static,
) -> Result<JoinHandle<()>, OpenError> {
    let own = shared.clone();
    let builder = std::thread::Builder::new().name(name.into());
    builder.spawn(move || work(&own)).map_err(|error| OpenError::io(&shared.options.path, error))
}
