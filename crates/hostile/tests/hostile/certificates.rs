//! Certificates and requests for them that try to say one thing and be read as another.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hostile::{ADMIN, MALLORY, Target, request};
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

fn pem(common: &str, group: Option<&str>) -> String {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, common);
    if let Some(group) = group {
        params.distinguished_name.push(DnType::OrganizationName, group);
    }
    params.serialize_request(&KeyPair::generate().unwrap()).unwrap().pem().unwrap().replace('\r', "")
}

/// Blocks with this request in base64 that Go passes over: without padding, with a character that is none, with lines that do not
/// begin or end a block.
fn first_blocks(request: impl Fn() -> String) -> Vec<String> {
    let body = |text: &str| text.lines().filter(|line| !line.starts_with("-----")).collect::<String>();
    // Signatures differ in length, so one of these needs padding.
    let padded = std::iter::repeat_with(|| body(&request())).find(|text| text.ends_with('=')).unwrap();
    let block =
        |data: &str| format!("-----BEGIN CERTIFICATE REQUEST-----\n{data}\n-----END CERTIFICATE REQUEST-----\n");
    vec![
        block(padded.trim_end_matches('=')),
        block(&format!("{padded}AAAA")),
        block(&padded.replacen('A', "\u{b}A", 1)),
        block(&padded).replace("END CERTIFICATE", "END  CERTIFICATE"),
        block(&padded).replace("REQUEST-----\nM", "REQUEST-----M"),
        format!("x{}", block(&padded)),
    ]
}

/// A CertificateSigningRequest with this PEM text.
fn signing_request(name: &str, signer: &str, pem: &str) -> String {
    json!({"apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest", "metadata": {"name": name},
        "spec": {"signerName": signer, "usages": ["client auth"], "request": STANDARD.encode(pem)}})
    .to_string()
}

/// Where Go's `pem.Decode` passes over a first block that other readers take, what is judged is what a signer signs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_first_block_that_go_passes_over_hides_nothing() {
    const SIGNER: &str = "kubernetes.io/kube-apiserver-client";
    let target = Target::start().await;
    let rules = json!([{"apiGroups": ["certificates.k8s.io"], "resources": ["certificatesigningrequests"], "verbs": ["create"]}]);
    target.allow(MALLORY, rules).await;
    let (masters, developers) = (pem("mallory", Some("system:masters")), pem("ann", Some("developers")));
    for (at, first) in first_blocks(|| pem("mallory", None)).iter().enumerate() {
        let wanted = signing_request(&format!("m{at}"), SIGNER, &format!("{first}{masters}"));
        let answer = target.ask(MALLORY, "POST", REQUESTS, wanted).await;
        assert_eq!(answer.code, 403, "{first}: {}", answer.message());
        assert!(answer.message().ends_with("system:masters group is not allowed"), "{}", answer.message());
        // The same request for somebody harmless is accepted: the first block is no reason to refuse it.
        let wanted = signing_request(&format!("h{at}"), SIGNER, &format!("{first}{developers}"));
        let answer = target.ask(MALLORY, "POST", REQUESTS, wanted).await;
        assert_eq!(answer.code, 201, "{first}: {}", answer.message());
    }
}

/// NodeRestriction reads the same block: a kubelet asks for nobody but itself.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kubelets_hide_no_request_behind_another() {
    const SIGNER: &str = "kubernetes.io/kube-apiserver-client-kubelet";
    let target = Target::start_with(|builder| {
        builder.configure(|config| config.enable_admission_plugins = vec!["NodeRestriction".into()])
    })
    .await;
    let node = "system:node:n1";
    let others = pem("system:node:n2", Some("system:nodes"));
    for (at, first) in first_blocks(|| pem(node, Some("system:nodes"))).iter().enumerate() {
        let builder = request(ADMIN, "POST", REQUESTS).header("impersonate-user", node);
        let builder = builder.header("impersonate-group", "system:nodes");
        let wanted = signing_request(&format!("n{at}"), SIGNER, &format!("{first}{others}"));
        let answer = target.send(builder, wanted).await;
        assert_eq!(answer.code, 403, "{first}: {}", answer.message());
        let want = "can only create a node CSR with CN=system:node:n1";
        assert!(answer.message().ends_with(want), "{}", answer.message());
    }
}
