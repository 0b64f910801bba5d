//! The published sample-apiserver behind ferrokube and behind kube-apiserver: kubectl must see the same.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::lab::{Kubectl, Lab, Server, free_port, openssl};
use crate::components;

const GROUP: &str = "wardle.example.com";
const VERSION: &str = "v1alpha1";
/// The name in the certificate with which an API server speaks for its users.
const PROXY: &str = "front-proxy-client";

pub fn run() -> Result<String, String> {
    let tools = components::ensure(&["etcd", "kube-apiserver", "kubectl", "sample-apiserver"])?;
    let (etcd, sample) = (&tools["etcd"], &tools["sample-apiserver"]);
    let ours = {
        let mut lab = Lab::new("aggregation")?;
        let store = lab.etcd(etcd)?;
        let flags = proxy_flags(&lab.folder)?;
        let flags: Vec<&str> = flags.iter().map(String::as_str).chain(["--standalone=true"]).collect();
        let server = lab.ferrokube(&flags)?;
        play(&mut lab, &server, sample, &store)?
    };
    let theirs = {
        let mut lab = Lab::new("aggregation-reference")?;
        let store = lab.etcd(etcd)?;
        let flags = proxy_flags(&lab.folder)?;
        let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
        let server = lab.kube_apiserver(&tools["kube-apiserver"], &store, &flags)?;
        play(&mut lab, &server, sample, &store)?
    };
    for ((line, ours), (_, theirs)) in ours.iter().zip(&theirs) {
        if ours != theirs {
            return Err(format!("{line}:\nferrokube:\n{ours}\nkube-apiserver:\n{theirs}"));
        }
    }
    Ok(format!("{} commands print the same through ferrokube and kube-apiserver", ours.len()))
}

/// Flags that let a server prove to others whom it speaks for, with new keys and certificates.
fn proxy_flags(folder: &Path) -> Result<Vec<String>, String> {
    let file = |name: &str| folder.join(name);
    openssl(
        &["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=front-proxy-ca"],
        &[("-keyout", file("proxy-ca.key")), ("-out", file("proxy-ca.crt"))],
    )?;
    openssl(
        &["req", "-newkey", "rsa:2048", "-nodes", "-subj", &format!("/CN={PROXY}")],
        &[("-keyout", file("proxy.key")), ("-out", file("proxy.csr"))],
    )?;
    openssl(
        &["x509", "-req", "-days", "2", "-CAcreateserial"],
        &[
            ("-CA", file("proxy-ca.crt")),
            ("-CAkey", file("proxy-ca.key")),
            ("-in", file("proxy.csr")),
            ("-out", file("proxy.crt")),
        ],
    )?;
    let with_file = |flag: &str, name: &str| format!("--{flag}={}", file(name).display());
    Ok(vec![
        with_file("requestheader-client-ca-file", "proxy-ca.crt"),
        with_file("proxy-client-cert-file", "proxy.crt"),
        with_file("proxy-client-key-file", "proxy.key"),
        format!("--requestheader-allowed-names={PROXY}"),
        "--requestheader-username-headers=X-Remote-User".into(),
        "--requestheader-group-headers=X-Remote-Group".into(),
        "--requestheader-extra-headers-prefix=X-Remote-Extra-".into(),
    ])
}

/// The backend, which can be killed and started again with what it stored.
struct Sample<'a> {
    binary: &'a Path,
    kubeconfig: PathBuf,
    store: &'a str,
    port: u16,
}

impl Sample<'_> {
    fn start(&self, lab: &mut Lab) -> Result<(), String> {
        let mut command = Command::new(self.binary);
        for flag in ["--kubeconfig", "--authentication-kubeconfig", "--authorization-kubeconfig"] {
            command.arg(flag).arg(&self.kubeconfig);
        }
        command.arg("--cert-dir").arg(lab.folder.join("sample-certs"));
        command.arg(format!("--etcd-servers={}", self.store)).arg(format!("--secure-port={}", self.port));
        command.args(["--bind-address=127.0.0.1", "--enable-priority-and-fairness=false"]);
        lab.spawn("sample-apiserver", &mut command).map(|_| ())
    }
}

/// What kubectl printed, command by command.
fn play(lab: &mut Lab, server: &Server, binary: &Path, store: &str) -> Result<Vec<(String, String)>, String> {
    let kubectl = Kubectl::of(server)?;
    let sample = Sample { binary, kubeconfig: server.kubeconfig.clone(), store, port: free_port()? };
    kubectl.run("create namespace wardle")?;
    kubectl.apply(&registration(sample.port))?;
    let condition = r#"get apiservice v1alpha1.wardle.example.com -o jsonpath={.status.conditions[0].reason}"#;
    kubectl.wait(condition, |reason| reason == "FailedDiscoveryCheck")?;
    sample.start(lab)?;
    kubectl.wait(condition, |reason| reason == "Passed")?;
    // The aggregated documents are refreshed a moment later.
    kubectl.wait(&format!("api-resources --api-group={GROUP} -o name"), |names| names.contains("flunders"))?;
    kubectl.wait("explain flunder.spec.referenceType", |text| text.contains("referenceType"))?;
    let mut printed = Vec::new();
    let mut show = |line: &str| -> Result<(), String> {
        printed.push((line.to_string(), kubectl.run(line).unwrap_or_else(|why| why)));
        Ok(())
    };
    let manifest = lab.folder.join("flunder.yaml");
    fs::write(&manifest, FLUNDER).map_err(|error| error.to_string())?;
    let manifest = manifest.display();
    for line in [
        format!("get --raw /apis/{GROUP}"),
        format!("api-resources --api-group={GROUP}"),
        "api-versions".into(),
        format!("apply -f {manifest}"),
        format!("apply --server-side --force-conflicts -f {manifest}"),
        "get flunders -n wardle -o name".into(),
        "get flunder first -n wardle -o jsonpath={.spec}".into(),
        "explain flunder".into(),
        "explain flunder.spec --api-version=wardle.example.com/v1alpha1".into(),
        "label flunder first -n wardle a=b".into(),
        "get flunders -n wardle -l a=b -o name".into(),
        "get flunders -n wardle --as=nobody".into(),
        "get fischers -o name".into(),
        format!("get --raw /apis/{GROUP}/{VERSION}/namespaces/wardle/flunders/absent"),
        "get flunders -n wardle --watch --output-watch-events --request-timeout=2s -o name".into(),
    ] {
        show(&line)?;
    }
    lab.stop("sample-apiserver")?;
    kubectl.wait(condition, |reason| reason == "FailedDiscoveryCheck")?;
    show("get flunders -n wardle -o name")?;
    show(&format!("get --raw /apis/{GROUP}/{VERSION}"))?;
    show("get configmaps -n wardle -o name")?;
    sample.start(lab)?;
    kubectl.wait(condition, |reason| reason == "Passed")?;
    show("get flunders -n wardle -o name")?;
    show("delete flunder first -n wardle")?;
    show("delete apiservice v1alpha1.wardle.example.com")?;
    kubectl.wait(&format!("get --raw /apis/{GROUP}/{VERSION}"), |text| text.contains("could not find"))?;
    Ok(printed)
}

fn registration(port: u16) -> String {
    format!(
        "{{apiVersion: v1, kind: Service, metadata: {{name: api, namespace: wardle}}, \
         spec: {{type: ExternalName, externalName: localhost}}}}\n---\n\
         {{apiVersion: apiregistration.k8s.io/v1, kind: APIService, metadata: {{name: {VERSION}.{GROUP}}}, spec: {{\
         group: {GROUP}, version: {VERSION}, groupPriorityMinimum: 1000, versionPriority: 15, \
         insecureSkipTLSVerify: true, service: {{name: api, namespace: wardle, port: {port}}}}}}}\n"
    )
}

const FLUNDER: &str = "\
apiVersion: wardle.example.com/v1alpha1
kind: Flunder
metadata: {name: first, namespace: wardle, labels: {sample-label: 'true'}}
spec: {reference: second, referenceType: Flunder}
";
