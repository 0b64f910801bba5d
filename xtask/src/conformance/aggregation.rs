//! The published sample-apiserver and metrics-server behind ferrokube and behind kube-apiserver: kubectl must see the same.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::compare::{self, Recorder};
use super::lab::{Lab, Server, free_port, openssl};
use crate::components;

const GROUP: &str = "wardle.example.com";
const VERSION: &str = "v1alpha1";
/// The name in the certificate with which an API server speaks for its users.
const PROXY: &str = "front-proxy-client";

/// An API server with its own storage.
pub fn run() -> Result<String, String> {
    let tools = components::ensure(&["etcd", "sample-apiserver"])?;
    let same = compare::both("aggregation", proxy_flags, |lab, server| {
        let mut recorder = Recorder::new(server)?;
        let store = lab.etcd(&tools["etcd"])?;
        flunders(lab, server, &tools["sample-apiserver"], &store, &mut recorder)?;
        Ok(recorder.printed)
    })?;
    Ok(format!("{same} commands print the same through ferrokube and kube-apiserver"))
}

/// An API server that asks kubelets.
pub fn run_metrics() -> Result<String, String> {
    let tools = components::ensure(&["metrics-server", "stream-node"])?;
    let same = compare::both("metrics", proxy_flags, |lab, server| {
        let mut recorder = Recorder::new(server)?;
        metrics(lab, server, &tools, &mut recorder)?;
        Ok(recorder.printed)
    })?;
    Ok(format!("{same} commands print the same through ferrokube and kube-apiserver"))
}

/// Flags that let a server prove to others whom it speaks for, with new keys and certificates.
fn proxy_flags(lab: &Lab) -> Result<Vec<String>, String> {
    let file = |name: &str| lab.folder.join(name);
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
        // Nothing creates service accounts on kube-apiserver alone.
        "--disable-admission-plugins=ServiceAccount".into(),
    ])
}

/// An API server behind the one that kubectl talks to; it can be killed and started again.
struct Backend<'a> {
    name: &'a str,
    binary: &'a Path,
    kubeconfig: PathBuf,
    port: u16,
    flags: Vec<String>,
}

impl<'a> Backend<'a> {
    fn new(name: &'a str, binary: &'a Path, server: &Server, flags: Vec<String>) -> Result<Backend<'a>, String> {
        Ok(Backend { name, binary, kubeconfig: server.kubeconfig.clone(), port: free_port()?, flags })
    }

    fn start(&self, lab: &mut Lab) -> Result<(), String> {
        let mut command = Command::new(self.binary);
        for flag in ["--kubeconfig", "--authentication-kubeconfig", "--authorization-kubeconfig"] {
            command.arg(flag).arg(&self.kubeconfig);
        }
        command.arg("--cert-dir").arg(lab.folder.join(format!("{}-certs", self.name)));
        command.arg(format!("--secure-port={}", self.port)).arg("--bind-address=127.0.0.1").args(&self.flags);
        lab.spawn(self.name, &mut command).map(|_| ())
    }
}

/// Waits until the check of an APIService has found what it should.
fn wait_until(recorder: &Recorder, service: &str, reason: &str) -> Result<(), String> {
    let condition = format!("get apiservice {service} -o jsonpath={{.status.conditions[0].reason}}");
    recorder.kubectl.wait(&condition, |found| found == reason)
}

fn flunders(lab: &mut Lab, server: &Server, binary: &Path, store: &str, recorder: &mut Recorder) -> Result<(), String> {
    let service = format!("{VERSION}.{GROUP}");
    let flags = vec![format!("--etcd-servers={store}"), "--enable-priority-and-fairness=false".into()];
    let backend = Backend::new("sample-apiserver", binary, server, flags)?;
    recorder.kubectl.apply(&registration(GROUP, VERSION, backend.port))?;
    wait_until(recorder, &service, "FailedDiscoveryCheck")?;
    backend.start(lab)?;
    wait_until(recorder, &service, "Passed")?;
    // The aggregated documents are refreshed a moment later.
    recorder.kubectl.wait(&format!("api-resources --api-group={GROUP} -o name"), |names| names.contains("flunders"))?;
    recorder.kubectl.wait("explain flunder.spec.referenceType", |text| text.contains("referenceType"))?;
    let manifest = lab.folder.join("flunder.yaml");
    fs::write(&manifest, FLUNDER).map_err(|error| error.to_string())?;
    let manifest = format!("{}", manifest.display());
    for line in FLUNDER_COMMANDS {
        recorder.show(&line.replace("MANIFEST", &manifest));
    }
    lab.stop(backend.name)?;
    wait_until(recorder, &service, "FailedDiscoveryCheck")?;
    for line in DEAD_COMMANDS {
        recorder.show(line);
    }
    backend.start(lab)?;
    wait_until(recorder, &service, "Passed")?;
    recorder.show("get flunders -n wardle -o name");
    recorder.show("delete flunder first -n wardle");
    recorder.show(&format!("delete apiservice {service}"));
    let gone = |text: &str| text.contains("could not find");
    recorder.kubectl.wait(&format!("get --raw /apis/{GROUP}/{VERSION}"), gone)?;
    lab.stop(backend.name)
}

/// kubectl top, with metrics-server asking the kubelet of a node that runs one pod.
fn metrics(
    lab: &mut Lab,
    server: &Server,
    tools: &BTreeMap<String, PathBuf>,
    recorder: &mut Recorder,
) -> Result<(), String> {
    let mut node = Command::new(&tools["stream-node"]);
    lab.spawn("stream-node", node.env("KUBECONFIG", &server.kubeconfig).args(["-name", "measured"]))?;
    recorder.kubectl.wait("get nodes -o name", |nodes| nodes.contains("measured"))?;
    recorder.kubectl.apply(MEASURED)?;
    let flags = [
        "--kubelet-insecure-tls",
        "--kubelet-use-node-status-port",
        "--metric-resolution=10s",
        "--kubelet-request-timeout=5s",
    ];
    let flags = flags.map(String::from).to_vec();
    let backend = Backend::new("metrics-server", &tools["metrics-server"], server, flags)?;
    recorder.show_measured("top nodes");
    recorder.kubectl.apply(&registration("metrics.k8s.io", "v1beta1", backend.port))?;
    backend.start(lab)?;
    wait_until(recorder, "v1beta1.metrics.k8s.io", "Passed")?;
    recorder.kubectl.wait("top nodes", |text| text.contains("measured"))?;
    recorder.kubectl.wait("top pods", |text| text.contains("measured"))?;
    recorder.kubectl.wait("explain podmetrics.containers", |text| text.contains("containers"))?;
    for line in METRICS_COMMANDS {
        recorder.show_measured(line);
    }
    lab.stop(backend.name)?;
    wait_until(recorder, "v1beta1.metrics.k8s.io", "FailedDiscoveryCheck")?;
    recorder.show_measured("top nodes");
    recorder.show_measured("get pods -o name");
    backend.start(lab)?;
    wait_until(recorder, "v1beta1.metrics.k8s.io", "Passed")?;
    recorder.kubectl.wait("top nodes", |text| text.contains("measured"))?;
    recorder.show_measured("top nodes");
    Ok(())
}

fn registration(group: &str, version: &str, port: u16) -> String {
    format!(
        "{{apiVersion: v1, kind: Namespace, metadata: {{name: wardle}}}}\n---\n\
         {{apiVersion: v1, kind: Service, metadata: {{name: api, namespace: wardle}}, \
         spec: {{type: ExternalName, externalName: localhost}}}}\n---\n\
         {{apiVersion: apiregistration.k8s.io/v1, kind: APIService, metadata: {{name: {version}.{group}}}, spec: {{\
         group: {group}, version: {version}, groupPriorityMinimum: 1000, versionPriority: 15, \
         insecureSkipTLSVerify: true, service: {{name: api, namespace: wardle, port: {port}}}}}}}\n"
    )
}

const FLUNDER: &str = "\
apiVersion: wardle.example.com/v1alpha1
kind: Flunder
metadata: {name: first, namespace: wardle, labels: {sample-label: 'true'}}
spec: {reference: second, referenceType: Flunder}
";

const FLUNDER_COMMANDS: [&str; 17] = [
    "get --raw /apis/wardle.example.com",
    "get --raw /apis/wardle.example.com/v1alpha1",
    "api-resources --api-group=wardle.example.com",
    "api-resources",
    "api-versions",
    "apply -f MANIFEST",
    "apply --server-side --force-conflicts -f MANIFEST",
    "get flunders -n wardle -o name",
    "get flunder first -n wardle -o jsonpath={.spec}",
    "explain flunder",
    "explain flunder.spec --api-version=wardle.example.com/v1alpha1",
    "label flunder first -n wardle a=b",
    "get flunders -n wardle -l a=b -o name",
    "get flunders -n wardle --as=nobody",
    "get fischers -o name",
    "get --raw /apis/wardle.example.com/v1alpha1/namespaces/wardle/flunders/absent",
    "get flunders -n wardle --watch --output-watch-events --request-timeout=2s -o name",
];

const DEAD_COMMANDS: [&str; 4] = [
    "get flunders -n wardle -o name",
    "get --raw /apis/wardle.example.com/v1alpha1",
    "get --raw /apis/wardle.example.com",
    "get configmaps -n wardle -o name",
];

const MEASURED: &str = "
apiVersion: v1
kind: Pod
metadata: {name: measured}
spec: {nodeName: measured, containers: [{name: c, image: none, command: [sleep, infinity]}]}
";

const METRICS_COMMANDS: [&str; 11] = [
    "top nodes",
    "top pods",
    "top pods --containers -A",
    "top pod absent",
    "get --raw /apis/metrics.k8s.io/v1beta1",
    "api-resources --api-group=metrics.k8s.io",
    "get nodes.metrics.k8s.io,pods.metrics.k8s.io -o name",
    "get pods.metrics.k8s.io measured -o jsonpath={.containers[*].name}",
    "get pods.metrics.k8s.io --watch",
    "explain podmetrics.containers",
    "explain nodemetrics",
];
