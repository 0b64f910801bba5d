//! Deleting an object: at once, after a grace period, or when its finalizers are gone.

use std::sync::Arc;

use futures::future::BoxFuture;
use object::timestamp::Time;
use object::{Cursor, Errors, GroupKind, GroupResource, Meta, Status, Value};
use storage::Entry;

use crate::error::storage_error;
use crate::storage::Attempt;
use crate::strategy::{Deletion, GarbageCollection};
use crate::{Admit, Context, Error, ResourceStorage};

/// The option to delete objects that cannot be read any more.
pub const UNREADABLE: &str = "ignoreStoreReadErrorWithClusterBreakingPotential";

const ORPHAN: &str = "orphan";
const FOREGROUND: &str = "foregroundDeletion";

/// What a deletion did.
#[derive(Debug)]
pub struct Deleted {
    /// The object as it was last, in the storage version.
    pub object: Value,
    /// Whether it is gone; otherwise it is only marked.
    pub gone: bool,
    /// Whether clients get the object back rather than a Status.
    pub show_object: bool,
}

impl ResourceStorage {
    /// Deletes one object. `options` is a DeleteOptions object.
    pub fn delete<'a>(
        &'a self,
        cx: &'a Context<'a>,
        name: &'a str,
        options: &'a Value,
        admit: &'a dyn Admit,
    ) -> BoxFuture<'a, Result<Deleted, Error>> {
        Box::pin(async move {
            validate_options(options)?;
            let key = self.key(cx.namespace, name);
            let found = self.cache.current(&key).await.map_err(|error| self.read_failed(error, "delete"))?;
            let mut current: Option<Arc<Entry>> = found.map(|object| object.entry().clone());
            loop {
                let Some(entry) = current else { return Err(self.not_found(name)) };
                match self.try_delete(cx, name, &entry, options, admit).await? {
                    Attempt::Done(deleted) => return Ok(deleted),
                    Attempt::Lost(now) => current = now,
                }
            }
        })
    }

    /// Deletes an object that cannot be read, without admission, finalizers or grace. Objects that can be read are refused.
    pub async fn delete_unreadable(&self, cx: &Context<'_>, name: &str) -> Result<(), Error> {
        let key = self.key(cx.namespace, name);
        let found = self.store.get(&key, None).await.map_err(|error| self.store_failed(error, "delete", name))?;
        let Some(entry) = found.entry else { return Err(self.not_found(name)) };
        // An object that the webhook does not convert cannot be read either.
        let _prepared = self.prepare(std::iter::once(&entry.value)).await;
        if self.read(&entry).is_ok() {
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

    async fn try_delete(
        &self,
        cx: &Context<'_>,
        name: &str,
        entry: &Arc<Entry>,
        options: &Value,
        admit: &dyn Admit,
    ) -> Result<Attempt<Deleted>, Error> {
        let prepared = self.prepare(std::iter::once(&entry.value)).await?;
        let mut object = self.decode_entry(entry)?;
        drop(prepared);
        let old = object.clone();
        self.check_delete_preconditions(&object, options)?;
        let plan = self.plan(cx, &mut object, options);
        if plan == Plan::AlreadyPending {
            let show_object = self.strategy.returns_deleted_object();
            return Ok(Attempt::Done(Deleted { object, gone: false, show_object }));
        }
        admit.validate(None, Some(&old)).await?;
        self.strategy.validate_deletion(cx, &object)?;
        if cx.features.garbage_collection() {
            self.settle_finalizers(&mut object, options);
        }
        let held = object.finalizers().next().is_some() || !self.strategy.may_finish(&object);
        let remove = match plan {
            Plan::Graceful(seconds) => seconds == 0 && !held,
            Plan::Marked => false,
            _ => !held,
        };
        if remove && matches!(plan, Plan::Graceful(_)) {
            return self.mark_and_remove(cx, name, entry, object).await;
        }
        if remove {
            return self.remove_now(cx, name, entry, old).await;
        }
        if plan == Plan::Immediate {
            mark_as_deleting(&mut object, cx);
        }
        self.mark(cx, name, entry, object).await
    }

    /// A graceful deletion with a grace period of zero writes the deletion fields before it removes the object, so that watchers see
    /// both changes.
    async fn mark_and_remove(
        &self,
        cx: &Context<'_>,
        name: &str,
        entry: &Arc<Entry>,
        object: Value,
    ) -> Result<Attempt<Deleted>, Error> {
        let deleted = match self.mark(cx, name, entry, object).await? {
            Attempt::Done(deleted) => deleted,
            lost => return Ok(lost),
        };
        let show_object = self.strategy.returns_deleted_object();
        if cx.dry_run {
            return Ok(Attempt::Done(Deleted { gone: true, show_object, ..deleted }));
        }
        let key = entry.key.clone();
        match self.store.delete(key, deleted.object.resource_version().parse().ok()).await {
            Ok(written) => {
                let mut object = deleted.object;
                self.strategy.after_delete(cx, &object).await;
                object.set_meta_str("resourceVersion", &written.revision.to_string());
                Ok(Attempt::Done(Deleted { object, gone: true, show_object }))
            }
            // Another request has removed it.
            Err(storage::Error::NotFound) => Ok(Attempt::Done(Deleted { gone: true, show_object, ..deleted })),
            Err(storage::Error::Conflict(now)) => Ok(Attempt::Lost(Some(now))),
            Err(error) => Err(self.store_failed(error, "delete", name)),
        }
    }

    async fn remove_now(
        &self,
        cx: &Context<'_>,
        name: &str,
        entry: &Arc<Entry>,
        object: Value,
    ) -> Result<Attempt<Deleted>, Error> {
        let show_object = self.strategy.returns_deleted_object();
        if cx.dry_run {
            return Ok(Attempt::Done(Deleted { object, gone: true, show_object }));
        }
        match self.store.delete(entry.key.clone(), Some(entry.mod_revision)).await {
            Ok(written) => {
                self.strategy.after_delete(cx, &object).await;
                let mut object = object;
                object.set_meta_str("resourceVersion", &written.revision.to_string());
                Ok(Attempt::Done(Deleted { object, gone: true, show_object }))
            }
            Err(storage::Error::Conflict(now)) => Ok(Attempt::Lost(Some(now))),
            Err(storage::Error::NotFound) => Ok(Attempt::Lost(None)),
            Err(error) => Err(self.store_failed(error, "delete", name)),
        }
    }

    async fn mark(
        &self,
        cx: &Context<'_>,
        name: &str,
        entry: &Arc<Entry>,
        mut object: Value,
    ) -> Result<Attempt<Deleted>, Error> {
        let bytes = self.to_bytes(&mut object).await?;
        if cx.dry_run || bytes == entry.value {
            return Ok(Attempt::Done(Deleted { object, gone: false, show_object: true }));
        }
        let ttl = self.strategy.time_to_live(&object);
        match self.store.update(entry.key.clone(), bytes, entry.mod_revision, ttl).await {
            Ok(written) => {
                object.set_meta_str("resourceVersion", &written.revision.to_string());
                Ok(Attempt::Done(Deleted { object, gone: false, show_object: true }))
            }
            Err(storage::Error::Conflict(now)) => Ok(Attempt::Lost(Some(now))),
            Err(storage::Error::NotFound) => Ok(Attempt::Lost(None)),
            Err(error) => Err(self.store_failed(error, "delete", name)),
        }
    }

    fn check_delete_preconditions(&self, object: &Value, options: &Value) -> Result<(), Error> {
        // Upstream names the kind here, where other conflicts name the resource.
        let kind = GroupResource::new(self.kind.group.clone(), self.kind.kind.clone());
        let preconditions = options.field("preconditions");
        self.strategy.check_preconditions(object, preconditions)?;
        if let Some(uid) = preconditions.field("uid").as_str()
            && uid != object.uid()
        {
            let why = format!(
                "the UID in the precondition ({uid}) does not match the UID in record ({}). The object might have been deleted and then recreated",
                object.uid()
            );
            return Err(Error::Conflict { resource: kind, name: object.name().to_string(), why });
        }
        if let Some(version) = preconditions.field("resourceVersion").as_str()
            && version != object.resource_version()
        {
            let why = format!(
                "the ResourceVersion in the precondition ({version}) does not match the ResourceVersion in record ({}). The object might have been modified",
                object.resource_version()
            );
            return Err(Error::Conflict { resource: kind, name: object.name().to_string(), why });
        }
        Ok(())
    }

    /// Decides how the object is deleted, and sets its deletion fields if that is graceful.
    fn plan(&self, cx: &Context<'_>, object: &mut Value, options: &Value) -> Plan {
        let asked = options.field("gracePeriodSeconds").as_int().map(|s| if s < 0 { 1 } else { s });
        if !self.strategy.deletes_gracefully() {
            return Plan::Immediate;
        }
        let pending = object.at(&["metadata", "deletionGracePeriodSeconds"]).as_int();
        if object.is_deleting() {
            return match (pending, asked) {
                (None | Some(0), _) if self.strategy.may_finish(object) => Plan::Immediate,
                (Some(left), Some(wanted)) if wanted < left => shorten(object, cx, left, wanted),
                _ => Plan::AlreadyPending,
            };
        }
        match self.strategy.deletion(cx, object, options) {
            Deletion::Immediate => Plan::Immediate,
            Deletion::Marked => {
                object.set_meta_str("deletionTimestamp", &Time(cx.now).to_string());
                self.strategy.mark_deleted(object);
                Plan::Marked
            }
            Deletion::Graceful { grace_period_seconds: seconds } => {
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
        let policy = self.strategy.garbage_collection();
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
