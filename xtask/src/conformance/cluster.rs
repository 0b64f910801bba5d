//! A control plane: the real controller manager, scheduler and fake nodes against ferrokube, and then against the real
//! kube-apiserver, so that errors in their logs can be told from those they always write.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use super::lab::{Kubectl, Lab, Server, free_port};
use crate::components;

const VOLUMES: &str = include_str!("cluster/volumes.yaml");
const WORKLOADS: &str = include_str!("cluster/workloads.yaml");
const NODES: &str = "-nodes=5";
/// Components whose logs are compared.
const WATCHED: [&str; 3] = ["kube-controller-manager", "kube-scheduler", "fake-nodes"];

pub fn run() -> Result<String, String> {
    let tools = components::ensure(&[
        "etcd",
        "kube-apiserver",
        "kubectl",
        "kube-controller-manager",
        "kube-scheduler",
        "fake-nodes",
    ])?;
    let mut lab = Lab::new("cluster")?;
    let server = lab.ferrokube(FLAGS)?;
    start_control_plane(&mut lab, &server)?;
    exercise(&mut lab, &server)?;
    let ours = errors(&lab);
    drop(lab);

    let mut lab = Lab::new("cluster-reference")?;
    let etcd = lab.etcd(&tools["etcd"])?;
    let reference = lab.kube_apiserver(&tools["kube-apiserver"], &etcd, &[])?;
    start_control_plane(&mut lab, &reference)?;
    exercise(&mut lab, &reference)?;
    let theirs = errors(&lab);
    let new: Vec<&String> = ours.difference(&theirs).collect();
    if !new.is_empty() {
        let lines: Vec<&str> = new.iter().map(|line| line.as_str()).collect();
        return Err(format!("errors in the logs that the real kube-apiserver does not cause:\n{}", lines.join("\n")));
    }
    Ok(format!("workloads ran; {} kinds of errors in the logs, all known with the real server", ours.len()))
}

/// What a control plane is set up with; it also says that the server is not alone.
pub const FLAGS: &[&str] = &[
    "--standalone=false",
    "--enable-admission-plugins=ServiceAccount",
    "--authorization-mode=Node,RBAC",
    "--service-cluster-ip-range=10.0.0.0/24",
];

/// The controller manager and the scheduler as their own users, and nodes that only pretend.
pub fn start_control_plane(lab: &mut Lab, server: &Server) -> Result<(), String> {
    let tools = components::ensure(&["kube-controller-manager", "kube-scheduler", "fake-nodes"])?;
    let start = |lab: &mut Lab, name: &str, arguments: &dyn Fn(&mut Command)| -> Result<(), String> {
        let kubeconfig = server.kubeconfig_for(lab, &format!("system:{name}"))?;
        let mut command = Command::new(&tools[name]);
        for flag in ["--kubeconfig", "--authentication-kubeconfig", "--authorization-kubeconfig"] {
            command.arg(flag).arg(&kubeconfig);
        }
        command.args(["--bind-address=127.0.0.1", &format!("--secure-port={}", free_port()?)]);
        // The defaults hold clients back more than any server would.
        command.args(["--kube-api-qps=500", "--kube-api-burst=1000"]);
        arguments(&mut command);
        lab.spawn(name, &mut command).map(|_| ())
    };
    start(lab, "kube-controller-manager", &|command| {
        command.arg("--service-account-private-key-file").arg(&server.account_key);
        command.arg("--root-ca-file").arg(&server.ca);
        command.arg("--cluster-signing-cert-file").arg(&server.ca);
        command.arg("--cluster-signing-key-file").arg(&server.ca_key);
        command.args([
            "--use-service-account-credentials=true",
            "--controllers=*,bootstrapsigner,tokencleaner",
            "--node-monitor-period=2s",
            "--node-monitor-grace-period=16s",
            "--concurrent-deployment-syncs=10",
        ]);
    })?;
    start(lab, "kube-scheduler", &|_| {})?;
    let mut nodes = Command::new(&tools["fake-nodes"]);
    nodes.env("KUBECONFIG", &server.kubeconfig).arg(NODES);
    lab.spawn("fake-nodes", &mut nodes).map(|_| ())
}

/// Everything the issue of a working cluster comes down to, watched from outside.
fn exercise(lab: &mut Lab, server: &Server) -> Result<(), String> {
    let kubectl = Kubectl::of(server)?;
    let is = |wanted: &'static str| move |got: &str| got == wanted;
    kubectl.wait("get nodes --no-headers", |got| got.matches(" Ready").count() == 5)?;
    kubectl.wait("get serviceaccounts -n default -o name", |got| got.contains("serviceaccount/default"))?;
    // A claim that comes before its volume is free makes the controller look for a provisioner, and complain.
    kubectl.apply(VOLUMES)?;
    kubectl.wait("get pv/data -o jsonpath={.status.phase}", is("Available"))?;
    kubectl.apply(WORKLOADS)?;
    kubectl.run("-n demo rollout status deployment/web --timeout=90s")?;
    kubectl.run("-n demo rollout status statefulset/db --timeout=90s")?;
    kubectl.run("-n demo rollout status daemonset/agent --timeout=90s")?;
    kubectl.run("-n demo wait --for=condition=complete job/once --timeout=90s")?;
    kubectl.wait("-n demo get pvc/data -o jsonpath={.status.phase}", is("Bound"))?;
    let ready = "-n demo get endpointslices -l kubernetes.io/service-name=web -o jsonpath={.items[*].endpoints[*].conditions.ready}";
    kubectl.wait(ready, is("true true true"))?;
    // A new image rolls out, and back again.
    kubectl.run("-n demo set image deployment/web web=example/web:2")?;
    kubectl.run("-n demo rollout status deployment/web --timeout=90s")?;
    kubectl.run("-n demo rollout undo deployment/web")?;
    kubectl.run("-n demo rollout status deployment/web --timeout=90s")?;
    kubectl.run("-n demo scale deployment/web --replicas=6")?;
    kubectl.wait("-n demo get deployment/web -o jsonpath={.status.readyReplicas}", is("6"))?;
    // The schedule comes round at the next minute.
    kubectl.wait("-n demo get jobs -o name", |got| got.matches("job.batch/minutely").count() > 0)?;
    kubectl.wait("-n demo get hpa/web -o jsonpath={.status.conditions[*].type}", |got| got.contains("AbleToScale"))?;
    kubectl.wait("-n demo get pdb/web -o jsonpath={.status.currentHealthy}", is("6"))?;
    // A node that falls silent is found out and tainted, and comes back.
    kubectl.run("annotate node/fake-0 fake.ferrokube.dev/silent=true")?;
    let taints = "get node/fake-0 -o jsonpath={.spec.taints[*].key}";
    kubectl.wait(taints, |got| got.contains("node.kubernetes.io/unreachable"))?;
    kubectl.run("annotate node/fake-0 fake.ferrokube.dev/silent-")?;
    kubectl.wait(taints, |got| !got.contains("unreachable"))?;
    // Bootstrap tokens are signed into the cluster's public information.
    kubectl.wait("-n kube-public get configmap/cluster-info -o jsonpath={.data}", |got| {
        got.contains("jws-kubeconfig-abcdef")
    })?;
    for lease in ["kube-controller-manager", "kube-scheduler"] {
        kubectl.run(&format!("-n kube-system get lease/{lease}"))?;
    }
    // What is owned goes with its owner, and a namespace with everything in it.
    kubectl.run("-n demo delete deployment/web --cascade=foreground --timeout=90s")?;
    kubectl.wait("-n demo get replicasets,pods -l app=web -o name", |got| got.is_empty())?;
    kubectl.run("delete namespace demo --timeout=90s")?;
    lab.all_alive()
}

/// The errors in the logs, each as where it was written and what it says without what changes from run to run.
fn errors(lab: &Lab) -> BTreeSet<String> {
    WATCHED.iter().flat_map(|name| errors_in(name, &lab.log(name))).collect()
}

fn errors_in(name: &str, log: &Path) -> Vec<String> {
    let text = fs::read_to_string(log).unwrap_or_default();
    // klog: E1115 11:50:48.511436   12345 file.go:12] "Message" key="value"
    let errors = text.lines().filter(|line| line.starts_with('E') && line.contains(".go:"));
    let essence = |line: &str| {
        // Controllers meet at an object and one of them has to try again: which one is chance, with any server.
        if line.contains("the object has been modified; please apply your changes to the latest version") {
            return format!("{name} lost a race");
        }
        let place = line.split_whitespace().find(|word| word.contains(".go:")).unwrap_or_default().to_string();
        let message = line.split_once("] ").map_or("", |(_, message)| message);
        let message = message.split("\" ").next().unwrap_or(message);
        format!("{name} {place} {}", message.chars().filter(|c| !c.is_ascii_digit()).take(120).collect::<String>())
    };
    errors.map(essence).collect()
}
