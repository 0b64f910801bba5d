use super::*;

const HEAD: &str = "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthorizationConfiguration\n";

fn read(body: &str) -> Result<Configuration, String> {
    Configuration::read(format!("{HEAD}{body}\n").as_bytes(), &BTreeSet::new())
}

#[test]
fn a_webhook_is_read() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let path = file.path().display();
    let text = format!(
        "authorizers:
- type: Webhook
  name: first
  webhook:
    timeout: 3s
    subjectAccessReviewVersion: v1
    matchConditionSubjectAccessReviewVersion: v1
    failurePolicy: Deny
    cacheUnauthorizedRequests: false
    connectionInfo: {{type: KubeConfigFile, kubeConfigFile: {path}}}
    matchConditions: [{{expression: has(request.resourceAttributes)}}]
- {{type: RBAC, name: rbac}}
"
    );
    let configuration = read(&text).unwrap();
    assert_eq!(configuration.lasting_modes(), BTreeSet::from(["RBAC".to_string()]));
    let webhook = configuration.authorizers[0].webhook.as_ref().unwrap();
    assert_eq!(
        *webhook,
        webhook::WebhookAuthorizerSettings {
            name: "first".into(),
            kubeconfig: file.path().into(),
            version: Version::V1,
            timeout: Duration::from_secs(3),
            authorized_ttl: AUTHORIZED_TTL,
            unauthorized_ttl: Duration::ZERO,
            on_failure: Verdict::Deny,
            conditions: vec!["has(request.resourceAttributes)".into()],
        }
    );
}

#[test]
fn errors_are_upstreams() {
    let webhook = |more: &str| {
        format!(
            "authorizers: [{{type: Webhook, name: w, webhook: {{timeout: 1s, subjectAccessReviewVersion: v1, failurePolicy: Deny, \
             connectionInfo: {{type: InClusterConfig}}{more}}}}}]"
        )
    };
    for (body, want) in [
        ("authorizers: []".to_string(), "authorizers: Required value: at least one authorization mode must be defined"),
        ("authorizers: [{name: a}]".into(), "authorizers[0].type: Required value"),
        (
            "authorizers: [{type: Nope, name: a}]".into(),
            r#"authorizers[0].type: Unsupported value: "Nope": supported values: "ABAC", "AlwaysAllow", "AlwaysDeny", "Node", "RBAC", "Webhook""#,
        ),
        (
            "authorizers: [{type: RBAC, name: rbac}, {type: RBAC, name: b}]".into(),
            r#"authorizers[1].type: Duplicate value: "RBAC""#,
        ),
        ("authorizers: [{type: RBAC, name: other}]".into(), "expected name rbac for authorizer RBAC instead of other"),
        (
            "authorizers: [{type: RBAC, name: rbac, webhook: {}}]".into(),
            r#"authorizers[0].webhook: Invalid value: "non-null": may only be specified when type=Webhook"#,
        ),
        ("authorizers: [{type: Webhook, name: w}]".into(), "authorizers[0].webhook: Required value: required when type=Webhook"),
        (webhook(", timeout2: 1s"), "failed to load AuthorizationConfiguration from file: strict decoding error: unknown field \"authorizers[0].webhook.timeout2\""),
        (webhook(", authorizedTTL: -1s"), r#"authorizers[0].authorizedTTL: Invalid value: "-1s": must be > 0s"#),
        (
            webhook(", matchConditions: [{expression: 'true'}]"),
            "authorizers[0].matchConditionSubjectAccessReviewVersion: Required value: required if match conditions are specified",
        ),
        (
            webhook(", matchConditionSubjectAccessReviewVersion: v1, matchConditions: [{expression: 'true'}, {expression: 'true'}, {expression: ''}]"),
            r#"[authorizers[0].matchConditions[1].expression: Duplicate value: "true", authorizers[0].matchConditions[2].expression: Required value]"#,
        ),
        (
            webhook(", matchConditionSubjectAccessReviewVersion: v1, matchConditions: [{expression: '1'}]"),
            r#"authorizers[0].matchConditions[0].expression: Invalid value: "1": must evaluate to bool but got int"#,
        ),
        (
            "authorizers: [{type: Webhook, name: w, webhook: {timeout: 31s, connectionInfo: {type: X}}}]".into(),
            r#"[authorizers[0].timeout: Invalid value: "31s": must be > 0s and <= 30s, authorizers[0].subjectAccessReviewVersion: Required value, authorizers[0].failurePolicy: Required value, authorizers[0].connectionInfo.type: Unsupported value: {"Type":"X","KubeConfigFile":null}: supported values: "InClusterConfig", "KubeConfigFile"]"#,
        ),
        (
            "authorizers: [{type: Webhook, name: w, webhook: {timeout: 1s, subjectAccessReviewVersion: v1, failurePolicy: Deny, connectionInfo: {type: KubeConfigFile, kubeConfigFile: a}}}]".into(),
            r#"authorizers[0].connectionInfo.kubeConfigFile: Invalid value: "a": must be an absolute path"#,
        ),
    ] {
        assert_eq!(read(&body).unwrap_err(), want, "{body}");
    }
    let missing = Configuration::read(
        format!("{HEAD}authorizers: [{{type: RBAC, name: rbac}}]\n").as_bytes(),
        &BTreeSet::from(["Node".to_string(), "RBAC".to_string()]),
    );
    assert_eq!(missing.unwrap_err(), "missing required types: [Node]");
}
