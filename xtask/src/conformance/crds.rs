//! Definitions that people use, from the published modules that carry them: what is made of them on ferrokube and on
//! kube-apiserver must be the same.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::lab::{Lab, TOKEN, succeed};
use crate::components;

/// A module, and the folder in it that has the definitions.
const SETS: [(&str, &str); 10] = [
    ("sigs.k8s.io/gateway-api@v1.2.1", "config/crd/experimental"),
    ("github.com/cert-manager/cert-manager@v1.19.1", "deploy/crds"),
    ("github.com/prometheus-operator/prometheus-operator@v0.79.2", "example/prometheus-operator-crd"),
    ("sigs.k8s.io/cluster-api@v1.9.3", "config/crd/bases"),
    ("github.com/argoproj/argo-cd/v2@v2.13.2", "manifests/crds"),
    ("github.com/kyverno/kyverno@v1.13.2", "config/crds/kyverno"),
    ("github.com/crossplane/crossplane@v1.18.2", "cluster/crds"),
    ("github.com/external-secrets/external-secrets@v0.12.1", "config/crds/bases"),
    ("github.com/kedacore/keda/v2@v2.16.1", "config/crd/bases"),
    ("sigs.k8s.io/kueue@v0.10.0", "config/components/crd/bases"),
];

pub fn run() -> Result<String, String> {
    let tools = components::ensure(&["etcd", "kube-apiserver"])?;
    let mut files = Vec::new();
    for (module, folder) in SETS {
        files.extend(definitions_in(&downloaded(module)?.join(folder))?);
    }
    let mut lab = Lab::new("crds")?;
    let tokens = lab.tokens()?;
    let ours = lab.ferrokube(&[&format!("--token-auth-file={}", tokens.display())])?;
    let etcd = lab.etcd(&tools["etcd"])?;
    let theirs = lab.kube_apiserver(&tools["kube-apiserver"], &etcd, &[])?;
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../conformance/python/crds.py");
    let mut tour = Command::new("python3");
    tour.arg(script).args(["--token", TOKEN]);
    tour.arg("--server").arg(format!("kubernetes=https://{}", theirs.address()));
    tour.arg("--server").arg(format!("ferrokube=https://{}", ours.address()));
    let said = succeed("crds.py", tour.args(&files))?;
    Ok(format!("{} sets: {}", SETS.len(), said.trim().replace('\n', "; ")))
}

/// Where Go keeps the sources of a module, downloaded if need be.
fn downloaded(module: &str) -> Result<PathBuf, String> {
    let said = succeed("go mod download", Command::new("go").args(["mod", "download", "-json", module]))?;
    let line = said.lines().find_map(|line| line.trim().strip_prefix("\"Dir\": \"")?.strip_suffix("\","));
    line.map(PathBuf::from).ok_or_else(|| format!("go does not say where {module} is"))
}

fn definitions_in(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let failed = |error: std::io::Error| format!("{}: {error}", folder.display());
    let entries = std::fs::read_dir(folder).map_err(failed)?;
    let mut files: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    files.retain(|file| file.extension().is_some_and(|extension| extension == "yaml"));
    files.sort();
    Ok(files)
}
