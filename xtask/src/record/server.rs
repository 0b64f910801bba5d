//! A real kube-apiserver on an empty etcd, as recordings need it: the same addresses, tokens and flags each time.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use super::modules::Modules;
use crate::conformance::Lab;

/// The tokens that the cases use: an administrator, and a user without roles.
const TOKENS: &str = "admin-token,admin,admin-uid,\"system:masters\"\nuser-token,alice,alice-uid,\"devs\"\n";

/// Both are told to clients, so they are the same in every recording.
const PORT: u16 = 6443;
const ADVERTISED: &str = "192.0.2.2";

pub struct Running {
    lab: Lab,
    address: String,
}

impl Running {
    /// Starts etcd and a server with these flags besides those of every recording. Both end with what is returned.
    pub fn start(modules: &Modules, name: &str, flags: &[&str]) -> Result<Running, String> {
        let binary = modules.program("kube-apiserver")?;
        let etcd = crate::components::ensure(&["etcd"])?.remove("etcd").ok_or("there is no etcd")?;
        let mut lab = Lab::new(name)?;
        let etcd = lab.etcd(&etcd)?;
        let file = |name: &str| lab.folder.join(name);
        fs::write(file("tokens.csv"), TOKENS).map_err(|error| error.to_string())?;
        crate::conformance::openssl(&["genrsa"], &[("-out", file("sa.key"))])?;
        let mut command = Command::new(binary);
        command.arg("--cert-dir").arg(file("certs")).arg("--token-auth-file").arg(file("tokens.csv"));
        command.arg("--service-account-key-file").arg(file("sa.key"));
        command.arg("--service-account-signing-key-file").arg(file("sa.key"));
        let host = loopback();
        command.arg(format!("--etcd-servers={etcd}")).arg(format!("--bind-address={host}"));
        command.arg(format!("--secure-port={PORT}")).arg(format!("--advertise-address={ADVERTISED}"));
        command.args([
            "--service-account-issuer=https://kubernetes.default.svc",
            "--authorization-mode=Node,RBAC",
            "--disable-admission-plugins=ServiceAccount",
            "--service-cluster-ip-range=10.0.0.0/24",
        ]);
        lab.spawn("kube-apiserver", command.args(flags))?;
        Ok(Running { lab, address: format!("{host}:{PORT}") })
    }

    pub fn address(&self) -> &str {
        &self.address
    }

    pub fn folder(&self) -> &PathBuf {
        &self.lab.folder
    }
}

/// A loopback address of this process: its port is free whatever else runs here.
fn loopback() -> String {
    let [.., high, low] = std::process::id().to_be_bytes();
    format!("127.64.{high}.{}", low.clamp(1, 254))
}
