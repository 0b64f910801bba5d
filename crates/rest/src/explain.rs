//! The header `x-ferrokube-explain: policies`: a dry run tells what each validation of each policy says of the object.
//!
//! The answer, whatever it is, has the decisions in the header `x-ferrokube-policies`, as JSON in base64. Only users who may list
//! policies are told.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderName, HeaderValue};
use object::{GroupVersionKind, Value, value};
use request::Access;

use crate::media::{Accept, Media};
use crate::reply::{Reply, encode_value};
use crate::scope::Scope;

const ASKED: &str = "x-ferrokube-explain";
const POLICIES: &str = "policies";
const TOLD: HeaderName = HeaderName::from_static("x-ferrokube-policies");

/// Whether the request is a dry run that asks for the decisions, and its user may see policies.
pub async fn is_asked(scope: &Scope) -> bool {
    let call = &scope.call;
    let asks = call.headers.get(ASKED).is_some_and(|value| value == POLICIES) && call.query("dryRun").is_some();
    if !asks {
        return false;
    }
    let access = Access {
        group: "admissionregistration.k8s.io",
        resource: "validatingadmissionpolicies",
        ..Access::to_resource(&call.user, "list")
    };
    scope.api.authorizer.decide(&access).await.is_allowed()
}

/// Adds the decisions, if they were asked for.
pub fn tell(scope: &Scope, reply: &mut Reply) {
    let Some(findings) = scope.annotations.findings() else { return };
    let row = |finding: &admission::PolicyFinding| {
        value!({
            "policy": (finding.policy.clone()),
            "binding": (finding.binding.clone()),
            "validation": (finding.validation as i64),
            "outcome": (finding.outcome.as_str()),
            "message": (finding.message.as_str()),
        })
    };
    let told = value!({ "items": (findings.iter().map(row).collect::<Vec<Value>>()) });
    let told = encode_value(&Accept::plain(Media::Json, false), &GroupVersionKind::new("", "", ""), &told);
    if let Ok(told) = HeaderValue::from_str(&STANDARD.encode(told)) {
        reply.headers.insert(TOLD, told);
    }
}
