//! StorageObjectInUseProtection: volumes, claims and attribute classes that are in use are not lost by a deletion.

use async_trait::async_trait;
use object::{Meta, Status, Value};

use crate::{Attributes, Plugin};

pub struct StorageObjectInUseProtection;

#[async_trait]
impl Plugin for StorageObjectInUseProtection {
    fn name(&self) -> &'static str {
        "StorageObjectInUseProtection"
    }

    async fn mutate(&self, attributes: &Attributes<'_>, object: &mut Value, _: Option<&Value>) -> Result<(), Status> {
        let finalizer = match () {
            () if attributes.is("", "persistentvolumes") => "kubernetes.io/pv-protection",
            () if attributes.is("", "persistentvolumeclaims") => "kubernetes.io/pvc-protection",
            () if attributes.is("storage.k8s.io", "volumeattributesclasses") => "kubernetes.io/vac-protection",
            () => return Ok(()),
        };
        if !object.finalizers().any(|name| name == finalizer) {
            object.slot(&["metadata", "finalizers"]).make_list().push(finalizer.into());
        }
        Ok(())
    }
}

/// Groups of pods stay until the pods are gone.
pub struct PodGroupProtection;

const GROUP: &str = "scheduling.k8s.io";

#[async_trait]
impl Plugin for PodGroupProtection {
    fn name(&self) -> &'static str {
        "PodGroupProtection"
    }

    async fn mutate(&self, attributes: &Attributes<'_>, object: &mut Value, _: Option<&Value>) -> Result<(), Status> {
        let finalizer = format!("{GROUP}/podgroup-protection");
        let on = attributes.cx.features.enabled("GenericWorkload");
        if on && attributes.is(GROUP, "podgroups") && !object.finalizers().any(|name| name == finalizer) {
            object.slot(&["metadata", "finalizers"]).make_list().push(finalizer.into());
        }
        Ok(())
    }
}
