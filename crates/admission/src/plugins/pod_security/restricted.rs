//! The checks that the restricted level adds: what a hardened pod must say about itself.

use std::collections::BTreeSet;

use object::Value;

use super::baseline;
use super::checks::{Pod, Violation, containers, plural, quoted, setters};

fn violation(reason: &'static str, detail: String) -> Option<Violation> {
    Some(Violation { reason, detail })
}

pub fn escalation(pod: Pod<'_>) -> Option<Violation> {
    let names = pod.names_where(|c| c.at(&["securityContext", "allowPrivilegeEscalation"]).as_bool() != Some(false));
    if names.is_empty() {
        return None;
    }
    let detail = format!("{} must set securityContext.allowPrivilegeEscalation=false", containers(&names));
    violation("allowPrivilegeEscalation != false", detail)
}

pub fn escalation_1_25(pod: Pod<'_>) -> Option<Violation> {
    if pod.is_windows() { None } else { escalation(pod) }
}

pub fn capabilities(pod: Pod<'_>) -> Option<Violation> {
    let list = |container: &'_ Value, which: &str| -> Vec<String> {
        let list = container.list_at(&["securityContext", "capabilities", which]);
        list.iter().filter_map(Value::as_str).map(str::to_string).collect()
    };
    let keeping = pod.names_where(|container| !list(container, "drop").iter().any(|c| c == "ALL"));
    let mut added = BTreeSet::new();
    let adding = pod.names_where(|container| {
        let bad: Vec<String> = list(container, "add").into_iter().filter(|c| c != "NET_BIND_SERVICE").collect();
        let any = !bad.is_empty();
        added.extend(bad);
        any
    });
    let mut details = Vec::new();
    if !keeping.is_empty() {
        details.push(format!("{} must set securityContext.capabilities.drop=[\"ALL\"]", containers(&keeping)));
    }
    if !adding.is_empty() {
        let added: Vec<&str> = added.iter().map(String::as_str).collect();
        details.push(format!(
            "{} must not include {} in securityContext.capabilities.add",
            containers(&adding),
            quoted(&added)
        ));
    }
    if details.is_empty() { None } else { violation("unrestricted capabilities", details.join("; ")) }
}

pub fn capabilities_1_25(pod: Pod<'_>) -> Option<Violation> {
    if pod.is_windows() { None } else { capabilities(pod) }
}

pub fn volumes(pod: Pod<'_>) -> Option<Violation> {
    const ALLOWED: &[&str] = &[
        "configMap",
        "csi",
        "downwardAPI",
        "emptyDir",
        "ephemeral",
        "image",
        "persistentVolumeClaim",
        "projected",
        "secret",
    ];
    // In the order in which a volume with several sources is named.
    const KNOWN: &[&str] = &[
        "hostPath",
        "gcePersistentDisk",
        "awsElasticBlockStore",
        "gitRepo",
        "nfs",
        "iscsi",
        "glusterfs",
        "rbd",
        "flexVolume",
        "cinder",
        "cephfs",
        "flocker",
        "fc",
        "azureFile",
        "vsphereVolume",
        "quobyte",
        "azureDisk",
        "photonPersistentDisk",
        "portworxVolume",
        "scaleIO",
        "storageos",
    ];
    let (mut names, mut types) = (Vec::new(), BTreeSet::new());
    for volume in pod.spec.list_at(&["volumes"]) {
        let has = |source: &&&str| !volume.field(source).is_null();
        if !ALLOWED.iter().any(|source| has(&source)) {
            names.push(volume.str_at(&["name"]));
            types.insert(KNOWN.iter().find(has).copied().unwrap_or("unknown"));
        }
    }
    if names.is_empty() {
        return None;
    }
    let who = format!("{} {}", plural(names.len(), "volume", "volumes"), quoted(&names));
    let verb = plural(names.len(), "uses", "use");
    let what = plural(types.len(), "restricted volume type", "restricted volume types");
    violation("restricted volume types", format!("{who} {verb} {what} {}", quoted(&types)))
}

pub fn non_root(pod: Pod<'_>) -> Option<Violation> {
    let said = |context: &Value| context.field("runAsNonRoot").as_bool();
    let by_pod = said(pod.security());
    let explicit = pod.names_where(|container| said(container.field("securityContext")) == Some(false));
    if let Some(who) = setters(by_pod == Some(false), &explicit) {
        let detail = format!("{who} must not set securityContext.runAsNonRoot=false");
        return violation("runAsNonRoot != true", detail);
    }
    if by_pod == Some(true) {
        return None;
    }
    let silent = pod.names_where(|container| said(container.field("securityContext")).is_none());
    if silent.is_empty() {
        return None;
    }
    let detail = format!("pod or {} must set securityContext.runAsNonRoot=true", containers(&silent));
    violation("runAsNonRoot != true", detail)
}

pub fn non_root_1_35(pod: Pod<'_>) -> Option<Violation> {
    if pod.has_user_namespace() { None } else { non_root(pod) }
}

pub fn user(pod: Pod<'_>) -> Option<Violation> {
    let is_root = |context: &Value| context.field("runAsUser").as_int() == Some(0);
    let names = pod.names_where(|container| is_root(container.field("securityContext")));
    let who = setters(is_root(pod.security()), &names)?;
    violation("runAsUser=0", format!("{who} must not set runAsUser=0"))
}

pub fn user_1_35(pod: Pod<'_>) -> Option<Violation> {
    if pod.has_user_namespace() { None } else { user(pod) }
}

pub fn seccomp(pod: Pod<'_>) -> Option<Violation> {
    if let Some(bad) = baseline::seccomp(pod) {
        return Some(bad);
    }
    if !pod.security().field("seccompProfile").is_null() {
        return None;
    }
    let silent = pod.names_where(|container| container.at(&["securityContext", "seccompProfile"]).is_null());
    if silent.is_empty() {
        return None;
    }
    let detail = "must set securityContext.seccompProfile.type to \"RuntimeDefault\" or \"Localhost\"";
    violation("seccompProfile", format!("pod or {} {detail}", containers(&silent)))
}

pub fn seccomp_1_25(pod: Pod<'_>) -> Option<Violation> {
    if pod.is_windows() { None } else { seccomp(pod) }
}
