//! Cells that volumes and claims share.

use object::{Meta, Value};

use super::persistentvolumeclaim::CLASS_ANNOTATION;

/// The access modes in short, always in the same order.
pub fn access_modes(of: &Value) -> String {
    const SHORT: [(&str, &str); 4] =
        [("ReadWriteOnce", "RWO"), ("ReadOnlyMany", "ROX"), ("ReadWriteMany", "RWX"), ("ReadWriteOncePod", "RWOP")];
    let modes = of.list_at(&["accessModes"]);
    let present = SHORT.iter().filter(|(mode, _)| modes.iter().any(|m| m.as_str() == Some(mode)));
    present.map(|(_, short)| *short).collect::<Vec<_>>().join(",")
}

/// The storage class, from the old annotation or from the field.
pub fn class(object: &Value) -> &str {
    object.annotation(CLASS_ANNOTATION).unwrap_or_else(|| object.str_at(&["spec", "storageClassName"]))
}
