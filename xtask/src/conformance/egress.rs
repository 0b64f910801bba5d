//! kubectl's exec and logs through konnectivity, Kubernetes' network proxy, once for each of its protocols.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::lab::{Kubectl, Lab, free_port, openssl, wait_for};
use super::streams;
use crate::components;

/// The protocol's name in the egress selection, and konnectivity's.
const PROTOCOLS: [(&str, &str); 2] = [("GRPC", "grpc"), ("HTTPConnect", "http-connect")];

pub fn run() -> Result<String, String> {
    let tools = components::ensure(&["konnectivity", "stream-node", "kubectl"])?;
    for (protocol, mode) in PROTOCOLS {
        let mut lab = Lab::new(&format!("egress-{mode}"))?;
        play(&mut lab, &tools, protocol, mode).map_err(|why| format!("{protocol}: {why}"))?;
        lab.all_alive()?;
    }
    Ok("exec and logs through konnectivity by gRPC and HTTP CONNECT, also after its agent was gone for a while".into())
}

fn play(lab: &mut Lab, tools: &BTreeMap<String, PathBuf>, protocol: &str, mode: &str) -> Result<(), String> {
    let proxy = Proxy::start(lab, &tools["konnectivity"], mode)?;
    proxy.start_agent(lab)?;
    let selection = lab.folder.join("egress.yaml");
    let text = format!(
        "apiVersion: apiserver.k8s.io/v1beta1\nkind: EgressSelectorConfiguration\negressSelections:\n- name: cluster\n  \
         connection: {{proxyProtocol: {protocol}, transport: {{uds: {{udsName: {}}}}}}}\n",
        proxy.socket.display()
    );
    std::fs::write(&selection, text).map_err(|error| error.to_string())?;
    let selection = format!("--egress-selector-config-file={}", selection.display());
    let server = lab.ferrokube(&["--disable-admission-plugins=ServiceAccount", &selection])?;
    let kubectl = Kubectl::of(&server)?;
    let mut node = Command::new(&tools["stream-node"]);
    lab.spawn("node", node.env("KUBECONFIG", &server.kubeconfig).args(["-name", "node"]))?;
    kubectl.wait("get nodes -o name", |nodes| nodes.contains("node"))?;
    streams::start_pod(&kubectl, "node")?;
    check(&kubectl)?;
    // Without an agent nothing in the cluster can be reached.
    lab.stop("agent")?;
    if let Ok(said) = kubectl.run("exec node -- echo hi") {
        return Err(format!("a command was run past the proxy and printed {said:?}"));
    }
    proxy.start_agent(lab)?;
    kubectl.wait("exec node -- echo back", |said| said == "back")?;
    check(&kubectl)
}

fn check(kubectl: &Kubectl) -> Result<(), String> {
    for (command, want) in [("exec node -- echo hi", "hi\n"), ("logs node --limit-bytes=7", "started")] {
        // The agent may need a moment to connect.
        kubectl.wait(command, |said| said == want.trim())?;
    }
    Ok(())
}

/// konnectivity's server, and what its agents need to know.
struct Proxy<'a> {
    binary: &'a Path,
    socket: PathBuf,
    certificate: PathBuf,
    agent_port: u16,
}

impl Proxy<'_> {
    fn start<'a>(lab: &mut Lab, binary: &'a Path, mode: &str) -> Result<Proxy<'a>, String> {
        let file = |name: &str| lab.folder.join(name);
        let (certificate, key, socket) = (file("proxy.crt"), file("proxy.key"), file("proxy.sock"));
        let request = ["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=konnectivity"];
        let request = [&request[..], &["-addext", "subjectAltName=IP:127.0.0.1"]].concat();
        openssl(&request, &[("-keyout", key.clone()), ("-out", certificate.clone())])?;
        let agent_port = free_port()?;
        let mut server = Command::new(binary);
        server.arg("server").arg("--mode").arg(mode).arg("--uds-name").arg(&socket);
        server.arg("--cluster-cert").arg(&certificate).arg("--cluster-key").arg(&key);
        server.args(["--server-port=0", "--agent-bind-address=127.0.0.1", &format!("--agent-port={agent_port}")]);
        server.args([format!("--admin-port={}", free_port()?), format!("--health-port={}", free_port()?)]);
        lab.spawn("konnectivity", &mut server)?;
        wait_for("konnectivity's socket", || {
            lab.all_alive()?;
            Ok(socket.exists())
        })?;
        Ok(Proxy { binary, socket, certificate, agent_port })
    }

    fn start_agent(&self, lab: &mut Lab) -> Result<(), String> {
        let mut agent = Command::new(self.binary);
        agent.arg("agent").arg("--ca-cert").arg(&self.certificate);
        agent.args(["--proxy-server-host=127.0.0.1", &format!("--proxy-server-port={}", self.agent_port)]);
        agent.args([format!("--admin-server-port={}", free_port()?), format!("--health-server-port={}", free_port()?)]);
        lab.spawn("agent", &mut agent).map(drop)
    }
}
