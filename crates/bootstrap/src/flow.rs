//! The flow schemas and priority levels that come with the server. They stay as the server has them until an administrator takes
//! one over, by a change of its spec or an annotation.

use std::sync::Arc;

use object::{Meta, Reason, Status, Value};
use registry::ResourceStorage;
use request::User;
use rest::{Api, Snapshot};

use crate::{objects, reconcile};

pub const GROUP: &str = "flowcontrol.apiserver.k8s.io";
pub const RESOURCES: [&str; 2] = ["prioritylevelconfigurations", "flowschemas"];
/// Whether the server keeps the spec up to date.
const AUTOUPDATE: &str = "apf.kubernetes.io/autoupdate-spec";
/// The level and the schema of these names are the server's, whatever the annotation says.
const MANDATORY: [&str; 2] = ["exempt", "catch-all"];

/// An object with the spec it comes with, unless it is an administrator's; says in the annotation which of the two it is.
pub async fn revise(api: &Snapshot, storage: &ResourceStorage, existing: &Value, wanted: &Value) -> Value {
    let differ = |new: &Value, old: &Value| storage.strategy.facts().bumps_generation(new, old);
    match revised(existing, wanted, differ) {
        Some(object) => reconcile::owned(api, storage, existing, object).await,
        None => existing.clone(),
    }
}

/// An existing object as it should be; None if it stays as it is.
fn revised(existing: &Value, wanted: &Value, differ: impl Fn(&Value, &Value) -> bool) -> Option<Value> {
    let noted = existing.annotation(AUTOUPDATE).and_then(parse_bool);
    // Without a note, the spec is the server's as long as it has never changed.
    let is_ours = MANDATORY.contains(&existing.name()) || noted.unwrap_or(existing.generation() == 1);
    let mut expected = wanted.clone();
    if existing.name() == "exempt" && !existing.at(&["spec", "exempt"]).is_null() {
        // How much the exempt level lends is for administrators to say.
        for share in ["nominalConcurrencyShares", "lendablePercent"] {
            expected.keep(&["spec", "exempt", share], existing);
        }
    }
    let replaces = is_ours && differ(&expected, existing);
    if !replaces && noted == Some(is_ours) {
        return None;
    }
    let mut object = existing.clone();
    if replaces {
        object.keep(&["spec"], wanted);
    }
    if noted != Some(is_ours) {
        object.set_annotation(AUTOUPDATE, if is_ours { "true" } else { "false" });
    }
    Some(object)
}

/// Deletes objects that came with a server and are not among the defaults any more.
pub async fn remove_unwanted(api: &Arc<Api>) -> Result<(), Status> {
    let api = api.snapshot();
    for resource in RESOURCES {
        let Some(storage) = api.catalog.stored(GROUP, resource) else { continue };
        for object in storage.list("").await? {
            let is_wanted =
                || objects::defaults().any(|(of, default)| of == resource && default.name() == object.name());
            if object.annotation(AUTOUPDATE).and_then(parse_bool) != Some(true) || is_wanted() {
                continue;
            }
            let user = User::loopback();
            let cx = api.context(&user, "", &storage.kind.version, "", false);
            match storage.delete(&cx, object.name(), &Value::map()).await {
                Err(error) if error.reason() != Reason::NotFound => return Err(error.into()),
                _ => {}
            }
        }
    }
    Ok(())
}

/// The texts that Go's `strconv.ParseBool` takes.
fn parse_bool(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Some(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use object::value;

    #[test]
    fn specs_are_the_servers_until_an_administrator_takes_them_over() {
        let object = |name: &str, note: Option<&str>, generation: i64, spec: Value| {
            let mut object = value!({"metadata": {"name": name, "generation": generation}, "spec": spec});
            if let Some(note) = note {
                object.set_annotation(AUTOUPDATE, note);
            }
            object
        };
        let (ours, theirs) = (|| value!({"a": 1}), || value!({"a": 2}));
        let lending = || value!({"exempt": {"lendablePercent": 50}});
        // Name, note, generation and spec; then the spec and the note that come of it, or None.
        for (name, note, generation, spec, expected) in [
            ("x", Some("true"), 1, ours(), None),
            ("x", Some("true"), 2, theirs(), Some((ours(), "true"))),
            ("x", Some("false"), 2, theirs(), None),
            ("x", Some("T"), 1, ours(), None),
            ("x", None, 1, theirs(), Some((ours(), "true"))),
            ("x", None, 2, theirs(), Some((theirs(), "false"))),
            ("x", Some("maybe"), 2, theirs(), Some((theirs(), "false"))),
            ("catch-all", Some("false"), 2, theirs(), Some((ours(), "true"))),
            ("exempt", Some("true"), 2, lending(), None),
        ] {
            let wanted = match name {
                "exempt" => value!({"exempt": {"lendablePercent": 0}}),
                _ => ours(),
            };
            let existing = object(name, note, generation, spec);
            let got =
                revised(&existing, &object(name, Some("true"), 1, wanted), |a, b| a.field("spec") != b.field("spec"));
            let expected = expected.map(|(spec, note)| object(name, Some(note), generation, spec));
            assert_eq!(got, expected, "{existing:?}");
        }
    }
}
