//! Forged credentials: tokens without a signature or with another issuer's, and headers of front proxies.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use hostile::{ADMIN, MALLORY, Target, request};
use http_body_util::{BodyExt, Full};
use hyper_util::rt::TokioIo;
use rcgen::{BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::peer::Peer;

const REVIEW: &str = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
const REVIEW_BODY: &str = r#"{"apiVersion":"authentication.k8s.io/v1","kind":"SelfSubjectReview"}"#;

fn encoded(value: &Value) -> String {
    URL_SAFE_NO_PAD.encode(value.to_string())
}

/// Tokens that a library which believes their header would accept.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tokens_are_not_believed_about_themselves() {
    let target = Target::start().await;
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "sa"}});
    target.ask(ADMIN, "POST", "/api/v1/namespaces/default/serviceaccounts", account.to_string()).await;
    let wanted = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}});
    let path = "/api/v1/namespaces/default/serviceaccounts/sa/token";
    let answer = target.ask(ADMIN, "POST", path, wanted.to_string()).await;
    let token = answer.json()["status"]["token"].as_str().unwrap().to_string();
    let whoami = async |token: &str| target.ask(token, "POST", REVIEW, REVIEW_BODY).await.code;
    assert_eq!(whoami(&token).await, 201);
    let parts: Vec<&str> = token.split('.').collect();
    let [header, payload, signature] = parts.as_slice() else { panic!("{token}") };
    let header: Value = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(header).unwrap()).unwrap();
    let keys = target.ask(ADMIN, "GET", "/openid/v1/jwks", "").await.body;
    let with = |more: Value| {
        let mut changed = header.clone();
        changed.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        encoded(&changed)
    };
    let root = {
        let mut claims: Value = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(payload).unwrap()).unwrap();
        claims["sub"] = json!("system:serviceaccount:kube-system:root");
        encoded(&claims)
    };
    let attacks = [
        format!("{}.{payload}.", with(json!({"alg": "none"}))),
        format!("{}.{payload}.", with(json!({"alg": "NONE"}))),
        format!("{}.{payload}.{signature}", with(json!({"alg": "HS256"}))),
        format!("{}.{payload}.{signature}", with(json!({"alg": "RS512"}))),
        format!("{}.{payload}.{signature}", with(json!({"kid": "../../../dev/null"}))),
        format!("{}.{payload}.{signature}", with(json!({"kid": ""}))),
        format!("{}.{payload}.{signature}", with(json!({"crit": ["exp"]}))),
        format!(
            "{}.{payload}.{signature}",
            with(json!({"jku": "https://127.0.0.1:1/keys", "jwk": {"kty": "oct", "k": "AA"}}))
        ),
        format!("{}.{root}.{signature}", parts[0]),
        format!("{}.{payload}.{}", parts[0], URL_SAFE_NO_PAD.encode(&keys[..32.min(keys.len())])),
        format!("{}.{payload}.{signature}.x", parts[0]),
        format!("{}..{signature}", parts[0]),
        format!("{token}="),
        ".".repeat(200_000),
        format!("{}.{}.x", parts[0], URL_SAFE_NO_PAD.encode("[".repeat(100_000))),
        format!("{}.{}.x", parts[0], "A".repeat(300_000)),
    ];
    for attack in attacks {
        let began = Instant::now();
        let shown = attack.get(..attack.len().min(120)).unwrap_or("");
        assert_eq!(whoami(&attack).await, 401, "{shown}");
        assert!(began.elapsed() < Duration::from_secs(5), "{shown}");
    }
    assert_eq!(whoami(&token).await, 201);
}

/// Tokens in the name of an issuer that cannot be reached, or that is not configured, are refused without waiting for it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_issuer_that_is_not_there_lets_nobody_in() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("authentication.yaml");
    let text = "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthenticationConfiguration\njwt:\n- issuer: {url: \
                'https://127.0.0.1:1', audiences: [api]}\n  claimMappings: {username: {claim: sub, prefix: ''}}\nanonymous: \
                {enabled: true, conditions: [{path: /livez}]}\n";
    std::fs::write(&file, text).unwrap();
    let target = Target::start_with(|builder| {
        builder.configure(|config| config.authentication.config_file = Some(file.clone()))
    })
    .await;
    for issuer in ["https://127.0.0.1:1", "https://127.0.0.1:1/", "https://evil.example", "kubernetes/serviceaccount"] {
        let claims = json!({"iss": issuer, "sub": ADMIN, "aud": "api", "exp": 4_000_000_000_u64});
        let token = format!("{}.{}.AAAA", encoded(&json!({"alg": "RS256"})), encoded(&claims));
        let began = Instant::now();
        assert_eq!(target.ask(&token, "POST", REVIEW, REVIEW_BODY).await.code, 401, "{issuer}");
        assert!(began.elapsed() < Duration::from_secs(5), "{issuer}");
    }
    let anonymous = async |path: &str| target.send(http::Request::get(path).header("host", "x"), "").await.code;
    assert_eq!(anonymous("/livez").await, 200);
    for path in ["/livez/", "/livez/ping", "/LIVEZ", "/%6civez/", "//livez", "/readyz", "/version"] {
        assert_ne!(anonymous(path).await, 200, "{path}");
    }
}

/// An issuer that accepts connections and says nothing: its tokens are refused, it is not asked once for each of them, and others
/// are served meanwhile.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_silent_issuer_holds_nobody_up() {
    let issuer = Peer::bind("localhost").await;
    let connections = Arc::new(AtomicUsize::new(0));
    let counted = connections.clone();
    let port = issuer.port;
    tokio::spawn(async move {
        let mut held = Vec::new();
        while let Ok((stream, _)) = issuer.listener.accept().await {
            counted.fetch_add(1, Ordering::Relaxed);
            held.push(stream);
        }
    });
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("authentication.yaml");
    let text = format!(
        "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthenticationConfiguration\njwt:\n- issuer: {{url: \
         'https://127.0.0.1:{port}', audiences: [api]}}\n  claimMappings: {{username: {{claim: sub, prefix: ''}}}}\n"
    );
    std::fs::write(&file, text).unwrap();
    let target = Target::start_with(|builder| {
        builder.configure(|config| config.authentication.config_file = Some(file.clone()))
    })
    .await;
    let claims =
        json!({"iss": format!("https://127.0.0.1:{port}"), "sub": ADMIN, "aud": "api", "exp": 4_000_000_000_u64});
    let token = |at: usize| format!("{}.{}.{at:04}", encoded(&json!({"alg": "RS256"})), encoded(&claims));
    let tokens: Vec<String> = (0..50).map(token).collect();
    let forged = futures::future::join_all(tokens.iter().map(|token| target.ask(token, "POST", REVIEW, REVIEW_BODY)));
    let honest = async {
        for _ in 0..20 {
            assert_eq!(target.ask(ADMIN, "POST", REVIEW, REVIEW_BODY).await.code, 201);
        }
    };
    let (refused, ()) = tokio::join!(forged, honest);
    assert!(refused.iter().all(|answer| answer.code == 401));
    let asked = connections.load(Ordering::Relaxed);
    assert!(asked <= 5, "{asked} connections to the issuer");
}

/// An authority, and certificates that it signed.
struct Authority {
    pem: String,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    fn new(name: &str) -> Authority {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let pem = params.self_signed(&key).unwrap().pem();
        Authority { pem, issuer: Issuer::new(params, key) }
    }

    fn client(&self, name: &str) -> Identity {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, name);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap().der().clone();
        (vec![certificate], PrivateKeyDer::try_from(key.serialize_der()).unwrap())
    }
}

/// A client's certificate chain and its key.
pub(crate) type Identity = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

/// Who a request with a client certificate and these headers is from; the code if it is refused.
pub(crate) async fn whoami(target: &Target, identity: Identity, headers: &[(&str, &str)]) -> Result<String, u16> {
    let review = review(target, identity, headers).await?;
    Ok(review["status"]["userInfo"]["username"].as_str().unwrap_or("").to_string())
}

/// A connection as the holder of a client certificate.
pub(crate) async fn connect(target: &Target, identity: Identity) -> std::io::Result<TlsStream<TcpStream>> {
    let mut roots = rustls::RootCertStore::empty();
    let ca = std::fs::read(&target.server.running().pki.ca).unwrap();
    CertificateDer::pem_slice_iter(&ca).for_each(|ca| roots.add(ca.unwrap()).unwrap());
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_client_cert_resolver(Arc::new(shown(identity)));
    let stream = TcpStream::connect(target.address()).await?;
    let name = ServerName::from(target.address().ip());
    TlsConnector::from(Arc::new(config)).connect(name, stream).await
}

/// What a request with a client certificate and these headers is told about itself.
pub(crate) async fn review(target: &Target, identity: Identity, headers: &[(&str, &str)]) -> Result<Value, u16> {
    let stream = connect(target, identity).await.unwrap();
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    let mut builder = http::Request::post(REVIEW).header("host", "x").header("content-type", "application/json");
    for (name, value) in headers {
        builder = builder.header(*name, *value);
    }
    let response = sender
        .send_request(builder.body(Full::new(Bytes::from_static(REVIEW_BODY.as_bytes()))).unwrap())
        .await
        .unwrap();
    let status = response.status().as_u16();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    if status == 201 { Ok(serde_json::from_slice(&body).unwrap_or(Value::Null)) } else { Err(status) }
}

/// Shows the certificate whatever is in it.
pub(crate) fn shown((chain, key): Identity) -> rustls::sign::SingleCertAndKey {
    let key = rustls::crypto::aws_lc_rs::default_provider().key_provider.load_private_key(key).unwrap();
    rustls::sign::SingleCertAndKey::from(rustls::sign::CertifiedKey::new(chain, key))
}

pub(crate) fn write(folder: &Path, name: &str, text: &str) -> std::path::PathBuf {
    let path = folder.join(name);
    std::fs::write(&path, text).unwrap();
    path
}

/// The headers of front proxies are only believed from front proxies.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_front_proxies_name_users() {
    let folder = tempfile::tempdir().unwrap();
    let (clients, proxies) = (Authority::new("clients"), Authority::new("proxies"));
    let client_file = write(folder.path(), "clients.crt", &clients.pem);
    let proxy_file = write(folder.path(), "proxies.crt", &proxies.pem);
    let target = Target::start_with(|builder| {
        builder.configure(|config| {
            config.client_ca_file = Some(client_file.clone());
            let flags = &mut config.authentication.request_header;
            flags.client_ca_file = Some(proxy_file.clone());
            flags.allowed_names = vec!["front".into()];
            flags.given.names = vec!["x-remote-user".into()];
            flags.given.groups = vec!["x-remote-group".into()];
            flags.given.extra_prefixes = vec!["x-remote-extra-".into()];
        })
    })
    .await;
    let root = [("X-Remote-User", "root"), ("X-Remote-Group", "system:masters")];
    assert_eq!(whoami(&target, proxies.client("front"), &root).await.as_deref(), Ok("root"));
    // A client with a certificate of its own stays who it is.
    assert_eq!(whoami(&target, clients.client("front"), &root).await.as_deref(), Ok("front"));
    assert_eq!(whoami(&target, clients.client("ann"), &root).await.as_deref(), Ok("ann"));
    // Proxies that are not allowed, and proxies that name no user, are anonymous.
    assert_eq!(whoami(&target, proxies.client("other"), &root).await, Err(401));
    assert_eq!(whoami(&target, proxies.client("front"), &[("X-Remote-User", "")]).await, Err(401));
    assert_eq!(whoami(&target, proxies.client("front"), &[("X_Remote_User", "root")]).await, Err(401));
    assert_eq!(whoami(&target, Authority::new("proxies").client("front"), &root).await, Err(401));
    // A token is not a certificate.
    let builder =
        request(MALLORY, "POST", REVIEW).header("X-Remote-User", "root").header("X-Remote-Group", "system:masters");
    let review = target.send(builder, REVIEW_BODY).await.json();
    assert_eq!(review["status"]["userInfo"]["username"], MALLORY);
    let published = target
        .ask(ADMIN, "GET", "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication", "")
        .await;
    let data = published.json()["data"].clone();
    assert_eq!(data["requestheader-allowed-names"], "[\"front\"]");
    assert_eq!(data["client-ca-file"].as_str().unwrap().matches("BEGIN CERTIFICATE").count(), 1);
}

/// An authority that the server made for itself vouches for nobody beside `--client-ca-file`, unless that was asked for.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_own_authority_is_not_trusted_beside_another() {
    let folder = tempfile::tempdir().unwrap();
    let given = Authority::new("clients");
    let file = write(folder.path(), "clients.crt", &given.pem);
    let start = async |client_ca: bool, own: Option<bool>| {
        Target::start_with(|builder| {
            builder.folder(folder.path().join("data")).configure(|config| {
                config.client_ca_file = Some(file.clone()).filter(|_| client_ca);
                config.own_authority = own;
            })
        })
        .await
    };
    let first = start(false, None).await;
    let (certificate, key) = first.server.running().pki.client("eve", &["system:masters"]).unwrap();
    let minted = || {
        let certificate = CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap();
        (vec![certificate], PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap())
    };
    assert_eq!(whoami(&first, minted(), &[]).await.as_deref(), Ok("eve"));
    first.server.stop().await;
    for (own, want) in [(None, Err(401)), (Some(true), Ok("eve")), (Some(false), Err(401))] {
        let target = start(true, own).await;
        assert_eq!(whoami(&target, minted(), &[]).await.as_deref().map_err(|code| *code), want, "{own:?}");
        assert_eq!(whoami(&target, given.client("ann"), &[]).await.as_deref(), Ok("ann"));
        target.server.stop().await;
    }
}
