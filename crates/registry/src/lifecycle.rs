//! [`Lifecycle`]: which kinds an emulated version of Kubernetes has, and in which versions they are stored.

use object::{GroupVersion, GroupVersionKind};
use schema::Builtin;

use crate::Release;

/// `group version kind introduced removed`, where `-` stands for the core group and for releases before v1.32 or to come.
const KNOWN: &str = include_str!("../data/lifecycle.txt");

/// Kinds that upstream stores in a version of its choice, whatever is emulated.
const FIXED: [(&str, &str); 11] = [
    ("certificates.k8s.io", "ClusterTrustBundle"),
    ("certificates.k8s.io", "PodCertificateRequest"),
    ("coordination.k8s.io", "LeaseCandidate"),
    ("lifecycle.k8s.io", "Eviction"),
    ("lifecycle.k8s.io", "EvictionRequest"),
    ("resource.k8s.io", "DeviceTaintRule"),
    ("resource.k8s.io", "ResourcePoolStatusRequest"),
    ("scheduling.k8s.io", "CompositePodGroup"),
    ("scheduling.k8s.io", "PodGroup"),
    ("scheduling.k8s.io", "Workload"),
    ("storagemigration.k8s.io", "StorageVersionMigration"),
];

/// `--emulated-version` and `--min-compatibility-version`, as the built-in kinds see them.
#[derive(Clone, Copy, Debug)]
pub struct Lifecycle {
    /// The release that the server behaves as.
    pub emulated: Release,
    /// The oldest release that the server works with.
    pub compatible: Release,
    /// `KUBE_APISERVER_SERVE_REMOVED_APIS_FOR_ONE_RELEASE`: what the emulated version has removed is still there.
    pub keep_removed: bool,
}

impl Default for Lifecycle {
    fn default() -> Lifecycle {
        Lifecycle { emulated: Release::CURRENT, compatible: Release::CURRENT.previous(), keep_removed: false }
    }
}

impl Lifecycle {
    /// The release that brought this version of a kind; None where that was before v1.32.
    pub fn introduced(&self, kind: &GroupVersionKind) -> Option<Release> {
        releases(kind).and_then(|(introduced, _)| Release::parse(introduced))
    }

    /// Whether the emulated version has removed this version of the kind.
    pub fn is_removed(&self, kind: &GroupVersionKind) -> bool {
        let removed = releases(kind).and_then(|(_, removed)| Release::parse(removed));
        removed.is_some_and(|removed| removed < self.emulated || removed == self.emulated && !self.keep_removed)
    }

    /// The version that objects of a kind are written in, which is `stored` unless that is too new for a server of the
    /// oldest version to work with: then the newest other version that is not alpha and that such a server knows, or,
    /// where there is none, that the emulated version knows.
    pub fn written(&self, table: &Builtin, stored: &GroupVersionKind) -> GroupVersionKind {
        let is_fixed = FIXED.contains(&(stored.group.as_str(), stored.kind.as_str()));
        if is_fixed || self.is_introduced_at(stored, self.compatible) {
            return stored.clone();
        }
        let mut versions = versions_of(table, stored);
        versions.sort_by(|a, b| object::compare_versions(&b.version, &a.version));
        let is_alpha = |kind: &GroupVersionKind| kind.version.contains("alpha");
        let safe = |kind: &&GroupVersionKind| !is_alpha(kind) && self.is_introduced_at(kind, self.compatible);
        let known = |kind: &&GroupVersionKind| self.is_introduced_at(kind, self.emulated);
        versions.iter().find(safe).or_else(|| versions.iter().find(known)).unwrap_or(stored).clone()
    }

    fn is_introduced_at(&self, kind: &GroupVersionKind, release: Release) -> bool {
        self.introduced(kind).is_none_or(|introduced| introduced <= release)
    }
}

/// Every version of a kind that the table has a schema for.
fn versions_of(table: &Builtin, kind: &GroupVersionKind) -> Vec<GroupVersionKind> {
    let rows = rows().filter(|row| row[..2] == [kind.group.as_str(), kind.kind.as_str()]);
    let versions = rows.map(|row| GroupVersion::new(row[0], row[2]).with_kind(row[1]));
    versions.filter(|version| table.schema(version).is_some()).collect()
}

fn releases(kind: &GroupVersionKind) -> Option<(&'static str, &'static str)> {
    let named = |row: &[&str; 5]| row[..3] == [kind.group.as_str(), kind.kind.as_str(), kind.version.as_str()];
    rows().find(named).map(|row| (row[3], row[4]))
}

/// Group, kind, version, introduced, removed.
fn rows() -> impl Iterator<Item = [&'static str; 5]> {
    crate::builtin::rows(KNOWN, 5).filter_map(|row| match row[..] {
        [group, version, kind, introduced, removed] => Some([group, kind, version, introduced, removed]),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(text: &str) -> GroupVersionKind {
        let (version, kind) = text.rsplit_once('/').unwrap();
        GroupVersion::parse(version).unwrap().with_kind(kind)
    }

    fn at(release: &str) -> Lifecycle {
        let emulated = Release::parse(release).unwrap();
        Lifecycle { emulated, compatible: emulated.previous(), keep_removed: false }
    }

    #[test]
    fn kinds_come_and_go() {
        let check = |text: &str, release: &str, introduced: bool, removed: bool| {
            let lifecycle = at(release);
            let got = (lifecycle.is_introduced_at(&kind(text), lifecycle.emulated), lifecycle.is_removed(&kind(text)));
            assert_eq!(got, (introduced, removed), "{text} in {release}");
        };
        check("v1/Pod", "1.31", true, false);
        check("resource.k8s.io/v1/DeviceClass", "1.33", false, false);
        check("resource.k8s.io/v1/DeviceClass", "1.34", true, false);
        check("networking.k8s.io/v1beta1/ServiceCIDR", "1.36", true, false);
        check("networking.k8s.io/v1beta1/ServiceCIDR", "1.37", true, true);
        let kept = Lifecycle { keep_removed: true, ..at("1.37") };
        assert!(!kept.is_removed(&kind("networking.k8s.io/v1beta1/ServiceCIDR")));
    }

    #[test]
    fn objects_are_written_for_the_oldest_server() {
        let check = |stored: &str, release: &str, want: &str| {
            let written = at(release).written(schema::builtin(), &kind(stored));
            assert_eq!(written, kind(want), "{stored} in {release}");
        };
        check("v1/Pod", "1.31", "v1/Pod");
        check("resource.k8s.io/v1/DeviceClass", "1.37", "resource.k8s.io/v1/DeviceClass");
        check("resource.k8s.io/v1/DeviceClass", "1.35", "resource.k8s.io/v1/DeviceClass");
        check("resource.k8s.io/v1/DeviceClass", "1.34", "resource.k8s.io/v1beta2/DeviceClass");
        check("resource.k8s.io/v1/DeviceClass", "1.33", "resource.k8s.io/v1beta1/DeviceClass");
        check("networking.k8s.io/v1/IPAddress", "1.33", "networking.k8s.io/v1beta1/IPAddress");
        let policy = "admissionregistration.k8s.io/v1/MutatingAdmissionPolicy";
        check(policy, "1.36", "admissionregistration.k8s.io/v1beta1/MutatingAdmissionPolicy");
        check(policy, "1.34", "admissionregistration.k8s.io/v1beta1/MutatingAdmissionPolicy");
        check("coordination.k8s.io/v1beta1/LeaseCandidate", "1.32", "coordination.k8s.io/v1beta1/LeaseCandidate");
    }
}
