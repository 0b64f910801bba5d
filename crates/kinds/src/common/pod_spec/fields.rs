//! Fields of features that are off: taken away, unless the stored object already uses them.

use object::Value;
use registry::Context;

use super::options::uses_restart_rules;
use super::visit::{LISTS, change_containers, change_each};

/// A gate, and the fields of a pod spec it guards. A step with `[]` goes into each item of a list; `*` stands for each
/// of the lists of containers. Gates that are locked on guard nothing any more and are not here.
const GUARDED: [(&str, &[&str]); 11] = [
    ("PodLevelResources", &["resources"]),
    ("MatchLabelKeysInPodTopologySpread", &["topologySpreadConstraints[].matchLabelKeys"]),
    ("ClusterTrustBundleProjection", &["volumes[].projected.sources[].clusterTrustBundle"]),
    ("PodCertificateRequest", &["volumes[].projected.sources[].podCertificate"]),
    ("GenericWorkload", &["schedulingGroup"]),
    (
        "GRPCContainerProbeTLS",
        &["*[].livenessProbe.grpc.mode", "*[].readinessProbe.grpc.mode", "*[].startupProbe.grpc.mode"],
    ),
    ("EvictionRequestAPI", &["evictionResponders"]),
    ("EmptyDirVolumeMode", &["volumes[].emptyDir.mode"]),
    ("VolumeBindMountOptions", &["*[].volumeMounts[].bindMountOptions"]),
    ("EnvFiles", &["*[].env[].valueFrom.fileKeyRef"]),
    (
        "H2CContainerProbe",
        &[
            "*[].livenessProbe.httpGet.protocol",
            "*[].readinessProbe.httpGet.protocol",
            "*[].startupProbe.httpGet.protocol",
            "*[].lifecycle.postStart.httpGet.protocol",
            "*[].lifecycle.preStop.httpGet.protocol",
        ],
    ),
];

const USER_FIELDS: [&str; 13] = [
    "volumes[].secret.defaultUser",
    "volumes[].secret.items[].user",
    "volumes[].configMap.defaultUser",
    "volumes[].configMap.items[].user",
    "volumes[].downwardAPI.defaultUser",
    "volumes[].downwardAPI.items[].user",
    "volumes[].projected.defaultUser",
    "volumes[].projected.sources[].secret.items[].user",
    "volumes[].projected.sources[].configMap.items[].user",
    "volumes[].projected.sources[].downwardAPI.items[].user",
    "volumes[].projected.sources[].serviceAccountToken.user",
    "volumes[].projected.sources[].clusterTrustBundle.user",
    "volumes[].projected.sources[].podCertificate.user",
];

/// What init containers were before they were a field.
const INIT_CONTAINER_ANNOTATIONS: [&str; 4] = [
    "pod.beta.kubernetes.io/init-containers",
    "pod.alpha.kubernetes.io/init-containers",
    "pod.beta.kubernetes.io/init-container-statuses",
    "pod.alpha.kubernetes.io/init-container-statuses",
];

/// Takes away the fields of features that are off from a pod or a template, unless the old one has them.
pub fn drop_disabled(cx: &Context, pod: &mut Value, old: Option<&Value>) {
    let empty = Value::Null;
    let old_spec = old.map_or(&empty, |old| old.field("spec"));
    if let Some(spec) = pod.get_mut("spec") {
        for (gate, fields) in GUARDED {
            if !cx.features.enabled(gate) {
                drop_unused(spec, old_spec, fields);
            }
        }
        if !cx.features.enabled("ContainerRestartRules") && !uses_restart_rules(old_spec) {
            drop_restart_rules(spec);
        }
        let in_use = || USER_FIELDS.iter().any(|field| is_used(old_spec, field));
        if !cx.features.enabled("AtomicWriteVolumeUserFields") && !in_use() {
            change_each(spec, "volumes", drop_users);
        }
        if !cx.features.enabled("ContainerStopSignals") && !is_used(old_spec, "*[].lifecycle.stopSignal") {
            change_containers(spec, drop_stop_signal);
        }
    }
    drop_init_container_annotations(pod);
}

/// Takes away the annotations that init containers once were.
pub fn drop_init_container_annotations(pod: &mut Value) {
    if let Some(annotations) = pod.at_mut(&["metadata", "annotations"]).and_then(Value::as_map_mut) {
        for key in INIT_CONTAINER_ANNOTATIONS {
            annotations.remove(key);
        }
    }
}

/// Takes away `fields` of an object unless the old one has any of them.
pub fn drop_unused(value: &mut Value, old: &Value, fields: &[&str]) {
    if !fields.iter().any(|field| is_used(old, field)) {
        for field in fields {
            visit(value, field, &mut |owner, last| {
                if let Some(map) = owner.as_map_mut() {
                    map.remove(last);
                }
            });
        }
    }
}

/// Whether any value at the path is set.
fn is_used(value: &Value, path: &str) -> bool {
    match path.split_once('.') {
        None => match value.field(path) {
            Value::List(list) => !list.is_empty(),
            value => !value.is_null(),
        },
        Some((step, rest)) => match step.strip_suffix("[]") {
            None => is_used(value.field(step), rest),
            Some("*") => {
                LISTS.iter().any(|list| value.list_at(&[list]).iter().any(|container| is_used(container, rest)))
            }
            Some(list) => value.list_at(&[list]).iter().any(|item| is_used(item, rest)),
        },
    }
}

/// Calls `act` with the owner of each value at the path, and the name of the value in it.
fn visit(value: &mut Value, path: &str, act: &mut dyn FnMut(&mut Value, &str)) {
    let Some((step, rest)) = path.split_once('.') else { return act(value, path) };
    match step.strip_suffix("[]") {
        None => {
            if let Some(child) = value.get_mut(step) {
                visit(child, rest, act);
            }
        }
        Some("*") => {
            for list in LISTS {
                change_each(value, list, |item| visit(item, rest, act));
            }
        }
        Some(list) => change_each(value, list, |item| visit(item, rest, act)),
    }
}

/// Without restart rules, only init containers have a policy, and only the one of sidecars.
fn drop_restart_rules(spec: &mut Value) {
    change_each(spec, "initContainers", |container| {
        if container.str_at(&["restartPolicy"]) != "Always" {
            container.remove(&["restartPolicy"]);
        }
    });
    for list in ["containers", "ephemeralContainers"] {
        change_each(spec, list, |container| {
            container.remove(&["restartPolicy"]);
        });
    }
    change_containers(spec, |container| {
        container.remove(&["restartPolicyRules"]);
    });
}

/// Takes the owners of files out of a volume. Upstream looks into one source only, even where there are several.
fn drop_users(volume: &mut Value) {
    let kinds = ["secret", "configMap", "downwardAPI", "projected"];
    let Some(kind) = kinds.iter().find(|kind| !volume.field(kind).is_null()) else { return };
    let Some(source) = volume.get_mut(kind) else { return };
    source.remove(&["defaultUser"]);
    change_each(source, "items", drop_user);
    change_each(source, "sources", |source| {
        let kinds =
            ["secret", "downwardAPI", "configMap", "serviceAccountToken", "clusterTrustBundle", "podCertificate"];
        let kind = kinds.iter().find(|kind| !source.field(kind).is_null());
        if let Some(projection) = kind.and_then(|kind| source.get_mut(kind)) {
            drop_user(projection);
            change_each(projection, "items", drop_user);
        }
    });
}

fn drop_user(owner: &mut Value) {
    owner.remove(&["user"]);
}

/// A lifecycle that has nothing else goes with the signal.
fn drop_stop_signal(container: &mut Value) {
    let Some(lifecycle) = container.get_mut("lifecycle") else { return };
    let dropped = lifecycle.remove(&["stopSignal"]).is_some_and(|signal| !signal.is_null());
    let is_empty = lifecycle.as_map().is_some_and(|map| map.values().all(Value::is_null));
    if dropped && is_empty {
        container.remove(&["lifecycle"]);
    }
}

#[cfg(test)]
mod tests {
    use object::value;

    use super::*;

    #[test]
    fn fields_go_unless_they_were_there() {
        let pod = value!({"containers": [{"volumeMounts": [{"name": "a", "bindMountOptions": ["noexec"]}]}]});
        let fields = ["*[].volumeMounts[].bindMountOptions"];
        let mut new = pod.clone();
        drop_unused(&mut new, &Value::Null, &fields);
        assert_eq!(new, value!({"containers": [{"volumeMounts": [{"name": "a"}]}]}));
        let mut new = pod.clone();
        drop_unused(&mut new, &pod, &fields);
        assert_eq!(new, pod);
    }

    #[test]
    fn an_empty_lifecycle_goes_with_its_signal() {
        let mut container = value!({"lifecycle": {"stopSignal": "SIGTERM"}});
        drop_stop_signal(&mut container);
        assert_eq!(container, value!({}));
        let mut container = value!({"lifecycle": {}});
        drop_stop_signal(&mut container);
        assert_eq!(container, value!({"lifecycle": {}}));
    }
}
