use super::*;

const POLICY: &str = r#"
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
omitManagedFields: true
rules:
- level: None
  nonResourceURLs: ["/healthz*", "/version"]
- level: RequestResponse
  users: [alice]
  verbs: [create, delete]
  resources:
  - group: ""
    resources: [pods, "configmaps/*", "*/scale"]
    resourceNames: [x]
- level: Request
  userGroups: [devs]
  namespaces: [ns, ""]
  omitStages: [ResponseStarted]
  omitManagedFields: false
  resources:
  - group: apps
- level: Metadata
  verbs: [get]
"#;

fn evaluate(method: &str, path: &str, user: &str, group: &str) -> Option<Level> {
    let user = User { name: user.into(), groups: vec![group.into()], ..User::default() };
    let info = RequestInfo::parse(method, path, &[]);
    Policy::read(POLICY.as_bytes()).unwrap().evaluate(&info, &user).map(|decision| decision.level)
}

#[test]
fn the_first_matching_rule_decides() {
    for (method, path, user, group, want) in [
        ("GET", "/healthz/etcd", "bob", "", None),
        ("GET", "/version", "bob", "", None),
        ("GET", "/versions", "bob", "", Some(Level::Metadata)),
        ("DELETE", "/api/v1/namespaces/ns/pods/x", "alice", "", Some(Level::RequestResponse)),
        ("DELETE", "/api/v1/namespaces/ns/pods/y", "alice", "", None),
        ("DELETE", "/api/v1/namespaces/ns/pods/x", "bob", "", None),
        ("DELETE", "/api/v1/namespaces/ns/pods/x/eviction", "alice", "", None),
        ("DELETE", "/api/v1/namespaces/ns/configmaps/x/any", "alice", "", Some(Level::RequestResponse)),
        ("DELETE", "/api/v1/namespaces/ns/replicationcontrollers/x/scale", "alice", "", Some(Level::RequestResponse)),
        ("PUT", "/apis/apps/v1/namespaces/ns/deployments/x", "bob", "devs", Some(Level::Request)),
        ("PUT", "/apis/apps/v1/namespaces/other/deployments/x", "bob", "devs", None),
        ("PUT", "/apis/batch/v1/namespaces/ns/jobs/x", "bob", "devs", None),
        ("GET", "/api/v1/namespaces/ns/pods/x", "bob", "", Some(Level::Metadata)),
    ] {
        assert_eq!(evaluate(method, path, user, group), want, "{method} {path} {user} {group}");
    }
}

#[test]
fn stages_and_managed_fields_are_inherited() {
    let policy = Policy::read(POLICY.as_bytes()).unwrap();
    let user = User { name: "bob".into(), groups: vec!["devs".into()], ..User::default() };
    let decide = |method: &str, path: &str| policy.evaluate(&RequestInfo::parse(method, path, &[]), &user).unwrap();
    let apps = decide("PUT", "/apis/apps/v1/namespaces/ns/deployments/x");
    assert!(apps.omit_stages.contains(Stage::RequestReceived) && apps.omit_stages.contains(Stage::ResponseStarted));
    assert!(!apps.omit_managed_fields);
    let others = decide("GET", "/api/v1/namespaces/ns/pods/x");
    assert!(!others.omit_stages.contains(Stage::ResponseStarted) && others.omit_managed_fields);
}

#[test]
fn what_is_wrong_with_a_policy_is_said() {
    let head = "apiVersion: audit.k8s.io/v1\nkind: Policy\n";
    for (text, want) in [
        ("kind: Policy\nrules: [{level: None}]".to_string(), "unknown group version field /, Kind=Policy in policy"),
        (format!("{head}rules: []"), "loaded illegal policy with 0 rules"),
        (format!("{head}rules: [{{}}]"), "rules[0].level: Required value"),
        (
            format!("{head}rules: [{{level: All}}]"),
            "rules[0].level: Unsupported value: \"All\": supported values: \"None\", \"Metadata\", \"Request\", \"RequestResponse\"",
        ),
        (
            format!("{head}rules: [{{level: None, nonResourceURLs: [x, '/a*b']}}]"),
            "[rules[0].nonResourceURLs[0]: Invalid value: \"x\": non-resource URL rules must begin with a '/' character, rules[0].nonResourceURLs[1]: Invalid value: \"/a*b\": non-resource URL wildcards '*' must be the final character of the rule]",
        ),
        (
            format!("{head}rules: [{{level: None, omitStages: [Begin]}}]"),
            "rules[0].omitStages[0]: Invalid value: \"Begin\": allowed stages are RequestReceived,ResponseStarted,ResponseComplete,Panic",
        ),
        (
            format!("{head}rules: [{{level: None, resources: [{{resourceNames: [x]}}]}}]"),
            "rules[0].resources.resourceNames: Invalid value: [\"x\"]: using resourceNames requires at least one resource",
        ),
    ] {
        assert_eq!(Policy::read(text.as_bytes()).unwrap_err().to_string(), want);
    }
}

/// Takes time with the number of rules, not with its square.
#[test]
fn many_rules_are_read_and_asked() {
    const RULES: usize = 100_000;
    let rules: String = (0..RULES).map(|at| format!("- {{level: Metadata, users: [u{at}]}}\n")).collect();
    let policy =
        Policy::read(format!("apiVersion: audit.k8s.io/v1\nkind: Policy\nrules:\n{rules}").as_bytes()).unwrap();
    let info = RequestInfo::parse("GET", "/api/v1/namespaces/ns/pods/p", &[]);
    let user = |name: String| User { name, ..User::default() };
    assert!(policy.evaluate(&info, &user(format!("u{}", RULES - 1))).is_some());
    assert!(policy.evaluate(&info, &user("other".into())).is_none());
}
