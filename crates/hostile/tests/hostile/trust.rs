//! Authorities that vouch for more than their certificates allow: of clients, of front proxies, of webhooks.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hostile::{ADMIN, Target};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, GeneralSubtree, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, NameConstraints,
};
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::credentials::{Identity, connect, review, whoami, write};
use crate::peer::Peer;

type Change = fn(&mut CertificateParams);

/// A root, an intermediate below it and a leaf below that, each with a change.
#[derive(Clone, Copy)]
struct Case {
    what: &'static str,
    root: Change,
    /// None: the root issues the leaf.
    intermediate: Option<Change>,
    leaf: Change,
    /// What verification says, or nothing if the leaf is good.
    want: &'static str,
}

const CASES: [Case; 16] = [
    Case { what: "a root", root: |_| {}, intermediate: None, leaf: |_| {}, want: "" },
    Case { what: "an intermediate", root: |_| {}, intermediate: Some(|_| {}), leaf: |_| {}, want: "" },
    Case {
        what: "a root that has expired",
        root: |params| params.not_after = rcgen::date_time_ymd(2021, 1, 1),
        intermediate: None,
        leaf: |_| {},
        want: "x509: certificate has expired or is not yet valid: current time ",
    },
    Case {
        what: "a root that is not yet valid",
        root: |params| params.not_before = rcgen::date_time_ymd(3000, 1, 1),
        intermediate: None,
        leaf: |_| {},
        want: "x509: certificate has expired or is not yet valid: current time ",
    },
    Case {
        what: "a root that is no authority",
        root: |params| params.is_ca = IsCa::ExplicitNoCa,
        intermediate: None,
        leaf: |_| {},
        want: CANNOT_SIGN,
    },
    Case {
        what: "a root that says nothing about it",
        root: |params| params.is_ca = IsCa::NoCa,
        intermediate: None,
        leaf: |_| {},
        want: CANNOT_SIGN,
    },
    Case {
        what: "a root whose key signs no certificates",
        root: |params| params.key_usages = vec![KeyUsagePurpose::DigitalSignature],
        intermediate: None,
        leaf: |_| {},
        want: CANNOT_SIGN,
    },
    Case {
        what: "a root for other uses",
        root: |params| params.extended_key_usages = vec![ExtendedKeyUsagePurpose::CodeSigning],
        intermediate: None,
        leaf: |_| {},
        want: "x509: certificate specifies an incompatible key usage",
    },
    Case {
        what: "an intermediate below a root that allows none",
        root: |params| params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0)),
        intermediate: Some(|_| {}),
        leaf: |_| {},
        want: "x509: too many intermediates for path length constraint",
    },
    Case {
        what: "an intermediate that is no authority",
        root: |_| {},
        intermediate: Some(|params| params.is_ca = IsCa::ExplicitNoCa),
        leaf: |_| {},
        want: CANNOT_SIGN,
    },
    Case {
        what: "an intermediate whose key signs no certificates",
        root: |_| {},
        intermediate: Some(|params| params.key_usages = vec![KeyUsagePurpose::DigitalSignature]),
        leaf: |_| {},
        want: CANNOT_SIGN,
    },
    Case {
        what: "an intermediate that has expired",
        root: |_| {},
        intermediate: Some(|params| params.not_after = rcgen::date_time_ymd(2021, 1, 1)),
        leaf: |_| {},
        want: "x509: certificate has expired or is not yet valid: current time ",
    },
    Case {
        what: "an intermediate for other uses",
        root: |_| {},
        intermediate: Some(|params| params.extended_key_usages = vec![ExtendedKeyUsagePurpose::CodeSigning]),
        leaf: |_| {},
        want: "x509: certificate specifies an incompatible key usage",
    },
    Case {
        what: "an intermediate for other names",
        root: |_| {},
        intermediate: Some(|params| {
            let permitted_subtrees = vec![GeneralSubtree::DnsName("elsewhere.example".into())];
            params.name_constraints = Some(NameConstraints { permitted_subtrees, excluded_subtrees: Vec::new() });
        }),
        leaf: |_| {},
        want: "x509: a root or intermediate certificate is not authorized to sign for this name: DNS name \"localhost\" is not \
               permitted by any constraint",
    },
    Case {
        what: "a leaf that has expired",
        root: |_| {},
        intermediate: None,
        leaf: |params| params.not_after = rcgen::date_time_ymd(2021, 1, 1),
        want: "x509: certificate has expired or is not yet valid: current time ",
    },
    Case {
        what: "a leaf with a critical extension that nobody knows",
        root: |_| {},
        intermediate: None,
        leaf: |params| {
            let mut extension = rcgen::CustomExtension::from_oid_content(&[1, 2, 3, 4], vec![5, 0]);
            extension.set_criticality(true);
            params.custom_extensions.push(extension);
        },
        want: "x509: unhandled critical extension",
    },
];

const CANNOT_SIGN: &str = "x509: certificate signed by unknown authority (possibly because of \"x509: invalid signature: parent \
                           certificate cannot sign this kind of certificate\" while trying to verify candidate authority \
                           certificate ";

/// The certificates of a case.
struct Chain {
    root_pem: String,
    /// The leaf first, without the root.
    shown: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
}

fn params(name: &str, is_ca: bool, change: Change) -> CertificateParams {
    let names = if is_ca { Vec::new() } else { vec!["localhost".to_string()] };
    let mut params = CertificateParams::new(names).unwrap();
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    if is_ca {
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    } else {
        params.distinguished_name.push(DnType::OrganizationName, "system:masters");
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth, ExtendedKeyUsagePurpose::ServerAuth];
    }
    change(&mut params);
    params
}

impl Case {
    fn chain(&self) -> Chain {
        let key = KeyPair::generate().unwrap();
        let root = params("root", true, self.root);
        let root_pem = root.self_signed(&key).unwrap().pem();
        let mut issuer = Issuer::new(root, key);
        let mut shown = Vec::new();
        if let Some(change) = self.intermediate {
            let key = KeyPair::generate().unwrap();
            let intermediate = params("intermediate", true, change);
            shown.push(intermediate.signed_by(&key, &issuer).unwrap().der().clone());
            issuer = Issuer::new(intermediate, key);
        }
        let key = KeyPair::generate().unwrap();
        let leaf = params("mallory", false, self.leaf).signed_by(&key, &issuer).unwrap();
        shown.insert(0, leaf.der().clone());
        Chain { root_pem, shown, key: PrivateKeyDer::try_from(key.serialize_der()).unwrap() }
    }
}

impl Chain {
    fn identity(&self) -> Identity {
        (self.shown.clone(), self.key.clone_key())
    }
}

/// Authorities of clients and of front proxies are believed as far as their certificates go.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn authorities_vouch_for_clients_and_proxies_as_far_as_they_may() {
    let folder = tempfile::tempdir().unwrap();
    for case in CASES {
        let chain = case.chain();
        let client_file = write(folder.path(), "clients.crt", &chain.root_pem);
        let proxies = Case { leaf: |_| {}, ..case }.chain();
        let proxy_file = write(folder.path(), "proxies.crt", &proxies.root_pem);
        let target = Target::start_with(|builder| {
            builder.configure(|config| {
                config.client_ca_file = Some(client_file.clone());
                let flags = &mut config.authentication.request_header;
                flags.client_ca_file = Some(proxy_file.clone());
                flags.given.names = vec!["x-remote-user".into()];
                flags.given.groups = vec!["x-remote-group".into()];
            })
        })
        .await;
        let is_good = case.want.is_empty();
        let want = if is_good { Ok("mallory") } else { Err(401) };
        assert_eq!(
            whoami(&target, chain.identity(), &[]).await.as_deref().map_err(|code| *code),
            want,
            "{}",
            case.what
        );
        let is_leafs_fault = case.what.starts_with("a leaf");
        let want = if is_good || is_leafs_fault { Ok("root") } else { Err(401) };
        let headers = [("x-remote-user", "root"), ("x-remote-group", "system:masters")];
        let got = whoami(&target, proxies.identity(), &headers).await;
        assert_eq!(got.as_deref().map_err(|code| *code), want, "front proxies: {}", case.what);
        target.server.stop().await;
    }
}

/// A certificate that is pinned, being in the file of authorities itself, stands for its holder and for nobody else.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pinned_client_mints_nobody() {
    let folder = tempfile::tempdir().unwrap();
    let key = KeyPair::generate().unwrap();
    let mut pinned = params("ann", false, |params| params.is_ca = IsCa::ExplicitNoCa);
    pinned.distinguished_name.push(DnType::OrganizationName, "developers");
    let certificate = pinned.self_signed(&key).unwrap();
    let file = write(folder.path(), "clients.crt", &certificate.pem());
    let private = || PrivateKeyDer::try_from(key.serialize_der()).unwrap();
    let target =
        Target::start_with(|builder| builder.configure(|config| config.client_ca_file = Some(file.clone()))).await;
    let own = (vec![certificate.der().clone()], private());
    assert_eq!(whoami(&target, own, &[]).await.as_deref(), Ok("ann"));
    let minted_key = KeyPair::generate().unwrap();
    let issuer = Issuer::new(pinned, KeyPair::try_from(key.serialize_der()).unwrap());
    let minted = params("mallory", false, |_| {}).signed_by(&minted_key, &issuer).unwrap();
    let minted_private = PrivateKeyDer::try_from(minted_key.serialize_der()).unwrap();
    assert_eq!(whoami(&target, (vec![minted.der().clone()], minted_private), &[]).await, Err(401));
}

/// A chain of which a certificate cannot be read ends the handshake, as Go's does, and is not looked at any further.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn chains_that_cannot_be_read_end_the_handshake() {
    let target = Target::start().await;
    let good = CASES[0].chain();
    let leaf = good.shown[0].clone();
    let mut longer = leaf.to_vec();
    longer.push(0);
    for (what, chain, is_served) in [
        ("a certificate", vec![leaf.clone()], true),
        ("and something else", vec![leaf.clone(), CertificateDer::from(vec![0x30, 3, 2, 1, 1])], false),
        ("and nothing", vec![leaf.clone(), CertificateDer::from(Vec::new())], false),
        ("and a certificate with something behind it", vec![leaf, CertificateDer::from(longer)], false),
    ] {
        let mut answer = Vec::new();
        if let Ok(mut stream) = connect(&target, (chain, good.key.clone_key())).await {
            let request = b"GET /livez HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
            // A server that refuses the certificate may be gone before the request is sent.
            if stream.write_all(request).await.is_ok() {
                let _ = stream.read_to_end(&mut answer).await;
            }
        }
        assert_eq!(answer.starts_with(b"HTTP/1.1 "), is_served, "{what}");
    }
}

/// A front proxy that names `system:unauthenticated` gets a user without `system:authenticated`.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unauthenticated_stays_unauthenticated() {
    let folder = tempfile::tempdir().unwrap();
    let proxies = CASES[0].chain();
    let proxy_file = write(folder.path(), "proxies.crt", &proxies.root_pem);
    let target = Target::start_with(|builder| {
        builder.configure(|config| {
            let flags = &mut config.authentication.request_header;
            flags.client_ca_file = Some(proxy_file.clone());
            flags.given.names = vec!["x-remote-user".into()];
            flags.given.groups = vec!["x-remote-group".into()];
        })
    })
    .await;
    for (group, want) in [
        ("devs", json!(["devs", "system:authenticated"])),
        ("system:unauthenticated", json!(["system:unauthenticated"])),
        ("system:authenticated", json!(["system:authenticated"])),
    ] {
        let headers = [("x-remote-user", "ann"), ("x-remote-group", group)];
        match review(&target, proxies.identity(), &headers).await {
            Ok(review) => assert_eq!(review["status"]["userInfo"]["groups"], want, "{group}"),
            // Only authenticated users may ask who they are.
            Err(code) => assert_eq!((code, group), (403, "system:unauthenticated")),
        }
    }
}

/// Webhooks are believed by the same rules: a bundle vouches for no more than its certificates allow.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn authorities_vouch_for_webhooks_as_far_as_they_may() {
    let target = Target::start().await;
    const CONFIGURATIONS: &str = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
    for (at, case) in CASES.into_iter().enumerate() {
        let chain = case.chain();
        let peer = Peer::bind_as(chain.shown.clone(), chain.key.clone_key()).await;
        let port = peer.port;
        let serving = tokio::spawn(async move {
            while let Ok((stream, _)) = peer.listener.accept().await {
                drop(peer.acceptor.accept(stream).await);
            }
        });
        let name = format!("w{at}");
        let configuration = json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
            "metadata": {"name": name}, "webhooks": [{"name": "w.example.com", "sideEffects": "None",
                "admissionReviewVersions": ["v1"], "failurePolicy": "Fail", "timeoutSeconds": 5,
                "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}],
                "clientConfig": {"url": format!("https://localhost:{port}/"), "caBundle": STANDARD.encode(&chain.root_pem)}}]});
        let made = target.ask(ADMIN, "POST", CONFIGURATIONS, configuration.to_string()).await;
        assert_eq!(made.code, 201, "{}", made.message());
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}});
        let path = "/api/v1/namespaces/default/configmaps?dryRun=All";
        let answer = target.ask(ADMIN, "POST", path, map.to_string()).await;
        let message = answer.message();
        // A chain that is believed leads to a connection that the peer ends.
        let want = if case.want.is_empty() { "EOF" } else { case.want };
        assert!(message.contains(want), "{}: {message}", case.what);
        assert!(case.want.is_empty() || message.contains("tls: failed to verify certificate: x509: "), "{message}");
        target.ask(ADMIN, "DELETE", &format!("{CONFIGURATIONS}/{name}"), "").await;
        serving.abort();
    }
}
