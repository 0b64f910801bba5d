//! How kinds and resources are named.

use std::fmt;

use crate::Str;

macro_rules! names {
    ($(#[$doc:meta])* $name:ident { $($field:ident),* }) => {
        $(#[$doc])*
        #[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name {
            $(
                #[doc = concat!("The ", stringify!($field), ".")]
                pub $field: Str
            ),*
        }

        impl $name {
            /// Made of its parts.
            pub fn new($($field: impl Into<Str>),*) -> $name {
                $name { $($field: $field.into()),* }
            }
        }
    };
}

names! {
    /// A group and one of its versions; the group of `v1` is "".
    GroupVersion { group, version }
}
names! {
    /// A kind of a group, in any version.
    GroupKind { group, kind }
}
names! {
    /// A resource of a group, in any version.
    GroupResource { group, resource }
}
names! {
    /// A kind of a group in one version.
    GroupVersionKind { group, version, kind }
}
names! {
    /// A resource of a group in one version.
    GroupVersionResource { group, version, resource }
}

impl GroupVersion {
    /// Parses an `apiVersion`: `v1` or `apps/v1`; more than one slash is upstream's error.
    pub fn parse(api_version: &str) -> Result<GroupVersion, String> {
        let mut parts = api_version.split('/');
        match (parts.next(), parts.next(), parts.next()) {
            (Some(version), None, _) => Ok(GroupVersion::new("", version)),
            (Some(group), Some(version), None) => Ok(GroupVersion::new(group, version)),
            _ => Err(format!("unexpected GroupVersion string: {api_version}")),
        }
    }

    /// A kind of this version.
    pub fn with_kind(&self, kind: &str) -> GroupVersionKind {
        GroupVersionKind::new(self.group.clone(), self.version.clone(), kind)
    }

    /// A resource of this version.
    pub fn with_resource(&self, resource: &str) -> GroupVersionResource {
        GroupVersionResource::new(self.group.clone(), self.version.clone(), resource)
    }
}

impl GroupVersionKind {
    /// Whether its apiVersion is written like this: `v1`, `apps/v1`.
    pub fn has_api_version(&self, text: &str) -> bool {
        let version = match self.group.as_str() {
            "" => Some(text),
            group => text.strip_prefix(group).and_then(|rest| rest.strip_prefix('/')),
        };
        version == Some(self.version.as_str())
    }

    /// The group and the version.
    pub fn group_version(&self) -> GroupVersion {
        GroupVersion::new(self.group.clone(), self.version.clone())
    }

    /// The kind without its version.
    pub fn group_kind(&self) -> GroupKind {
        GroupKind::new(self.group.clone(), self.kind.clone())
    }
}

impl GroupVersionResource {
    /// The group and the version.
    pub fn group_version(&self) -> GroupVersion {
        GroupVersion::new(self.group.clone(), self.version.clone())
    }

    /// The resource without its version.
    pub fn group_resource(&self) -> GroupResource {
        GroupResource::new(self.group.clone(), self.resource.clone())
    }
}

/// As an `apiVersion`.
impl fmt::Display for GroupVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.group.is_empty() { f.write_str(&self.version) } else { write!(f, "{}/{}", self.group, self.version) }
    }
}

/// `Deployment.apps`, `Pod`.
impl fmt::Display for GroupKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.group.is_empty() { f.write_str(&self.kind) } else { write!(f, "{}.{}", self.kind, self.group) }
    }
}

/// `deployments.apps`, `pods`.
impl fmt::Display for GroupResource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.group.is_empty() { f.write_str(&self.resource) } else { write!(f, "{}.{}", self.resource, self.group) }
    }
}

/// `apps/v1, Kind=Deployment`, as upstream's messages print it.
impl fmt::Display for GroupVersionKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}, Kind={}", self.group, self.version, self.kind)
    }
}

/// `apps/v1, Resource=deployments`, as upstream's messages print it.
impl fmt::Display for GroupVersionResource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}, Resource={}", self.group, self.version, self.resource)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn api_versions_parse_and_print() {
        for (text, group, version) in [("v1", "", "v1"), ("apps/v1", "apps", "v1"), ("", "", "")] {
            let parsed = GroupVersion::parse(text).unwrap();
            assert_eq!((parsed.group.as_str(), parsed.version.as_str()), (group, version));
            assert_eq!(parsed.to_string(), text);
        }
        assert_eq!(GroupVersion::parse("a/b/c").unwrap_err(), "unexpected GroupVersion string: a/b/c");
    }

    #[test]
    fn names_print_as_upstream() {
        assert_eq!(GroupResource::new("apps", "deployments").to_string(), "deployments.apps");
        assert_eq!(GroupKind::new("", "Pod").to_string(), "Pod");
        assert_eq!(GroupVersionKind::new("", "v1", "Pod").to_string(), "/v1, Kind=Pod");
    }
}
