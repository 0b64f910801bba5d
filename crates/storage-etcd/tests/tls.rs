//! Members that speak TLS, ask who we are, and have a say in what we may do.

#![allow(clippy::unwrap_used, clippy::panic)] // In tests a failed assumption is a failed test, in helpers too.

use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair,
};
use storage::{Error, Key, Store};
use storage_etcd::testing::access::restrict;
use storage_etcd::testing::{Cluster, etcd};
use storage_etcd::{EtcdOptions, EtcdStore};

/// Writes a certificate for loopback and its key, signed by an authority. Its common name is the given one.
fn issue(issuer: &CertifiedIssuer<'static, KeyPair>, directory: &Path, name: &str) -> (PathBuf, PathBuf) {
    let mut params = CertificateParams::new(vec!["127.0.0.1".to_string(), "localhost".to_string()]).unwrap();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
    let key = KeyPair::generate().unwrap();
    let certificate = params.signed_by(&key, issuer).unwrap();
    let (cert_file, key_file) = (directory.join(format!("{name}.crt")), directory.join(format!("{name}.key")));
    std::fs::write(&cert_file, certificate.pem()).unwrap();
    std::fs::write(&key_file, key.serialize_pem()).unwrap();
    (cert_file, key_file)
}

fn authority(directory: &Path, name: &str) -> (CertifiedIssuer<'static, KeyPair>, PathBuf) {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    let file = directory.join(format!("{name}.crt"));
    std::fs::write(&file, issuer.pem()).unwrap();
    (issuer, file)
}

/// A member that accepts clients with a certificate of this authority.
fn member(binary: &Path, issuer: &CertifiedIssuer<'static, KeyPair>, ca_file: &Path, directory: &Path) -> Cluster {
    let (server_cert, server_key) = issue(issuer, directory, "server");
    let arguments = [
        "--unsafe-no-fsync".to_string(),
        "--client-cert-auth".to_string(),
        format!("--cert-file={}", server_cert.display()),
        format!("--key-file={}", server_key.display()),
        format!("--trusted-ca-file={}", ca_file.display()),
    ];
    Cluster::start(binary, 1, &arguments.each_ref().map(String::as_str))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn both_sides_prove_who_they_are() {
    let Some(binary) = etcd() else { return };
    let directory = tempfile::tempdir().unwrap();
    let (issuer, ca_file) = authority(directory.path(), "ca");
    let (client_cert, client_key) = issue(&issuer, directory.path(), "client");
    let cluster = member(&binary, &issuer, &ca_file, directory.path());
    let with = |ca: &Path, identity: Option<(&Path, &Path)>| EtcdOptions {
        ca_file: Some(ca.to_owned()),
        cert_file: identity.map(|(cert, _)| cert.to_owned()),
        key_file: identity.map(|(_, key)| key.to_owned()),
        start_timeout: Duration::from_millis(500),
        ..EtcdOptions::at(cluster.endpoints())
    };

    let store = EtcdStore::connect(with(&ca_file, Some((&client_cert, &client_key)))).await.unwrap();
    let written = store.create("/tls".into(), Bytes::from_static(b"x"), None).await.unwrap();
    assert_eq!(store.get(b"/tls", None).await.unwrap().entry, written.entry);

    let (_, other_ca) = authority(directory.path(), "other");
    let missing = directory.path().join("missing.crt");
    for (what, options) in [
        ("nobody", with(&ca_file, None)),
        ("a server signed by somebody else", with(&other_ca, Some((&client_cert, &client_key)))),
        ("no such file", with(&missing, None)),
        (
            "nobody this machine trusts",
            EtcdOptions { ca_file: None, ..with(&ca_file, Some((&client_cert, &client_key))) },
        ),
    ] {
        let error = EtcdStore::connect(options).await.err();
        assert!(error.is_some(), "{what}");
    }
}

/// A member is believed as far as the certificate of its authority goes: one that has expired or is none vouches for nobody.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn authorities_vouch_as_far_as_they_may() {
    let directory = tempfile::tempdir().unwrap();
    let cannot_sign = "x509: invalid signature: parent certificate cannot sign this kind of certificate";
    type Change = fn(&mut CertificateParams);
    let cases: [(Change, &str); 4] = [
        (
            |params| params.not_after = rcgen::date_time_ymd(2021, 1, 1),
            "x509: certificate has expired or is not yet valid",
        ),
        (|params| params.is_ca = IsCa::ExplicitNoCa, cannot_sign),
        (|params| params.key_usages = vec![rcgen::KeyUsagePurpose::DigitalSignature], cannot_sign),
        (
            |params| params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth],
            "x509: certificate specifies an incompatible key usage",
        ),
    ];
    for (change, want) in cases {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        change(&mut params);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let ca_file = directory.path().join("authority.crt");
        std::fs::write(&ca_file, issuer.pem()).unwrap();
        let (cert, key) = issue(&issuer, directory.path(), "member");
        let options = EtcdOptions {
            ca_file: Some(ca_file),
            start_timeout: Duration::from_millis(500),
            ..EtcdOptions::at([format!("https://{}", tls_listener(&cert, &key).await)])
        };
        let error = EtcdStore::connect(options).await.err().unwrap().to_string();
        assert!(error.contains(want), "{error}\n{want}");
    }
}

/// Accepts connections with this certificate and says nothing.
async fn tls_listener(cert: &Path, key: &Path) -> std::net::SocketAddr {
    let pair = gox509::KeyPair::parse(&std::fs::read(cert).unwrap(), &std::fs::read(key).unwrap()).unwrap();
    let config = rustls::ServerConfig::builder_with_provider(rustls::crypto::aws_lc_rs::default_provider().into())
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(pair.chain, pair.key)
        .unwrap();
    let acceptor = tokio_rustls::TlsAcceptor::from(std::sync::Arc::new(config));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            drop(acceptor.accept(stream).await);
        }
    });
    address
}

/// Certificates are replaced while a server runs: first the authority of both sides, then the client's own certificate.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn certificates_are_rotated() {
    let Some(binary) = etcd() else { return };
    let directory = tempfile::tempdir().unwrap();
    let (old, ca_file) = authority(directory.path(), "ca");
    let (cert_file, key_file) = issue(&old, directory.path(), "client");
    let mut cluster = member(&binary, &old, &ca_file, directory.path());
    let options = EtcdOptions {
        ca_file: Some(ca_file.clone()),
        cert_file: Some(cert_file),
        key_file: Some(key_file),
        ..EtcdOptions::at(cluster.endpoints())
    };
    let store = EtcdStore::connect(options).await.unwrap();
    let written = store.create("/rotated".into(), Bytes::from_static(b"x"), None).await.unwrap();
    let (new, _) = authority(directory.path(), "ca");
    for name in ["server", "client"] {
        issue(&new, directory.path(), name);
    }
    tokio::task::block_in_place(|| {
        cluster.kill(0);
        cluster.revive(0);
    });
    assert_eq!(store.get(b"/rotated", None).await.unwrap().entry, written.entry);
    let updated = store.update("/rotated".into(), Bytes::from_static(b"y"), written.revision, None).await.unwrap();
    assert_eq!(store.get(b"/rotated", None).await.unwrap().entry, updated.entry);
}

/// etcd's access control, as operators set it up: a server has its certificate's name and a prefix of its own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_may_only_touch_its_prefix_does_without_receipts() {
    let Some(binary) = etcd() else { return };
    let directory = tempfile::tempdir().unwrap();
    let (issuer, ca_file) = authority(directory.path(), "ca");
    let (cert_file, key_file) = issue(&issuer, directory.path(), "apiserver");
    let cluster = member(&binary, &issuer, &ca_file, directory.path());
    let options = || EtcdOptions {
        ca_file: Some(ca_file.clone()),
        cert_file: Some(cert_file.clone()),
        key_file: Some(key_file.clone()),
        ..EtcdOptions::at(cluster.endpoints())
    };
    restrict(&options(), "apiserver", "/registry/").await;
    let store = EtcdStore::connect(options()).await.unwrap();
    let [one, two] = [&b"one"[..], b"two"].map(Bytes::from_static);
    let key = || Key::from("/registry/pods/default/a");
    let created = store.create(key(), one.clone(), None).await.unwrap();
    assert!(matches!(store.create(key(), one, None).await, Err(Error::KeyExists(_))), "refusals stay what they are");
    let updated = store.update(key(), two, created.revision, None).await.unwrap();
    assert_eq!(store.get(&key(), None).await.unwrap().entry, updated.entry);
    let outside = store.create("/elsewhere".into(), Bytes::new(), None).await;
    assert!(outside.is_err(), "and what is forbidden stays forbidden: {outside:?}");
}
