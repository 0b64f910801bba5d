//! kubeadm's own certificates, kubeconfigs, manifests and flags: a control plane is started from the manifests that the real kubeadm writes with
//! our patch, on a real etcd with TLS; then the way back to kube-apiserver, and forth again.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::lab::{Kubectl, Lab, Server, ferrokube, free_port, succeed, wait_for};
use crate::components;
use crate::dist::workspace;

const SERVER: &str = "kube-apiserver";
const MANAGERS: [&str; 2] = ["kube-controller-manager", "kube-scheduler"];
/// An address of documentation, so that no server of this run could be reached from outside. Everything is reached on loopback.
const ADVERTISED: &str = "192.0.2.10";
/// What is compared when servers take turns.
const COMPARED: &str = "configmaps,secrets,services,deployments.apps,roles.rbac.authorization.k8s.io,serviceaccounts";

const WORKLOAD: &str = "\
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: default}
spec:
  replicas: 3
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: nginx}]}
";

pub fn run() -> Result<String, String> {
    let names = ["etcd", "kubeadm", "kubectl", SERVER, "kube-controller-manager", "kube-scheduler"];
    let tools = components::ensure(&names)?;
    let mut lab = Lab::new("kubeadm")?;
    let kubeadm = Kubeadm::new(&lab, &tools["kubeadm"])?;
    kubeadm.make_everything()?;
    kubeadm.check_patch()?;
    lab.spawn("etcd", &mut kubeadm.command("etcd", &tools["etcd"])?)?;

    let link = lab.folder.join("bin").join(SERVER);
    fs::create_dir_all(lab.folder.join("bin")).map_err(|error| error.to_string())?;
    std::os::unix::fs::symlink(ferrokube()?, &link).map_err(|error| error.to_string())?;
    let kubectl = kubeadm.start_server(&mut lab, &link)?;
    let version = kubectl.run("get --raw /version")?;
    if !version.contains("ferrokube") {
        return Err(format!("another server answers: {version}"));
    }
    kubeadm.finish(&lab)?;
    let start_managers = |lab: &mut Lab| {
        MANAGERS.iter().try_for_each(|name| lab.spawn(name, &mut kubeadm.command(name, &tools[*name])?).map(drop))
    };
    start_managers(&mut lab)?;
    kubectl.apply(WORKLOAD)?;
    kubectl.wait("get pods -n default -l app=web -o name", |pods| pods.lines().count() == 3)?;
    let reason = "get pods -n default -l app=web -o jsonpath={.items[*].status.conditions[*].reason}";
    kubectl.wait(reason, |reasons| reasons.matches("Unschedulable").count() == 3)?;
    lab.all_alive()?;

    let list = format!("get {COMPARED} -A -o name");
    let before = kubectl.run(&list)?;
    for (program, replicas) in [(&tools[SERVER], 4), (&link, 5)] {
        // They would end by themselves without a server, and the kubelet would start them again.
        MANAGERS.iter().try_for_each(|name| lab.stop(name))?;
        lab.stop(SERVER)?;
        let kubectl = kubeadm.start_server(&mut lab, program)?;
        let now = kubectl.run(&list)?;
        if now != before {
            return Err(format!("{} finds\n{now}\ninstead of\n{before}", program.display()));
        }
        start_managers(&mut lab)?;
        kubectl.run(&format!("scale -n default deployment/web --replicas={replicas}"))?;
        kubectl.wait("get pods -n default -l app=web -o name", |pods| pods.lines().count() == replicas)?;
    }
    lab.all_alive()?;
    Ok(format!("certificates, kubeconfigs and manifests of kubeadm, {} objects there and back", before.lines().count()))
}

struct Kubeadm {
    program: PathBuf,
    folder: PathBuf,
    config: PathBuf,
    port: u16,
}

impl Kubeadm {
    fn new(lab: &Lab, program: &Path) -> Result<Kubeadm, String> {
        let folder = lab.folder.clone();
        let port = free_port()?;
        let config = folder.join("kubeadm.yaml");
        let text =
            configuration(&folder, port, &[free_port()?, free_port()?, free_port()?, free_port()?, free_port()?]);
        fs::write(&config, text).map_err(|error| error.to_string())?;
        let patches = folder.join("patches");
        fs::create_dir_all(&patches).map_err(|error| error.to_string())?;
        let patch = "kube-apiserver+strategic.yaml";
        fs::copy(workspace().join("deploy/kubeadm").join(patch), patches.join(patch))
            .map_err(|error| error.to_string())?;
        Ok(Kubeadm { program: program.to_path_buf(), folder, config, port })
    }

    /// Runs a phase of `kubeadm init`. Manifests are written by a dry run, which keeps them out of /etc.
    fn phase(&self, phase: &str, more: &[&str]) -> Result<String, String> {
        let mut command = Command::new(&self.program);
        command.args(["init", "phase"]).args(phase.split(' ')).args(more);
        command.env("KUBEADM_INIT_DRYRUN_DIR", self.folder.join("manifests")).env_remove("KUBECONFIG");
        succeed(&format!("kubeadm init phase {phase}"), command.arg("--config").arg(&self.config))
    }

    fn make_everything(&self) -> Result<(), String> {
        fs::create_dir_all(self.folder.join("manifests")).map_err(|error| error.to_string())?;
        let conf = self.folder.display().to_string();
        self.phase("certs all", &[])?;
        self.phase("kubeconfig all", &["--kubeconfig-dir", &conf])?;
        self.phase("control-plane all", &["--dry-run"])?;
        self.phase("etcd local", &["--dry-run"])?;
        for name in ["admin", "super-admin", "controller-manager", "scheduler"] {
            let path = self.folder.join(format!("{name}.conf"));
            let text = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
            fs::write(&path, text.replace(ADVERTISED, "127.0.0.1")).map_err(|error| error.to_string())?;
        }
        Ok(())
    }

    fn manifest(&self, name: &str) -> Result<String, String> {
        let path = self.folder.join("manifests").join(format!("{name}.yaml"));
        fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))
    }

    /// The patch of `deploy/` does what its page says, and leaves the flags alone.
    fn check_patch(&self) -> Result<(), String> {
        let manifest = self.manifest(SERVER)?;
        let wanted = ["/ferrokube:", "readOnlyRootFilesystem: true", "- kube-apiserver", "--etcd-cafile="];
        match wanted.iter().find(|part| !manifest.contains(**part)) {
            Some(missing) => Err(format!("the patched manifest has no {missing}:\n{manifest}")),
            None => Ok(()),
        }
    }

    /// The command of a manifest, with another program. Kubeconfigs are where this run has them.
    fn command(&self, name: &str, program: &Path) -> Result<Command, String> {
        let flags = command_of(&self.manifest(name)?);
        if flags.is_empty() {
            return Err(format!("the manifest of {name} has no command"));
        }
        let folder = format!("{}/", self.folder.display());
        let mut command = Command::new(program);
        command.args(flags.iter().map(|flag| flag.replace("/etc/kubernetes/", &folder)));
        command.current_dir(&self.folder);
        Ok(command)
    }

    /// Starts a server with the flags of the manifest, and waits until the administrator of kubeadm can read from it.
    fn start_server(&self, lab: &mut Lab, program: &Path) -> Result<Kubectl, String> {
        let pid = lab.spawn(SERVER, &mut self.command(SERVER, program)?)?;
        let pki = self.folder.join("pki");
        let server = Server::given(self.folder.join("super-admin.conf"), self.port, pid, &pki);
        let kubectl = Kubectl::of(&server)?;
        wait_for(SERVER, || {
            lab.all_alive()?;
            Ok(kubectl.run("get --raw /readyz").is_ok_and(|said| said == "ok"))
        })?;
        Ok(kubectl)
    }

    /// The phases of kubeadm that write into the cluster.
    fn finish(&self, lab: &Lab) -> Result<(), String> {
        let kubeconfig = lab.folder.join("super-admin.conf").display().to_string();
        for phase in ["upload-config kubeadm", "bootstrap-token", "addon kube-proxy", "addon coredns"] {
            self.phase(phase, &["--kubeconfig", &kubeconfig])?;
        }
        Ok(())
    }
}

/// The flags in the command of a static pod's manifest: its items but the first, which is the program.
fn command_of(manifest: &str) -> Vec<String> {
    let lines = manifest.lines().map(str::trim).skip_while(|line| !matches!(*line, "command:" | "- command:")).skip(1);
    lines.map_while(|line| line.strip_prefix("- ")).skip(1).map(|flag| flag.trim_matches('\'').to_string()).collect()
}

fn configuration(folder: &Path, port: u16, others: &[u16; 5]) -> String {
    let [etcd, peer, metrics, manager, scheduler] = others;
    let folder = folder.display();
    format!(
        "\
apiVersion: kubeadm.k8s.io/v1beta4
kind: InitConfiguration
localAPIEndpoint: {{advertiseAddress: {ADVERTISED}, bindPort: {port}}}
nodeRegistration: {{name: control-plane}}
patches: {{directory: {folder}/patches}}
---
apiVersion: kubeadm.k8s.io/v1beta4
kind: ClusterConfiguration
kubernetesVersion: v1.37.1
certificatesDir: {folder}/pki
controlPlaneEndpoint: 127.0.0.1:{port}
networking: {{serviceSubnet: 10.96.0.0/16}}
apiServer:
  certSANs: [127.0.0.1]
  extraArgs:
    - {{name: bind-address, value: 127.0.0.1}}
    - {{name: etcd-servers, value: 'https://127.0.0.1:{etcd}'}}
controllerManager:
  extraArgs:
    - {{name: secure-port, value: '{manager}'}}
scheduler:
  extraArgs:
    - {{name: secure-port, value: '{scheduler}'}}
etcd:
  local:
    dataDir: {folder}/etcd
    extraArgs:
      - {{name: listen-client-urls, value: 'https://127.0.0.1:{etcd}'}}
      - {{name: advertise-client-urls, value: 'https://127.0.0.1:{etcd}'}}
      - {{name: listen-peer-urls, value: 'https://127.0.0.1:{peer}'}}
      - {{name: initial-advertise-peer-urls, value: 'https://127.0.0.1:{peer}'}}
      - {{name: initial-cluster, value: 'control-plane=https://127.0.0.1:{peer}'}}
      - {{name: listen-metrics-urls, value: 'http://127.0.0.1:{metrics}'}}
"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_of_manifests_are_read() {
        let manifest = "\
spec:
  containers:
  - command:
    - kube-apiserver
    - --advertise-address=192.0.2.10
    - '--etcd-servers=https://a:1'
    image: x
    args:
    - no
";
        assert_eq!(command_of(manifest), ["--advertise-address=192.0.2.10", "--etcd-servers=https://a:1"]);
        assert!(command_of("spec: {}").is_empty());
    }
}
