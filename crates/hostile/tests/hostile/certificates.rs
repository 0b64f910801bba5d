//! Certificates and requests for them that try to say one thing and be read as another.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hostile::{MALLORY, Target};
use rcgen::string::{BmpString, Ia5String, PrintableString, TeletexString};
use rcgen::{CertificateParams, DistinguishedName, DnType, DnValue, KeyPair};
use serde_json::json;

const REQUESTS: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests";

/// CertificateSubjectRestriction sees `system:masters` in every encoding that a signer would sign.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn masters_are_recognised_in_every_encoding() {
    let target = Target::start().await;
    let rules = json!([{"apiGroups": ["certificates.k8s.io"], "resources": ["certificatesigningrequests"], "verbs": ["create"]}]);
    target.allow(MALLORY, rules).await;
    let group = "system:masters";
    let encodings = [
        DnValue::Utf8String(group.into()),
        DnValue::PrintableString(PrintableString::try_from(group).unwrap()),
        DnValue::Ia5String(Ia5String::try_from(group).unwrap()),
        DnValue::TeletexString(TeletexString::try_from(group).unwrap()),
        DnValue::BmpString(BmpString::try_from(group).unwrap()),
    ];
    for (at, group) in encodings.into_iter().enumerate() {
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, "mallory");
        params.distinguished_name.push(DnType::OrganizationName, group.clone());
        let pem = params.serialize_request(&KeyPair::generate().unwrap()).unwrap().pem().unwrap();
        let request = json!({"apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest",
            "metadata": {"name": format!("r{at}")},
            "spec": {"signerName": "kubernetes.io/kube-apiserver-client", "usages": ["client auth"], "request": STANDARD.encode(pem)}});
        let answer = target.ask(MALLORY, "POST", REQUESTS, request.to_string()).await;
        let want = "use of kubernetes.io/kube-apiserver-client signer with system:masters group is not allowed";
        assert_eq!(answer.code, 403, "{group:?}: {}", answer.message());
        assert!(answer.message().ends_with(want), "{}", answer.message());
    }
}
