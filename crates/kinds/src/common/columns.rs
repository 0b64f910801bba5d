//! Table cells that several kinds share.

use object::Value;
use object::labels::{cell, format_labels};

/// The names of a pod spec's containers, and their images.
pub fn containers(spec: &Value) -> (String, String) {
    let of = |field: &str| {
        let values = spec.list_at(&["containers"]).iter().map(|container| container.str_at(&[field]));
        values.collect::<Vec<_>>().join(",")
    };
    (of("name"), of("image"))
}

/// A map of labels, or a selector that is one.
pub fn labels(map: &Value) -> String {
    let pairs = map.as_map().into_iter().flat_map(|map| map.iter());
    cell(format_labels(pairs.map(|(key, value)| (key, value.as_str().unwrap_or("")))))
}
