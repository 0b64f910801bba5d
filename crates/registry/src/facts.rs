//! [`Facts`]: the row of a kind, which says in data what is true of all its objects.

use std::time::Duration;

use object::{Str, Value, names};

/// Paths of fields, such as `["metadata", "labels"]`.
pub type Paths = &'static [&'static [&'static str]];

/// The facts about all objects of a kind. A kind's row begins with [`Facts::WITH_STATUS`] or [`Facts::WITHOUT_STATUS`] and says
/// what differs.
#[derive(Clone, Copy, Debug)]
pub struct Facts {
    /// Whether objects of the kind are namespaces: admission sees their creation as happening inside of them.
    pub is_namespace: bool,

    // --- names and metadata
    /// Upstream's check of the name, or of a generateName prefix.
    pub name: fn(name: &str, is_prefix: bool) -> Vec<String>,
    /// Whether the server makes up the rest of a name from generateName; otherwise the prefix is the whole name.
    pub generates_names: bool,
    /// Whether updates check generateName by the kind's name rule, as upstream does for kinds whose updates are validated like
    /// new objects.
    pub checks_updated_generate_name: bool,
    /// Whether finalizers must be standard or fully qualified, as nearly all built-in kinds have it.
    pub checks_finalizer_names: bool,
    /// The same for updates.
    pub checks_updated_finalizer_names: bool,
    /// Whether the metadata of a new object is only looked at once [`Strategy::validate`](crate::Strategy::validate) has nothing
    /// to complain about. Most kinds check metadata first and report everything.
    pub checks_metadata_last: bool,
    /// Whether updates check metadata twice and report what is wrong with it twice, as upstream does for custom resources,
    /// definitions and APIServices.
    pub repeats_metadata_errors: bool,

    // --- writes
    /// Whether `/status` exists as in upstream's usual split: plain writes keep the old status, status writes keep everything but
    /// status (and metadata that status writers may change).
    pub has_status: bool,
    /// Whether a create may set the status, as a kubelet does when it registers its node.
    pub keeps_status_on_create: bool,
    /// Whether metadata.generation counts changes: if it does, whether it goes up with the update to the first object from the
    /// second.
    pub generation: Option<fn(&Value, &Value) -> bool>,
    /// PUT to a name that does not exist creates it.
    pub allows_create_on_update: bool,
    /// PUT without a resourceVersion overwrites whatever is there.
    pub allows_unconditional_update: bool,
    /// Fields that writes to the object cannot own, because the strategy resets them.
    pub resets: Paths,
    /// The same for writes through `status`.
    pub status_resets: Paths,
    /// The same for writes through other subresources.
    pub other_resets: &'static [(&'static str, Paths)],
    /// How long a stored object lives; None is for ever.
    pub time_to_live: Option<Duration>,

    // --- deletion
    /// How objects go away.
    pub deletion: Deletion,
    /// Whether a deleted object without finalizers may go; namespaces have finalizers of their own in their spec.
    pub may_finish: fn(&Value) -> bool,
    /// The fate of dependents when a deletion does not say.
    pub garbage_collection: GarbageCollection,
    /// What to warn about when a deletion does not say what happens to dependents, be it refused or not.
    pub undecided_warning: Option<&'static str>,
    /// Names of objects that cannot be deleted one by one, and the reason.
    pub protected: Option<(&'static [&'static str], &'static str)>,
    /// What the message of a failed precondition begins with, for the kinds whose deletion checks preconditions by itself.
    pub precondition_words: Option<&'static str>,
    /// Whether an object that cannot be decoded can be deleted with [`UNREADABLE`](crate::UNREADABLE).
    pub deletes_unreadable: bool,
    /// Whether clients get the deleted object back, as a few kinds do, rather than a Status.
    pub returns_deleted_object: bool,

    // --- selectors
    /// Whether a field selector may use metadata.namespace.
    pub selects_by_namespace: bool,
    /// Fields, besides metadata.name and metadata.namespace, that a field selector may use.
    pub selectable_fields: &'static [Str],
    /// The paths that the values of selectable fields are read from, if they are others than the fields' names.
    pub selected_paths: Option<&'static [Str]>,
    /// Where the kind is served by a second group too: the names that selectors of that group use, and the fields they mean.
    pub second_group_fields: Option<&'static [(&'static str, &'static str)]>,
    /// A selectable field that lists are so often narrowed by that the cache keeps an index on it.
    pub index: Option<&'static str>,
    /// How a selector on any other field is refused.
    pub field_refusal: FieldRefusal,

    // --- tables
    /// Whether `status` and `scale` can be shown as tables too.
    pub shows_parts_as_tables: bool,
    /// The conditions of the object's row in a Table: `Completed` for objects that are over.
    pub row_conditions: Option<fn(&Value) -> Vec<Value>>,
    /// What the rows of a list in a Table are sorted by, for kinds that have another order there than their names'.
    pub row_order: Option<fn(&Value) -> i64>,
    /// The name of the object among these, some hundreds of a list at a time, whose row says that it is the default.
    pub default_row: Option<for<'o> fn(&[&'o Value]) -> Option<&'o str>>,
    /// Annotations that only the whole object shows: upstream keeps them in fields of its own, so that they are missing where it
    /// shows nothing but metadata.
    pub hidden_annotations: &'static [&'static str],
}

impl Facts {
    /// The behaviour that most kinds with a status want.
    pub const WITH_STATUS: Facts = Facts {
        is_namespace: false,
        name: names::name_is_dns_subdomain,
        generates_names: true,
        checks_updated_generate_name: false,
        checks_finalizer_names: true,
        checks_updated_finalizer_names: true,
        checks_metadata_last: false,
        repeats_metadata_errors: false,
        has_status: true,
        keeps_status_on_create: false,
        generation: None,
        allows_create_on_update: false,
        allows_unconditional_update: true,
        resets: &[&["status"]],
        status_resets: &[&["spec"]],
        other_resets: &[],
        time_to_live: None,
        deletion: Deletion::Immediate,
        may_finish: |_| true,
        garbage_collection: GarbageCollection::Background,
        undecided_warning: None,
        protected: None,
        precondition_words: None,
        deletes_unreadable: true,
        returns_deleted_object: false,
        selects_by_namespace: true,
        selectable_fields: &[],
        selected_paths: None,
        second_group_fields: None,
        index: None,
        field_refusal: FieldRefusal::Listed,
        shows_parts_as_tables: true,
        row_conditions: None,
        row_order: None,
        default_row: None,
        hidden_annotations: &[],
    };

    /// The same for kinds without a status.
    pub const WITHOUT_STATUS: Facts = Facts { has_status: false, resets: &[], ..Facts::WITH_STATUS };

    /// The `status_resets` of kinds whose status writes keep all metadata.
    pub const METADATA_AND_SPEC: Paths = &[&["metadata"], &["spec"]];

    /// Fields that writes through the subresource ("" is the object itself) cannot own.
    pub fn reset_fields(&self, subresource: &str) -> Paths {
        match subresource {
            "" => self.resets,
            "status" => self.status_resets,
            other => self.other_resets.iter().find(|(name, _)| *name == other).map_or(&[], |(_, paths)| paths),
        }
    }

    /// What to warn about when an object or a collection is deleted with these DeleteOptions.
    pub fn deletion_warning(&self, options: &Value) -> Option<&'static str> {
        let is_undecided = ["propagationPolicy", "orphanDependents"].iter().all(|field| options.field(field).is_null());
        self.undecided_warning.filter(|_| is_undecided)
    }

    /// Whether the generation goes up with this update.
    pub fn bumps_generation(&self, new: &Value, old: &Value) -> bool {
        self.generation.is_some_and(|is_change| is_change(new, old))
    }

    /// Whether the object can be shown as a table where it is reached through this subresource, "" for its own path.
    pub fn has_table(&self, subresource: &str) -> bool {
        subresource.is_empty() || self.shows_parts_as_tables && matches!(subresource, "status" | "scale")
    }
}

/// Whether anything outside metadata and status changed: the [`Facts::generation`] of kinds that compare no more closely.
pub fn is_changed(new: &Value, old: &Value) -> bool {
    let differs = |a: &Value, b: &Value| {
        a.as_map().is_some_and(|map| {
            map.iter().any(|(key, value)| {
                !matches!(key, "metadata" | "status" | "kind" | "apiVersion") && value != b.field(key)
            })
        })
    };
    differs(new, old) || differs(old, new)
}

/// How an object goes away.
#[derive(Clone, Copy, Debug)]
pub enum Deletion {
    /// At once, unless finalizers hold it.
    Immediate,
    /// After a grace period, which the kubelet may end earlier: so many seconds for an object and DeleteOptions; 0 is at once.
    Graceful(fn(&Value, &Value) -> i64),
    /// In two steps, without a grace period: the first deletion marks the object, with a deletionTimestamp and with what this
    /// function does; a later one removes it if [`Facts::may_finish`] lets it.
    Marked(fn(&mut Value)),
}

/// The fate of dependents of a deleted object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GarbageCollection {
    /// They are deleted once their owner is gone.
    Background,
    /// They stay, without an owner.
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
