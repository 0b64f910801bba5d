//! The table of checks, and [`evaluate`], which runs those of a level as some release of Kubernetes knew them.

use std::collections::BTreeSet;
use std::fmt;

use object::Value;

use super::policy::{Level, LevelVersion, Version};
use super::{baseline, restricted};

/// What checks look at: a pod or a pod template.
#[derive(Clone, Copy)]
pub struct Pod<'a> {
    pub annotations: &'a Value,
    pub spec: &'a Value,
}

/// What a check does not like: in a few words, and in detail.
pub struct Violation {
    pub reason: &'static str,
    pub detail: String,
}

pub struct Violations(Vec<Violation>);

type CheckFn = fn(Pod<'_>) -> Option<Violation>;

struct Check {
    id: &'static str,
    /// From which minor release on the check looks like what, oldest first.
    versions: &'static [(u32, CheckFn)],
    /// The baseline check that this one makes needless.
    overrides: &'static str,
}

/// Newer releases than this have no other checks.
const NEWEST: u32 = 37;

/// In the order they are reported: by id.
const BASELINE: &[Check] = &[
    check("appArmorProfile", &[(0, baseline::app_armor)]),
    check("capabilities_baseline", &[(0, baseline::capabilities)]),
    check("hostNamespaces", &[(0, baseline::host_namespaces)]),
    check("hostPathVolumes", &[(0, baseline::host_paths)]),
    check("hostPorts", &[(0, baseline::host_ports)]),
    check("hostProbesAndHostLifecycle", &[(34, baseline::probe_hosts)]),
    check("privileged", &[(0, baseline::privileged)]),
    check("procMount", &[(0, baseline::proc_mount), (35, baseline::proc_mount_1_35)]),
    check("seLinuxOptions", &[(0, baseline::se_linux), (31, baseline::se_linux_1_31)]),
    check("seccompProfile_baseline", &[(0, baseline::seccomp_annotations), (19, baseline::seccomp)]),
    check(
        "sysctls",
        &[
            (0, baseline::sysctls),
            (27, baseline::sysctls_1_27),
            (29, baseline::sysctls_1_29),
            (32, baseline::sysctls_1_32),
            (37, baseline::sysctls_1_37),
        ],
    ),
    check("windowsHostProcess", &[(0, baseline::windows_host_process)]),
];

const RESTRICTED: &[Check] = &[
    check("allowPrivilegeEscalation", &[(8, restricted::escalation), (25, restricted::escalation_1_25)]),
    instead_of(
        "capabilities_baseline",
        check("capabilities_restricted", &[(22, restricted::capabilities), (25, restricted::capabilities_1_25)]),
    ),
    instead_of("procMount", check("procMount_restricted", &[(35, baseline::proc_mount)])),
    instead_of("hostPathVolumes", check("restrictedVolumes", &[(0, restricted::volumes)])),
    check("runAsNonRoot", &[(0, restricted::non_root), (35, restricted::non_root_1_35)]),
    check("runAsUser", &[(23, restricted::user), (35, restricted::user_1_35)]),
    instead_of(
        "seccompProfile_baseline",
        check("seccompProfile_restricted", &[(19, restricted::seccomp), (25, restricted::seccomp_1_25)]),
    ),
];

const fn check(id: &'static str, versions: &'static [(u32, CheckFn)]) -> Check {
    Check { id, versions, overrides: "" }
}

const fn instead_of(overrides: &'static str, check: Check) -> Check {
    Check { overrides, ..check }
}

impl Check {
    fn at(&self, minor: u32) -> Option<CheckFn> {
        self.versions.iter().rev().find(|(since, _)| *since <= minor).map(|(_, check)| *check)
    }
}

/// All that is wrong with a pod at this level.
pub fn evaluate(level: LevelVersion, pod: Pod<'_>) -> Violations {
    let minor = match level.version {
        Version::Latest => NEWEST,
        Version::Minor(minor) => minor.min(NEWEST),
    };
    let stricter: &[Check] = if level.level == Level::Restricted { RESTRICTED } else { &[] };
    let overridden = |id: &str| stricter.iter().any(|check| check.overrides == id && check.at(minor).is_some());
    let baseline: &[Check] = if level.level == Level::Privileged { &[] } else { BASELINE };
    let checks = baseline.iter().filter(|check| !overridden(check.id)).chain(stricter);
    Violations(checks.filter_map(|check| check.at(minor)).filter_map(|check| check(pod)).collect())
}

impl Violations {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The short form, the same for all pods that break the same rules.
    pub fn reasons(&self) -> String {
        self.0.iter().map(|violation| violation.reason).collect::<Vec<_>>().join(", ")
    }
}

impl fmt::Display for Violations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, Violation { reason, detail }) in self.0.iter().enumerate() {
            let comma = if i == 0 { "" } else { ", " };
            write!(f, "{comma}{reason} ({detail})")?;
        }
        Ok(())
    }
}

impl<'a> Pod<'a> {
    /// Of a pod or a pod template: what matters is in the same place.
    pub fn of(object: &'a Value) -> Pod<'a> {
        Pod { annotations: object.at(&["metadata", "annotations"]), spec: object.field("spec") }
    }

    pub fn containers(self) -> impl Iterator<Item = &'a Value> {
        ["initContainers", "containers", "ephemeralContainers"]
            .into_iter()
            .flat_map(move |list| self.spec.list_at(&[list]))
    }

    /// The names of the containers that are bad.
    pub fn names_where(self, mut is_bad: impl FnMut(&'a Value) -> bool) -> Vec<&'a str> {
        self.containers().filter(|container| is_bad(container)).map(|container| container.str_at(&["name"])).collect()
    }

    pub fn security(self) -> &'a Value {
        self.spec.field("securityContext")
    }

    /// Whether the pod's users are not the host's, so that its root is harmless.
    pub fn has_user_namespace(self) -> bool {
        self.spec.field("hostUsers").as_bool() == Some(false)
    }

    pub fn is_windows(self) -> bool {
        self.spec.str_at(&["os", "name"]) == "windows"
    }
}

/// `container "a"` or `containers "a", "b"`.
pub fn containers(names: &[&str]) -> String {
    format!("{} {}", plural(names.len(), "container", "containers"), quoted(names))
}

/// Who set something forbidden: the pod, some containers, or both. None if neither did.
pub fn setters(pod: bool, names: &[&str]) -> Option<String> {
    match (pod, names.is_empty()) {
        (false, true) => None,
        (true, true) => Some("pod".to_string()),
        (false, false) => Some(containers(names)),
        (true, false) => Some(format!("pod and {}", containers(names))),
    }
}

pub fn plural(count: usize, one: &'static str, many: &'static str) -> &'static str {
    if count == 1 { one } else { many }
}

/// In plain quotes: names are not escaped.
pub fn quoted<'a>(items: impl IntoIterator<Item = &'a &'a str>) -> String {
    items.into_iter().map(|item| format!("\"{item}\"")).collect::<Vec<_>>().join(", ")
}

/// The bad values of one field in the pod's and the containers' security contexts, and who set them.
pub fn bad_profiles<'a>(pod: Pod<'a>, field: &str, allowed: &[&str]) -> (bool, Vec<&'a str>, BTreeSet<&'a str>) {
    let mut values = BTreeSet::new();
    let mut is_bad = |context: &'a Value| {
        let profile = context.field(field);
        let kind = profile.str_at(&["type"]);
        let bad = !profile.is_null() && !allowed.contains(&kind);
        if bad {
            values.insert(kind);
        }
        bad
    };
    let by_pod = is_bad(pod.security());
    let names = pod.names_where(|container| is_bad(container.field("securityContext")));
    (by_pod, names, values)
}
