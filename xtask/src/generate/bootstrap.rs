//! The objects a fresh server creates by itself, from the recordings of a real one: one object a line.

use serde_json::{Value, json};

/// File, apiVersion and kind of what is created as recorded. What depends on the machine (the server's own Service and
/// endpoints, its lease, its address range) is made in code.
const KINDS: [(&str, &str, &str); 8] = [
    ("namespaces", "v1", "Namespace"),
    ("clusterroles", "rbac.authorization.k8s.io/v1", "ClusterRole"),
    ("clusterrolebindings", "rbac.authorization.k8s.io/v1", "ClusterRoleBinding"),
    ("roles", "rbac.authorization.k8s.io/v1", "Role"),
    ("rolebindings", "rbac.authorization.k8s.io/v1", "RoleBinding"),
    ("priorityclasses", "scheduling.k8s.io/v1", "PriorityClass"),
    ("prioritylevelconfigurations", "flowcontrol.apiserver.k8s.io/v1", "PriorityLevelConfiguration"),
    ("flowschemas", "flowcontrol.apiserver.k8s.io/v1", "FlowSchema"),
];

pub fn table(recorded: &facts::Facts) -> Result<String, String> {
    let mut out = String::from("# Written by `cargo xtask generate`; do not edit. `resource object`, one a line.\n");
    for (resource, api_version, kind) in KINDS {
        let mut objects = recorded.json(&format!("bootstrap/{resource}.json"))?;
        for object in objects.as_array_mut().into_iter().flatten() {
            let Some(map) = object.as_object_mut() else { continue };
            map.insert("apiVersion".into(), json!(api_version));
            map.insert("kind".into(), json!(kind));
            if resource == "namespaces" {
                // Its finalizer comes with the creation and has no owner.
                map.remove("spec");
            }
            if let Some(metadata) = map.get_mut("metadata").and_then(Value::as_object_mut) {
                metadata.remove("generation");
            }
            out.push_str(&format!("{resource} {object}\n"));
        }
    }
    Ok(out)
}
