//! A server that is given its store, its certificates and its keys makes nothing of its own, needs no directory that it can write to,
//! and says what works.

#![allow(clippy::unwrap_used, clippy::panic)] // In tests a failed assumption is a failed test, in helpers too.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};

/// A folder as kubeadm leaves it.
fn given(folder: &Path) {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.distinguished_name.push(DnType::CommonName, "kubernetes");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().unwrap();
    std::fs::write(folder.join("ca.crt"), params.self_signed(&key).unwrap().pem()).unwrap();
    let issuer = Issuer::new(params, key);
    let serving = CertificateParams::new(vec!["kubernetes".to_string()]).unwrap();
    let key = KeyPair::generate().unwrap();
    std::fs::write(folder.join("apiserver.crt"), serving.signed_by(&key, &issuer).unwrap().pem()).unwrap();
    std::fs::write(folder.join("apiserver.key"), key.serialize_pem()).unwrap();
    std::fs::write(folder.join("sa.key"), KeyPair::generate().unwrap().serialize_pem()).unwrap();
}

/// kubeadm's flags for the files in a folder.
fn flags(folder: &Path) -> Vec<String> {
    let files = [
        ("client-ca-file", "ca.crt"),
        ("tls-cert-file", "apiserver.crt"),
        ("tls-private-key-file", "apiserver.key"),
        ("service-account-signing-key-file", "sa.key"),
        ("service-account-key-file", "sa.key"),
    ];
    let mut flags: Vec<String> =
        files.iter().map(|(flag, file)| format!("--{flag}={}", folder.join(file).display())).collect();
    flags.push("--service-account-issuer=https://kubernetes.default.svc.cluster.local".into());
    flags.push("--authorization-mode=Node,RBAC".into());
    flags.push("--bind-address=127.0.0.1".into());
    flags.push("--secure-port=0".into());
    flags
}

struct Started(Child);

impl Drop for Started {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts in a working directory; what the server says until it stops saying.
fn greeting(work: &Path, flags: &[String]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ferrokube"));
    command.args(flags).current_dir(work).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut started = Started(command.spawn().unwrap());
    let mut lines = BufReader::new(started.0.stdout.take().unwrap()).lines().map(Result::unwrap);
    let ready = lines.find(|line| line.contains("is ready on")).expect("the server starts");
    Command::new("kill").arg(started.0.id().to_string()).status().unwrap();
    let rest: Vec<String> = lines.collect();
    assert!(started.0.wait().unwrap().success());
    format!("{ready}\n{}", rest.join("\n"))
}

fn files(folder: &Path) -> Vec<String> {
    let mut names: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

#[test]
fn no_authority_is_made_beside_one_that_was_given() {
    let (folder, work) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    given(folder.path());
    let said = greeting(work.path(), &flags(folder.path()));
    assert!(said.contains("clients     with certificates of") && !said.contains("kubectl"), "{said}");
    assert_eq!(files(work.path()), [".ferrokube"]);
    let made = files(&work.path().join(".ferrokube"));
    assert!(made.iter().all(|name| name.starts_with("store.redb")), "{made:?}");
    // What the flag asks for is there, and works as before.
    let said = greeting(work.path(), &[flags(folder.path()), vec!["--own-authority".into()]].concat());
    assert!(said.contains("kubectl --kubeconfig /"), "{said}");
    let kubeconfig = std::fs::read_to_string(work.path().join(".ferrokube/kubeconfig")).unwrap();
    assert!(kubeconfig.contains("tls-server-name: kubernetes\n"), "{kubeconfig}");
}

#[test]
fn nothing_is_written_where_everything_was_given() {
    let Some(etcd) = storage_etcd::testing::Cluster::single() else { return };
    let (folder, work) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    given(folder.path());
    let mut flags = flags(folder.path());
    flags.push(format!("--etcd-servers={}", etcd.endpoints().join(",")));
    let before = files(folder.path());
    greeting(work.path(), &flags);
    assert!(files(work.path()).is_empty(), "{:?}", files(work.path()));
    assert_eq!(files(folder.path()), before);
    // With a folder for the serving certificate in place of a pair, the pair in it is the only thing that is made.
    let certs = folder.path().join("certs");
    flags.retain(|flag| !flag.starts_with("--tls-") && !flag.starts_with("--client-ca-file"));
    flags.push(format!("--cert-dir={}", certs.display()));
    let said = greeting(work.path(), &flags);
    assert!(said.contains("no client certificate is accepted"), "{said}");
    assert!(files(work.path()).is_empty(), "{:?}", files(work.path()));
    assert_eq!(files(&certs), ["apiserver.crt", "apiserver.key"]);
}
