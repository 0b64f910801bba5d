//! [`ApiProfile`]: which of the built-in resources a server has.

use std::collections::BTreeSet;

use object::{GroupResource, GroupVersionResource};

/// Which of the built-in resources a server has. What is not among them is not in discovery, has no cache, and none of its default
/// objects.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ApiProfile(Option<BTreeSet<(String, String)>>);

/// A control plane without pods: what users, rights, definitions and admission need.
const MINIMAL: &[(&str, &[&str])] = &[
    ("", &["configmaps", "events", "namespaces", "secrets", "serviceaccounts"]),
    (
        "admissionregistration.k8s.io",
        &[
            "mutatingadmissionpolicies",
            "mutatingadmissionpolicybindings",
            "mutatingwebhookconfigurations",
            "validatingadmissionpolicies",
            "validatingadmissionpolicybindings",
            "validatingwebhookconfigurations",
        ],
    ),
    ("apiextensions.k8s.io", &["customresourcedefinitions"]),
    ("authentication.k8s.io", &["selfsubjectreviews", "tokenreviews"]),
    (
        "authorization.k8s.io",
        &["localsubjectaccessreviews", "selfsubjectaccessreviews", "selfsubjectrulesreviews", "subjectaccessreviews"],
    ),
    ("coordination.k8s.io", &["leases"]),
    ("events.k8s.io", &["events"]),
    ("rbac.authorization.k8s.io", &["clusterrolebindings", "clusterroles", "rolebindings", "roles"]),
];

impl ApiProfile {
    /// Everything that kube-apiserver has.
    pub fn kubernetes() -> ApiProfile {
        ApiProfile(None)
    }

    /// A control plane without pods: namespaces, RBAC, secrets, config maps, service accounts, leases, events, definitions of custom
    /// resources, admission webhooks and policies, reviews.
    pub fn minimal() -> ApiProfile {
        ApiProfile::only(
            MINIMAL
                .iter()
                .flat_map(|(group, resources)| resources.iter().map(|resource| GroupResource::new(*group, *resource))),
        )
    }

    /// These resources, and what every server has: namespaces, and APIServices, by which discovery knows the groups.
    pub fn only(resources: impl IntoIterator<Item = GroupResource>) -> ApiProfile {
        let named = resources.into_iter().map(|one| (one.group.to_string(), one.resource.to_string()));
        let always = [("", "namespaces"), ("apiregistration.k8s.io", "apiservices")];
        ApiProfile(Some(
            named.chain(always.map(|(group, resource)| (group.to_string(), resource.to_string()))).collect(),
        ))
    }

    /// Adds a resource.
    pub fn and(mut self, group: &str, resource: &str) -> ApiProfile {
        if let Some(only) = &mut self.0 {
            only.insert((group.to_string(), resource.to_string()));
        }
        self
    }

    pub(crate) fn has(&self, group: &str, resource: &str) -> bool {
        self.0.as_ref().is_none_or(|only| only.contains(&(group.to_string(), resource.to_string())))
    }

    pub(crate) fn serves(&self, resource: &GroupVersionResource) -> bool {
        self.has(&resource.group, &resource.resource)
    }

    /// Names of the table of built-in resources that do not exist, for an error.
    pub(crate) fn unknown(&self) -> Option<String> {
        let groups = schema::builtin().groups();
        let is_known = |group: &str, resource: &str| {
            groups.iter().filter(|known| known.name == group).any(|known| {
                known.versions.iter().any(|version| version.resources.iter().any(|one| one.name.resource == resource))
            })
        };
        let mut named = self.0.iter().flatten();
        let unknown = named.find(|(group, resource)| !is_known(group, resource))?;
        Some(GroupResource::new(unknown.0.as_str(), unknown.1.as_str()).to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_profile_has_what_it_names() {
        let own = ApiProfile::only([GroupResource::new("apps", "deployments")]).and("batch", "jobs");
        for (profile, group, resource, want) in [
            (ApiProfile::kubernetes(), "", "pods", true),
            (ApiProfile::minimal(), "", "pods", false),
            (ApiProfile::minimal(), "rbac.authorization.k8s.io", "roles", true),
            (own.clone(), "apps", "deployments", true),
            (own.clone(), "batch", "jobs", true),
            (own.clone(), "", "namespaces", true),
            (own.clone(), "apps", "statefulsets", false),
        ] {
            assert_eq!(profile.has(group, resource), want, "{group}/{resource}");
        }
        assert_eq!((ApiProfile::minimal().unknown(), own.unknown()), (None, None));
        assert_eq!(own.and("apps", "pots").unknown().as_deref(), Some("pots.apps"));
    }
}
