//! Default roles and bindings that took over from others in some release: what administrators changed in the old one is copied
//! before the new one is created with its defaults.

use std::sync::Arc;

use object::{Meta, Reason, Status, Value};
use request::User;
use rest::{Api, Snapshot};

use crate::{objects, reconcile};

const GROUP: &str = "rbac.authorization.k8s.io";

/// Roles that became aggregated, and the role that has had their rules since.
const AGGREGATED: &[(&str, &str)] = &[
    ("admin", "system:aggregate-to-admin"),
    ("edit", "system:aggregate-to-edit"),
    ("view", "system:aggregate-to-view"),
];

/// Bindings that were split: the old one, and the one that took over a part of it.
const SPLIT: &[(&str, &str)] = &[("system:discovery", "system:public-info-viewer")];

/// Creates the new roles and bindings whose predecessors exist.
pub async fn run(api: &Arc<Api>) -> Result<(), Status> {
    let api = api.snapshot();
    for (old, new) in AGGREGATED {
        let Some(mut role) = predecessor(&api, "clusterroles", old, new).await? else { continue };
        // A role that is aggregated already has no rules of its own to copy.
        if role.field("aggregationRule").is_null() {
            role.set_meta_str("name", new);
            create(&api, "clusterroles", role).await?;
        }
    }
    for (old, new) in SPLIT {
        let Some(existing) = predecessor(&api, "clusterrolebindings", old, new).await? else { continue };
        let default =
            objects::defaults().find(|(kind, object)| *kind == "clusterrolebindings" && object.name() == *new);
        if let Some((_, mut binding)) = default {
            for path in [&["subjects"][..], &["metadata", "labels"], &["metadata", "annotations"]] {
                binding.remove(path);
                binding.keep(path, &existing);
            }
            create(&api, "clusterrolebindings", binding).await?;
        }
    }
    Ok(())
}

/// The old object, if it exists and the new one does not.
async fn predecessor(api: &Snapshot, resource: &str, old: &str, new: &str) -> Result<Option<Value>, Status> {
    let Some(storage) = api.catalog.stored(GROUP, resource) else { return Ok(None) };
    let found = |result: Result<Value, registry::Error>| match result {
        Ok(object) => Ok(Some(object)),
        Err(error) if error.reason() == Reason::NotFound => Ok(None),
        Err(error) => Err(Status::from(error)),
    };
    match found(storage.get("", new).await)? {
        Some(_) => Ok(None),
        None => found(storage.get("", old).await),
    }
}

async fn create(api: &Snapshot, resource: &str, mut object: Value) -> Result<(), Status> {
    let Some(storage) = api.catalog.stored(GROUP, resource) else { return Ok(()) };
    for field in ["resourceVersion", "uid", "creationTimestamp", "managedFields"] {
        object.metadata_mut().remove(field);
    }
    tracing::info!(resource, name = object.name(), "copied from its predecessor");
    let user = User::loopback();
    let cx = api.context(&user, "", &storage.kind.version, "", false);
    reconcile::create(storage, &cx, object).await
}
