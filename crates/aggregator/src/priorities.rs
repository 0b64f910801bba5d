//! The priorities of local APIServices, which decide in what order clients are told of groups and versions.

use object::GroupVersion;

/// `spec.groupPriorityMinimum` and `spec.versionPriority`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Priority {
    pub group: i64,
    pub version: i64,
}

/// The priorities of group-versions that custom resource definitions serve.
pub const CUSTOM: Priority = Priority { group: 1000, version: 100 };

/// A group, its priority, and the priorities of its versions.
type PriorityRow = (&'static str, i64, &'static [(&'static str, i64)]);

/// Those of built-in groups. `apiregistration.k8s.io` is not among them: it has no APIService and is always listed first.
const BUILTIN: &[PriorityRow] = &[
    ("", 18000, &[("v1", 1)]),
    ("apps", 17800, &[("v1", 15)]),
    ("events.k8s.io", 17750, &[("v1", 15), ("v1beta1", 5)]),
    ("authentication.k8s.io", 17700, &[("v1", 15), ("v1beta1", 9), ("v1alpha1", 1)]),
    ("authorization.k8s.io", 17600, &[("v1", 15)]),
    ("autoscaling", 17500, &[("v2", 30), ("v1", 15), ("v2beta1", 9), ("v2beta2", 1)]),
    ("batch", 17400, &[("v1", 15), ("v1beta1", 9), ("v2alpha1", 9)]),
    ("certificates.k8s.io", 17300, &[("v1", 15), ("v1beta1", 9), ("v1alpha1", 1)]),
    ("networking.k8s.io", 17200, &[("v1", 15), ("v1beta1", 9)]),
    ("policy", 17100, &[("v1", 15), ("v1beta1", 9)]),
    ("rbac.authorization.k8s.io", 17000, &[("v1", 15)]),
    ("storage.k8s.io", 16800, &[("v1", 15), ("v1beta1", 9), ("v1alpha1", 1)]),
    ("admissionregistration.k8s.io", 16700, &[("v1", 15), ("v1beta1", 12), ("v1alpha1", 9)]),
    ("apiextensions.k8s.io", 16700, &[("v1", 15), ("v1beta1", 9)]),
    ("scheduling.k8s.io", 16600, &[("v1", 15), ("v1beta1", 9), ("v1alpha3", 3)]),
    ("coordination.k8s.io", 16500, &[("v1", 15), ("v1beta1", 13), ("v1alpha2", 12)]),
    ("node.k8s.io", 16300, &[("v1", 15), ("v1beta1", 9), ("v1alpha1", 1)]),
    ("discovery.k8s.io", 16200, &[("v1", 15), ("v1beta1", 12)]),
    ("resource.k8s.io", 16200, &[("v1", 21), ("v1beta2", 15), ("v1beta1", 9), ("v1alpha3", 1)]),
    (
        "flowcontrol.apiserver.k8s.io",
        16100,
        &[("v1", 21), ("v1beta3", 18), ("v1beta2", 15), ("v1beta1", 12), ("v1alpha1", 9)],
    ),
    ("internal.apiserver.k8s.io", 16000, &[("v1alpha1", 9)]),
    ("storagemigration.k8s.io", 15800, &[("v1", 15), ("v1beta1", 9)]),
    ("lifecycle.k8s.io", 15700, &[("v1alpha1", 1)]),
];

/// The priorities of a built-in group-version; None where it gets no APIService.
pub fn builtin(version: &GroupVersion) -> Option<Priority> {
    let (_, group, versions) = BUILTIN.iter().find(|(name, ..)| version.group == *name)?;
    let (_, version) = versions.iter().find(|(name, _)| version.version == *name)?;
    Some(Priority { group: *group, version: *version })
}
