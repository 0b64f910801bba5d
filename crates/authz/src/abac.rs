//! The mode ABAC: a file of policies, one a line.

use std::path::Path;

use async_trait::async_trait;
use codec::Notes;
use object::{Value, quote};
use request::{Access, Rule, User};

use crate::{Authorizer, Decision, RulesFor};

/// The longest line, as Go's line scanner has it.
const LINE_BYTES_MAX: usize = 64 * 1024;
const VERSION: &str = "abac.authorization.kubernetes.io/v1beta1";

/// The policies of a file; the first that matches allows.
#[derive(Debug)]
pub struct Abac(Vec<Policy>);

#[derive(Debug, Default, PartialEq, Eq)]
struct Policy {
    user: String,
    group: String,
    readonly: bool,
    api_group: String,
    resource: String,
    namespace: String,
    path: String,
}

impl Abac {
    /// Reads `--authorization-policy-file`.
    pub fn read(path: &Path) -> Result<Abac, String> {
        let text = std::fs::read(path)
            .map_err(|error| format!("open {}: {}", path.display(), outbound::in_gos_words(&error)))?;
        let text = String::from_utf8_lossy(&text);
        Abac::parse(&text).map_err(|(number, line, why)| match number {
            Some(number) => format!("error reading policy file {}, line {number}: {line}: {why}", path.display()),
            None => format!("error reading policy file {}: {why}", path.display()),
        })
    }

    fn parse(text: &str) -> Result<Abac, (Option<usize>, String, String)> {
        let mut policies = Vec::new();
        for (at, line) in text.lines().enumerate() {
            if line.len() >= LINE_BYTES_MAX {
                return Err((None, String::new(), "bufio.Scanner: token too long".into()));
            }
            if line.trim().is_empty() || line.trim().starts_with('#') {
                continue;
            }
            policies.push(Policy::read(line).map_err(|why| (Some(at + 1), line.to_string(), why))?);
        }
        Ok(Abac(policies))
    }
}

impl Policy {
    fn read(line: &str) -> Result<Policy, String> {
        let value = codec::json::decode(line.as_bytes(), None, &mut Notes::ignore())
            .map_err(|error| format!("couldn't get version/kind; json parse error: {error}"))?;
        let (version, kind) = (value.str_at(&["apiVersion"]), value.str_at(&["kind"]));
        if version == VERSION && kind == "Policy" {
            return Policy::of(value.field("spec"));
        }
        // Lines without a version are the oldest format; its fields are not in a spec.
        Policy::unversioned(&value)
    }

    fn of(spec: &Value) -> Result<Policy, String> {
        let mut policy = Policy {
            user: text(spec, "user")?,
            group: text(spec, "group")?,
            readonly: boolean(spec, "readonly")?,
            api_group: text(spec, "apiGroup")?,
            resource: text(spec, "resource")?,
            namespace: text(spec, "namespace")?,
            path: text(spec, "nonResourcePath")?,
        };
        policy.everyone_is_authenticated();
        Ok(policy)
    }

    fn unversioned(value: &Value) -> Result<Policy, String> {
        let or_all = |text: String| if text.is_empty() { "*".to_string() } else { text };
        let (user, group) = (text(value, "user")?, text(value, "group")?);
        let (resource, namespace) = (text(value, "resource")?, text(value, "namespace")?);
        let path = if resource.is_empty() && namespace.is_empty() { "*" } else { "" };
        let group = if user.is_empty() && group.is_empty() { User::AUTHENTICATED.into() } else { group };
        let mut policy = Policy {
            user,
            group,
            readonly: boolean(value, "readonly")?,
            api_group: "*".into(),
            resource: or_all(resource),
            namespace: or_all(namespace),
            path: path.into(),
        };
        policy.everyone_is_authenticated();
        Ok(policy)
    }

    /// A user or group `*` is every authenticated user, and not the anonymous one.
    fn everyone_is_authenticated(&mut self) {
        if self.user == "*" || self.group == "*" {
            self.user.clear();
            self.group = User::AUTHENTICATED.into();
        }
    }

    fn is_about(&self, user: &User) -> bool {
        let named = !self.user.is_empty() || !self.group.is_empty();
        named
            && (self.user.is_empty() || self.user == user.name)
            && (self.group.is_empty() || user.is_member(&self.group))
    }

    fn matches(&self, access: &Access<'_>) -> bool {
        let fits = |pattern: &str, actual: &str| pattern == "*" || pattern == actual;
        let what = match access.is_resource {
            true => {
                fits(&self.namespace, access.namespace)
                    && fits(&self.resource, access.resource)
                    && fits(&self.api_group, access.group)
            }
            false => {
                let below = self.path.ends_with('*').then(|| self.path.trim_end_matches('*'));
                self.path == access.path || below.is_some_and(|prefix| access.path.starts_with(prefix))
            }
        };
        let reads = matches!(access.verb, "get" | "list" | "watch");
        what && self.is_about(access.user) && (reads || !self.readonly)
    }
}

fn text(value: &Value, field: &str) -> Result<String, String> {
    match value.field(field) {
        Value::Null => Ok(String::new()),
        field_value => field_value.as_str().map(str::to_string).ok_or_else(|| wrong(field, "string")),
    }
}

fn boolean(value: &Value, field: &str) -> Result<bool, String> {
    match value.field(field) {
        Value::Null => Ok(false),
        field_value => field_value.as_bool().ok_or_else(|| wrong(field, "bool")),
    }
}

fn wrong(field: &str, wanted: &str) -> String {
    format!(
        "json: cannot unmarshal value into Go struct field Policy.{} of type {wanted}",
        quote(field).trim_matches('"')
    )
}

#[async_trait]
impl Authorizer for Abac {
    async fn decide(&self, access: &Access<'_>) -> Decision {
        match self.0.iter().any(|policy| policy.matches(access)) {
            true => Decision::allow(""),
            false => Decision::no_opinion("No policy matched."),
        }
    }

    fn rules_for(&self, user: &User, namespace: &str) -> RulesFor {
        let mut rules = Vec::new();
        for policy in self.0.iter().filter(|policy| policy.is_about(user)) {
            if policy.namespace != "*" && policy.namespace != namespace {
                continue;
            }
            let verbs = if policy.readonly { &["get", "list", "watch"][..] } else { &["*"] };
            let verbs = || verbs.iter().map(|verb| verb.to_string()).collect();
            if !policy.resource.is_empty() {
                let (groups, resources) = (vec![policy.api_group.clone()], vec![policy.resource.clone()]);
                rules.push(Rule { verbs: verbs(), groups, resources, ..Rule::default() });
            }
            if !policy.path.is_empty() {
                rules.push(Rule { verbs: verbs(), urls: vec![policy.path.clone()], ..Rule::default() });
            }
        }
        RulesFor { rules, ..RulesFor::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = r#"# comments and empty lines are skipped

{"apiVersion":"abac.authorization.kubernetes.io/v1beta1","kind":"Policy","spec":{"user":"alice","namespace":"*","resource":"*","apiGroup":"*","nonResourcePath":"/api*"}}
{"apiVersion":"abac.authorization.kubernetes.io/v1beta1","kind":"Policy","spec":{"group":"readers","readonly":true,"namespace":"ns","resource":"pods"}}
{"apiVersion":"abac.authorization.kubernetes.io/v1beta1","kind":"Policy","spec":{"user":"*","nonResourcePath":"/version"}}
{"user":"old","namespace":"ns","readonly":true}
{"user":"oldest"}
"#;

    #[tokio::test]
    async fn policies_decide() {
        let abac = Abac::parse(FILE).unwrap();
        for (user, groups, verb, what, want) in [
            ("alice", &[][..], "delete", ("ns", "apps", "deployments", ""), true),
            ("alice", &[], "get", ("", "", "", "/apis"), true),
            ("alice", &[], "get", ("", "", "", "/metrics"), false),
            ("bob", &["readers"], "watch", ("ns", "", "pods", ""), true),
            ("bob", &["readers"], "delete", ("ns", "", "pods", ""), false),
            ("bob", &["readers"], "get", ("ns", "apps", "pods", ""), false),
            ("bob", &["readers"], "get", ("other", "", "pods", ""), false),
            ("bob", &["system:authenticated"], "get", ("", "", "", "/version"), true),
            ("system:anonymous", &["system:unauthenticated"], "get", ("", "", "", "/version"), false),
            ("old", &[], "list", ("ns", "apps", "deployments", ""), true),
            ("old", &[], "create", ("ns", "", "pods", ""), false),
            ("oldest", &[], "create", ("any", "g", "r", ""), true),
            ("oldest", &[], "post", ("", "", "", "/any"), true),
        ] {
            let groups = groups.iter().map(|group| group.to_string()).collect();
            let user = User { name: user.into(), groups, ..User::default() };
            let (namespace, group, resource, path) = what;
            let is_resource = path.is_empty();
            let access = Access { namespace, group, resource, path, is_resource, ..Access::to_resource(&user, verb) };
            assert_eq!(abac.decide(&access).await.is_allowed(), want, "{} {verb} {what:?}", user.name);
        }
        let alice = User { name: "alice".into(), ..User::default() };
        assert_eq!(abac.rules_for(&alice, "ns").rules.len(), 2);
    }

    #[test]
    fn broken_lines_are_named() {
        let broken = Abac::parse("# a\n{\"user\":1}\n").unwrap_err();
        assert_eq!((broken.0, broken.1.as_str()), (Some(2), "{\"user\":1}"));
        assert!(Abac::parse("{").is_err());
        assert!(Abac::parse(&"x".repeat(LINE_BYTES_MAX)).unwrap_err().2.contains("too long"));
    }

    /// Takes time with the number of policies, not with its square.
    #[tokio::test]
    async fn many_policies_are_read_and_asked() {
        const POLICIES: usize = 100_000;
        let line = |at: usize| {
            format!(
                "{{\"apiVersion\":\"{VERSION}\",\"kind\":\"Policy\",\"spec\":{{\"user\":\"u{at}\",\"namespace\":\"ns\",\
                 \"resource\":\"pods\",\"apiGroup\":\"*\"}}}}\n"
            )
        };
        let abac = Abac::parse(&(0..POLICIES).map(line).collect::<String>()).unwrap();
        assert_eq!(abac.0.len(), POLICIES);
        let last = User { name: format!("u{}", POLICIES - 1), ..User::default() };
        let access = Access { resource: "pods", namespace: "ns", ..Access::to_resource(&last, "get") };
        assert!(abac.decide(&access).await.is_allowed());
    }
}
