//! The swap an operator would make: kube-apiserver fills etcd and stops, ferrokube takes over and changes things, and
//! kube-apiserver comes back and agrees.

use super::lab::{Kubectl, Lab};
use crate::components;

const BEFORE: &str = include_str!("swap/before.yaml");
/// What is compared: everything both serve, without what differs from start to start.
const COMPARED: &str = "configmaps,secrets,services,deployments.apps,roles.rbac.authorization.k8s.io,\
                        poddisruptionbudgets.policy,networkpolicies.networking.k8s.io,horizontalpodautoscalers.autoscaling,\
                        cronjobs.batch,persistentvolumeclaims,resourcequotas,limitranges";

pub fn run() -> Result<String, String> {
    let tools = components::ensure(&["etcd", "kube-apiserver", "kubectl"])?;
    let mut lab = Lab::new("swap")?;
    let etcd = lab.etcd(&tools["etcd"])?;
    let list = format!("get {COMPARED} -n swap -o yaml --show-managed-fields");

    let server = lab.kube_apiserver(&tools["kube-apiserver"], &etcd, &[])?;
    let kubectl = Kubectl::of(&server)?;
    kubectl.apply(BEFORE)?;
    let filled = kubectl.run(&list)?;
    lab.stop("kube-apiserver")?;

    let ours = lab.ferrokube(&[&format!("--etcd-servers={etcd}"), "--service-cluster-ip-range=10.0.0.0/24"])?;
    let kubectl = Kubectl::of(&ours)?;
    same("ferrokube reads what kube-apiserver wrote", &filled, &kubectl.run(&list)?)?;
    kubectl.run("-n swap scale deployment/web --replicas=7")?;
    kubectl.run("-n swap label configmap/settings swapped=yes")?;
    kubectl.run("-n swap delete secret/password")?;
    kubectl.run("-n swap create configmap made-here --from-literal=a=b")?;
    kubectl.run("-n swap expose deployment/web --name=made-here --port=80")?;
    let changed = kubectl.run(&list)?;
    lab.stop("ferrokube")?;

    let again = lab.kube_apiserver(&tools["kube-apiserver"], &etcd, &[])?;
    let kubectl = Kubectl::of(&again)?;
    same("kube-apiserver reads what ferrokube wrote", &changed, &kubectl.run(&list)?)?;
    kubectl.run("-n swap delete service/made-here configmap/made-here")?;
    Ok(format!("{} objects went there and back", changed.matches("\n- apiVersion").count()))
}

fn same(what: &str, want: &str, got: &str) -> Result<(), String> {
    let difference = want.lines().zip(got.lines()).enumerate().find(|(_, (want, got))| want != got);
    match difference {
        None if want.lines().count() == got.lines().count() => Ok(()),
        None => Err(format!("{what}: {} lines became {}", want.lines().count(), got.lines().count())),
        Some((line, (want, got))) => Err(format!("{what}: line {line} was {want:?} and is {got:?}")),
    }
}
