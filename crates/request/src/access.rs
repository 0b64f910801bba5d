//! [`Access`]: the question that an authorizer answers.

use object::{GroupResource, Status, quote};

use crate::{RequestInfo, User};

/// May this user do this? Made from a request, or from what the server needs to know besides: impersonation, escalation,
/// admission, reviews.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access<'a> {
    pub user: &'a User,
    pub verb: &'a str,
    /// Whether this is about a resource; otherwise it is about `path`.
    pub is_resource: bool,
    pub group: &'a str,
    pub version: &'a str,
    pub resource: &'a str,
    pub subresource: &'a str,
    /// "" for all namespaces, and for cluster-scoped resources.
    pub namespace: &'a str,
    /// "" for all objects.
    pub name: &'a str,
    pub path: &'a str,
    pub field_selector: &'a str,
    pub label_selector: &'a str,
}

impl<'a> Access<'a> {
    /// What a request asks for.
    pub fn of(info: &'a RequestInfo, user: &'a User) -> Access<'a> {
        Access {
            user,
            verb: info.verb.as_str(),
            is_resource: info.is_resource,
            group: &info.group,
            version: &info.version,
            resource: &info.resource,
            subresource: &info.subresource,
            namespace: &info.namespace,
            name: &info.name,
            path: &info.path,
            field_selector: &info.field_selector,
            label_selector: &info.label_selector,
        }
    }

    /// A verb on a resource, with every other field empty.
    pub fn to_resource(user: &'a User, verb: &'a str) -> Access<'a> {
        Access {
            user,
            verb,
            is_resource: true,
            group: "",
            version: "",
            resource: "",
            subresource: "",
            namespace: "",
            name: "",
            path: "",
            field_selector: "",
            label_selector: "",
        }
    }

    /// The 403 for an access that was not allowed.
    pub fn refusal(&self, reason: &str) -> Status {
        let resource = GroupResource::new(self.group, self.resource);
        let mut message = self.describe();
        if !reason.is_empty() {
            message = format!("{message}: {reason}");
        }
        Status::forbidden(&resource, self.name, message)
    }

    fn describe(&self) -> String {
        let (user, verb) = (quote(&self.user.name), self.verb);
        if !self.is_resource {
            return format!("User {user} cannot {verb} path {}", quote(self.path));
        }
        let resource = match self.subresource {
            "" => quote(self.resource),
            subresource => quote(&format!("{}/{subresource}", self.resource)),
        };
        let group = quote(self.group);
        let place = match self.namespace {
            "" => "at the cluster scope".to_string(),
            namespace => format!("in the namespace {}", quote(namespace)),
        };
        format!("User {user} cannot {verb} resource {resource} in API group {group} {place}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_are_upstreams() {
        let user = User { name: "u".into(), ..User::default() };
        let pods = Access { resource: "pods", ..Access::to_resource(&user, "get") };
        for (access, want) in [
            (
                pods,
                r#"pods is forbidden: User "u" cannot get resource "pods" in API group "" at the cluster scope: why"#,
            ),
            (
                Access { namespace: "ns", name: "p", subresource: "log", ..pods },
                r#"pods "p" is forbidden: User "u" cannot get resource "pods/log" in API group "" in the namespace "ns": why"#,
            ),
            (
                Access { is_resource: false, path: "/x", resource: "", ..pods },
                r#"forbidden: User "u" cannot get path "/x": why"#,
            ),
        ] {
            assert_eq!(access.refusal("why").message, want);
        }
    }
}
