//! [`Strategy`]: what a kind adds to the generic path.
//!
//! Every hook has the behaviour most kinds want, so a strategy holds only what is particular to its kind. Objects are
//! handed over in the storage version, after schema defaults. The generic path around the hooks already does: names and
//! generateName, namespace checks, uid, creation and deletion timestamps, resourceVersion and uid preconditions, metadata
//! validation (names, labels, annotations, owner references, finalizers, managed fields), immutability of metadata,
//! generation bumps, finalizers, managed fields and admission. A strategy repeats none of it.

use async_trait::async_trait;
use object::{Cursor, Errors, Str, Value, names};

use crate::{Context, Error};

#[async_trait]
pub trait Strategy: Send + Sync + 'static {
    /// Defaults that depend on other fields; unconditional ones are in the schema table and applied before. Runs on
    /// every decode of the storage version, on requests and on stored objects alike, so it must be idempotent.
    fn default(&self, _object: &mut Value) {}

    // --- create

    /// Resets what clients may not set (status!) and fills what the server owns. The generic path has already removed
    /// the `status` field where [`Strategy::has_status`] says so, and set generation to 1 where
    /// [`Strategy::counts_generations`] does.
    fn prepare_create(&self, _cx: &Context, _object: &mut Value) {}

    /// Whether a create may set the status, as a kubelet does when it registers its node; the generic path then leaves
    /// the status where it is.
    fn keeps_status_on_create(&self) -> bool {
        false
    }

    /// Whether metadata is only looked at once [`Strategy::validate`] has nothing to complain about. Most kinds check
    /// metadata first and report everything.
    fn checks_metadata_last(&self) -> bool {
        false
    }

    /// What the author may not ask for in a new object, after it was prepared. These errors come first.
    fn authorize_create(&self, _cx: &Context, _object: &Cursor, _errors: &mut Errors) {}

    /// Checks a new object; also called for the new state by the default [`Strategy::validate_update`].
    fn validate(&self, _cx: &Context, _object: &Cursor, _errors: &mut Errors) {}

    fn warnings(&self, _cx: &Context, _object: &Value, _old: Option<&Value>) -> Vec<String> {
        Vec::new()
    }

    /// Warnings about a new object that must be found before [`Strategy::prepare_create`] changes what they are about.
    fn early_warnings(&self, _cx: &Context, _object: &Value) -> Vec<String> {
        Vec::new()
    }

    /// Brings a valid object into the form it is stored in; the last change that creates and updates make.
    fn canonicalize(&self, _object: &mut Value) {}

    // --- update

    /// Resets what an update may not touch. The generic path has already put the old `status` back (where there is
    /// one), and bumps the generation afterwards if anything outside metadata and status changed.
    fn prepare_update(&self, _cx: &Context, _new: &mut Value, _old: &Value) {}

    fn validate_update(&self, cx: &Context, new: &Cursor, _old: &Cursor, errors: &mut Errors) {
        self.validate(cx, new, errors);
    }

    // --- the status subresource

    /// Whether `/status` exists as in upstream's usual split: plain writes keep the old status, status writes keep
    /// everything but status (and metadata that status writers may change).
    fn has_status(&self) -> bool {
        true
    }

    /// Called after the generic path has put back the old `spec` and everything else but `status` and `metadata`.
    fn prepare_status_update(&self, _cx: &Context, _new: &mut Value, _old: &Value) {}

    /// What other rights of the author decide about a new status, after it was prepared. These errors come first.
    async fn authorize_status_update(&self, _cx: &Context<'_>, _new: &Value, _old: &Value, _errors: &mut Errors) {}

    fn validate_status_update(&self, _cx: &Context, _new: &Cursor, _old: &Cursor, _errors: &mut Errors) {}

    fn status_warnings(&self, _cx: &Context, _new: &Value, _old: &Value) -> Vec<String> {
        Vec::new()
    }

    // --- other subresources that are views on the object: ephemeralcontainers, resize, approval, finalize

    /// Keeps everything that a write through `cx.subresource` may not change.
    fn prepare_subresource(&self, _cx: &Context, _new: &mut Value, _old: &Value) {}

    fn validate_subresource(&self, _cx: &Context, _new: &Cursor, _old: &Cursor, _errors: &mut Errors) {}

    // --- what the object is

    /// Upstream's check of the name, or of a generateName prefix.
    fn validate_name(&self, name: &str, is_prefix: bool) -> Vec<String> {
        names::name_is_dns_subdomain(name, is_prefix)
    }

    /// As [`Strategy::validate_name`], for kinds whose names depend on what else the object says.
    fn validate_name_of(&self, _cx: &Context, _object: &Value, name: &str, is_prefix: bool) -> Vec<String> {
        self.validate_name(name, is_prefix)
    }

    /// Whether updates check generateName by the kind's name rule, as upstream does for kinds whose updates are validated like new
    /// objects.
    fn checks_updated_generate_name(&self) -> bool {
        false
    }

    /// Whether objects of the kind are namespaces: admission sees their creation as happening inside of them.
    fn is_namespace(&self) -> bool {
        false
    }

    /// Whether the server makes up the rest of a name from generateName; otherwise the prefix is the whole name.
    fn generates_names(&self) -> bool {
        true
    }

    /// Whether finalizers must be standard or fully qualified, as nearly all built-in kinds have it.
    fn checks_finalizer_names(&self) -> bool {
        true
    }

    /// The same for updates.
    fn checks_updated_finalizer_names(&self, _cx: &Context) -> bool {
        self.checks_finalizer_names()
    }

    /// Whether updates check metadata twice and report what is wrong with it twice, as upstream does for custom resources,
    /// definitions and APIServices.
    fn repeats_metadata_errors(&self) -> bool {
        false
    }

    /// Whether metadata.generation counts spec changes.
    fn counts_generations(&self) -> bool {
        false
    }

    /// Whether the generation goes up with this update. The default: anything outside metadata and status changed.
    fn bumps_generation(&self, new: &Value, old: &Value) -> bool {
        let differs = |a: &Value, b: &Value| {
            a.as_map().is_some_and(|map| {
                map.iter().any(|(key, value)| {
                    !matches!(key, "metadata" | "status" | "kind" | "apiVersion") && value != b.field(key)
                })
            })
        };
        differs(new, old) || differs(old, new)
    }

    /// PUT to a name that does not exist creates it.
    fn allows_create_on_update(&self) -> bool {
        false
    }

    /// PUT without a resourceVersion overwrites whatever is there.
    fn allows_unconditional_update(&self) -> bool {
        true
    }

    /// Fields that writes through the subresource ("" is the object itself) cannot own, because the hooks above reset
    /// them: paths such as `["status"]`.
    fn reset_fields(&self, subresource: &str) -> Vec<Vec<&'static str>> {
        match subresource {
            "" if self.has_status() => vec![vec!["status"]],
            "status" => vec![vec!["spec"]],
            _ => Vec::new(),
        }
    }

    /// Whether the object can be shown as a table where it is reached through this subresource, "" for its own path.
    fn has_table(&self, subresource: &str) -> bool {
        matches!(subresource, "" | "status" | "scale")
    }

    // --- deletion

    /// Whether a deletion may leave the object in place for a grace period: [`Strategy::deletion`] decides each time.
    fn deletes_gracefully(&self) -> bool {
        false
    }

    /// Whether an object that cannot be decoded can be deleted with [`UNREADABLE`](crate::UNREADABLE).
    fn deletes_unreadable(&self) -> bool {
        true
    }

    /// Whether clients get the deleted object back, as a few kinds do, rather than a Status.
    fn returns_deleted_object(&self) -> bool {
        false
    }

    /// Whether a deleted object without finalizers may go; namespaces have finalizers of their own in their spec.
    fn may_finish(&self, _object: &Value) -> bool {
        true
    }

    /// How the object goes away, if [`Strategy::deletes_gracefully`]. `options` is a DeleteOptions object.
    fn deletion(&self, _cx: &Context, _object: &Value, _options: &Value) -> Deletion {
        Deletion::Immediate
    }

    /// Changes an object that [`Deletion::Marked`] marks; it has its deletionTimestamp already.
    fn mark_deleted(&self, _object: &mut Value) {}

    /// What happens to dependents when a deletion does not say.
    fn garbage_collection(&self) -> GarbageCollection {
        GarbageCollection::Background
    }

    /// What to warn about when an object or a collection is deleted with these DeleteOptions, be it refused or not.
    fn deletion_warnings(&self, _cx: &Context, _options: &Value) -> Vec<String> {
        Vec::new()
    }

    /// Checks a deletion's preconditions in the kind's own words, before the generic path does in its.
    fn check_preconditions(&self, _object: &Value, _preconditions: &Value) -> Result<(), Error> {
        Ok(())
    }

    /// Refuses a deletion (mirror of upstream's custom delete handlers).
    fn validate_deletion(&self, _cx: &Context, _object: &Value) -> Result<(), Error> {
        Ok(())
    }

    // --- reads

    /// Whether a field selector may use metadata.namespace.
    fn selects_by_namespace(&self) -> bool {
        true
    }

    /// Fields, besides metadata.name and metadata.namespace, that a field selector may use.
    fn selectable_fields(&self) -> &[Str] {
        &[]
    }

    /// A selectable field that lists are so often narrowed by that the cache keeps an index on it.
    fn index(&self) -> Option<Str> {
        None
    }

    /// The selectable field that a selector in the given group's version means by `field`; None if it means none.
    fn selected_field(&self, _group: &str, field: &str) -> Option<&Str> {
        self.selectable_fields().iter().find(|known| *known == field)
    }

    /// How a selector on any other field is refused.
    fn field_refusal(&self) -> FieldRefusal {
        FieldRefusal::Listed
    }

    /// The value of a selectable field; the default reads the path literally.
    fn select_field(&self, object: &Value, field: &str) -> String {
        match field.split('.').fold(object, |value, key| value.field(key)) {
            Value::String(s) => s.to_string(),
            Value::Bool(b) => b.to_string(),
            Value::Int(i) => i.to_string(),
            _ => String::new(),
        }
    }

    /// The paths that `select_field` reads, if they are others than the fields' names.
    fn selected_paths(&self) -> &[Str] {
        self.selectable_fields()
    }

    /// The cells of the object's row in a Table, one for each column in the schema table (wide ones too).
    fn cells(&self, cx: &Context, object: &Value) -> Vec<Value> {
        vec![object.at(&["metadata", "name"]).clone(), crate::columns::age(cx, object)]
    }

    /// The conditions of the object's row in a Table: `Completed` for objects that are over.
    fn row_conditions(&self, _object: &Value) -> Vec<Value> {
        Vec::new()
    }

    /// The cells of the rows of a list, some hundreds at a time, for kinds where a row depends on the others: storage classes mark
    /// the default.
    fn rows(&self, cx: &Context, objects: &[&Value]) -> Vec<Vec<Value>> {
        objects.iter().map(|object| self.cells(cx, object)).collect()
    }

    /// What the rows of a list in a Table are sorted by, for kinds that have another order there than their names'.
    fn row_order(&self) -> Option<fn(&Value) -> i64> {
        None
    }

    /// Annotations that only the whole object shows: upstream keeps them in fields of its own, so that they are missing
    /// where it shows nothing but metadata.
    fn hidden_annotations(&self) -> &'static [&'static str] {
        &[]
    }

    /// How long a stored object lives; None is for ever.
    fn time_to_live(&self, _object: &Value) -> Option<std::time::Duration> {
        None
    }

    // --- side effects

    /// Runs once the object has its name and uid, before [`Strategy::prepare_create`] and validation, which see what it
    /// filled in: allocate addresses, reserve ports. What it returns is undone if anything after it fails and committed
    /// once the write is stored. Must have no lasting effect when `cx.dry_run` is set.
    async fn begin_create(&self, _cx: &Context<'_>, _object: &mut Value) -> Result<Option<Box<dyn Undo>>, Error> {
        Ok(None)
    }

    /// As [`Strategy::begin_create`], before [`Strategy::prepare_update`]; for subresources too.
    async fn begin_update(
        &self,
        _cx: &Context<'_>,
        _new: &mut Value,
        _old: &Value,
    ) -> Result<Option<Box<dyn Undo>>, Error> {
        Ok(None)
    }

    /// Runs after the object is gone from the store, through whatever subresource: release what begin_create took.
    async fn after_delete(&self, _cx: &Context<'_>, _object: &Value) {}
}

/// The behaviour of kinds that add nothing.
pub struct Generic;

impl Strategy for Generic {}

/// What remains to be done about a side effect once its write has failed or is stored.
#[async_trait]
pub trait Undo: Send + Sync {
    /// The write failed: take the side effect back.
    async fn undo(self: Box<Self>);

    /// The write is stored: let go of what the old state held.
    async fn commit(self: Box<Self>) {}
}

/// How an object goes away.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Deletion {
    /// At once, unless finalizers hold it.
    Immediate,
    /// After a grace period of this many seconds, which the kubelet may end earlier; 0 is at once.
    Graceful { grace_period_seconds: i64 },
    /// In two steps, without a grace period: the first deletion marks the object ([`Strategy::mark_deleted`]), a later
    /// one removes it if [`Strategy::may_finish`] lets it.
    Marked,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GarbageCollection {
    Background,
    Orphan,
    /// The kind opts out: no finalizers are added for dependents.
    Unsupported,
}

/// Upstream's ways of saying that a field cannot be selected by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldRefusal {
    /// `"spec.x" is not a known field selector: only "metadata.name", "metadata.namespace"`.
    Listed,
    /// `field label not supported: spec.x`.
    Plain,
    /// `field label "spec.x" not supported for Job`.
    ForKind,
    /// `field label not supported for resource.k8s.io/v1, Kind=ResourceSlice: spec.x`.
    ForVersion,
}
