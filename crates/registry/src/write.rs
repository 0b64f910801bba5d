//! [`Write`]: a change of one stored object. Its loop is the caller's:
//!
//! ```text
//! let mut write = storage.begin(&cx, name, &options).await?;
//! loop {
//!     let current = write.current().await?;
//!     let wanted = …;                                       // what is to become of it, and mutating admission
//!     let draft = write.check(wanted, current.as_ref()).await?;
//!     let admitted = …;                                     // validating admission sees the draft
//!     if let Some(outcome) = write.commit(draft, admitted).await? {
//!         break outcome;
//!     }                                                     // another write came first: again, with the newer object
//! }
//! ```
//!
//! A [`Creation`](crate::Creation) and a [`Removal`](crate::Removal) have the same steps.

use std::sync::Arc;

use cache::Object;
use futures::future::BoxFuture;
use object::{Meta, Status, Value};
use storage::Key;

use crate::create::at_revision;
use crate::delete::Mismatch;
use crate::error::storage_error;
use crate::reserved::Reserved;
use crate::{Context, Error, ResourceStorage};

/// The preconditions and the rules of an update.
#[derive(Clone, Debug, Default)]
pub struct UpdateOptions {
    /// Create the object if it does not exist, whatever the strategy says: server-side apply does.
    pub create: bool,
    /// The uid that the object must have.
    pub uid: Option<String>,
    /// The resourceVersion that the object must have.
    pub resource_version: Option<String>,
    /// The kind's own rules for the part that is being written.
    pub scope: UpdateScope,
}

impl UpdateOptions {
    /// A change of an object that must be there.
    pub const OBJECT: UpdateOptions =
        UpdateOptions { create: false, uid: None, resource_version: None, scope: UpdateScope::Object };
    /// The same for its status.
    pub const STATUS: UpdateOptions = UpdateOptions { scope: UpdateScope::Status, ..UpdateOptions::OBJECT };
}

/// Which rules an update goes by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UpdateScope {
    /// Those of the object itself.
    #[default]
    Object,
    /// Those of its status.
    Status,
    /// Another view on the object: ephemeralcontainers, resize, approval, finalize.
    Subresource,
    /// The change itself is the rule (binding, eviction marks …); only metadata is checked.
    Other,
}

/// The outcome of a write.
#[derive(Debug)]
pub struct Outcome {
    /// The object as it is now (as it was, where the last finalizer was removed), in the storage version.
    pub object: Value,
    /// Whether the object is new.
    pub created: bool,
}

/// An object that is ready to be stored: complete, valid, and with what it needs reserved.
pub struct Draft {
    pub(crate) object: Value,
    pub(crate) reserved: Reserved,
    /// The object goes, because nothing holds it any more.
    pub(crate) is_last: bool,
}

impl Draft {
    /// The draft, about to be sent to the store. What was reserved for one that is refused is given back.
    pub(crate) async fn admitted(mut self, admitted: Result<(), Status>) -> Result<Draft, Error> {
        if let Err(refused) = admitted {
            self.reserved.give_back().await;
            return Err(refused.into());
        }
        self.reserved.sending();
        Ok(self)
    }

    /// The object that validating admission is asked about.
    pub fn object(&self) -> &Value {
        &self.object
    }
}

/// One try to write.
pub(crate) enum Attempt<T> {
    Done(T),
    /// Another write came first; this is the object now, None if it is gone.
    Lost(Option<Arc<Object>>),
}

/// A change of one object, or its creation where an update may create.
pub struct Write<'a> {
    pub(crate) storage: &'a ResourceStorage,
    pub(crate) cx: &'a Context<'a>,
    pub(crate) name: &'a str,
    pub(crate) options: &'a UpdateOptions,
    /// The stored object, as far as it is known.
    pub(crate) stored: Option<Arc<Object>>,
    /// Whether that was so after the request came. If not, storing finds out, but a refusal must not go by it.
    is_confirmed: bool,
}

impl ResourceStorage {
    /// Begins to change the object of this name.
    pub async fn begin<'a>(
        &'a self,
        cx: &'a Context<'a>,
        name: &'a str,
        options: &'a UpdateOptions,
    ) -> Result<Write<'a>, Error> {
        let stored = self.stored(cx, name, "update").await?;
        Ok(Write { storage: self, cx, name, options, stored, is_confirmed: true })
    }

    /// Begins to change the object of this name as the cache knows it, without asking the store whether that is the newest state,
    /// which on etcd takes two messages. Refusals have to be confirmed: see [`Write::refresh`].
    pub async fn begin_with_known<'a>(
        &'a self,
        cx: &'a Context<'a>,
        name: &'a str,
        options: &'a UpdateOptions,
    ) -> Result<Write<'a>, Error> {
        let known = match cx.dry_run || self.cache.is_always_fresh() {
            true => None,
            false => self.cache.get(&self.key(cx.namespace, name)),
        };
        match known {
            None => self.begin(cx, name, options).await,
            stored => Ok(Write { storage: self, cx, name, options, stored, is_confirmed: false }),
        }
    }

    /// The stored object that a request names; None if there is none.
    pub(crate) async fn stored(
        &self,
        cx: &Context<'_>,
        name: &str,
        verb: &'static str,
    ) -> Result<Option<Arc<Object>>, Error> {
        let found = self.cache.current(&self.key(cx.namespace, name)).await;
        found.map_err(|error| self.read_failed(error, verb))
    }

    /// Stores an object where `current` is, or where nothing is; `is_confirmed` says whether that was so after the request came. Upstream drops managedFields from most objects that are too large,
    /// and tries again.
    pub(crate) async fn put(
        &self,
        cx: &Context<'_>,
        object: Value,
        current: Option<&Arc<Object>>,
        is_confirmed: bool,
        verb: &'static str,
        may_drop_owners: bool,
    ) -> Result<Attempt<Value>, Error> {
        let name = object.name().to_string();
        let key = current.map_or_else(|| self.key(object.namespace(), &name), |old| old.key().clone());
        let (revision, ttl) = (current.map_or(0, |old| old.revision()), self.strategy.facts().time_to_live);
        // A dry run answers with the version that it was given where there is none to replace it by.
        let given = (cx.dry_run && current.is_none()).then(|| object.resource_version().to_string());
        let (bytes, mut stored) = self.encoded(object, revision).await?;
        if let Some(version) = given {
            stored.set_meta_str("resourceVersion", &version);
            let taken = self.cache.get(&key);
            return Ok(taken.map_or(Attempt::Done(stored), |taken| Attempt::Lost(Some(taken))));
        }
        if cx.dry_run || current.is_some_and(|old| bytes == *old.value() && !old.entry().is_stale()) {
            if is_confirmed {
                return Ok(Attempt::Done(stored));
            }
            // Nothing is sent to the store, which would find out that there is a newer object.
            let now = self.stored(cx, &name, verb).await?;
            return Ok(match now.as_ref().is_some_and(|now| now.revision() == revision) {
                true => Attempt::Done(stored),
                false => Attempt::Lost(now),
            });
        }
        let send = |bytes| match current {
            None => self.store.create(key.clone(), bytes, ttl),
            Some(old) => self.store.update(key.clone(), bytes, old.revision(), ttl),
        };
        let mut written = send(bytes).await;
        let is_too_large = matches!(written, Err(storage::Error::TooLarge { .. })) && may_drop_owners;
        if is_too_large && stored.metadata_mut().remove("managedFields").is_some() {
            let (bytes, smaller) = self.encoded(stored, revision).await?;
            stored = smaller;
            written = send(bytes).await;
        }
        match written {
            Ok(written) => Ok(Attempt::Done(at_revision(stored, written.revision))),
            Err(error) => self.lost(error, verb, &name),
        }
    }

    /// Removes what is stored there in this revision; returns the revision of the removal.
    pub(crate) async fn erase(
        &self,
        cx: &Context<'_>,
        key: &Key,
        revision: storage::Revision,
        object: &Value,
    ) -> Result<Attempt<storage::Revision>, Error> {
        match self.store.delete(key.clone(), Some(revision)).await {
            Ok(removed) => {
                self.strategy.after_delete(cx, object).await;
                Ok(Attempt::Done(removed.revision))
            }
            Err(error) => self.lost(error, "delete", object.name()),
        }
    }

    /// What the store refuses because another write came first is tried again; everything else is a failure.
    fn lost<T>(&self, error: storage::Error, verb: &'static str, name: &str) -> Result<Attempt<T>, Error> {
        match error {
            storage::Error::KeyExists(now) | storage::Error::Conflict(now) => {
                Ok(Attempt::Lost(Some(self.cache.wrap(&now))))
            }
            storage::Error::NotFound => Ok(Attempt::Lost(None)),
            error => Err(self.store_failed(error, verb, name)),
        }
    }

    pub(crate) fn conflict(&self, name: &str, why: String) -> Error {
        Error::Conflict { resource: self.resource.clone(), name: name.to_string(), why }
    }
}

impl Write<'_> {
    /// How large the object is as it is stored.
    pub fn stored_bytes(&self) -> usize {
        self.stored.as_ref().map_or(0, |stored| stored.value().len())
    }

    /// The object as it is now, which is the one that the options mean; None where this write is to create it.
    pub async fn current(&self) -> Result<Option<Value>, Error> {
        let (storage, options) = (self.storage, self.options);
        let object = match &self.stored {
            Some(stored) => Some(storage.load(stored).await.map_err(Error::Unnamed)?),
            None if options.create || storage.strategy.facts().allows_create_on_update => None,
            None => return Err(storage.not_found(self.name)),
        };
        let (uid, version) = (options.uid.as_deref(), options.resource_version.as_deref());
        self.check_preconditions(uid, version, object.as_ref().unwrap_or(&Value::Null))?;
        Ok(object)
    }

    /// Asks the store whether what is known is the newest state, unless that is certain. True if it was not, and the write has to be tried
    /// again.
    pub async fn refresh(&mut self) -> Result<bool, Error> {
        if std::mem::replace(&mut self.is_confirmed, true) {
            return Ok(false);
        }
        let now = self.storage.stored(self.cx, self.name, "update").await?;
        let revision = |object: &Option<Arc<Object>>| object.as_ref().map(|object| object.revision());
        let has_changed = revision(&now) != revision(&self.stored);
        self.stored = now;
        Ok(has_changed)
    }

    /// The object as it is now, for writes that never create one.
    pub async fn existing(&self) -> Result<Value, Error> {
        self.current().await?.ok_or_else(|| self.storage.not_found(self.name))
    }

    /// Refuses a write to an object that is not the one of this uid and version.
    pub fn check_preconditions(&self, uid: Option<&str>, version: Option<&str>, object: &Value) -> Result<(), Error> {
        let Some(mismatch) = Mismatch::of(uid, version, object) else { return Ok(()) };
        let (storage, key) = (self.storage, self.storage.key(self.cx.namespace, self.name).to_string());
        // Upstream's dry run has a store of its own, which does not know where the real one keeps things.
        let key = if self.cx.dry_run { storage.below_root(&key) } else { &key };
        let why = storage_error("invalid object, Code: 4", key, mismatch.in_words("Precondition failed"));
        Err(storage.conflict(self.name, why))
    }

    /// Stores the draft if it was admitted; None if another write came first. What was reserved for a draft that is not stored
    /// is given back before this returns.
    pub fn commit<'a>(
        &'a mut self,
        draft: Draft,
        admitted: Result<(), Status>,
    ) -> BoxFuture<'a, Result<Option<Outcome>, Error>> {
        Box::pin(async move {
            let Draft { object, reserved, is_last } = draft.admitted(admitted).await?;
            if is_last && self.refresh().await? {
                reserved.give_back().await;
                return Ok(None);
            }
            let (storage, cx, stored) = (self.storage, self.cx, self.stored.as_ref());
            let created = stored.is_none();
            let verb = if created { "create" } else { "update" };
            let written = match is_last {
                true => self.remove_finished(object).await,
                false => storage.put(cx, object, stored, self.is_confirmed, verb, !self.options.create).await,
            };
            reserved.settle(&written).await;
            match written? {
                Attempt::Done(object) => Ok(Some(Outcome { object, created })),
                Attempt::Lost(now) => {
                    (self.stored, self.is_confirmed) = (now, true);
                    Ok(None)
                }
            }
        })
    }

    /// Checks and stores what no admission has to see, because the server writes it for itself.
    pub async fn store(&mut self, object: Value, old: Option<&Value>) -> Result<Option<Outcome>, Error> {
        let draft = self.check(object, old).await?;
        self.commit(draft, Ok(())).await
    }

    /// Removes an object whose last finalizer this write takes away.
    async fn remove_finished(&self, object: Value) -> Result<Attempt<Value>, Error> {
        if let (false, Some(stored)) = (self.cx.dry_run, &self.stored)
            && let Attempt::Lost(Some(now)) =
                self.storage.erase(self.cx, stored.key(), stored.revision(), &object).await?
        {
            return Ok(Attempt::Lost(Some(now)));
        }
        Ok(Attempt::Done(object))
    }
}
