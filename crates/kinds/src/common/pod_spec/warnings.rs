//! What to warn the author of a pod or a template about.

use std::collections::{BTreeMap, BTreeSet};

use object::{Cursor, Path, Value, names, quote};
use registry::Context;

use super::annotations::{APPARMOR_CONTAINER, SECCOMP_CONTAINER, SECCOMP_POD, apparmor_profile_of};
use super::{overlaps, visit};
use crate::common::checks::Checks;
use crate::common::internal;

const NULL_SELECTOR: &str = "a null labelSelector results in matching no pod";
const USE_SECCOMP_FIELD: &str = r#"non-functional in v1.27+; use the "seccompProfile" field instead"#;
pub const USE_APPARMOR_FIELD: &str = r#"deprecated since v1.30; use the "appArmorProfile" field instead"#;

/// For a new pod.
pub fn of_pod(cx: &Context, pod: &Value) -> Vec<String> {
    of(cx, &Path::root(), pod, false)
}

/// For a template that stands at `path`. Upstream does not look at the old one.
pub fn of_template(cx: &Context, path: &Path, template: &Value, _old: Option<&Value>) -> Vec<String> {
    of(cx, path, template, true)
}

fn of(cx: &Context, path: &Path, pod: &Value, is_template: bool) -> Vec<String> {
    let pod = Cursor::new(pod, path.clone());
    let (spec, annotations) = (pod.field("spec"), pod.at(&["metadata", "annotations"]));
    let mut warnings = Vec::new();
    node_labels(&spec, &mut warnings);
    deprecated_annotations(&annotations, &mut warnings);
    volumes(cx, &spec, &mut warnings);
    warnings.extend(overlaps::in_volumes(spec.value().list_at(&["volumes"])));
    repeated(&spec, &mut warnings);
    fractions(&spec.field("overhead"), &["memory", "ephemeral-storage"], &mut warnings);
    let seccomp = annotations.key(SECCOMP_POD);
    if seccomp.is_set() && !spec.at(&["securityContext", "seccompProfile"]).is_set() {
        warnings.push(format!("{}: {USE_SECCOMP_FIELD}", seccomp.path()));
    }
    for container in visit::containers(&spec) {
        container_annotations(&container, &spec, &annotations, is_template, &mut warnings);
        container_fractions(&container, &mut warnings);
        repeated_variables(&container, &mut warnings);
    }
    ports(&spec, &mut warnings);
    port_names(&spec, &mut warnings);
    let grace = spec.field("terminationGracePeriodSeconds");
    if grace.int() < 0 {
        let what = "must be >= 0; negative values are invalid and will be treated as 1";
        warnings.push(format!("{}: {what}", grace.path()));
    }
    affinity(&spec, &mut warnings);
    addresses(&spec, &mut warnings);
    warnings
}

/// What to say about a deprecated node label.
pub fn deprecated_node_label(key: &str) -> Option<&'static str> {
    Some(match key {
        "beta.kubernetes.io/arch" => r#"deprecated since v1.14; use "kubernetes.io/arch" instead"#,
        "beta.kubernetes.io/os" => r#"deprecated since v1.14; use "kubernetes.io/os" instead"#,
        "failure-domain.beta.kubernetes.io/region" => {
            r#"deprecated since v1.17; use "topology.kubernetes.io/region" instead"#
        }
        "failure-domain.beta.kubernetes.io/zone" => {
            r#"deprecated since v1.17; use "topology.kubernetes.io/zone" instead"#
        }
        "beta.kubernetes.io/instance-type" => {
            r#"deprecated since v1.17; use "node.kubernetes.io/instance-type" instead"#
        }
        "app.kubernetes.io/created-by" => "deprecated since v1.9",
        "scheduler.alpha.kubernetes.io/preferAvoidPods" => "deprecated since v1.22; use Taints and Tolerations instead",
        "node-role.kubernetes.io/master" => r#"use "node-role.kubernetes.io/control-plane" instead"#,
        _ => return None,
    })
}

/// Warnings for a node selector term; with `values` for those that no label can have, too.
pub fn node_selector_term(term: &Cursor, values: bool, warnings: &mut Vec<String>) {
    for expression in term.field("matchExpressions").each() {
        let key = expression.field("key");
        if let Some(message) = deprecated_node_label(key.str()) {
            warnings.push(format!("{}: {} is {message}", key.path(), key.str()));
        }
        for value in expression.field("values").each().filter(|_| values) {
            for message in names::label_value(value.str()) {
                warnings.push(format!("{}: {} is invalid, {message}", value.path(), value.str()));
            }
        }
    }
}

fn node_labels(spec: &Cursor, warnings: &mut Vec<String>) {
    for (key, label) in spec.field("nodeSelector").entries() {
        if let Some(message) = deprecated_node_label(key) {
            warnings.push(format!("{}: {message}", label.path()));
        }
    }
    let affinity = spec.at(&["affinity", "nodeAffinity"]);
    let required = affinity.at(&["requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms"]);
    for term in required.each() {
        node_selector_term(&term, false, warnings);
    }
    for term in affinity.field("preferredDuringSchedulingIgnoredDuringExecution").each() {
        node_selector_term(&term.field("preference"), true, warnings);
    }
    for constraint in spec.field("topologySpreadConstraints").each() {
        let (key, selector) = (constraint.field("topologyKey"), constraint.field("labelSelector"));
        if let Some(message) = deprecated_node_label(key.str()) {
            warnings.push(format!("{}: {} is {message}", key.path(), key.str()));
        }
        if !selector.is_set() {
            warnings.push(format!("{}: {NULL_SELECTOR}", selector.path()));
        }
    }
}

fn deprecated_annotations(annotations: &Cursor, warnings: &mut Vec<String>) {
    const DEPRECATED: [(&str, &str); 3] = [
        (
            "scheduler.alpha.kubernetes.io/critical-pod",
            r#"non-functional in v1.16+; use the "priorityClassName" field instead"#,
        ),
        ("security.alpha.kubernetes.io/sysctls", r#"non-functional in v1.11+; use the "sysctls" field instead"#),
        ("security.alpha.kubernetes.io/unsafe-sysctls", r#"non-functional in v1.11+; use the "sysctls" field instead"#),
    ];
    for (key, message) in DEPRECATED {
        let annotation = annotations.key(key);
        if annotation.is_set() {
            warnings.push(format!("{}: {message}", annotation.path()));
        }
    }
}

/// Volume plugins that are gone or going.
fn volumes(cx: &Context, spec: &Cursor, warnings: &mut Vec<String>) {
    let git = match cx.features.enabled("GitRepoVolumeDriver") {
        true => "deprecated in v1.11",
        false => "deprecated in v1.11, and disabled by default in v1.33+",
    };
    // The field, and what upstream calls it.
    let deprecated = [
        ("photonPersistentDisk", "photonPersistentDisk", "deprecated in v1.11, non-functional in v1.16+"),
        ("gitRepo", "gitRepo", git),
        ("scaleIO", "scaleIO", "deprecated in v1.16, non-functional in v1.22+"),
        ("flocker", "flocker", "deprecated in v1.22, non-functional in v1.25+"),
        ("storageos", "storageOS", "deprecated in v1.22, non-functional in v1.25+"),
        ("quobyte", "quobyte", "deprecated in v1.22, non-functional in v1.25+"),
        ("glusterfs", "glusterfs", "deprecated in v1.25, non-functional in v1.26+"),
        ("ephemeral", "ephemeral", ""),
        ("cephfs", "cephfs", "deprecated in v1.28, non-functional in v1.31+"),
        ("rbd", "rbd", "deprecated in v1.28, non-functional in v1.31+"),
    ];
    for volume in spec.field("volumes").each() {
        for (field, shown, message) in deprecated {
            let source = volume.field(field);
            if field == "ephemeral" {
                claim_fractions(&source.at(&["volumeClaimTemplate", "spec"]), warnings);
            } else if source.is_set() {
                warnings.push(format!("{}: {message}", volume.path().field(shown)));
            }
        }
    }
}

/// Storage comes in whole bytes.
pub fn claim_fractions(spec: &Cursor, warnings: &mut Vec<String>) {
    for which in ["requests", "limits"] {
        fractions(&spec.at(&["resources", which]), &["storage"], warnings);
    }
}

/// Resources that come in whole bytes.
fn fractions(list: &Cursor, resources: &[&str], warnings: &mut Vec<String>) {
    for resource in resources {
        let amount = list.key(resource);
        let quantity = amount.quantity();
        if quantity.milli_value() % 1000 != 0 {
            let shown = quote(&quantity.to_string());
            warnings.push(format!("{}: fractional byte value {shown} is invalid, must be an integer", amount.path()));
        }
    }
}

fn container_fractions(container: &Cursor, warnings: &mut Vec<String>) {
    let resources = container.field("resources");
    for resource in ["memory", "ephemeral-storage"] {
        for which in ["limits", "requests"] {
            fractions(&resources.field(which), &[resource], warnings);
        }
    }
}

/// Host aliases and pull secrets that are there twice.
fn repeated(spec: &Cursor, warnings: &mut Vec<String>) {
    for (list, key) in [("hostAliases", "ip"), ("imagePullSecrets", "name")] {
        let mut seen = BTreeSet::new();
        for field in spec.field(list).each().map(|item| item.field(key)) {
            if !seen.insert(field.str()) {
                warnings.push(format!("{}: duplicate {key} {}", field.path(), quote(field.str())));
            }
        }
    }
    for name in spec.field("imagePullSecrets").each().map(|secret| secret.field("name")) {
        if name.str().is_empty() {
            warnings.push(format!(r#"{}: invalid empty name """#, name.path()));
        }
    }
}

fn container_annotations(
    container: &Cursor,
    spec: &Cursor,
    annotations: &Cursor,
    is_template: bool,
    warnings: &mut Vec<String>,
) {
    let (name, context) = (container.field("name").str(), container.field("securityContext"));
    let (seccomp, apparmor) = (format!("{SECCOMP_CONTAINER}{name}"), format!("{APPARMOR_CONTAINER}{name}"));
    let (seccomp, apparmor) = (annotations.key(&seccomp), annotations.key(&apparmor));
    if seccomp.is_set() && !context.field("seccompProfile").is_set() {
        warnings.push(format!("{}: {USE_SECCOMP_FIELD}", seccomp.path()));
    }
    // Pods get this warning when the annotation becomes a field.
    if is_template && apparmor.is_set() && !context.field("appArmorProfile").is_set() {
        let of_pod = spec.at(&["securityContext", "appArmorProfile"]);
        let annotated = apparmor_profile_of(apparmor.str());
        if !of_pod.is_set() || !internal::same("*AppArmorProfile", of_pod.value(), &annotated) {
            warnings.push(format!("{}: {USE_APPARMOR_FIELD}", apparmor.path()));
        }
    }
}

/// Variables that are there twice, unless the second one builds on the first.
fn repeated_variables(container: &Cursor, warnings: &mut Vec<String>) {
    let mut seen = BTreeSet::new();
    for variable in container.field("env").each() {
        let name = variable.value().str_at(&["name"]);
        if seen.insert(name) {
            continue;
        }
        let value = variable.value().str_at(&["value"]);
        let reference = format!("$({name})");
        if variable.field("valueFrom").is_set() || value == reference || !value.contains(&reference) {
            let what = format!("hides previous definition of {}, which may be dropped when using apply", quote(name));
            warnings.push(format!("{}: {what}", variable.path()));
        }
    }
}

/// Ports that are there twice or overlap.
fn ports(spec: &Cursor, warnings: &mut Vec<String>) {
    let mut all: BTreeMap<(i64, &str), Vec<Cursor>> = BTreeMap::new();
    let mut pairs = overlaps::PAIRS_MAX;
    for port in visit::containers(spec).flat_map(|container| container.field("ports").each()) {
        let (number, protocol) = (port.field("containerPort").int(), port.field("protocol").str());
        let (ip, host) = (port.field("hostIP").str(), port.field("hostPort").int());
        if !ip.is_empty() && host == 0 {
            let name = port.field("name").str();
            warnings.push(format!(
                "{}: hostIP set without hostPort: \
                 {{Name:{name} HostPort:{host} ContainerPort:{number} Protocol:{protocol} HostIP:{ip}}}",
                port.path()
            ));
        }
        let others = all.entry((number, protocol)).or_default();
        for other in others.iter().take(pairs) {
            pairs -= 1;
            let (other_ip, other_host) = (other.field("hostIP").str(), other.field("hostPort").int());
            let what = if ip == other_ip && host == other_host {
                "duplicate port definition"
            } else if host == 0 || other_host == 0 {
                "overlapping port definition"
            } else if host == other_host && ip.is_empty() != other_ip.is_empty() {
                "dangerously ambiguous port definition"
            } else {
                continue;
            };
            warnings.push(format!("{}: {what} with {}", port.path(), other.path()));
        }
        others.push(port);
    }
}

fn port_names(spec: &Cursor, warnings: &mut Vec<String>) {
    let mut all: BTreeMap<&str, String> = BTreeMap::new();
    for port in visit::containers(spec).flat_map(|container| container.field("ports").each()) {
        let name = port.field("name").str();
        match all.get(name) {
            _ if name.is_empty() => {}
            Some(first) => warnings.push(format!(
                "{}: duplicate port name {} with {first}, services and probes that select ports by name will use \
                 {first}",
                port.path(),
                quote(name)
            )),
            None => {
                all.insert(name, port.path().to_string());
            }
        }
    }
}

fn affinity(spec: &Cursor, warnings: &mut Vec<String>) {
    for pods in ["podAffinity", "podAntiAffinity"].map(|field| spec.at(&["affinity", field])) {
        let required = pods.field("requiredDuringSchedulingIgnoredDuringExecution").each();
        let preferred = pods.field("preferredDuringSchedulingIgnoredDuringExecution").each();
        let terms = required.chain(preferred.map(|term| term.field("podAffinityTerm")));
        for selector in terms.map(|term| term.field("labelSelector")).filter(|selector| !selector.is_set()) {
            warnings.push(format!("{}: {NULL_SELECTOR}", selector.path()));
        }
    }
}

/// Addresses that are not written as they should be.
fn addresses(spec: &Cursor, warnings: &mut Vec<String>) {
    let servers = spec.at(&["dnsConfig", "nameservers"]).each();
    let aliases = spec.field("hostAliases").each().map(|alias| alias.field("ip"));
    for address in servers.chain(aliases) {
        warnings.extend(names::ip_warnings(&address.path().to_string(), address.str()));
    }
}
