//! Rules that depend on the operating system a pod says it is for.

use object::{Cursor, Errors};

use super::visit;
use crate::common::checks::Checks;

const NOT_ON_WINDOWS: &str = "cannot be set for a windows pod";
const NOT_ON_LINUX: &str = "windows options cannot be set for a linux pod";

pub fn validate(spec: &Cursor, errors: &mut Errors) {
    let os = spec.field("os");
    let name = os.field("name");
    if !os.is_set() || !name.require(errors) {
        return;
    }
    match name.str() {
        "linux" => linux(spec, errors),
        "windows" => windows(spec, errors),
        other => errors.not_supported(os.path(), other, &["linux", "windows"]),
    }
}

fn linux(spec: &Cursor, errors: &mut Errors) {
    for owner in std::iter::once(spec.clone()).chain(visit::containers(spec)) {
        let options = owner.at(&["securityContext", "windowsOptions"]);
        if options.is_set() {
            options.forbidden(errors, NOT_ON_LINUX);
        }
    }
}

fn windows(spec: &Cursor, errors: &mut Errors) {
    const POD_CONTEXT: [&str; 11] = [
        "appArmorProfile",
        "seLinuxOptions",
        "seccompProfile",
        "fsGroup",
        "fsGroupChangePolicy",
        "sysctls",
        "runAsUser",
        "runAsGroup",
        "supplementalGroups",
        "supplementalGroupsPolicy",
        "seLinuxChangePolicy",
    ];
    const POD: [&str; 4] = ["hostUsers", "hostPID", "hostIPC", "shareProcessNamespace"];
    const CONTAINER_CONTEXT: [&str; 10] = [
        "appArmorProfile",
        "seLinuxOptions",
        "seccompProfile",
        "capabilities",
        "readOnlyRootFilesystem",
        "privileged",
        "allowPrivilegeEscalation",
        "procMount",
        "runAsUser",
        "runAsGroup",
    ];
    // These are no pointers to upstream: nothing set and the zero value are alike.
    const EMPTY_IS_UNSET: [&str; 3] = ["sysctls", "hostPID", "hostIPC"];
    let mut forbid = |owner: &Cursor, fields: &[&str]| {
        for name in fields {
            let field = owner.field(name);
            let is_set = if EMPTY_IS_UNSET.contains(name) { !field.is_empty() } else { field.is_set() };
            if is_set {
                field.forbidden(errors, NOT_ON_WINDOWS);
            }
        }
    };
    forbid(&spec.field("securityContext"), &POD_CONTEXT);
    forbid(spec, &POD);
    for container in visit::containers(spec) {
        forbid(&container.field("securityContext"), &CONTAINER_CONTEXT);
    }
}
