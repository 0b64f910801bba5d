//! Settings and objects that restrict must never be accepted in silence.

use hostile::{ADMIN, Target};
use serde_json::{Value, json};

const GROUP: &str = "/apis/admissionregistration.k8s.io/v1";

/// What is stored but not enforced is answered with a warning; a webhook that ignores failures restricts nothing by itself.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rules_that_are_not_enforced_are_answered_with_a_warning() {
    let target = Target::start().await;
    let hook = |policy: &str| {
        json!([{"name": "a.b.c", "failurePolicy": policy, "sideEffects": "None", "admissionReviewVersions": ["v1"],
            "clientConfig": {"url": "https://localhost/x"}}])
    };
    let policy = json!({"failurePolicy": "Fail", "validations": [{"expression": "true"}], "matchConstraints": {"resourceRules": [
        {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}]}});
    let cases: &[(&str, &str, Value, bool)] = &[
        ("validatingwebhookconfigurations", "ValidatingWebhookConfiguration", json!({"webhooks": hook("Fail")}), true),
        ("mutatingwebhookconfigurations", "MutatingWebhookConfiguration", json!({"webhooks": hook("Fail")}), true),
        (
            "validatingwebhookconfigurations",
            "ValidatingWebhookConfiguration",
            json!({"webhooks": hook("Ignore")}),
            false,
        ),
        ("validatingadmissionpolicies", "ValidatingAdmissionPolicy", json!({"spec": policy}), true),
        (
            "validatingadmissionpolicybindings",
            "ValidatingAdmissionPolicyBinding",
            json!({"spec": {"policyName": "x", "validationActions": ["Deny"]}}),
            true,
        ),
    ];
    for (at, (resource, kind, rest, restricts)) in cases.iter().enumerate() {
        let mut object = rest.clone();
        object["apiVersion"] = "admissionregistration.k8s.io/v1".into();
        object["kind"] = (*kind).into();
        object["metadata"] = json!({"name": format!("x{at}")});
        let answer = target.ask(ADMIN, "POST", &format!("{GROUP}/{resource}"), object.to_string()).await;
        assert_eq!(answer.code, 201, "{}", answer.message());
        let warning = answer.headers.get("warning").and_then(|value| value.to_str().ok()).unwrap_or("");
        assert_eq!(warning.contains("not enforced"), *restricts, "{kind}: {warning:?}");
    }
}
