//! Follows the stored objects of a resource.

use std::sync::Arc;
use std::time::Duration;

use cache::{Item, Object, Start};
use registry::ResourceStorage;

/// Changes that are handed over together.
const BATCH_MAX: usize = 4096;
/// How long a broken watch waits before it begins again.
const RETRY_AFTER: Duration = Duration::from_millis(100);

/// A change of the objects of a resource.
#[derive(Default)]
pub struct Batch {
    /// Whether `set` is everything there is; what is not in it is gone.
    pub complete: bool,
    pub set: Vec<Arc<Object>>,
    pub gone: Vec<Arc<Object>>,
}

/// Hands all objects of a namespace, "" for all of them, to `hear`, then every change. Never returns.
pub async fn follow(storage: Arc<ResourceStorage>, namespace: &str, mut hear: impl FnMut(Batch)) {
    loop {
        if let Err(error) = once(&storage, namespace, &mut hear).await {
            tracing::warn!(resource = %storage.resource.resource, %error, "a watch is begun again");
            tokio::time::sleep(RETRY_AFTER).await;
        }
    }
}

async fn once(storage: &ResourceStorage, namespace: &str, hear: &mut impl FnMut(Batch)) -> Result<(), cache::Error> {
    let mut watcher = storage.cache.watch(storage.range(namespace).into(), Start::Now).await?;
    let mut initial = Some(Batch { complete: true, ..Batch::default() });
    loop {
        let mut items = vec![watcher.next().await?];
        while items.len() < BATCH_MAX
            && let Some(item) = watcher.try_next()
        {
            items.push(item);
        }
        let mut batch = Batch::default();
        for item in items {
            match item {
                Item::Initial(object) => initial.get_or_insert_default().set.push(object),
                Item::InitialDone(_) => initial.take().into_iter().for_each(&mut *hear),
                Item::Event(event) => match (&event.object, &event.previous) {
                    (Some(object), _) => batch.set.push(object.clone()),
                    (None, Some(previous)) => batch.gone.push(previous.clone()),
                    (None, None) => {}
                },
            }
        }
        if !batch.set.is_empty() || !batch.gone.is_empty() {
            hear(batch);
        }
    }
}

/// The name behind the resource's prefix: `name`, or `namespace/name`.
pub fn name_of(storage: &ResourceStorage, object: &Object) -> String {
    let key = object.key().to_string();
    key.strip_prefix(&storage.prefix).unwrap_or(&key).to_string()
}
