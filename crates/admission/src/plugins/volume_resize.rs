//! PersistentVolumeClaimResize: a claim grows only where its class says that volumes can.

use async_trait::async_trait;
use object::quantity::Quantity;
use object::{Meta, Status, Value};

use super::forbidden;
use crate::{Attributes, Plugin};

pub struct PersistentVolumeClaimResize;

#[async_trait]
impl Plugin for PersistentVolumeClaimResize {
    fn name(&self) -> &'static str {
        "PersistentVolumeClaimResize"
    }

    async fn validate(
        &self,
        attributes: &Attributes<'_>,
        object: Option<&Value>,
        old: Option<&Value>,
    ) -> Result<(), Status> {
        let (Some(new), Some(old)) = (object, old) else { return Ok(()) };
        if !attributes.is("", "persistentvolumeclaims") || size(new) <= size(old) {
            return Ok(());
        }
        if old.str_at(&["status", "phase"]) != "Bound" {
            return Err(forbidden(attributes, "Only bound persistent volume claims can be expanded"));
        }
        let class = class(new);
        let expandable = !class.is_empty()
            && class == self::class(old)
            && attributes
                .cx
                .lookup
                .get("storage.k8s.io", "storageclasses", "", class)
                .is_some_and(|found| found.field("allowVolumeExpansion").as_bool() == Some(true));
        if expandable {
            return Ok(());
        }
        Err(forbidden(
            attributes,
            "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support resize",
        ))
    }
}

fn size(claim: &Value) -> Option<Quantity> {
    Quantity::parse(claim.at(&["spec", "resources", "requests", "storage"]).as_str()?).ok()
}

/// The class by its old annotation or its field.
fn class(claim: &Value) -> &str {
    claim
        .annotation("volume.beta.kubernetes.io/storage-class")
        .unwrap_or_else(|| claim.str_at(&["spec", "storageClassName"]))
}
