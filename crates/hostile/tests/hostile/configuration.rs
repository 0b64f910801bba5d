//! Settings and objects that restrict must never be accepted in silence.

use hostile::{ADMIN, Target};
use serde_json::{Value, json};

const GROUP: &str = "/apis/admissionregistration.k8s.io/v1";

/// A policy refuses the requests that begin after its binding was answered.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn policies_are_enforced_at_once() {
    let target = Target::start().await;
    let rules =
        json!([{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}]);
    let cases: &[(&str, &str, Value)] = &[
        (
            "validatingadmissionpolicies",
            "ValidatingAdmissionPolicy",
            json!({"matchConstraints": {"resourceRules": rules}, "validations": [
                {"expression": "object.metadata.name != 'no'", "message": "not this name"}]}),
        ),
        (
            "validatingadmissionpolicybindings",
            "ValidatingAdmissionPolicyBinding",
            json!({"policyName": "x", "validationActions": ["Deny"]}),
        ),
    ];
    for (resource, kind, spec) in cases {
        let mut object = json!({"kind": kind, "metadata": {"name": "x"}, "spec": spec});
        object["apiVersion"] = "admissionregistration.k8s.io/v1".into();
        let answer = target.ask(ADMIN, "POST", &format!("{GROUP}/{resource}"), object.to_string()).await;
        assert_eq!(answer.code, 201, "{}", answer.message());
    }
    for (name, code) in [("no", 422), ("yes", 201)] {
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}});
        let answer = target.ask(ADMIN, "POST", "/api/v1/namespaces/default/configmaps", map.to_string()).await;
        assert_eq!(answer.code, code, "{}", answer.message());
        assert_eq!(answer.message().ends_with("denied request: not this name"), code == 422, "{}", answer.message());
    }
}
