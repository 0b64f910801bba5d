//! Settings and objects that restrict must never be accepted in silence.

use std::time::Duration;

use hostile::{ADMIN, Target};
use serde_json::{Value, json};
use testing::{Builder, Server};

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

/// The program refuses these settings when they are given as flags; they are refused of a configuration built in code too.
#[tokio::test]
async fn configurations_built_in_code_obey_the_rules_of_flags() {
    let cases: [(Builder, &str); 3] = [
        (
            Server::builder().configure(|config| {
                config.serving.max_reads = 0;
                config.serving.max_writes = 0;
            }),
            "MaxMutatingRequestsInFlight=0",
        ),
        (
            Server::builder().configure(|config| config.leadership.lease = Duration::from_secs(1)),
            "--coordinated-leadership-lease-duration must be greater",
        ),
        (
            Server::builder().configure(|config| config.admission_control = Some(vec!["Unheard".into()])),
            "plugin \"Unheard\" is unknown",
        ),
    ];
    for (builder, want) in cases {
        let refused = builder.start().await.err().map(|error| error.to_string()).unwrap_or_default();
        assert!(refused.contains(want), "{want}: {refused}");
    }
}
