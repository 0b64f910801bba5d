//! Settings and objects that restrict must never be accepted in silence.

use hostile::{ADMIN, Target};
use serde_json::{Value, json};

const GROUP: &str = "/apis/admissionregistration.k8s.io/v1";

/// What is stored but not enforced is answered with a warning.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rules_that_are_not_enforced_are_answered_with_a_warning() {
    let target = Target::start().await;
    let policy = json!({"failurePolicy": "Fail", "validations": [{"expression": "true"}], "matchConstraints": {"resourceRules": [
        {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}]}});
    let cases: &[(&str, &str, Value)] = &[
        ("validatingadmissionpolicies", "ValidatingAdmissionPolicy", json!({"spec": policy})),
        (
            "validatingadmissionpolicybindings",
            "ValidatingAdmissionPolicyBinding",
            json!({"spec": {"policyName": "x", "validationActions": ["Deny"]}}),
        ),
    ];
    for (at, (resource, kind, rest)) in cases.iter().enumerate() {
        let mut object = rest.clone();
        object["apiVersion"] = "admissionregistration.k8s.io/v1".into();
        object["kind"] = (*kind).into();
        object["metadata"] = json!({"name": format!("x{at}")});
        let answer = target.ask(ADMIN, "POST", &format!("{GROUP}/{resource}"), object.to_string()).await;
        assert_eq!(answer.code, 201, "{}", answer.message());
        let warning = answer.headers.get("warning").and_then(|value| value.to_str().ok()).unwrap_or("");
        assert!(warning.contains("not enforced"), "{kind}: {warning:?}");
    }
}
