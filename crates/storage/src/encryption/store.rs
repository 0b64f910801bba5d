//! A store whose values are encrypted on their way in and decrypted on their way out.

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures::StreamExt;
use parking_lot::Mutex;

use super::feed::{Gate, Opening, end_with_keys};
use super::plugins::{LearnedKey, NeededKey};
use super::provider::{Chain, Failure, Opened};
use super::rules::Encryption;
use crate::{
    Batch, Change, Condition, Entry, Error, Event, Found, Key, Layer, Page, RangeQuery, RefusedWrites, Result,
    Revision, Store, Subscriber, Subscription, WatchRequest, WatchStream, Write, Written,
};

/// Tells group and resource of what is stored under a key; none for keys that hold no resource, which are not encrypted.
pub type ResourceOf = Arc<dyn for<'k> Fn(&'k [u8]) -> Option<(Cow<'k, str>, Cow<'k, str>)> + Send + Sync>;

/// A store whose values are encrypted on the way to the store below.
pub struct EncryptedStore {
    inner: Arc<dyn Store>,
    values: Values,
}

impl EncryptedStore {
    /// A store above `inner`; `resource_of` says which resource a key belongs to.
    pub fn new(inner: Arc<dyn Store>, encryption: Arc<Encryption>, resource_of: ResourceOf) -> Self {
        EncryptedStore { inner, values: Values { encryption, resource_of, trying: Arc::default() } }
    }
}

#[async_trait]
impl Layer for EncryptedStore {
    fn below(&self) -> &dyn Store {
        &*self.inner
    }

    /// Not where plugins of version 1 are allowed: each value has its own key there, which the plugin may have to decrypt,
    /// and a commit cannot wait for that.
    fn delivers_in_commit(&self) -> bool {
        self.inner.delivers_in_commit() && !self.values.encryption.kms().v1
    }

    async fn get(&self, key: &[u8], at: Option<Revision>) -> Result<Found> {
        let found = self.inner.get(key, at).await?;
        let entry = match found.entry {
            Some(entry) => Some(self.values.open(entry).await),
            None => None,
        };
        Ok(Found { entry, ..found })
    }

    async fn range(&self, query: RangeQuery) -> Result<Page> {
        let keys_only = query.keys_only;
        let mut page = self.inner.range(query).await?;
        if !keys_only {
            for entry in &mut page.entries {
                *entry = self.values.open(entry.clone()).await;
            }
        }
        Ok(page)
    }

    async fn write(&self, mut write: Write) -> Result<Written> {
        let plain = self.seal(&mut write).await?;
        match self.inner.write(write).await {
            Ok(written) => Ok(self.opened(written, plain).await),
            Err(error) => Err(self.opened_error(error).await),
        }
    }

    async fn write_all(&self, mut writes: Vec<Write>) -> Result<Vec<Written>, RefusedWrites> {
        let mut plain = Vec::with_capacity(writes.len());
        for (at, write) in writes.iter_mut().enumerate() {
            plain.push(self.seal(write).await.map_err(|error| RefusedWrites { at, error })?);
        }
        match self.inner.write_all(writes).await {
            Ok(written) => {
                let opened = written.into_iter().zip(plain).map(|(written, plain)| self.opened(written, plain));
                Ok(futures::future::join_all(opened).await)
            }
            Err(refused) => Err(RefusedWrites { error: self.opened_error(refused.error).await, ..refused }),
        }
    }

    async fn watch(&self, request: WatchRequest) -> Result<WatchStream> {
        let inner = self.inner.watch(request).await?;
        let state = Some((inner, self.values.clone()));
        Ok(Box::pin(futures::stream::unfold(state, |state| async {
            let (mut inner, values) = state?;
            let opened = match inner.next().await? {
                Ok(batch) => Ok(values.open_batch(batch).await),
                Err(error) => Err(error),
            };
            // Nothing comes after an error.
            let next = opened.is_ok().then_some((inner, values));
            Some((opened, next))
        })))
    }

    async fn subscribe(&self, request: WatchRequest, subscriber: Arc<dyn Subscriber>) -> Result<Subscription> {
        // From before anything is read with the keys of now.
        let generations = self.values.encryption.generations();
        let gate = Arc::new(Gate::new(subscriber));
        let subscription = if Layer::delivers_in_commit(self) {
            let opening = Opening { values: self.values.clone(), gate: gate.clone() };
            self.inner.subscribe(request, Arc::new(opening)).await?
        } else {
            Subscription::over(Layer::watch(self, request).await?, gate.clone())
        };
        Ok(end_with_keys(subscription, gate, generations))
    }
}

impl EncryptedStore {
    /// Encrypts what is to be written; returns it as it was.
    async fn seal(&self, write: &mut Write) -> Result<Option<Bytes>> {
        let Change::Put { value, .. } = &mut write.change else { return Ok(None) };
        let sealed = self.values.chain(&write.key).seal(value, &write.key).await;
        let sealed = sealed.map_err(|error| Error::Unavailable(format!("failed to encrypt {}: {error}", write.key)));
        Ok(Some(std::mem::replace(value, sealed?)))
    }

    /// A change that was made, with the value that was to be written.
    async fn opened(&self, written: Written, plain: Option<Bytes>) -> Written {
        Written {
            entry: written.entry.map(|entry| match plain {
                Some(plain) if plain != entry.value => with_value(&entry, plain, Condition::Good),
                _ => entry,
            }),
            // It is gone already, readable or not.
            previous: match written.previous {
                Some(entry) => Some(self.values.open(entry).await).filter(|entry| entry.sealed().is_none()),
                None => None,
            },
            ..written
        }
    }

    async fn opened_error(&self, error: Error) -> Error {
        match error {
            Error::KeyExists(entry) => Error::KeyExists(self.values.open(entry).await),
            Error::Conflict(entry) => Error::Conflict(self.values.open(entry).await),
            other => other,
        }
    }
}

#[derive(Clone)]
pub(super) struct Values {
    encryption: Arc<Encryption>,
    resource_of: ResourceOf,
    /// The keys whose values a plugin is being asked to decrypt again.
    trying: Arc<Mutex<HashSet<[u8; 32]>>>,
}

/// How often a plugin that has failed is asked again.
const RETRY_MIN: Duration = Duration::from_millis(200);
const RETRY_MAX: Duration = Duration::from_secs(10);
/// For how many keys at once.
const RETRY_KEYS_MAX: usize = 64;

impl Values {
    fn chain(&self, key: &[u8]) -> Arc<Chain> {
        let resource = (self.resource_of)(key);
        self.encryption.chain(resource.as_ref().map(|(group, resource)| (&**group, &**resource)))
    }

    async fn open(&self, entry: Arc<Entry>) -> Arc<Entry> {
        let mut learned = None;
        loop {
            match self.open_now(&entry, learned.as_ref()) {
                Ok(opened) => return opened,
                Err(needed) => match needed.learn().await {
                    Ok(key) => learned = key,
                    Err(why) => {
                        self.try_again(needed);
                        return self.seal(&entry, why);
                    }
                },
            }
        }
    }

    /// Without asking a plugin.
    fn open_now(&self, entry: &Arc<Entry>, learned: Option<&LearnedKey>) -> Result<Arc<Entry>, NeededKey> {
        let condition = |stale| if stale { Condition::Stale } else { Condition::Good };
        match self.chain(&entry.key).open(&entry.value, &entry.key, learned) {
            Ok(Opened { value: None, stale: false }) => Ok(entry.clone()),
            Ok(Opened { value: None, stale }) => Ok(with_value(entry, entry.value.clone(), condition(stale))),
            Ok(Opened { value: Some(value), stale }) => Ok(with_value(entry, value.into(), condition(stale))),
            Err(Failure::NeedsKey(needed)) => Err(needed),
            Err(Failure::Unreadable(why)) => Ok(self.seal(entry, why)),
        }
    }

    /// One that cannot be read is no reason to refuse all others.
    fn seal(&self, entry: &Arc<Entry>, why: String) -> Arc<Entry> {
        tracing::error!(key = %entry.key, why, "a stored value cannot be decrypted");
        with_value(entry, entry.value.clone(), Condition::Sealed(why.into()))
    }

    /// Asks a plugin that has failed until it answers, and then makes all caches read again.
    fn try_again(&self, needed: NeededKey) {
        let digest = needed.digest();
        {
            let mut trying = self.trying.lock();
            if trying.len() >= RETRY_KEYS_MAX || !trying.insert(digest) {
                return;
            }
        }
        let (encryption, trying) = (Arc::downgrade(&self.encryption), self.trying.clone());
        tokio::spawn(async move {
            let mut pause = RETRY_MIN;
            loop {
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(RETRY_MAX);
                let Some(encryption) = encryption.upgrade() else { return };
                if needed.ask().await.is_ok() {
                    trying.lock().remove(&digest);
                    return encryption.renew();
                }
            }
        });
    }

    async fn open_batch(&self, mut batch: Batch) -> Batch {
        for event in &mut batch.events {
            let entry = self.open_maybe(&event.entry).await;
            let previous = self.open_maybe(&event.previous).await;
            replace(event, entry, previous);
        }
        batch
    }

    async fn open_maybe(&self, entry: &Option<Arc<Entry>>) -> Option<Arc<Entry>> {
        match entry {
            Some(entry) => Some(self.open(entry.clone()).await),
            None => None,
        }
    }

    pub(super) fn open_batch_now(&self, batch: &Batch) -> Result<Batch> {
        let open = |entry: &Option<Arc<Entry>>| match entry {
            None => Ok(None),
            Some(entry) => match self.open_now(entry, None) {
                Ok(opened) => Ok(Some(opened)),
                // Listing again asks the plugin.
                Err(_) => Err(Error::Unavailable("a key has to be decrypted first".into())),
            },
        };
        let mut batch = batch.clone();
        for event in &mut batch.events {
            let (entry, previous) = (open(&event.entry)?, open(&event.previous)?);
            replace(event, entry, previous);
        }
        Ok(batch)
    }
}

/// Events that are not encrypted stay the shared ones.
fn replace(event: &mut Arc<Event>, entry: Option<Arc<Entry>>, previous: Option<Arc<Entry>>) {
    let same = |one: &Option<Arc<Entry>>, two: &Option<Arc<Entry>>| match (one, two) {
        (Some(one), Some(two)) => Arc::ptr_eq(one, two),
        (one, two) => one.is_none() && two.is_none(),
    };
    if !same(&event.entry, &entry) || !same(&event.previous, &previous) {
        let (revision, key): (Revision, Key) = (event.revision, event.key.clone());
        *event = Arc::new(Event { revision, key, entry, previous });
    }
}

fn with_value(entry: &Entry, value: Bytes, condition: Condition) -> Arc<Entry> {
    Arc::new(Entry {
        key: entry.key.clone(),
        value,
        create_revision: entry.create_revision,
        mod_revision: entry.mod_revision,
        version: entry.version,
        lease: entry.lease,
        condition,
    })
}
