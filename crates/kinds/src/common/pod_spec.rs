//! The rules of a pod's spec, wherever it stands: in a pod, or in the template of a Deployment, a Job, a PodTemplate.
//!
//! [`validate`] tells the whole story in upstream's order; each module holds the rules of one part.

pub mod affinity;
pub mod annotations;
pub mod claims;
pub mod containers;
pub mod defaults;
pub mod dns;
pub mod env;
pub mod fields;
pub mod mounts;
pub mod options;
pub mod os;
pub mod overlaps;
pub mod ports;
pub mod probes;
pub mod projected;
pub mod resources;
pub mod responders;
pub mod restart;
pub mod security;
mod toleration_annotation;
pub mod tolerations;
pub mod topology;
pub mod usage;
pub mod visit;
pub mod volumes;
pub mod warnings;
pub mod windows;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use object::{Cursor, Errors, Value, names, quote};

use super::checks::Checks;
use super::selector;
pub use defaults::default;
pub use fields::drop_disabled;
pub use options::PodValidationOptions;

/// What the rules of containers need to know about the pod around them.
pub struct Scope<'a> {
    pub options: &'a PodValidationOptions,
    /// The volumes that are fine, by name.
    pub volumes: BTreeMap<&'a str, &'a Value>,
    /// The names of the pod's resource claims.
    pub claims: BTreeSet<&'a str>,
    pub restart_policy: &'a str,
    pub grace_period: Option<i64>,
    /// `spec.os.name`, if there is an `spec.os`.
    pub os: Option<&'a str>,
    /// Users in containers are the host's users.
    pub host_users: bool,
}

/// Checks a pod spec. `pod` is the pod's metadata, for specs of real pods.
pub fn validate(spec: &Cursor, pod: Option<&Cursor>, options: &PodValidationOptions, errors: &mut Errors) {
    let grace_period = spec.field("terminationGracePeriodSeconds");
    if !grace_period.is_set() {
        grace_period.required(errors, "");
    }
    let volumes = volumes::validate(&spec.field("volumes"), pod, options, errors);
    let scope = Scope {
        options,
        volumes,
        claims: claims::names(spec.value()),
        restart_policy: spec.field("restartPolicy").str(),
        grace_period: grace_period.opt_int(),
        os: spec.field("os").is_set().then(|| spec.at(&["os", "name"]).str()),
        host_users: spec.field("hostUsers").opt_bool() != Some(false),
    };
    claims::validate(&spec.field("resourceClaims"), pod, errors);
    containers::regular(&spec.field("containers"), &scope, errors);
    containers::init(spec, &scope, errors);
    containers::ephemeral(spec, &scope, errors);
    if options.pod_level_resources {
        resources::pod_level(spec, &scope, errors);
    }
    ports::host_network(spec, options, errors);
    spec.field("restartPolicy").require_one_of(errors, &["Always", "OnFailure", "Never"]);
    spec.field("dnsPolicy").require_one_of(errors, &["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"]);
    selector::labels(&spec.field("nodeSelector"), errors);
    security::of_pod(spec, options, errors);
    share_process_namespace(spec, errors);
    affinity::validate(&spec.field("affinity"), options, errors);
    dns::config(spec, options, errors);
    readiness_gates(&spec.field("readinessGates"), errors);
    scheduling_gates(&spec.field("schedulingGates"), errors);
    topology::validate(&spec.field("topologySpreadConstraints"), options, errors);
    windows::host_process(spec, options, errors);
    host_users(spec, options, errors);
    dns::hostname_override(spec, errors);
    names_of_others(spec, errors);
    let deadline = spec.field("activeDeadlineSeconds");
    deadline.in_range(errors, 1, i64::from(i32::MAX));
    for host in ["hostname", "subdomain"].map(|field| spec.field(field)) {
        if !host.str().is_empty() {
            host.check(errors, names::dns1123_label);
        }
    }
    tolerations::validate(&spec.field("tolerations"), options, errors);
    dns::host_aliases(&spec.field("hostAliases"), options, errors);
    scheduling(spec, &scope, errors);
    os::validate(spec, errors);
    scheduling_group(spec, errors);
    env::file_key_volumes(spec, errors);
    responders::validate(&spec.field("evictionResponders"), errors);
}

fn share_process_namespace(spec: &Cursor, errors: &mut Errors) {
    let shared = spec.field("shareProcessNamespace");
    if shared.bool() && spec.field("hostPID").bool() {
        shared.invalid(errors, "ShareProcessNamespace and HostPID cannot both be enabled");
    }
}

fn readiness_gates(gates: &Cursor, errors: &mut Errors) {
    for gate in gates.each() {
        gate.field("conditionType").check(errors, names::label_key);
    }
}

fn scheduling_gates(gates: &Cursor, errors: &mut Errors) {
    let mut seen = BTreeSet::new();
    for gate in gates.each() {
        let name = gate.field("name").str();
        // Upstream reports at the gate, not at its name.
        super::checks::report(errors, gate.path(), name, names::label_key(name));
        if !seen.insert(name) {
            errors.duplicate(gate.path(), name);
        }
    }
}

/// A pod whose users are not the host's cannot use the host's other namespaces.
fn host_users(spec: &Cursor, options: &PodValidationOptions, errors: &mut Errors) {
    const WHY: &str = "when `hostUsers` is false";
    if spec.field("hostUsers").opt_bool() != Some(false) {
        return;
    }
    if !options.host_network_user_namespaces && spec.field("hostNetwork").bool() {
        errors.forbidden(&spec.path().field("hostNetwork"), WHY);
    }
    // Upstream names these two as Go does.
    for (field, shown) in [("hostPID", "HostPID"), ("hostIPC", "HostIPC")] {
        if spec.field(field).bool() {
            errors.forbidden(&spec.path().field(shown), WHY);
        }
    }
    if !options.allow_user_namespace_devices {
        let devices = visit::containers(spec).map(|container| container.field("volumeDevices"));
        for devices in devices.filter(|devices| !devices.is_empty()) {
            devices.forbidden(errors, WHY);
        }
    }
}

/// The service account and the node.
fn names_of_others(spec: &Cursor, errors: &mut Errors) {
    let (account, deprecated) = (spec.field("serviceAccountName"), spec.field("serviceAccount"));
    if !account.str().is_empty() {
        account.check_name(errors, names::name_is_dns_subdomain);
    }
    if deprecated.str() != account.str() {
        let detail = format!("must be the same as serviceAccountName: {}", quote(account.str()));
        errors.invalid(&spec.path().field("deprecatedServiceAccount"), deprecated.str(), detail);
    }
    let node = spec.field("nodeName");
    if !node.str().is_empty() {
        node.check_name(errors, names::name_is_dns_subdomain);
    }
}

fn scheduling(spec: &Cursor, scope: &Scope, errors: &mut Errors) {
    let priority_class = spec.field("priorityClassName");
    if !priority_class.str().is_empty() {
        priority_class.check_name(errors, names::name_is_dns_subdomain);
    }
    let runtime_class = spec.field("runtimeClassName");
    if runtime_class.is_set() {
        runtime_class.check_name(errors, names::name_is_dns_subdomain);
    }
    let preemption = spec.field("preemptionPolicy");
    if preemption.is_set() {
        preemption.require_one_of(errors, &["PreemptLowerPriority", "Never"]);
    }
    let overhead = spec.field("overhead");
    if overhead.is_set() {
        resources::overhead(&overhead, scope.options, errors);
    }
}

fn scheduling_group(spec: &Cursor, errors: &mut Errors) {
    let group = spec.field("schedulingGroup");
    if !group.is_set() {
        return;
    }
    let name = group.field("podGroupName");
    if name.is_set() {
        name.check_name(errors, names::name_is_dns_subdomain);
    } else {
        name.invalid(errors, "must specify one of: `podGroupName`");
    }
    if !spec.field("evictionResponders").is_empty() {
        group.forbidden(errors, "may not be set when evictionResponders is set");
    }
}
