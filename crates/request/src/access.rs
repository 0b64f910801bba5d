//! [`Access`]: the question that an authorizer answers.

use std::borrow::Cow;

use object::{GroupResource, Status, fields, labels, quote};

use crate::{RequestInfo, User, Verb};

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
    pub field_selector: Selection<'a, fields::Requirement>,
    pub label_selector: Selection<'a, labels::Requirement>,
}

/// A selector of a request or of a review. Text is parsed when an authorizer looks at it; what cannot be parsed has no
/// requirements, so an authorizer sees the broader access.
#[derive(Debug, PartialEq, Eq)]
pub enum Selection<'a, R> {
    Text(&'a str),
    Requirements(&'a [R]),
}

// Derived, these would ask the same of R, of which there is only a reference.
impl<R> Clone for Selection<'_, R> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<R> Copy for Selection<'_, R> {}

impl<R: 'static> Selection<'_, R> {
    pub const EVERYTHING: Selection<'static, R> = Selection::Text("");
}

impl<'a> Selection<'a, fields::Requirement> {
    pub fn requirements(&self) -> Cow<'a, [fields::Requirement]> {
        match self {
            Selection::Text("") => Cow::Borrowed(&[]),
            Selection::Text(text) => {
                Cow::Owned(fields::Selector::parse(text).map_or_else(|_| Vec::new(), |all| all.requirements().to_vec()))
            }
            Selection::Requirements(requirements) => Cow::Borrowed(requirements),
        }
    }

    /// Whether a field must have this value.
    pub fn requires(&self, field: &str, value: &str) -> bool {
        let is_it = |one: &fields::Requirement| {
            one.operator == fields::Operator::Equals && one.field == field && one.value == value
        };
        self.requirements().iter().any(is_it)
    }
}

impl<'a> Selection<'a, labels::Requirement> {
    pub fn requirements(&self) -> Cow<'a, [labels::Requirement]> {
        match self {
            Selection::Text("") => Cow::Borrowed(&[]),
            Selection::Text(text) => {
                let parsed = labels::Selector::parse(text, None);
                Cow::Owned(parsed.map_or_else(|_| Vec::new(), |all| all.requirements().to_vec()))
            }
            Selection::Requirements(requirements) => Cow::Borrowed(requirements),
        }
    }
}

impl<'a> Access<'a> {
    /// What a request asks for.
    pub fn of(info: &'a RequestInfo, user: &'a User) -> Access<'a> {
        // Other verbs ignore selectors, and the deprecated /watch paths do not apply them consistently.
        let selects = !info.is_watch_path && matches!(info.verb, Verb::List | Verb::Watch | Verb::DeleteCollection);
        let selector = |text: &'a String| if selects { text.as_str() } else { "" };
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
            field_selector: Selection::Text(selector(&info.field_selector)),
            label_selector: Selection::Text(selector(&info.label_selector)),
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
            field_selector: Selection::EVERYTHING,
            label_selector: Selection::EVERYTHING,
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
    fn selectors_count_for_collections() {
        let user = User::default();
        for (method, path, want) in [
            ("GET", "/api/v1/pods", true),
            ("DELETE", "/api/v1/namespaces/a/pods", true),
            ("GET", "/api/v1/watch/pods", false),
            ("GET", "/api/v1/namespaces/a/pods/b", false),
            ("POST", "/api/v1/namespaces/a/pods", false),
        ] {
            let query = [("fieldSelector".to_string(), "spec.nodeName=n,a!=b".to_string())];
            let info = RequestInfo::parse(method, path, &query);
            let access = Access::of(&info, &user);
            assert_eq!(access.field_selector.requires("spec.nodeName", "n"), want, "{method} {path}");
            assert!(!access.field_selector.requires("a", "b"));
        }
        let unreadable: Selection<fields::Requirement> = Selection::Text("a");
        assert_eq!(unreadable.requirements().len(), 0);
    }

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
