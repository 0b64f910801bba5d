//! [`SplitStore`]: some keys in a store of their own, as `--etcd-servers-overrides` asks for.

use std::sync::Arc;

use async_trait::async_trait;

use crate::{
    Error, Found, Health, Key, KeyRange, Page, RangeQuery, RefusedWrites, Result, Revision, Status, Store, Subscriber,
    Subscription, WatchRequest, WatchStream, Write, WriteLimits, Written,
};

/// Several stores as one. Each part counts revisions for itself, so revisions mean something within a part only, and a
/// range is read from the part where it begins, also if it reaches over several parts.
pub struct SplitStore {
    main: Arc<dyn Store>,
    parts: Vec<(Key, Arc<dyn Store>)>,
}

impl SplitStore {
    /// Keys that begin with one of the prefixes are in the store beside it, all others in `main`.
    pub fn new(main: Arc<dyn Store>, parts: Vec<(Key, Arc<dyn Store>)>) -> Self {
        SplitStore { main, parts }
    }

    fn of(&self, key: &[u8]) -> &Arc<dyn Store> {
        let part = self.parts.iter().find(|(prefix, _)| key.starts_with(prefix.as_bytes()));
        part.map_or(&self.main, |(_, store)| store)
    }

    fn all(&self) -> impl Iterator<Item = &Arc<dyn Store>> {
        std::iter::once(&self.main).chain(self.parts.iter().map(|(_, store)| store))
    }
}

#[async_trait]
impl Store for SplitStore {
    async fn get(&self, key: &[u8], at: Option<Revision>) -> Result<Found> {
        self.of(key).get(key, at).await
    }

    async fn range(&self, query: RangeQuery) -> Result<Page> {
        self.of(&query.range.start).range(query).await
    }

    async fn write(&self, write: Write) -> Result<Written> {
        self.of(&write.key).write(write).await
    }

    /// Of one part: no step reaches over several.
    async fn write_all(&self, writes: Vec<Write>) -> Result<Vec<Written>, RefusedWrites> {
        let Some(first) = writes.first() else { return Ok(Vec::new()) };
        let part = self.of(&first.key);
        match writes.iter().position(|write| !Arc::ptr_eq(self.of(&write.key), part)) {
            Some(at) => {
                let why = format!("{} is in another store than {}", writes[at].key, first.key);
                Err(RefusedWrites { at, error: Error::Unavailable(why) })
            }
            None => part.write_all(writes).await,
        }
    }

    fn write_limits(&self) -> WriteLimits {
        let of_parts = self.parts.iter().map(|(_, part)| part.write_limits());
        of_parts.fold(self.main.write_limits(), |one, two| WriteLimits {
            keys: one.keys.min(two.keys),
            bytes: one.bytes.min(two.bytes),
        })
    }

    async fn watch(&self, request: WatchRequest) -> Result<WatchStream> {
        self.of(&request.range.start).watch(request).await
    }

    async fn subscribe(&self, request: WatchRequest, subscriber: Arc<dyn Subscriber>) -> Result<Subscription> {
        self.of(&request.range.start).subscribe(request, subscriber).await
    }

    fn delivers_in_commit(&self) -> bool {
        self.all().all(|store| store.delivers_in_commit())
    }

    /// Of the main part: there is no revision that means something in all of them.
    async fn progress(&self) -> Result<Revision> {
        self.main.progress().await
    }

    async fn progress_of(&self, range: &KeyRange) -> Result<Revision> {
        self.of(&range.start).progress_of(range).await
    }

    async fn is_unchanged(&self, key: &[u8], revision: Revision) -> Result<bool> {
        self.of(key).is_unchanged(key, revision).await
    }

    /// Of the main part.
    async fn compact(&self, revision: Revision) -> Result<()> {
        self.main.compact(revision).await
    }

    fn compacted(&self, range: &KeyRange) -> Revision {
        self.of(&range.start).compacted(range)
    }

    /// Revisions of the main part; the size and health of all.
    async fn status(&self) -> Result<Status> {
        let mut status = self.main.status().await?;
        for (_, part) in &self.parts {
            let other = part.status().await?;
            status.size += other.size;
            status.size_in_use += other.size_in_use;
            if status.health == Health::Healthy {
                status.health = other.health;
            }
        }
        Ok(status)
    }

    async fn close(&self) {
        for store in self.all() {
            store.close().await;
        }
    }

    fn is_closed(&self) -> bool {
        self.all().any(|store| store.is_closed())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::MemoryStore;
    use crate::suite::{put, take_events, value_of, watch};

    async fn split() -> Arc<dyn Store> {
        let part = || -> Arc<dyn Store> { Arc::new(MemoryStore::default()) };
        // What no test writes to is elsewhere; all the rest must be as if nothing was split.
        Arc::new(SplitStore::new(part(), vec![("/apart/".into(), part())]))
    }

    crate::suite!(split);

    #[tokio::test]
    async fn parts_are_apart() {
        let (main, events): (Arc<dyn Store>, Arc<dyn Store>) =
            (Arc::new(MemoryStore::default()), Arc::new(MemoryStore::default()));
        let parts = vec![("/registry/events/".into(), events.clone())];
        let split: Arc<dyn Store> = Arc::new(SplitStore::new(main.clone(), parts));
        put(&split, "/registry/pods/a", "pod").await;
        put(&split, "/registry/pods/b", "pod").await;
        let first = put(&split, "/registry/events/a", "event").await;
        put(&split, "/registry/eventsource/a", "other").await;
        assert_eq!(value_of(&events, "/registry/events/a", None).await.as_deref(), Some("event"));
        assert_eq!(value_of(&main, "/registry/events/a", None).await, None);
        assert_eq!(value_of(&main, "/registry/eventsource/a", None).await.as_deref(), Some("other"));
        assert_eq!(value_of(&split, "/registry/events/a", None).await.as_deref(), Some("event"));
        let second = put(&split, "/registry/events/b", "event").await;
        let mut stream = watch(&split, "/registry/events/", first).await;
        assert_eq!(take_events(&mut stream, 1).await[0].revision, second);
        let range = KeyRange::prefix("/registry/events/");
        assert_eq!(split.progress_of(&range).await.unwrap(), second);
        assert!(split.progress().await.unwrap() > second, "each counts for itself");
        let both = ["/registry/pods/c", "/registry/events/c"].map(|key| Write {
            key: key.into(),
            change: crate::Change::Delete,
            expect: crate::Expect::Any,
        });
        let refused = split.write_all(both.to_vec()).await.unwrap_err();
        assert!(refused.at == 1 && refused.to_string().contains("in another store"), "{refused:?}");
        let (one, other) = (main.status().await.unwrap(), events.status().await.unwrap());
        assert_eq!(split.status().await.unwrap().size, one.size + other.size);
    }
}
