//! Roles and bindings, ready to be asked.

use std::collections::HashMap;
use std::sync::Arc;

use object::{Meta, Value, quote};
use request::{Access, Rule, User};

/// Who is granted which role, where.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Binding {
    /// "" for a cluster role binding.
    pub namespace: String,
    pub name: String,
    pub role_kind: String,
    pub role_name: String,
    pub subjects: Vec<Subject>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    User(String),
    Group(String),
    /// Namespace and name.
    ServiceAccount(String, String),
}

/// Everything that is granted.
#[derive(Default)]
pub struct Policy {
    /// (namespace, name) → rules; cluster roles have no namespace.
    roles: HashMap<(String, String), Arc<Vec<Rule>>>,
    cluster: Vec<Arc<Binding>>,
    by_namespace: HashMap<String, Vec<Arc<Binding>>>,
}

impl Policy {
    pub fn add_role(&mut self, namespace: &str, name: &str, rules: Arc<Vec<Rule>>) {
        self.roles.insert((namespace.to_string(), name.to_string()), rules);
    }

    pub fn add_binding(&mut self, binding: Arc<Binding>) {
        if binding.namespace.is_empty() {
            self.cluster.push(binding);
        } else {
            self.by_namespace.entry(binding.namespace.clone()).or_default().push(binding);
        }
    }

    /// The binding that allows this, as the audit log words it; or which bound roles do not exist, if none does.
    pub fn allows(&self, access: &Access<'_>) -> Result<String, Vec<String>> {
        let mut missing = Vec::new();
        for binding in self.bindings_in(access.namespace) {
            let Some(subject) = binding.subject_of(access.user) else { continue };
            match self.rules_of(&binding.namespace, &binding.role_kind, &binding.role_name) {
                Some(rules) if rules.iter().any(|rule| rule.allows(access)) => return Ok(binding.reason(subject)),
                Some(_) => {}
                None => missing.push(binding.role_missing()),
            }
        }
        Err(missing)
    }

    /// All rules for a user, and which bound roles do not exist.
    pub fn rules_for(&self, user: &User, namespace: &str) -> (Vec<Rule>, Vec<String>) {
        let (mut all, mut missing) = (Vec::new(), Vec::new());
        for binding in self.bindings_in(namespace).filter(|binding| binding.subject_of(user).is_some()) {
            match self.rules_of(&binding.namespace, &binding.role_kind, &binding.role_name) {
                Some(rules) => all.extend(rules.iter().cloned()),
                None => missing.push(binding.role_missing()),
            }
        }
        (all, missing)
    }

    pub fn rules_of(&self, namespace: &str, kind: &str, name: &str) -> Option<Arc<Vec<Rule>>> {
        let namespace = if kind == "Role" { namespace } else { "" };
        self.roles.get(&(namespace.to_string(), name.to_string())).cloned()
    }

    /// Cluster-wide bindings first, then those of the namespace.
    fn bindings_in(&self, namespace: &str) -> impl Iterator<Item = &Arc<Binding>> {
        let local = self.by_namespace.get(namespace).filter(|_| !namespace.is_empty());
        self.cluster.iter().chain(local.into_iter().flatten())
    }
}

impl Binding {
    fn subject_of(&self, user: &User) -> Option<&Subject> {
        self.subjects.iter().find(|subject| match subject {
            Subject::User(name) => *name == user.name,
            Subject::Group(name) => user.is_member(name),
            Subject::ServiceAccount(namespace, name) => {
                let namespace = if namespace.is_empty() { &self.namespace } else { namespace };
                !namespace.is_empty() && user.name == format!("system:serviceaccount:{namespace}:{name}")
            }
        })
    }

    fn role_missing(&self) -> String {
        format!("{}.rbac.authorization.k8s.io {} not found", self.role_kind.to_lowercase(), quote(&self.role_name))
    }

    fn reason(&self, subject: &Subject) -> String {
        let who = match subject {
            Subject::User(name) => format!("User {}", quote(name)),
            Subject::Group(name) => format!("Group {}", quote(name)),
            Subject::ServiceAccount(namespace, name) => {
                format!("ServiceAccount {}", quote(&format!("{name}/{namespace}")))
            }
        };
        let (kind, name) = match self.namespace.as_str() {
            "" => ("ClusterRoleBinding", quote(&self.name)),
            namespace => ("RoleBinding", quote(&format!("{}/{namespace}", self.name))),
        };
        format!("{kind} {name} of {} {} to {who}", self.role_kind, quote(&self.role_name))
    }
}

/// The rules of a Role or ClusterRole.
pub fn rules(role: &Value) -> Vec<Rule> {
    role.list_at(&["rules"]).iter().map(Rule::of).collect()
}

/// A RoleBinding or ClusterRoleBinding.
pub fn binding(value: &Value) -> Binding {
    let subject = |subject: &Value| {
        let name = subject.str_at(&["name"]).to_string();
        match subject.str_at(&["kind"]) {
            "User" => Some(Subject::User(name)),
            "Group" => Some(Subject::Group(name)),
            "ServiceAccount" => Some(Subject::ServiceAccount(subject.str_at(&["namespace"]).to_string(), name)),
            _ => None,
        }
    };
    Binding {
        namespace: value.namespace().to_string(),
        name: value.name().to_string(),
        role_kind: value.str_at(&["roleRef", "kind"]).to_string(),
        role_name: value.str_at(&["roleRef", "name"]).to_string(),
        subjects: value.list_at(&["subjects"]).iter().filter_map(subject).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use object::value;

    fn policy() -> Policy {
        let mut policy = Policy::default();
        let reader = value!({"rules": [
            {"verbs": ["get", "list"], "apiGroups": [""], "resources": ["pods", "*/scale"]},
            {"verbs": ["get"], "nonResourceURLs": ["/healthz", "/openapi/*"]},
            {"verbs": ["update"], "apiGroups": ["apps"], "resources": ["deployments"], "resourceNames": ["web"]}
        ]});
        policy.add_role("", "reader", Arc::new(rules(&reader)));
        policy.add_binding(Arc::new(binding(&value!({
            "metadata": {"name": "all"}, "roleRef": {"kind": "ClusterRole", "name": "reader"},
            "subjects": [{"kind": "Group", "name": "devs"}]
        }))));
        policy.add_binding(Arc::new(binding(&value!({
            "metadata": {"name": "here", "namespace": "ns"}, "roleRef": {"kind": "ClusterRole", "name": "reader"},
            "subjects": [{"kind": "ServiceAccount", "name": "bot"}, {"kind": "User", "name": "bob"}]
        }))));
        policy
    }

    fn ask(user: &str, groups: &[&str], verb: &str, what: (&str, &str, &str, &str, &str)) -> bool {
        let (namespace, group, resource, subresource, name) = what;
        let groups = groups.iter().map(|g| g.to_string()).collect();
        let user = User { name: user.into(), groups, ..User::default() };
        let is_resource = !resource.is_empty();
        let path = if is_resource { "" } else { name };
        let access = Access::to_resource(&user, verb);
        let access = Access { is_resource, group, resource, subresource, namespace, name, path, ..access };
        policy().allows(&access).is_ok()
    }

    #[test]
    fn missing_roles_are_told() {
        let mut policy = policy();
        policy.add_binding(Arc::new(binding(&value!({
            "metadata": {"name": "b", "namespace": "ns"}, "roleRef": {"kind": "Role", "name": "gone"},
            "subjects": [{"kind": "User", "name": "eve"}]
        }))));
        let user = User { name: "eve".into(), ..User::default() };
        let access = Access { namespace: "ns", ..Access::to_resource(&user, "get") };
        let missing = r#"role.rbac.authorization.k8s.io "gone" not found"#;
        assert_eq!(policy.allows(&access), Err(vec![missing.to_string()]));
    }

    #[test]
    fn rules_decide() {
        for (user, groups, verb, what, want) in [
            ("a", &["devs"][..], "list", ("", "", "pods", "", ""), true),
            ("a", &["devs"], "delete", ("", "", "pods", "", "x"), false),
            ("a", &["devs"], "get", ("ns", "", "pods", "log", "x"), false),
            ("a", &["devs"], "get", ("ns", "", "things", "scale", "x"), true),
            ("a", &["devs"], "update", ("ns", "apps", "deployments", "", "web"), true),
            ("a", &["devs"], "update", ("ns", "apps", "deployments", "", "other"), false),
            ("a", &["devs"], "get", ("", "", "", "", "/openapi/v2"), true),
            ("a", &["devs"], "get", ("", "", "", "", "/metrics"), false),
            ("bob", &[], "list", ("ns", "", "pods", "", ""), true),
            ("bob", &[], "list", ("other", "", "pods", "", ""), false),
            ("bob", &[], "list", ("", "", "pods", "", ""), false),
            ("system:serviceaccount:ns:bot", &[], "list", ("ns", "", "pods", "", ""), true),
            ("system:serviceaccount:other:bot", &[], "list", ("ns", "", "pods", "", ""), false),
        ] {
            assert_eq!(ask(user, groups, verb, what), want, "{user} {verb} {what:?}");
        }
    }
}
