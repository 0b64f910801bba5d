//! StorageObjectInUseProtection: volumes, claims and attribute classes that are in use are not lost by a deletion.

use async_trait::async_trait;
use object::{Meta, Status, Value};

use crate::{Attributes, Operation, Plugin};

pub struct StorageObjectInUseProtection;

#[async_trait]
impl Plugin for StorageObjectInUseProtection {
    fn name(&self) -> &'static str {
        "StorageObjectInUseProtection"
    }

    fn handles(&self, operation: Operation) -> bool {
        operation == Operation::Create
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
