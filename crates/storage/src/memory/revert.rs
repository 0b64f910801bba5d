//! Going back to earlier contents by writing what differs: revisions go on, and whoever watches sees each change.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{MemoryStore, State};
use crate::{Batch, Change, Entry, Event, Key, Revision};

/// The content of a store at one time.
#[derive(Clone)]
pub struct Contents {
    entries: BTreeMap<Key, Arc<Entry>>,
}

/// How much going back changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reverted {
    /// Keys that were not there before.
    pub removed: usize,
    /// Keys that were deleted or changed meanwhile, and are as they were.
    pub restored: usize,
    /// The store's revision afterwards.
    pub revision: Revision,
}

impl MemoryStore {
    /// The present content. Costs a reference for each key.
    pub fn contents(&self) -> Contents {
        Contents { entries: self.shared.state.lock().current.clone() }
    }

    /// Makes the contents what they were, except for keys that are to be kept as they are. Happens at once: no write comes
    /// between its parts. A key that was deleted and written again meanwhile is deleted and created once more, because what
    /// is there now is another object. `to` has the entries as they are stored afterwards, so that it can be gone back to again.
    pub fn revert(&self, to: &mut Contents, keep: impl Fn(&Key) -> bool) -> Reverted {
        let mut state = self.shared.state.lock();
        let before = state.revision;
        let gone = |(key, entry): &(&Key, &Arc<Entry>)| {
            let same = to.entries.get(*key).is_some_and(|old| old.create_revision == entry.create_revision);
            !same && !keep(key)
        };
        let gone: Vec<Key> = state.current.iter().filter(gone).map(|(key, _)| key.clone()).collect();
        let deleted: Vec<Arc<Event>> = gone.into_iter().map(|key| state.put(key, Change::Delete)).collect();
        let wanted = to.entries.iter().filter(|(key, entry)| {
            let now = state.current.get(*key);
            now.is_none_or(|now| now.mod_revision != entry.mod_revision && now.value != entry.value) && !keep(key)
        });
        let wanted: Vec<Arc<Entry>> = wanted.map(|(_, entry)| entry.clone()).collect();
        let put = |entry: &Arc<Entry>| Change::Put { value: entry.value.clone(), ttl: None };
        let written: Vec<Arc<Event>> = wanted.iter().map(|entry| state.put(entry.key.clone(), put(entry))).collect();
        for entry in written.iter().filter_map(|event| event.entry.as_ref()) {
            to.entries.insert(entry.key.clone(), entry.clone());
        }
        state.tell_reverted(before, &[&deleted, &written]);
        state.trim();
        let revision = state.revision;
        self.shared.progress.advance(revision);
        let removed = deleted.iter().filter(|event| !to.entries.contains_key(&event.key)).count();
        Reverted { removed, restored: written.len(), revision }
    }
}

impl State {
    /// Hands events to subscribers. In each of the lists keys are in order, so that a subscriber's are found by looking for
    /// where its range begins and ends: there are hundreds of subscribers, and may be thousands of events.
    fn tell_reverted(&self, before: Revision, lists: &[&[Arc<Event>]]) {
        for (range, after, subscriber) in self.subscribers.values() {
            let mut events = Vec::new();
            for list in lists {
                let from = list.partition_point(|event| event.key < range.start);
                let mine = list[from..].iter().take_while(|event| range.contains(&event.key));
                events.extend(mine.filter(|event| event.revision > (*after).max(before)).cloned());
            }
            if !events.is_empty() {
                subscriber.apply(&Batch { events, revision: self.revision });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use bytes::Bytes;
    use futures::StreamExt;

    use super::*;
    use crate::{KeyRange, RangeQuery, Store, Subscriber, WatchRequest};

    #[derive(Default)]
    struct Heard(parking_lot::Mutex<Vec<String>>);

    impl Subscriber for Heard {
        fn apply(&self, batch: &Batch) {
            self.0.lock().extend(batch.events.iter().map(said));
        }

        fn end(&self, _: crate::Error) {}
    }

    fn said(event: &Arc<Event>) -> String {
        let value = event.entry.as_ref().map_or("-".into(), |entry| String::from_utf8_lossy(&entry.value).into_owned());
        format!("{}={value}@{}", event.key, event.revision)
    }

    async fn put(store: &MemoryStore, key: &str, value: &'static str) {
        let change = Change::Put { value: Bytes::from_static(value.as_bytes()), ttl: None };
        store.write(crate::Write { key: key.into(), change, expect: crate::Expect::Any }).await.unwrap();
    }

    #[tokio::test]
    async fn contents_come_back_and_revisions_go_on() {
        let store = MemoryStore::new();
        for (key, value) in [("/a/1", "one"), ("/a/2", "two"), ("/a/3", "three"), ("/b/1", "own"), ("/c/1", "same")] {
            put(&store, key, value).await;
        }
        let mut contents = store.contents();
        let request = WatchRequest::after(KeyRange::prefix("/a/"), 6);
        let mut watch = store.watch(request.clone()).await.unwrap();
        let heard = Arc::new(Heard::default());
        let _subscription = store.subscribe(request, heard.clone()).await.unwrap();
        put(&store, "/a/1", "changed").await;
        store.delete("/a/2".into(), None).await.unwrap();
        store.delete("/a/3".into(), None).await.unwrap();
        put(&store, "/a/3", "another").await;
        put(&store, "/a/4", "new").await;
        put(&store, "/b/1", "renewed").await;
        put(&store, "/c/0", "new").await;
        let reverted = store.revert(&mut contents, |key| key.as_bytes().starts_with(b"/b/"));
        assert_eq!(reverted, Reverted { removed: 2, restored: 3, revision: 19 });
        let all = store.range(RangeQuery::new(KeyRange::prefix("/"))).await.unwrap();
        let values: Vec<&[u8]> = all.entries.iter().map(|entry| &entry.value[..]).collect();
        assert_eq!(values, [&b"one"[..], b"two", b"three", b"renewed", b"same"]);
        let want = [
            "/a/1=changed@7",
            "/a/2=-@8",
            "/a/3=-@9",
            "/a/3=another@10",
            "/a/4=new@11",
            "/a/3=-@14",
            "/a/4=-@15",
            "/a/1=one@17",
            "/a/2=two@18",
            "/a/3=three@19",
        ];
        assert_eq!(*heard.0.lock(), want);
        let mut seen = Vec::new();
        while seen.len() < want.len() {
            let batch = tokio::time::timeout(Duration::from_secs(5), watch.next()).await.unwrap().unwrap().unwrap();
            seen.extend(batch.events.iter().map(said));
        }
        assert_eq!(seen, want);
        // Nothing has changed since, so nothing is written.
        assert_eq!(store.revert(&mut contents, |key| key.as_bytes().starts_with(b"/b/")).revision, 19);
    }
}
