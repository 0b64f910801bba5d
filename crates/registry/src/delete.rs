//! Deleting an object: at once, after a grace period, or when its finalizers are gone.

use std::sync::Arc;

use cache::Object;
use futures::future::BoxFuture;
use object::timestamp::Time;
use object::{Cursor, Errors, GroupKind, GroupResource, Meta, Status, Value};

use crate::create::at_revision;
use crate::error::storage_error;
use crate::write::Attempt;
use crate::{Context, Deletion, Error, GarbageCollection, ResourceStorage};

/// The option to delete objects that cannot be read any more.
pub const UNREADABLE: &str = "ignoreStoreReadErrorWithClusterBreakingPotential";

const ORPHAN: &str = "orphan";
const FOREGROUND: &str = "foregroundDeletion";

/// The outcome of a deletion.
#[derive(Debug)]
pub struct Deleted {
    /// The object as it was last, in the storage version.
    pub object: Value,
    /// Whether it is gone; otherwise it is only marked.
    pub gone: bool,
    /// Whether clients get the object back rather than a Status.
    pub show_object: bool,
}

/// A deletion of one object, in steps as a [`Write`](crate::Write) has.
pub struct Removal<'a> {
    storage: &'a ResourceStorage,
    cx: &'a Context<'a>,
    name: &'a str,
    /// A DeleteOptions object.
    options: &'a Value,
    /// The stored object, as far as it is known.
    stored: Option<Arc<Object>>,
}

/// How an object is to be deleted, if that is admitted.
pub struct Planned {
    current: Value,
    /// The same with its deletion fields, where they are set before admission is asked.
    object: Value,
    plan: Plan,
}

impl Planned {
    /// The object as it is now, which validating admission is asked about; None if there is nothing to ask because a deletion is
    /// under way that this one changes nothing about.
    pub fn asks_about(&self) -> Option<&Value> {
        Some(&self.current).filter(|_| self.plan != Plan::AlreadyPending)
    }
}

impl Removal<'_> {
    /// Reads the object, checks the preconditions and decides how it is deleted.
    pub async fn plan(&self) -> Result<Planned, Error> {
        let storage = self.storage;
        let Some(stored) = &self.stored else { return Err(storage.not_found(self.name)) };
        let current = storage.load(stored).await.map_err(|why| storage.unreadable(stored.entry(), why))?;
        storage.check_delete_preconditions(&current, self.options)?;
        let mut object = current.clone();
        let plan = storage.plan(self.cx, &mut object, self.options);
        Ok(Planned { current, object, plan })
    }

    /// Carries out what was planned and admitted; None if another write came first.
    pub fn commit(&mut self, planned: Planned) -> BoxFuture<'_, Result<Option<Deleted>, Error>> {
        Box::pin(async move {
            match self.carry_out(planned).await? {
                Attempt::Done(deleted) => Ok(Some(deleted)),
                Attempt::Lost(now) => {
                    self.stored = now;
                    Ok(None)
                }
            }
        })
    }

    async fn carry_out(&self, planned: Planned) -> Result<Attempt<Deleted>, Error> {
        let (storage, cx) = (self.storage, self.cx);
        let Some(stored) = &self.stored else { return Ok(Attempt::Lost(None)) };
        let Planned { current, mut object, plan } = planned;
        let show_object = storage.strategy.facts().returns_deleted_object;
        if plan == Plan::AlreadyPending {
            return Ok(Attempt::Done(Deleted { object: current, gone: false, show_object }));
        }
        storage.check_protected(cx, &object)?;
        if cx.features.garbage_collection() {
            storage.settle_finalizers(&mut object, self.options);
        }
        let is_held = object.finalizers().next().is_some() || !(storage.strategy.facts().may_finish)(&object);
        let mut last = current;
        if is_held || plan != Plan::Immediate {
            // A deletion without a grace period writes the deletion fields too, so that watchers see both changes.
            if plan == Plan::Immediate {
                mark_as_deleting(&mut object, cx);
            }
            last = match storage.put(cx, object, Some(stored), true, "delete", false).await? {
                Attempt::Done(marked) => marked,
                Attempt::Lost(now) => return Ok(Attempt::Lost(now)),
            };
            if is_held || plan != Plan::Graceful(0) {
                return Ok(Attempt::Done(Deleted { object: last, gone: false, show_object: true }));
            }
        }
        if !cx.dry_run {
            let revision = last.resource_version().parse().unwrap_or(stored.revision());
            match storage.erase(cx, stored.key(), revision, &last).await? {
                Attempt::Done(revision) => last = at_revision(last, revision),
                // Another request has removed what this one has marked.
                Attempt::Lost(None) if plan != Plan::Immediate => {}
                Attempt::Lost(now) => return Ok(Attempt::Lost(now)),
            }
        }
        Ok(Attempt::Done(Deleted { object: last, gone: true, show_object }))
    }
}

impl ResourceStorage {
    /// Begins to delete the object of this name. `options` is a DeleteOptions object.
    pub async fn begin_removal<'a>(
        &'a self,
        cx: &'a Context<'a>,
        name: &'a str,
        options: &'a Value,
    ) -> Result<Removal<'a>, Error> {
        validate_options(options)?;
        Ok(Removal { storage: self, cx, name, options, stored: self.stored(cx, name, "delete").await? })
    }

    /// Deletes an object without admission, because the server does it for itself.
    pub async fn delete(&self, cx: &Context<'_>, name: &str, options: &Value) -> Result<Deleted, Error> {
        let mut removal = self.begin_removal(cx, name, options).await?;
        loop {
            let planned = removal.plan().await?;
            if let Some(deleted) = removal.commit(planned).await? {
                return Ok(deleted);
            }
        }
    }

    /// Deletes an object that cannot be read, without admission, finalizers or grace. Objects that can be read are refused.
    pub async fn delete_unreadable(&self, cx: &Context<'_>, name: &str) -> Result<(), Error> {
        let key = self.key(cx.namespace, name);
        let found = self.store.get(&key, None).await.map_err(|error| self.store_failed(error, "delete", name))?;
        let Some(entry) = found.entry else { return Err(self.not_found(name)) };
        // An object that the webhook does not convert cannot be read either.
        if self.load(&self.cache.wrap(&entry)).await.is_ok() {
            let why = "unsafe deletion is not allowed because the object is decodable from storage";
            let why = storage_error("invalid object, Code: 4", &entry.key.to_string(), why);
            return Err(self.conflict(name, why));
        }
        if cx.dry_run {
            return Ok(());
        }
        let deleted = self.store.delete(entry.key.clone(), Some(entry.mod_revision)).await;
        deleted.map(|_| ()).map_err(|error| self.store_failed(error, "delete", name))
    }

    /// Refuses to delete what the system needs. Upstream refuses single deletions only.
    fn check_protected(&self, cx: &Context<'_>, object: &Value) -> Result<(), Error> {
        match self.strategy.facts().protected {
            Some((names, why)) if cx.verb != "deletecollection" && names.contains(&object.name()) => {
                Err(Status::forbidden(&self.resource, object.name(), why).into())
            }
            _ => Ok(()),
        }
    }

    fn check_delete_preconditions(&self, object: &Value, options: &Value) -> Result<(), Error> {
        let preconditions = options.field("preconditions");
        let (uid, version) = (preconditions.field("uid").as_str(), preconditions.field("resourceVersion").as_str());
        let Some(mismatch) = Mismatch::of(uid, version, object) else { return Ok(()) };
        if let Some(words) = self.strategy.facts().precondition_words {
            return Err(self.conflict(object.name(), mismatch.in_words(words)));
        }
        // Upstream names the kind here, where other conflicts name the resource.
        let resource = GroupResource::new(self.kind.group.clone(), self.kind.kind.clone());
        Err(Error::Conflict { resource, name: object.name().to_string(), why: mismatch.to_string() })
    }

    /// Decides how the object is deleted, and sets its deletion fields if that is graceful.
    fn plan(&self, cx: &Context<'_>, object: &mut Value, options: &Value) -> Plan {
        let asked = options.field("gracePeriodSeconds").as_int().map(|s| if s < 0 { 1 } else { s });
        let facts = self.strategy.facts();
        if matches!(facts.deletion, Deletion::Immediate) {
            return Plan::Immediate;
        }
        let pending = object.at(&["metadata", "deletionGracePeriodSeconds"]).as_int();
        if object.is_deleting() {
            return match (pending, asked) {
                (None | Some(0), _) if (facts.may_finish)(object) => Plan::Immediate,
                (Some(left), Some(wanted)) if wanted < left => shorten(object, cx, left, wanted),
                _ => Plan::AlreadyPending,
            };
        }
        match facts.deletion {
            Deletion::Immediate => Plan::Immediate,
            Deletion::Marked(mark) => {
                object.set_meta_str("deletionTimestamp", &Time(cx.now).to_string());
                mark(object);
                Plan::Marked
            }
            Deletion::Graceful(grace_period) => {
                let seconds = grace_period(object, options);
                let at = cx.now.plus(object::duration::Duration::from_secs(seconds));
                object.set_meta_str("deletionTimestamp", &Time(at).to_string());
                object.metadata_mut().insert("deletionGracePeriodSeconds", seconds);
                if object.generation() > 0 {
                    object.set_generation(object.generation() + 1);
                }
                Plan::Graceful(seconds)
            }
        }
    }

    /// Puts the garbage collector's finalizers on or takes them off, as the options and the kind say.
    fn settle_finalizers(&self, object: &mut Value, options: &Value) {
        let (orphan, foreground) = self.dependents(object, options);
        let mut names: Vec<String> =
            object.finalizers().filter(|f| *f != ORPHAN && *f != FOREGROUND).map(str::to_string).collect();
        if orphan {
            names.push(ORPHAN.into());
        }
        if foreground {
            names.push(FOREGROUND.into());
        }
        let mut before: Vec<&str> = object.finalizers().collect();
        let mut after: Vec<&str> = names.iter().map(String::as_str).collect();
        before.sort_unstable();
        after.sort_unstable();
        if before == after {
            return;
        }
        if names.is_empty() {
            object.metadata_mut().remove("finalizers");
        } else {
            object.metadata_mut().insert("finalizers", names);
        }
    }

    /// Whether dependents are (orphaned, deleted first).
    fn dependents(&self, object: &Value, options: &Value) -> (bool, bool) {
        let policy = self.strategy.facts().garbage_collection;
        if policy == GarbageCollection::Unsupported {
            return (false, false);
        }
        if let Some(orphan) = options.field("orphanDependents").as_bool() {
            return (orphan, false);
        }
        match options.field("propagationPolicy").as_str() {
            Some("Orphan") => return (true, false),
            Some("Foreground") => return (false, true),
            Some("Background") => return (false, false),
            _ => {}
        }
        let by_finalizer = object.finalizers().find_map(|name| match name {
            ORPHAN => Some((true, false)),
            FOREGROUND => Some((false, true)),
            _ => None,
        });
        by_finalizer.unwrap_or((policy == GarbageCollection::Orphan, false))
    }
}

/// Where an object differs from the one that the preconditions of a write mean.
pub struct Mismatch<'a> {
    field: &'static str,
    wanted: &'a str,
    actual: &'a str,
    /// What may have happened to the object.
    cause: &'static str,
}

impl<'a> Mismatch<'a> {
    /// None if it is the object of this uid and version.
    pub fn of(uid: Option<&'a str>, version: Option<&'a str>, object: &'a Value) -> Option<Mismatch<'a>> {
        let fields = [
            ("UID", uid, object.uid(), "deleted and then recreated"),
            ("ResourceVersion", version, object.resource_version(), "modified"),
        ];
        fields.into_iter().find_map(|(field, wanted, actual, cause)| {
            let wanted = wanted.filter(|wanted| *wanted != actual)?;
            Some(Mismatch { field, wanted, actual, cause })
        })
    }

    /// As upstream's storage layer says it.
    pub(crate) fn in_words(&self, words: &str) -> String {
        let Mismatch { field, wanted, actual, .. } = self;
        format!("{words}: {field} in precondition: {wanted}, {field} in object meta: {actual}")
    }
}

/// As upstream says it of a deletion.
impl std::fmt::Display for Mismatch<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Mismatch { field, wanted, actual, cause } = self;
        write!(f, "the {field} in the precondition ({wanted}) does not match the {field} in record ({actual}). ")?;
        write!(f, "The object might have been {cause}")
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Plan {
    Immediate,
    Graceful(i64),
    /// The object has just been marked and stays for now.
    Marked,
    /// A graceful deletion is under way and this request changes nothing about it.
    AlreadyPending,
}

/// A second deletion may only shorten the grace period, and never ends it in the past.
fn shorten(object: &mut Value, cx: &Context<'_>, left: i64, wanted: i64) -> Plan {
    use object::duration::Duration;
    let Ok(Time(at)) = Time::parse(object.deletion_timestamp()) else { return Plan::Immediate };
    let mut seconds = wanted;
    let mut at = at.plus(Duration::from_secs(-left)).plus(Duration::from_secs(wanted));
    if at < cx.now {
        at = cx.now;
        if wanted != 0 {
            seconds = 1;
        }
    }
    object.set_meta_str("deletionTimestamp", &Time(at).to_string());
    object.metadata_mut().insert("deletionGracePeriodSeconds", seconds);
    Plan::Graceful(seconds)
}

fn mark_as_deleting(object: &mut Value, cx: &Context<'_>) {
    if !object.is_deleting() && object.generation() > 0 {
        object.set_generation(object.generation() + 1);
    }
    let later = Time::parse(object.deletion_timestamp()).is_ok_and(|Time(at)| at > cx.now);
    if !object.is_deleting() || later {
        object.set_meta_str("deletionTimestamp", &Time(cx.now).to_string());
    }
    object.metadata_mut().insert("deletionGracePeriodSeconds", 0);
}

/// Checks a DeleteOptions object.
pub fn validate_options(options: &Value) -> Result<(), Status> {
    let mut errors = Errors::new();
    let cursor = Cursor::root(options);
    let policy = cursor.field("propagationPolicy");
    if cursor.field("orphanDependents").is_set() && policy.is_set() {
        policy.invalid(&mut errors, "orphanDependents and deletionPropagation cannot be both set");
    }
    if policy.is_set() && !matches!(policy.str(), "Foreground" | "Background" | "Orphan") {
        policy.not_supported(&mut errors, &["Foreground", "Background", "Orphan", "nil"]);
    }
    let dry_run = cursor.field("dryRun");
    if dry_run.strs().any(|value| value != "All") {
        dry_run.not_supported(&mut errors, &["All"]);
    }
    let unreadable = cursor.field(UNREADABLE);
    if unreadable.value().as_bool() == Some(true) {
        for field in ["propagationPolicy", "orphanDependents", "gracePeriodSeconds", "preconditions"] {
            if cursor.field(field).is_set() {
                unreadable.invalid(&mut errors, format!("cannot be set together with .{field}"));
            }
        }
    }
    if errors.is_empty() {
        return Ok(());
    }
    Err(Status::invalid(&GroupKind::new("meta.k8s.io", "DeleteOptions"), "", &errors))
}
