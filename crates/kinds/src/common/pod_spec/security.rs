//! Security contexts of pods and containers.

use std::collections::BTreeSet;

use object::{Cursor, Errors, Value};

use super::{PodValidationOptions, Scope, windows};
use crate::common::checks::Checks;
use crate::common::{internal, paths};

const SYSCTL_MAX_BYTES: usize = 253;
/// The longest path Linux takes, without the byte that ends it.
const APPARMOR_PROFILE_MAX_BYTES: usize = 4095;
pub const PROFILE_TYPES: [&str; 3] = ["Localhost", "RuntimeDefault", "Unconfined"];

/// The security context of a whole pod.
pub fn of_pod(spec: &Cursor, options: &PodValidationOptions, errors: &mut Errors) {
    let context = spec.field("securityContext");
    id(&context.field("fsGroup"), errors);
    id(&context.field("runAsUser"), errors);
    id(&context.field("runAsGroup"), errors);
    for group in context.field("supplementalGroups").each() {
        id(&group, errors);
    }
    sysctls(spec, options, errors);
    context.field("fsGroupChangePolicy").optional_one_of(errors, &["Always", "OnRootMismatch"]);
    seccomp_profile(&context.field("seccompProfile"), errors);
    windows::security_options(&context.field("windowsOptions"), errors);
    apparmor_profile(&context.field("appArmorProfile"), errors);
    context.field("supplementalGroupsPolicy").optional_one_of(errors, &["Merge", "Strict"]);
    let policies: &[&str] = if options.only_recursive_selinux { &["Recursive"] } else { &["MountOption", "Recursive"] };
    context.field("seLinuxChangePolicy").optional_one_of(errors, policies);
}

/// The security context of a container.
pub fn of_container(container: &Cursor, scope: &Scope, errors: &mut Errors) {
    let context = container.field("securityContext");
    let (privileged, proc_mount) = (context.field("privileged"), context.field("procMount"));
    if privileged.bool() && !scope.options.allow_privileged {
        privileged.forbidden(errors, "disallowed by cluster policy");
    }
    id(&context.field("runAsUser"), errors);
    id(&context.field("runAsGroup"), errors);
    proc_mount.optional_one_of(errors, &["Default", "Unmasked"]);
    if scope.host_users && proc_mount.str() == "Unmasked" {
        proc_mount.invalid(errors, "`hostUsers` must be false to use `Unmasked`");
    }
    seccomp_profile(&context.field("seccompProfile"), errors);
    if context.field("allowPrivilegeEscalation").opt_bool() == Some(false) {
        unescalated(&context, scope.options, errors);
    }
    windows::security_options(&context.field("windowsOptions"), errors);
    apparmor_profile(&context.field("appArmorProfile"), errors);
}

/// What a container that may not gain privileges cannot have from the start.
fn unescalated(context: &Cursor, options: &PodValidationOptions, errors: &mut Errors) {
    let shown = || internal::shown("SecurityContext", context.value());
    if context.field("privileged").bool() {
        let detail = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true";
        context.invalid_as(errors, shown(), detail);
    }
    if options.allow_unescalated_sys_admin {
        return;
    }
    let added = context.at(&["capabilities", "add"]);
    for _ in added.strs().filter(|capability| *capability == "CAP_SYS_ADMIN") {
        let detail = "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN";
        context.invalid_as(errors, shown(), detail);
    }
}

/// A user's or group's number.
fn id(id: &Cursor, errors: &mut Errors) {
    id.in_range(errors, 0, i64::from(i32::MAX));
}

fn seccomp_profile(profile: &Cursor, errors: &mut Errors) {
    if !profile.is_set() {
        return;
    }
    let (kind, localhost) = (profile.field("type"), profile.field("localhostProfile"));
    if kind.str().is_empty() {
        kind.required(errors, "type is required when seccompProfile is set");
    } else {
        kind.one_of(errors, &PROFILE_TYPES);
    }
    match (kind.str() == "Localhost", localhost.opt_str()) {
        (true, None) => localhost.required(errors, "must be set when seccomp type is Localhost"),
        (true, Some(path)) => paths::local_descending(path, localhost.path(), errors),
        (false, Some(_)) => localhost.invalid_as(
            errors,
            internal::shown("SeccompProfile", profile.value()),
            "can only be set when seccomp type is Localhost",
        ),
        (false, None) => {}
    }
}

pub fn apparmor_profile(profile: &Cursor, errors: &mut Errors) {
    if !profile.is_set() {
        return;
    }
    let (kind, localhost) = (profile.field("type"), profile.field("localhostProfile"));
    match kind.str() {
        "Localhost" => apparmor_localhost(&localhost, errors),
        "RuntimeDefault" | "Unconfined" if localhost.is_set() => {
            localhost.invalid(errors, "can only be set when AppArmor type is Localhost");
        }
        "RuntimeDefault" | "Unconfined" => {}
        "" => kind.required(errors, "type is required when appArmorProfile is set"),
        _ => kind.not_supported(errors, &PROFILE_TYPES),
    }
}

fn apparmor_localhost(localhost: &Cursor, errors: &mut Errors) {
    const UNSET: &str = "must be set when AppArmor type is Localhost";
    let Some(name) = localhost.opt_str() else { return localhost.required(errors, UNSET) };
    if name.trim() != name {
        localhost.bad(errors, "must not be padded with whitespace");
    } else if name.is_empty() {
        localhost.required(errors, UNSET);
    }
    if name.len() > APPARMOR_PROFILE_MAX_BYTES {
        errors.too_long(localhost.path(), APPARMOR_PROFILE_MAX_BYTES);
    }
}

fn sysctls(spec: &Cursor, options: &PodValidationOptions, errors: &mut Errors) {
    let mut seen = BTreeSet::new();
    for sysctl in spec.at(&["securityContext", "sysctls"]).each() {
        let name = sysctl.field("name");
        if !name.require(errors) {
        } else if !is_sysctl_name(name.str()) {
            let detail = format!("must have at most {SYSCTL_MAX_BYTES} characters and match regex ^{SYSCTL_PATTERN}$");
            name.bad(errors, detail);
        } else if seen.contains(name.str()) {
            name.duplicate(errors);
        }
        if !options.allow_host_sysctls
            && let Some(problem) = host_sysctl_problem(name.str(), spec.value())
        {
            name.bad(errors, problem);
        }
        seen.insert(name.str());
    }
}

const SYSCTL_PATTERN: &str = r"([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?";

fn is_sysctl_name(name: &str) -> bool {
    let alphanumeric = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let is_segment = |segment: &str| {
        let bytes = segment.as_bytes();
        bytes.first().is_some_and(|b| alphanumeric(*b))
            && bytes.last().is_some_and(|b| alphanumeric(*b))
            && bytes.iter().all(|b| alphanumeric(*b) || matches!(b, b'-' | b'_'))
    };
    name.len() <= SYSCTL_MAX_BYTES && name.split(['.', '/']).all(is_segment)
}

/// Why a pod that shares the host's namespace cannot set a parameter of that namespace.
pub fn host_sysctl_problem(name: &str, spec: &Value) -> Option<&'static str> {
    let on = |field| spec.field(field).as_bool() == Some(true);
    match sysctl_namespace(name)? {
        Namespace::Net if on("hostNetwork") => Some("may not be specified when 'hostNetwork' is true"),
        Namespace::Ipc if on("hostIPC") => Some("may not be specified when 'hostIPC' is true"),
        _ => None,
    }
}

enum Namespace {
    Net,
    Ipc,
}

/// The kernel namespace a parameter belongs to, if it is one a pod can share with the host.
fn sysctl_namespace(name: &str) -> Option<Namespace> {
    const IPC: [&str; 10] = [
        "kernel.sem",
        "kernel.shmall",
        "kernel.shmmax",
        "kernel.shmmni",
        "kernel.shm_rmid_forced",
        "kernel.shm",
        "kernel.msgmax",
        "kernel.msgmnb",
        "kernel.msgmni",
        "kernel.msg",
    ];
    let name = normalized_sysctl(name);
    let name = name.split('*').next().unwrap_or("");
    if IPC.contains(&name) || name.starts_with("fs.mqueue.") {
        Some(Namespace::Ipc)
    } else if name.starts_with("net.") {
        Some(Namespace::Net)
    } else {
        None
    }
}

/// Parameters can be written with slashes, where dots stand for slashes in turn: `net/ipv4/conf/eth0.1/x`.
fn normalized_sysctl(name: &str) -> String {
    match name.find(['.', '/']).and_then(|i| name.as_bytes().get(i)) {
        Some(b'/') => name
            .chars()
            .map(|c| {
                if c == '.' {
                    '/'
                } else if c == '/' {
                    '.'
                } else {
                    c
                }
            })
            .collect(),
        _ => name.to_string(),
    }
}

pub fn has_selinux_change_policy(spec: &Value) -> bool {
    !spec.at(&["securityContext", "seLinuxChangePolicy"]).is_null()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sysctl_names_are_segments() {
        for (name, fine) in [
            ("kernel.shm_rmid_forced", true),
            ("net/ipv4/conf/eth0.1/rp_filter", true),
            ("a-b_c.d", true),
            ("", false),
            ("a..b", false),
            ("_a", false),
            ("A", false),
            ("net.*", false),
        ] {
            assert_eq!(is_sysctl_name(name), fine, "{name}");
        }
    }
}
