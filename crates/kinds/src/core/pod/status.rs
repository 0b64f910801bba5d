//! The status of a pod, as kubelets, schedulers and controllers write it.

use std::collections::{BTreeSet, HashMap, VecDeque};

use object::{Cursor, Errors, Value, names, value};
use registry::Context;

use super::status_claims;
use crate::common::checks::{Checks, immutable, report};
use crate::common::pod_spec::fields::{drop_disabled, drop_unused};
use crate::common::pod_spec::visit::container_values;
use crate::common::pod_spec::{PodValidationOptions, annotations};
use crate::common::{internal, named};

/// The lists of container statuses, and the containers they are about.
pub const STATUSES: [(&str, &str); 3] = [
    ("containerStatuses", "containers"),
    ("initContainerStatuses", "initContainers"),
    ("ephemeralContainerStatuses", "ephemeralContainers"),
];

const NON_NEGATIVE: &str = "must be a non-negative integer";
const MAX_CONTAINER_UID: i64 = u32::MAX as i64;
const IMAGE_REFERENCE_MAX_BYTES: usize = 256;

/// `podIP` and `podIPs` say the same; where they differ, `podIP` counts.
pub fn default_addresses(pod: &mut Value) {
    let ip = pod.str_at(&["status", "podIP"]).to_string();
    let first = pod.list_at(&["status", "podIPs"]).first().map(|ip| ip.str_at(&["ip"]).to_string());
    match (ip.as_str(), first) {
        ("", Some(first)) if !first.is_empty() => pod.set(&["status", "podIP"], first),
        ("", _) => {}
        (ip, Some(first)) if first == ip => {}
        (ip, _) => pod.set(&["status", "podIPs"], value!([{"ip": ip}])),
    }
}

/// Addresses that are not written as they should be.
pub fn warnings(pod: &Value) -> Vec<String> {
    let status = Cursor::root(pod).field("status");
    let addresses = ["podIPs", "hostIPs"].iter().flat_map(|list| status.field(list).each());
    addresses
        .map(|address| address.field("ip"))
        .filter_map(|ip| names::ip_warnings(&ip.path().to_string(), ip.str()))
        .collect()
}

/// Puts back what a status may not change, and what clients drop that do not know it.
pub fn prepare(cx: &Context, new: &mut Value, old: &Value) {
    new.keep(&["metadata", "deletionTimestamp"], old);
    new.keep(&["metadata", "ownerReferences"], old);
    if new.str_at(&["status", "qosClass"]).is_empty() {
        new.keep(&["status", "qosClass"], old);
    }
    for field in ["resourceClaimStatuses", "extendedResourceClaimStatus", "nodeAllocatableResourceClaimStatuses"] {
        if new.at(&["status", field]).is_null() {
            new.keep(&["status", field], old);
        }
    }
    keep_observed_generations(new, old);
    drop_disabled(cx, new, Some(old));
    drop_disabled_status(cx, new, old);
}

/// Clients that do not know generations write statuses without them.
fn keep_observed_generations(new: &mut Value, old: &Value) {
    const GENERATION: [&str; 1] = ["observedGeneration"];
    let Some(status) = new.get_mut("status") else { return };
    let (before, unset) = (old.field("status"), |value: &Value| value.at(&GENERATION).as_int().unwrap_or(0) == 0);
    if unset(status) {
        status.keep(&GENERATION, before);
    }
    // A type may be there more than once; each one takes the next of the old ones.
    let mut left: HashMap<&str, VecDeque<&Value>> = HashMap::new();
    for condition in before.list_at(&["conditions"]) {
        left.entry(condition.str_at(&["type"])).or_default().push_back(condition);
    }
    for condition in status.get_mut("conditions").and_then(Value::as_list_mut).into_iter().flatten() {
        if let Some(before) = left.get_mut(condition.str_at(&["type"])).and_then(VecDeque::pop_front)
            && unset(condition)
            && !unset(before)
        {
            condition.keep(&GENERATION, before);
        }
    }
}

fn drop_disabled_status(cx: &Context, new: &mut Value, old: &Value) {
    const GUARDED: [(&str, &[&str]); 6] = [
        ("InPlacePodLevelResourcesVerticalScaling", &["resources", "allocatedResources"]),
        (
            "ResourceHealthStatus",
            &[
                "containerStatuses[].allocatedResourcesStatus",
                "initContainerStatuses[].allocatedResourcesStatus",
                "ephemeralContainerStatuses[].allocatedResourcesStatus",
            ],
        ),
        (
            "ResourceHealthStatusMessage",
            &[
                "containerStatuses[].allocatedResourcesStatus[].resources[].message",
                "initContainerStatuses[].allocatedResourcesStatus[].resources[].message",
                "ephemeralContainerStatuses[].allocatedResourcesStatus[].resources[].message",
            ],
        ),
        (
            "ImageVolumeWithDigest",
            &[
                "containerStatuses[].volumeMounts[].volumeStatus",
                "initContainerStatuses[].volumeMounts[].volumeStatus",
                "ephemeralContainerStatuses[].volumeMounts[].volumeStatus",
            ],
        ),
        ("DRANodeAllocatableResources", &["nodeAllocatableResourceClaimStatuses"]),
        ("CSIVolumeHealth", &["volumeHealth"]),
    ];
    let Some(status) = new.get_mut("status") else { return };
    for (gate, fields) in GUARDED {
        if !cx.features.enabled(gate) {
            drop_unused(status, old.field("status"), fields);
        }
    }
}

pub fn validate(cx: &Context, new: &Cursor, old: &Cursor, options: &PodValidationOptions, errors: &mut Errors) {
    let annotations = new.at(&["metadata", "annotations"]);
    let old_annotations = old.at(&["metadata", "annotations"]);
    annotations::validate_update(&annotations, old_annotations.value(), &new.field("spec"), options, errors);
    let (status, old_status) = (new.field("status"), old.field("status"));
    conditions(&status.field("conditions"), errors);
    nominated_node(cx, &status, old, errors);
    let observed = status.field("observedGeneration");
    if observed.int() < 0 {
        observed.invalid(errors, NON_NEGATIVE);
    }
    immutable(&status.field("qosClass"), &old_status.field("qosClass"), errors);
    for (list, containers) in STATUSES {
        let (now, before) = (status.field(list), old_status.field(list));
        transitions(&now, &before, old.field("spec").value(), containers, options, errors);
    }
    status_claims::validate(&status, new.field("spec").value(), errors);
    addresses(&status, old_status.value(), "podIPs", options, errors);
    pod_ip(&status, errors);
    host_ip(&status, errors);
    addresses(&status, old_status.value(), "hostIPs", options, errors);
    for (list, _) in STATUSES {
        users(&status.field(list), new.at(&["spec", "os"]), errors);
    }
    status_claims::allocated(&status, new.field("spec").value(), errors);
    if options.image_volume_digests {
        for mount in
            STATUSES.iter().flat_map(|(list, _)| status.field(list).each()).flat_map(|s| s.field("volumeMounts").each())
        {
            image_volume(&mount.field("volumeStatus"), errors);
        }
    }
}

fn conditions(conditions: &Cursor, errors: &mut Errors) {
    for condition in conditions.each() {
        let (observed, kind) = (condition.field("observedGeneration"), condition.field("type").str());
        if observed.int() < 0 {
            observed.invalid(errors, NON_NEGATIVE);
        }
        if !matches!(kind, "PodScheduled" | "Ready" | "Initialized") {
            // Upstream spells the field as Go does.
            let at = condition.path().field("Type");
            report(errors, &at, kind, names::label_key(kind));
        }
    }
}

fn nominated_node(cx: &Context, status: &Cursor, old: &Cursor, errors: &mut Errors) {
    let node = status.field("nominatedNodeName");
    if node.str().is_empty() || node.str() == old.at(&["status", "nominatedNodeName"]).str() {
        return;
    }
    node.check_name(errors, names::name_is_dns_subdomain);
    if cx.features.enabled("ClearingNominatedNodeNameAfterBinding") && !old.at(&["spec", "nodeName"]).str().is_empty() {
        node.forbidden(errors, "may not be set on pods that are already bound to a node");
    }
}

/// A container that has ended starts again only if its pod says so.
fn transitions(
    now: &Cursor,
    before: &Cursor,
    spec: &Value,
    list: &str,
    options: &PodValidationOptions,
    errors: &mut Errors,
) {
    let never = list == "ephemeralContainers";
    let restarts_all = |container: &Value| {
        let mut rules = container.list_at(&["restartPolicyRules"]).iter();
        rules.any(|rule| rule.str_at(&["action"]) == "RestartAllContainers")
    };
    let rules = options.container_restart_rules;
    if !never && rules && options.restart_all_containers && container_values(spec).any(restarts_all) {
        return;
    }
    let containers = named::first_by_name(spec.list_at(&[list]));
    let running = now.each().filter(|now| !now.at(&["state", "terminated"]).is_set());
    let running: BTreeSet<&str> = running.map(|now| now.field("name").str()).collect();
    for old in before.each() {
        let (name, ended) = (old.field("name").str(), old.at(&["state", "terminated"]));
        if !ended.is_set() {
            continue;
        }
        let container = containers.get(name).copied();
        let exit_code = ended.field("exitCode").int();
        let may_restart = match (never, rules) {
            (true, _) => false,
            (false, true) => container.is_some_and(|container| restarts(container, spec, exit_code, options)),
            (false, false) => restarts_by_pod(container.unwrap_or(&Value::Null), spec, list, exit_code),
        };
        if !may_restart && running.contains(name) {
            old.field("state").forbidden(errors, "may not be transitioned to non-terminated state");
        }
    }
}

/// Whether a container starts again after an exit: its rules, its policy, the pod's policy.
fn restarts(container: &Value, spec: &Value, exit_code: i64, options: &PodValidationOptions) -> bool {
    let policy = container.field("restartPolicy").as_str();
    let matching = container.list_at(&["restartPolicyRules"]).iter().find(|rule| {
        let found = rule.list_at(&["exitCodes", "values"]).iter().any(|code| code.as_int() == Some(exit_code));
        match rule.str_at(&["exitCodes", "operator"]) {
            "In" => found,
            "NotIn" => !found,
            _ => false,
        }
    });
    if policy.is_some() {
        match matching.map(|rule| rule.str_at(&["action"])) {
            Some("Restart") => return true,
            Some("RestartAllContainers") if options.restart_all_containers => return true,
            _ => {}
        }
    }
    match policy.unwrap_or("") {
        policy @ ("Always" | "OnFailure" | "Never") => by_policy(policy, exit_code),
        _ => by_policy(spec.str_at(&["restartPolicy"]), exit_code),
    }
}

fn by_policy(policy: &str, exit_code: i64) -> bool {
    match policy {
        "OnFailure" => exit_code != 0,
        "Never" => false,
        _ => true,
    }
}

fn restarts_by_pod(container: &Value, spec: &Value, list: &str, exit_code: i64) -> bool {
    let is_sidecar = list == "initContainers" && container.str_at(&["restartPolicy"]) == "Always";
    is_sidecar || by_policy(spec.str_at(&["restartPolicy"]), exit_code)
}

/// Addresses that are new must be good, and there is at most one of each family.
fn addresses(status: &Cursor, old: &Value, list: &str, options: &PodValidationOptions, errors: &mut Errors) {
    let addresses = status.field(list);
    let known: BTreeSet<&str> = old.list_at(&[list]).iter().map(|known| known.str_at(&["ip"])).collect();
    for address in addresses.each() {
        let ip = address.field("ip").str();
        if !known.contains(ip) {
            // Upstream reports at the entry, not at its field.
            let problems = names::ip_for_legacy_field(ip, options.strict_addresses);
            report(errors, address.path(), ip, problems);
        }
    }
    if addresses.len() < 2 {
        return;
    }
    let ips: Vec<&str> = addresses.each().map(|address| address.field("ip").str()).collect();
    let families: Vec<Option<bool>> =
        ips.iter().map(|ip| names::parse_ip_sloppy(ip).map(|ip| ip.to_canonical().is_ipv4())).collect();
    let unreadable = families.iter().position(Option::is_none);
    if let Some((i, ip)) = unreadable.and_then(|i| Some((i, ips.get(i)?))) {
        errors.internal(addresses.path(), format!("failed to check for dual stack with error:invalid IP[{i}]: {ip}"));
    }
    let dual = families.contains(&Some(true)) && families.contains(&Some(false)) && !families.contains(&None);
    if !dual || families.len() > 2 {
        let shown = internal::shown("[]PodIP", addresses.value());
        addresses.invalid_as(errors, shown, "may specify no more than one IP for each IP family");
    }
}

fn pod_ip(status: &Cursor, errors: &mut Errors) {
    let (ip, ips) = (status.field("podIP").str(), status.field("podIPs"));
    let first = ips.index(0).field("ip");
    if ip.is_empty() != (ips.is_empty()) {
        let shown = internal::shown("[]PodIP", ips.value());
        ips.invalid_as(errors, shown, "podIP and podIPs must either both be set or both be unset");
    } else if !ips.is_empty() && first.str() != ip {
        first.bad(errors, "must be equal to `podIP`");
    }
}

fn host_ip(status: &Cursor, errors: &mut Errors) {
    let ips = status.field("hostIPs");
    let first = ips.index(0).field("ip");
    if !ips.is_empty() && first.str() != status.field("hostIP").str() {
        first.bad(errors, "must be equal to `hostIP`");
    }
}

/// Who the first process of a container runs as, as its runtime reports it.
fn users(statuses: &Cursor, os: Cursor, errors: &mut Errors) {
    let os = if os.is_set() { os.field("name").str() } else { "linux" };
    for linux in statuses.each().map(|status| status.at(&["user", "linux"])).filter(Cursor::is_set) {
        match os {
            "windows" => linux.forbidden(errors, "cannot be set for a windows pod"),
            "linux" => {
                let uid = linux.field("uid");
                if !(0..=MAX_CONTAINER_UID).contains(&uid.int()) {
                    uid.invalid(errors, names::inclusive_range_error(0, MAX_CONTAINER_UID));
                }
                linux.field("gid").in_range(errors, 0, i64::from(i32::MAX));
                for group in linux.field("supplementalGroups").each() {
                    group.in_range(errors, 0, i64::from(i32::MAX));
                }
            }
            _ => {}
        }
    }
}

fn image_volume(status: &Cursor, errors: &mut Errors) {
    let image = status.field("image");
    if !image.is_set() {
        return;
    }
    // Upstream calls the image by another name here.
    let path = status.path().field("imageVolumeStatus").field("imageRef");
    let reference = image.field("imageRef").str();
    if reference.is_empty() {
        errors.required(&path, "imageRef must not be empty");
    }
    if reference.len() > IMAGE_REFERENCE_MAX_BYTES {
        errors.too_long(&path, IMAGE_REFERENCE_MAX_BYTES);
    }
}
