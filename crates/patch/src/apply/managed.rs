//! `metadata.managedFields` read and written.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::LazyLock;

use object::timestamp::Time;
use object::{Map, Raw, Str, Value, quote};

use crate::FieldSet;

/// Who owns which fields, and since when.
#[derive(Clone, Debug, Default)]
pub(super) struct Managed {
    pub owners: Owners,
    /// Kept apart from the owners: a manager that loses everything and takes something again is still the same.
    pub times: BTreeMap<Id, Str>,
}

pub(super) type Owners = BTreeMap<Id, Owned>;

/// What no manager owns: the object's identity and what the server alone writes.
pub(super) static UNOWNED: LazyLock<FieldSet> = LazyLock::new(|| {
    let paths: [&[&str]; 12] = [
        &["apiVersion"],
        &["kind"],
        &["metadata"],
        &["metadata", "name"],
        &["metadata", "namespace"],
        &["metadata", "creationTimestamp"],
        &["metadata", "selfLink"],
        &["metadata", "uid"],
        &["metadata", "clusterName"],
        &["metadata", "generation"],
        &["metadata", "managedFields"],
        &["metadata", "resourceVersion"],
    ];
    FieldSet::of(paths)
});

/// What one manager owns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Owned {
    pub set: FieldSet,
    /// The apiVersion that the paths are of.
    pub version: Str,
    pub applied: bool,
}

/// Identifies a manager: with an Update each apiVersion is a manager of its own, with an Apply it is not.
#[derive(Clone, Debug)]
pub(super) struct Id {
    pub manager: Str,
    pub operation: Str,
    /// "" for an Apply.
    pub version: Str,
    pub subresource: Str,
    /// The entry as JSON, which is what upstream sorts managers by.
    text: String,
}

impl Id {
    pub fn updater(manager: &str, version: &str, subresource: &str) -> Id {
        Id::new(manager, "Update", version, subresource)
    }

    pub fn applier(manager: &str, subresource: &str) -> Id {
        Id::new(manager, "Apply", "", subresource)
    }

    /// A manager without an entry in managedFields.
    pub fn placeholder(name: &str) -> Id {
        let none = Str::default;
        Id { manager: name.into(), operation: none(), version: none(), subresource: none(), text: name.into() }
    }

    fn new(manager: &str, operation: &str, version: &str, subresource: &str) -> Id {
        let mut text = String::from("{");
        let fields =
            [("manager", manager), ("operation", operation), ("apiVersion", version), ("subresource", subresource)];
        for (name, value) in fields.into_iter().filter(|(_, value)| !value.is_empty()) {
            text.push_str(if text.len() > 1 { ",\"" } else { "\"" });
            text.push_str(name);
            text.push_str("\":");
            object::write_json_string(value, &mut text);
        }
        text.push('}');
        let [manager, operation, version, subresource] = fields.map(|(_, value)| Str::from(value));
        Id { manager, operation, version, subresource, text }
    }

    /// As conflicts name a manager.
    pub fn describe(&self) -> String {
        let mut text = quote(&self.manager);
        if !self.subresource.is_empty() {
            text.push_str(&format!(" with subresource {}", quote(&self.subresource)));
        }
        if self.operation == "Update" {
            text.push_str(&format!(" using {}", self.version));
        }
        text
    }
}

impl Ord for Id {
    fn cmp(&self, other: &Id) -> Ordering {
        self.text.cmp(&other.text)
    }
}

impl PartialOrd for Id {
    fn partial_cmp(&self, other: &Id) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Id {
    fn eq(&self, other: &Id) -> bool {
        self.text == other.text
    }
}

impl Eq for Id {}

impl Managed {
    pub fn is_empty(&self) -> bool {
        self.owners.is_empty()
    }

    /// Reads the list of entries; every one must make sense.
    pub fn read(entries: &Value) -> Result<Managed, String> {
        let mut managed = Managed::default();
        for (index, entry) in entries.as_list().unwrap_or_default().iter().enumerate() {
            let text = |field: &str| entry.str_at(&[field]);
            let applied = match text("operation") {
                "Apply" => true,
                "Update" => false,
                _ => return Err("operation must be `Apply` or `Update`".to_string()),
            };
            let version = text("apiVersion");
            if version.is_empty() {
                return Err("apiVersion must not be empty".to_string());
            }
            match text("fieldsType") {
                "FieldsV1" => {}
                "" => return Err(format!("missing fieldsType in managed fields entry {index}")),
                other => return Err(format!("invalid fieldsType {} in managed fields entry {index}", quote(other))),
            }
            let id = match applied {
                true => Id::applier(text("manager"), text("subresource")),
                false => Id::updater(text("manager"), version, text("subresource")),
            };
            let set = FieldSet::from_value(entry.field("fieldsV1"))
                .map_err(|why| format!("error decoding versioned set from {}: error decoding set: {why}", id.text))?;
            if !text("time").is_empty() {
                managed.times.insert(id.clone(), text("time").into());
            } else {
                managed.times.remove(&id);
            }
            managed.owners.insert(id, Owned { set, version: version.into(), applied });
        }
        Ok(managed)
    }

    /// Writes the entries into an object, in upstream's order; none at all if there are none.
    pub fn write(&self, object: &mut Value) {
        if self.owners.is_empty() {
            return;
        }
        let mut entries: Vec<(&Id, &Owned)> = self.owners.iter().collect();
        entries.sort_by(|(p, p_owned), (q, q_owned)| {
            let operation =
                |id: &Id, owned: &Owned| if owned.applied { Str::from("Apply") } else { id.operation.clone() };
            operation(p, p_owned)
                .cmp(&operation(q, q_owned))
                .then_with(|| self.seconds(p).cmp(&self.seconds(q)))
                .then_with(|| p.manager.cmp(&q.manager))
                .then_with(|| p_owned.version.cmp(&q_owned.version))
                .then_with(|| p.subresource.cmp(&q.subresource))
        });
        let entries: Vec<Value> = entries.into_iter().map(|(id, owned)| self.entry(id, owned)).collect();
        object.set(&["metadata", "managedFields"], entries);
    }

    fn entry(&self, id: &Id, owned: &Owned) -> Value {
        let operation = if owned.applied { "Apply" } else { &id.operation };
        let time = self.times.get(id).map_or("", Str::as_str);
        entry((&id.manager, operation, &owned.version, &id.subresource), time, owned.set.to_json())
    }

    /// When a manager last wrote, in seconds; 0 if that is not known.
    pub fn seconds(&self, id: &Id) -> i64 {
        self.times.get(id).and_then(|text| Time::parse(text).ok()).map_or(0, |time| time.0.secs)
    }

    /// Adds fields to what a manager owns.
    pub fn add(&mut self, id: &Id, owned: Owned) {
        match self.owners.get_mut(id) {
            Some(previous) => {
                let set = owned.set.joined(std::mem::take(&mut previous.set));
                *previous = Owned { set, ..owned };
            }
            None => {
                self.owners.insert(id.clone(), owned);
            }
        }
    }

    /// Removes what no manager owns.
    pub fn strip_metadata(&mut self, id: &Id) {
        let Some(owned) = self.owners.get_mut(id) else { return };
        owned.set.subtract(&UNOWNED);
        if owned.set.is_empty() {
            self.owners.remove(id);
        }
    }
}

/// Who an entry is of: manager, operation, apiVersion and subresource.
type EntryOf<'a> = (&'a str, &'a str, &'a str, &'a str);

/// Whether an entry of managedFields is of this manager, and has nothing that an entry does not have.
pub(super) fn is_of(entry: &Value, (manager, operation, version, subresource): EntryOf<'_>) -> bool {
    let texts = [
        ("manager", manager),
        ("operation", operation),
        ("apiVersion", version),
        ("subresource", subresource),
        ("fieldsType", "FieldsV1"),
    ];
    let is_known = |name: &str| matches!(name, "time" | "fieldsV1") || texts.iter().any(|(known, _)| *known == name);
    texts.iter().all(|(name, text)| entry.str_at(&[name]) == *text)
        && entry.as_map().is_some_and(|entry| entry.keys().all(is_known))
}

/// Whether an entry is about exactly these fields.
pub(super) fn has_fields(entry: &Value, fields: &str) -> bool {
    match entry.field("fieldsV1") {
        Value::Raw(raw) => raw.compact() == fields,
        // What is stored of a custom resource is no text.
        opened @ Value::Map(_) => codec::json::open(&Raw::new(fields)) == *opened,
        _ => false,
    }
}

/// One entry of managedFields; what is empty is left out.
pub(super) fn entry((manager, operation, version, subresource): EntryOf<'_>, time: &str, fields: String) -> Value {
    let texts = [
        ("apiVersion", version),
        ("fieldsType", "FieldsV1"),
        ("manager", manager),
        ("operation", operation),
        ("subresource", subresource),
        ("time", time),
    ];
    let mut entry: Map = texts.into_iter().filter(|(_, text)| !text.is_empty()).collect();
    entry.insert("fieldsV1", Raw::new(fields));
    Value::Map(entry)
}

/// Whether the entries in a request mean "start afresh": an empty list, or one empty entry.
pub(super) fn is_reset(entries: &Value) -> bool {
    match entries.as_list() {
        Some([]) => true,
        Some([only]) => only.as_map().is_some_and(|entry| entry.values().all(Value::is_null)),
        _ => false,
    }
}

/// Whether a configuration says anything about managedFields that upstream can read as such.
pub(super) fn is_set(config: &Value) -> bool {
    let entries = config.at(&["metadata", "managedFields"]).as_list();
    entries.is_some_and(|entries| entries.iter().all(|entry| entry.as_map().is_some()))
}

pub(super) fn clear(object: &mut Value) {
    object.remove(&["metadata", "managedFields"]);
}

/// Whether the entries of an object make sense; the error is upstream's.
pub fn validate_managed_fields(object: &Value) -> Result<(), String> {
    Managed::read(object.at(&["metadata", "managedFields"])).map(drop)
}
