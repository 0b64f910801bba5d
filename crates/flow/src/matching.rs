//! Whether a FlowSchema matches a request.

use object::Str;
use request::{RequestInfo, User};

use crate::configuration::{Distinguisher, FlowSchema, PathRule, ResourceRule, Rule, Subject};

impl FlowSchema {
    pub fn matches(&self, info: &RequestInfo, user: &User) -> bool {
        self.rules.iter().any(|rule| rule.matches(info, user))
    }

    /// The value that tells this request's flow from other flows of the schema.
    pub fn distinguish<'a>(&self, info: &'a RequestInfo, user: &'a User) -> &'a str {
        match self.distinguisher {
            Distinguisher::None => "",
            Distinguisher::ByUser => &user.name,
            Distinguisher::ByNamespace => &info.namespace,
        }
    }
}

impl Rule {
    fn matches(&self, info: &RequestInfo, user: &User) -> bool {
        self.subjects.iter().any(|subject| subject.matches(user))
            && match info.is_resource {
                true => self.resources.iter().any(|rule| rule.matches(info)),
                false => self.paths.iter().any(|rule| rule.matches(info)),
            }
    }
}

impl Subject {
    fn matches(&self, user: &User) -> bool {
        match self {
            Subject::User(name) => name == "*" || *name == user.name,
            Subject::Group(name) => name == "*" || user.is_member(name),
            Subject::ServiceAccount { namespace, name } => {
                let account = user.name.strip_prefix("system:serviceaccount:").and_then(|rest| rest.split_once(':'));
                account.is_some_and(|(of, called)| of == namespace.as_str() && (name == "*" || called == name.as_str()))
            }
        }
    }
}

impl ResourceRule {
    fn matches(&self, info: &RequestInfo) -> bool {
        contains(&self.verbs, info.verb.as_str())
            && self.names(info)
            && contains(&self.groups, &info.group)
            && match info.namespace.as_str() {
                "" => self.cluster_scope,
                namespace => contains(&self.namespaces, namespace),
            }
    }

    /// Whether the rule names the request's `resource` or `resource/subresource`.
    fn names(&self, info: &RequestInfo) -> bool {
        if info.subresource.is_empty() || is_wildcard(&self.resources) {
            return contains(&self.resources, &info.resource);
        }
        self.resources.iter().any(|named| {
            named.split_once('/').is_some_and(|(resource, part)| resource == info.resource && part == info.subresource)
        })
    }
}

impl PathRule {
    fn matches(&self, info: &RequestInfo) -> bool {
        contains(&self.verbs, info.verb.as_str()) && self.paths.iter().any(|path| path_matches(path, &info.path))
    }
}

/// A path matches itself and everything below it; `*` at the end says the same as nothing at the end.
fn path_matches(rule: &str, path: &str) -> bool {
    if rule == "*" || rule == path {
        return true;
    }
    let prefix = rule.strip_suffix('*').unwrap_or(rule);
    let prefix = prefix.strip_suffix('/').unwrap_or(prefix);
    path.strip_prefix(prefix).is_some_and(|rest| rest.starts_with('/'))
}

fn is_wildcard(list: &[Str]) -> bool {
    matches!(list, [only] if only == "*")
}

fn contains(list: &[Str], value: &str) -> bool {
    is_wildcard(list) || list.iter().any(|entry| entry == value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(name: &str, groups: &[&str]) -> User {
        User { name: name.into(), groups: groups.iter().map(|g| g.to_string()).collect(), ..User::default() }
    }

    #[test]
    fn subjects() {
        let alice = user("alice", &["devs"]);
        let robot = user("system:serviceaccount:ns:robot", &[]);
        let account =
            |namespace: &str, name: &str| Subject::ServiceAccount { namespace: namespace.into(), name: name.into() };
        for (subject, who, want) in [
            (Subject::User("alice".into()), &alice, true),
            (Subject::User("*".into()), &robot, true),
            (Subject::User("bob".into()), &alice, false),
            (Subject::Group("devs".into()), &alice, true),
            (Subject::Group("*".into()), &robot, true),
            (Subject::Group("ops".into()), &alice, false),
            (account("ns", "robot"), &robot, true),
            (account("ns", "*"), &robot, true),
            (account("n", "*"), &robot, false),
            (account("ns", "rob"), &robot, false),
            (account("ns", "*"), &alice, false),
        ] {
            assert_eq!(subject.matches(who), want, "{subject:?} {who:?}");
        }
    }

    #[test]
    fn paths() {
        for (rule, path, want) in [
            ("*", "/x", true),
            ("/healthz", "/healthz", true),
            ("/healthz", "/healthz/etcd", true),
            ("/healthz", "/healthzx", false),
            ("/apis/*", "/apis/x/y", true),
            ("/apis/*", "/apis", false),
            ("/apis/", "/apis/x", true),
        ] {
            assert_eq!(path_matches(rule, path), want, "{rule} {path}");
        }
    }

    #[test]
    fn resources() {
        let list = |values: &[&str]| values.iter().map(|v| Str::from(*v)).collect::<Vec<_>>();
        let rule = |resources: &[&str], cluster_scope: bool, namespaces: &[&str]| ResourceRule {
            verbs: list(&["get", "list"]),
            groups: list(&[""]),
            resources: list(resources),
            cluster_scope,
            namespaces: list(namespaces),
        };
        for (rule, path, want) in [
            (rule(&["pods"], false, &["*"]), "/api/v1/namespaces/ns/pods/x", true),
            (rule(&["pods"], false, &["*"]), "/api/v1/namespaces/ns/pods/x/status", false),
            (rule(&["pods/status"], false, &["ns"]), "/api/v1/namespaces/ns/pods/x/status", true),
            (rule(&["*"], false, &["ns"]), "/api/v1/namespaces/ns/pods/x/status", true),
            (rule(&["pods"], false, &["other"]), "/api/v1/namespaces/ns/pods/x", false),
            (rule(&["pods"], false, &["*"]), "/api/v1/pods", false),
            (rule(&["pods"], true, &[]), "/api/v1/pods", true),
            (rule(&["jobs"], true, &[]), "/apis/batch/v1/jobs", false),
        ] {
            assert_eq!(rule.matches(&RequestInfo::parse("GET", path, &[])), want, "{rule:?} {path}");
        }
    }
}
