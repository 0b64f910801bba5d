//! Walking over the containers of a pod spec.

use object::{Cursor, Value};

/// The lists of containers, in the order upstream visits them.
pub const LISTS: [&str; 3] = ["initContainers", "containers", "ephemeralContainers"];

/// Every container of a pod spec: init containers, regular and ephemeral ones.
pub fn containers<'a>(spec: &Cursor<'a>) -> impl Iterator<Item = Cursor<'a>> + use<'a> {
    let spec = spec.clone();
    LISTS.into_iter().flat_map(move |list| spec.field(list).each())
}

/// As [`containers`], without their places.
pub fn container_values(spec: &Value) -> impl Iterator<Item = &Value> {
    LISTS.into_iter().flat_map(|list| spec.list_at(&[list]))
}

/// Calls `change` for every container.
pub fn change_containers(spec: &mut Value, mut change: impl FnMut(&mut Value)) {
    for list in LISTS {
        change_each(spec, list, &mut change);
    }
}

/// Calls `change` for every item of a list, if it is there.
pub fn change_each(value: &mut Value, list: &str, change: impl FnMut(&mut Value)) {
    if let Some(items) = value.get_mut(list).and_then(Value::as_list_mut) {
        items.iter_mut().for_each(change);
    }
}

/// Whether an init container keeps running beside the others.
pub fn is_sidecar(container: &Value) -> bool {
    container.str_at(&["restartPolicy"]) == "Always"
}
