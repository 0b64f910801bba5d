//! How objects of the past are changed before they can be written now.

use std::collections::HashMap;

use object::{GroupVersion, Meta, Status, Value};
use registry::{Catalog, Resource};

use super::plan::{PlannedChange, Todo};
use super::requests::{KnownOwners, PartRequests};

/// Whether an object is brought back.
pub enum Treatment {
    Restore,
    /// It is not, for this reason.
    LeaveAlone(&'static str),
}

/// An object of the past as it can be written now. What only the server sets is left to it.
pub fn writable(was: &Value) -> Value {
    let mut wanted = was.clone();
    for field in [
        "resourceVersion",
        "uid",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "managedFields",
        "generation",
        "selfLink",
    ] {
        wanted.remove(&["metadata", field]);
    }
    wanted.remove(&["status"]);
    wanted
}

/// Objects that were on their way out stay away, and so does what would run again though it had ended.
pub fn treatment(resource: &Resource, was: &Value, now: Option<&Value>, is_alone: bool) -> Treatment {
    let id = &resource.resource;
    if now.is_some_and(Meta::is_deleting) {
        return Treatment::LeaveAlone("it is being deleted now");
    }
    if let Some(now) = now {
        let is_controlled =
            now.owner_references().iter().any(|owner| owner.field("controller").as_bool() == Some(true));
        return match is_controlled && !is_alone {
            true => Treatment::LeaveAlone("its controller keeps it"),
            false => Treatment::Restore,
        };
    }
    if was.is_deleting() {
        return Treatment::LeaveAlone("it was being deleted then");
    }
    let has_ended = match (&*id.group, &*id.resource) {
        ("", "pods") => ["Succeeded", "Failed"].contains(&was.str_at(&["status", "phase"])),
        ("batch", "jobs") => was.list_at(&["status", "conditions"]).iter().any(|condition| {
            ["Complete", "Failed"].contains(&condition.str_at(&["type"])) && condition.str_at(&["status"]) == "True"
        }),
        _ => false,
    };
    if has_ended {
        return Treatment::LeaveAlone("it had ended, and would run again");
    }
    if was.field("metadata").field("annotations").field("kubernetes.io/config.mirror").as_str().is_some() {
        return Treatment::LeaveAlone("its node makes it");
    }
    Treatment::Restore
}

/// Makes owner references those of today: to objects that are brought back with it, or that are there. Others are left out, because the
/// garbage collector would delete the object with them.
pub async fn connect_owners(
    catalog: &Catalog,
    owners: &mut KnownOwners<'_>,
    uids: &HashMap<String, String>,
    namespace: &str,
    wanted: &mut Value,
    notes: &mut Vec<String>,
) -> Result<(), Status> {
    let mut kept = Vec::new();
    for mut owner in wanted.owner_references().to_vec() {
        let old = owner.str_at(&["uid"]).to_string();
        let uid = match uids.get(&old) {
            Some(uid) => uid.clone(),
            None => {
                let version = GroupVersion::parse(owner.str_at(&["apiVersion"])).map_err(Status::bad_request)?;
                let kind = version.with_kind(owner.str_at(&["kind"]));
                match catalog.by_kind(&kind) {
                    Some(resource) => {
                        let of = if resource.namespaced { namespace } else { "" };
                        let resource = resource.clone();
                        owners.uid(&resource, of, owner.str_at(&["name"])).await?
                    }
                    None => String::new(),
                }
            }
        };
        if uid.is_empty() {
            notes.push(format!("its owner {} {} is gone", owner.str_at(&["kind"]), owner.str_at(&["name"])));
            continue;
        }
        owner.set(&["uid"], uid);
        kept.push(owner);
    }
    match kept.is_empty() {
        true => drop(wanted.remove(&["metadata", "ownerReferences"])),
        false => wanted.set(&["metadata", "ownerReferences"], kept),
    }
    Ok(())
}

/// The labels by which Jobs know their pods.
const CONTROLLER_UIDS: [&str; 2] = ["controller-uid", "batch.kubernetes.io/controller-uid"];
const JOB_NAMES: [&str; 2] = ["job-name", "batch.kubernetes.io/job-name"];
const ACCOUNT_UID: &str = "kubernetes.io/service-account.uid";

/// Makes labels and annotations that name a uid name the new one.
fn rename_uids(wanted: &mut Value, uids: &HashMap<String, String>) {
    let mut rename = |path: &[&str]| {
        if let Some(uid) = uids.get(wanted.str_at(path)).cloned() {
            wanted.set(path, uid);
        }
    };
    for label in CONTROLLER_UIDS {
        rename(&["metadata", "labels", label]);
    }
    rename(&["metadata", "annotations", ACCOUNT_UID]);
}

/// Whether the server makes the object's selector and labels of its uid.
fn is_job_with_generated_selector(object: &Value) -> bool {
    (object.api_version(), object.kind()) == ("batch/v1", "Job")
        && object.field("spec").field("manualSelector").as_bool() != Some(true)
}

/// The fields of a job that the server makes of its uid.
fn generated_fields() -> impl Iterator<Item = Vec<&'static str>> {
    let labels = CONTROLLER_UIDS.into_iter().chain(JOB_NAMES);
    let of_label = |label| [vec!["spec", "template", "metadata", "labels", label], vec!["metadata", "labels", label]];
    std::iter::once(vec!["spec", "selector"]).chain(labels.flat_map(of_label))
}

/// Lets an object that is there again, with another uid than it had, keep what belongs to its uid.
pub fn prepare_update(wanted: &mut Value, now: &Value, uids: &HashMap<String, String>) {
    rename_uids(wanted, uids);
    if is_job_with_generated_selector(wanted) {
        for field in generated_fields() {
            wanted.keep(&field, now);
        }
    }
}

/// Makes what else names a uid name the new one, and leaves out what a new object must not have.
pub fn prepare_creation(wanted: &mut Value, uids: &HashMap<String, String>) {
    rename_uids(wanted, uids);
    if is_job_with_generated_selector(wanted) {
        generated_fields().for_each(|field| drop(wanted.remove(&field)));
    }
    match (wanted.api_version(), wanted.kind()) {
        // The token names the old account; the token controller makes another one.
        ("v1", "Secret") if wanted.str_at(&["type"]) == "kubernetes.io/service-account-token" => {
            wanted.remove(&["data", "token"]);
        }
        // They are added to pods that run.
        ("v1", "Pod") => drop(wanted.remove(&["spec", "ephemeralContainers"])),
        _ => {}
    }
}

/// The annotations that say that a claim has its volume.
const BOUND: [&str; 2] = ["pv.kubernetes.io/bind-completed", "pv.kubernetes.io/bound-by-controller"];

/// A claim gets the volume that it had, whose reference is to the claim's new uid then; or a new volume, if that one is gone.
pub async fn connect_volume(
    catalog: &Catalog,
    requests: &PartRequests,
    claim: &mut PlannedChange,
) -> Result<Option<PlannedChange>, Status> {
    let id = &claim.resource.resource;
    let name = claim.wanted.str_at(&["spec", "volumeName"]).to_string();
    if (&*id.group, &*id.resource) != ("", "persistentvolumeclaims") || name.is_empty() {
        return Ok(None);
    }
    let Some(resource) = catalog.get("", "v1", "persistentvolumes").cloned() else { return Ok(None) };
    let volume = requests.get(&resource, "", &name, None).await?.filter(|volume| !volume.is_deleting());
    let of_claim = |volume: &Value| {
        let text = |field: &str| volume.str_at(&["spec", "claimRef", field]).to_string();
        text("name") == claim.name && text("namespace") == claim.namespace && text("uid") == claim.old_uid
    };
    let Some(volume) = volume.filter(of_claim) else {
        claim.wanted.remove(&["spec", "volumeName"]);
        for annotation in BOUND {
            claim.wanted.remove(&["metadata", "annotations", annotation]);
        }
        claim.notes.push(format!("its volume {name} is gone or another's, so it gets a new one"));
        return Ok(None);
    };
    let mut wanted = volume.clone();
    wanted.set(&["spec", "claimRef", "uid"], claim.uid.as_str());
    wanted.remove(&["spec", "claimRef", "resourceVersion"]);
    let Some(storage) = resource.storage.as_ref() else { return Ok(None) };
    Ok(Some(PlannedChange {
        key: storage.key("", &name),
        resource: resource.clone(),
        namespace: String::new(),
        name,
        wanted: writable(&wanted),
        todo: Todo::Update,
        uid: volume.uid().to_string(),
        old_uid: volume.uid().to_string(),
        notes: vec![format!("{} is brought back", claim.described())],
        stored_version: String::new(),
        failure: None,
        now: Some(volume),
    }))
}
