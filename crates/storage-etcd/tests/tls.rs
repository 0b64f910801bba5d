//! Members that speak TLS and ask who we are.

#![allow(clippy::unwrap_used, clippy::panic)] // In tests a failed assumption is a failed test, in helpers too.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, ExtendedKeyUsagePurpose, IsCa, KeyPair};
use storage::Store;
use storage_etcd::testing::{Cluster, etcd};
use storage_etcd::{EtcdStore, Options};

/// Writes a certificate for loopback and its key, signed by an authority.
fn issue(issuer: &CertifiedIssuer<'static, KeyPair>, directory: &Path, name: &str) -> (PathBuf, PathBuf) {
    let mut params = CertificateParams::new(vec!["127.0.0.1".to_string(), "localhost".to_string()]).unwrap();
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn both_sides_prove_who_they_are() {
    let Some(binary) = etcd() else { return };
    let directory = tempfile::tempdir().unwrap();
    let (issuer, ca_file) = authority(directory.path(), "ca");
    let (server_cert, server_key) = issue(&issuer, directory.path(), "server");
    let (client_cert, client_key) = issue(&issuer, directory.path(), "client");
    let arguments = [
        "--unsafe-no-fsync".to_string(),
        "--client-cert-auth".to_string(),
        format!("--cert-file={}", server_cert.display()),
        format!("--key-file={}", server_key.display()),
        format!("--trusted-ca-file={}", ca_file.display()),
    ];
    let cluster = Cluster::start(&binary, 1, &arguments.each_ref().map(String::as_str));
    let with = |ca: &Path, identity: Option<(&Path, &Path)>| Options {
        ca_file: Some(ca.to_owned()),
        cert_file: identity.map(|(cert, _)| cert.to_owned()),
        key_file: identity.map(|(_, key)| key.to_owned()),
        start_timeout: Duration::from_millis(500),
        ..Options::at(cluster.endpoints())
    };

    let store = EtcdStore::connect(with(&ca_file, Some((&client_cert, &client_key)))).await.unwrap();
    let written = store.create("/tls".into(), bytes::Bytes::from_static(b"x"), None).await.unwrap();
    assert_eq!(store.get(b"/tls", None).await.unwrap().entry, written.entry);

    let (_, other_ca) = authority(directory.path(), "other");
    let missing = directory.path().join("missing.crt");
    for (what, options) in [
        ("nobody", with(&ca_file, None)),
        ("a server signed by somebody else", with(&other_ca, Some((&client_cert, &client_key)))),
        ("no such file", with(&missing, None)),
        ("nobody this machine trusts", Options { ca_file: None, ..with(&ca_file, Some((&client_cert, &client_key))) }),
    ] {
        let error = EtcdStore::connect(options).await.err();
        assert!(error.is_some(), "{what}");
    }
}
