//! [`User`]: who a request comes from.

use object::names;
use object::{Map, Value};

/// An authenticated (or anonymous) user.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct User {
    pub name: String,
    pub uid: String,
    pub groups: Vec<String>,
    /// Sorted by key; keys are lower case.
    pub extra: Vec<(String, Vec<String>)>,
}

impl User {
    pub const ANONYMOUS: &'static str = "system:anonymous";
    pub const UNAUTHENTICATED: &'static str = "system:unauthenticated";
    pub const AUTHENTICATED: &'static str = "system:authenticated";
    /// Members may do anything; authorizers let them through before any rule is read.
    pub const MASTERS: &'static str = "system:masters";

    pub fn anonymous() -> User {
        User { name: User::ANONYMOUS.into(), groups: vec![User::UNAUTHENTICATED.into()], ..User::default() }
    }

    /// The server acting for itself: bootstrap loops and admission lookups.
    pub fn loopback() -> User {
        let groups = vec![User::MASTERS.into(), User::AUTHENTICATED.into()];
        User { name: "system:apiserver".into(), groups, ..User::default() }
    }

    pub fn is_member(&self, group: &str) -> bool {
        self.groups.iter().any(|g| g == group)
    }

    /// Namespace and name, if this is a service account.
    pub fn service_account(&self) -> Option<(&str, &str)> {
        let (namespace, name) = self.name.strip_prefix("system:serviceaccount:")?.split_once(':')?;
        let valid = names::dns1123_label(namespace).is_empty() && names::dns1123_subdomain(name).is_empty();
        valid.then_some((namespace, name))
    }

    /// As an `authentication.k8s.io` UserInfo.
    pub fn to_value(&self) -> Value {
        let mut map = Map::new();
        for (key, text) in [("username", &self.name), ("uid", &self.uid)] {
            if !text.is_empty() {
                map.insert(key, text.as_str());
            }
        }
        if !self.groups.is_empty() {
            map.insert("groups", self.groups.clone());
        }
        if !self.extra.is_empty() {
            let extra: Map = self.extra.iter().map(|(key, values)| (key.as_str(), values.clone())).collect();
            map.insert("extra", extra);
        }
        Value::Map(map)
    }
}
