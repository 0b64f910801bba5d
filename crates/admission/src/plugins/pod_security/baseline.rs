//! The checks of the baseline level: nothing that is known to let a pod out of its sandbox.

use std::collections::BTreeSet;

use object::{Value, quote};

use super::checks::{Pod, Violation, bad_profiles, containers, plural, quoted, setters};

const PROFILES: &[&str] = &["RuntimeDefault", "Localhost"];

const CAPABILITIES: &[&str] = &[
    "AUDIT_WRITE",
    "CHOWN",
    "DAC_OVERRIDE",
    "FOWNER",
    "FSETID",
    "KILL",
    "MKNOD",
    "NET_BIND_SERVICE",
    "SETFCAP",
    "SETGID",
    "SETPCAP",
    "SETUID",
    "SYS_CHROOT",
];

/// Harmless sysctls, in the order in which releases came to allow them.
const SYSCTLS: &[&str] = &[
    "kernel.shm_rmid_forced",
    "net.ipv4.ip_local_port_range",
    "net.ipv4.tcp_syncookies",
    "net.ipv4.ping_group_range",
    "net.ipv4.ip_unprivileged_port_start",
    "net.ipv4.ip_local_reserved_ports",
    "net.ipv4.tcp_keepalive_time",
    "net.ipv4.tcp_fin_timeout",
    "net.ipv4.tcp_keepalive_intvl",
    "net.ipv4.tcp_keepalive_probes",
    "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_wmem",
    "net.ipv4.tcp_slow_start_after_idle",
    "net.ipv4.tcp_notsent_lowat",
];

fn violation(reason: &'static str, detail: String) -> Option<Violation> {
    Some(Violation { reason, detail })
}

pub fn app_armor(pod: Pod<'_>) -> Option<Violation> {
    let (by_pod, names, values) = bad_profiles(pod, "appArmorProfile", PROFILES);
    let mut who: Vec<String> = setters(by_pod, &names).into_iter().collect();
    let mut values: Vec<String> = values.into_iter().map(str::to_string).collect();
    let allowed = |value: &str| value.is_empty() || value == "runtime/default" || value.starts_with("localhost/");
    let mut annotations: Vec<String> = annotations(pod)
        .filter(|(key, value)| key.starts_with("container.apparmor.security.beta.kubernetes.io/") && !allowed(value))
        .map(|(key, value)| format!("{key}={}", quote(value)))
        .collect();
    if !annotations.is_empty() {
        annotations.sort();
        who.push(plural(annotations.len(), "annotation", "annotations").to_string());
        values.extend(annotations);
    }
    if who.is_empty() {
        return None;
    }
    let listed: Vec<&str> = values.iter().map(String::as_str).collect();
    violation(
        plural(values.len(), "forbidden AppArmor profile", "forbidden AppArmor profiles"),
        format!("{} must not set AppArmor profile type to {}", who.join(" and "), quoted(&listed)),
    )
}

fn annotations(pod: Pod<'_>) -> impl Iterator<Item = (&str, &str)> {
    let entries = pod.annotations.as_map().into_iter().flat_map(|map| map.iter());
    entries.map(|(key, value)| (key, value.as_str().unwrap_or("")))
}

pub fn capabilities(pod: Pod<'_>) -> Option<Violation> {
    let mut added = BTreeSet::new();
    let names = pod.names_where(|container| {
        let list = container.list_at(&["securityContext", "capabilities", "add"]);
        let bad: Vec<&str> = list.iter().filter_map(Value::as_str).filter(|c| !CAPABILITIES.contains(c)).collect();
        added.extend(bad.iter().copied());
        !bad.is_empty()
    });
    if names.is_empty() {
        return None;
    }
    let detail = "must not include";
    violation(
        "non-default capabilities",
        format!("{} {detail} {} in securityContext.capabilities.add", containers(&names), quoted(&added)),
    )
}

pub fn host_namespaces(pod: Pod<'_>) -> Option<Violation> {
    let shared = ["hostNetwork", "hostPID", "hostIPC"];
    let shared: Vec<String> = shared
        .iter()
        .filter(|field| pod.spec.field(field).as_bool() == Some(true))
        .map(|field| format!("{field}=true"))
        .collect();
    if shared.is_empty() { None } else { violation("host namespaces", shared.join(", ")) }
}

pub fn host_paths(pod: Pod<'_>) -> Option<Violation> {
    let volumes = pod.spec.list_at(&["volumes"]).iter().filter(|volume| !volume.field("hostPath").is_null());
    let names: Vec<&str> = volumes.map(|volume| volume.str_at(&["name"])).collect();
    if names.is_empty() {
        return None;
    }
    violation("hostPath volumes", format!("{} {}", plural(names.len(), "volume", "volumes"), quoted(&names)))
}

pub fn host_ports(pod: Pod<'_>) -> Option<Violation> {
    // Sorted as text, like all lists of values.
    let mut ports = BTreeSet::new();
    let names = pod.names_where(|container| {
        let used = container.list_at(&["ports"]).iter().filter_map(|port| port.field("hostPort").as_int());
        let used: Vec<String> = used.filter(|port| *port != 0).map(|port| port.to_string()).collect();
        let bad = !used.is_empty();
        ports.extend(used);
        bad
    });
    if names.is_empty() {
        return None;
    }
    let use_ports = format!("{} {}", plural(names.len(), "uses", "use"), plural(ports.len(), "hostPort", "hostPorts"));
    let ports = ports.into_iter().collect::<Vec<_>>().join(", ");
    violation("hostPort", format!("{} {use_ports} {ports}", containers(&names)))
}

pub fn probe_hosts(pod: Pod<'_>) -> Option<Violation> {
    const HANDLERS: &[&[&str]] = &[
        &["livenessProbe"],
        &["readinessProbe"],
        &["startupProbe"],
        &["lifecycle", "postStart"],
        &["lifecycle", "preStop"],
    ];
    let mut hosts = BTreeSet::new();
    let names = pod.names_where(|container| {
        let handlers = HANDLERS.iter().map(|path| container.at(path));
        let found: Vec<&str> = handlers
            .flat_map(|handler| [handler.str_at(&["httpGet", "host"]), handler.str_at(&["tcpSocket", "host"])])
            .filter(|host| !host.is_empty())
            .collect();
        hosts.extend(found.iter().copied());
        !found.is_empty()
    });
    let names: Vec<&str> = names.into_iter().collect::<BTreeSet<_>>().into_iter().collect();
    if names.is_empty() {
        return None;
    }
    let verb = plural(names.len(), "uses", "use");
    let what = plural(hosts.len(), "probe or lifecycle host", "probe or lifecycle hosts");
    violation("probe or lifecycle host", format!("{} {verb} {what} {}", containers(&names), quoted(&hosts)))
}

pub fn privileged(pod: Pod<'_>) -> Option<Violation> {
    let names = pod.names_where(|c| c.at(&["securityContext", "privileged"]).as_bool() == Some(true));
    if names.is_empty() {
        return None;
    }
    violation("privileged", format!("{} must not set securityContext.privileged=true", containers(&names)))
}

pub fn proc_mount(pod: Pod<'_>) -> Option<Violation> {
    let mut values = BTreeSet::new();
    let names = pod.names_where(|container| {
        let mount = container.at(&["securityContext", "procMount"]).as_str().filter(|mount| *mount != "Default");
        values.extend(mount);
        mount.is_some()
    });
    if names.is_empty() {
        return None;
    }
    let detail = "must not set securityContext.procMount to";
    violation("procMount", format!("{} {detail} {}", containers(&names), quoted(&values)))
}

pub fn proc_mount_1_35(pod: Pod<'_>) -> Option<Violation> {
    if pod.has_user_namespace() { None } else { proc_mount(pod) }
}

pub fn se_linux(pod: Pod<'_>) -> Option<Violation> {
    se_linux_types(pod, &["", "container_t", "container_init_t", "container_kvm_t"])
}

pub fn se_linux_1_31(pod: Pod<'_>) -> Option<Violation> {
    se_linux_types(pod, &["", "container_t", "container_init_t", "container_kvm_t", "container_engine_t"])
}

fn se_linux_types(pod: Pod<'_>, allowed: &[&str]) -> Option<Violation> {
    let (mut types, mut user, mut role) = (BTreeSet::new(), false, false);
    let mut is_bad = |context| {
        let options = Value::field(context, "seLinuxOptions");
        let kind = options.str_at(&["type"]);
        let (bad_type, sets_user, sets_role) =
            (!allowed.contains(&kind), !options.str_at(&["user"]).is_empty(), !options.str_at(&["role"]).is_empty());
        if bad_type {
            types.insert(kind);
        }
        user |= sets_user;
        role |= sets_role;
        bad_type || sets_user || sets_role
    };
    let by_pod = is_bad(pod.security());
    let names = pod.names_where(|container| is_bad(container.field("securityContext")));
    let who = setters(by_pod, &names)?;
    let mut what = Vec::new();
    if !types.is_empty() {
        what.push(format!("{} {}", plural(types.len(), "type", "types"), quoted(&types)));
    }
    if user {
        what.push("user may not be set".to_string());
    }
    if role {
        what.push("role may not be set".to_string());
    }
    violation("seLinuxOptions", format!("{who} set forbidden securityContext.seLinuxOptions: {}", what.join("; ")))
}

/// Before 1.19, profiles were annotations.
pub fn seccomp_annotations(pod: Pod<'_>) -> Option<Violation> {
    let allowed =
        |value: &str| value == "runtime/default" || value == "docker/default" || value.starts_with("localhost/");
    let mut keys = vec!["seccomp.security.alpha.kubernetes.io/pod".to_string()];
    let containers = pod.containers().map(|container| container.str_at(&["name"]));
    keys.extend(containers.map(|name| format!("container.seccomp.security.alpha.kubernetes.io/{name}")));
    let bad: BTreeSet<String> = keys
        .into_iter()
        .filter_map(|key| {
            let value = pod.annotations.field(&key).as_str().filter(|value| !allowed(value))?;
            Some(format!("{key}={}", quote(value)))
        })
        .collect();
    if bad.is_empty() {
        return None;
    }
    let what = plural(bad.len(), "annotation", "annotations");
    violation("seccompProfile", format!("forbidden {what} {}", bad.into_iter().collect::<Vec<_>>().join(", ")))
}

pub fn seccomp(pod: Pod<'_>) -> Option<Violation> {
    let (by_pod, names, values) = bad_profiles(pod, "seccompProfile", PROFILES);
    let who = setters(by_pod, &names)?;
    violation(
        "seccompProfile",
        format!("{who} must not set securityContext.seccompProfile.type to {}", quoted(&values)),
    )
}

pub fn sysctls(pod: Pod<'_>) -> Option<Violation> {
    sysctls_but(pod, &SYSCTLS[..5])
}

pub fn sysctls_1_27(pod: Pod<'_>) -> Option<Violation> {
    sysctls_but(pod, &SYSCTLS[..6])
}

pub fn sysctls_1_29(pod: Pod<'_>) -> Option<Violation> {
    sysctls_but(pod, &SYSCTLS[..10])
}

pub fn sysctls_1_32(pod: Pod<'_>) -> Option<Violation> {
    sysctls_but(pod, &SYSCTLS[..12])
}

pub fn sysctls_1_37(pod: Pod<'_>) -> Option<Violation> {
    sysctls_but(pod, SYSCTLS)
}

fn sysctls_but(pod: Pod<'_>, allowed: &[&str]) -> Option<Violation> {
    let names = pod.security().list_at(&["sysctls"]).iter().map(|sysctl| sysctl.str_at(&["name"]));
    let bad: Vec<&str> = names.filter(|name| !allowed.contains(name)).collect();
    if bad.is_empty() { None } else { violation("forbidden sysctls", bad.join(", ")) }
}

pub fn windows_host_process(pod: Pod<'_>) -> Option<Violation> {
    let is_bad = |context: &Value| context.at(&["windowsOptions", "hostProcess"]).as_bool() == Some(true);
    let names = pod.names_where(|container| is_bad(container.field("securityContext")));
    let who = setters(is_bad(pod.security()), &names)?;
    violation("hostProcess", format!("{who} must not set securityContext.windowsOptions.hostProcess=true"))
}
