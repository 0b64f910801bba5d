//! `cargo xtask conformance interop`: a real kube-apiserver and ferrokube on one etcd. Objects of every kind written by one
//! are read, changed, watched and listed by the other, both ways.

use std::fs;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::components;

/// How much of a log is shown when its server ended.
const LOG_LINES: usize = 10;
const TOKENS: &str = "admin-token,admin,admin-uid,\"system:masters\"\n";
/// What both servers are told.
const COMMON: &[&str] = &[
    "--authorization-mode=Node,RBAC",
    "--disable-admission-plugins=ServiceAccount",
    "--service-cluster-ip-range=10.0.0.0/24",
    "--bind-address=127.0.0.1",
];

/// Runs all of it; the message says what went both ways.
pub fn run() -> Result<String, String> {
    let components = components::ensure(&["etcd", "kube-apiserver"])?;
    let binaries = build()?;
    let folder = binaries.ferrokube.with_file_name("interop-data");
    // What an earlier run left is of no use any more.
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).map_err(|error| format!("cannot create {}: {error}", folder.display()))?;
    let outcome = compare(&components["etcd"], &components["kube-apiserver"], &binaries, &folder);
    match &outcome {
        Ok(_) => drop(fs::remove_dir_all(&folder)),
        Err(_) => eprintln!("logs are in {}", folder.display()),
    }
    outcome
}

struct Binaries {
    ferrokube: PathBuf,
    compare: PathBuf,
}

fn build() -> Result<Binaries, String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Command::new(cargo)
        .args(["build", "--package", "apiserver", "--package", "difftest", "--bins"])
        .status()
        .map_err(|error| format!("cannot run cargo: {error}"))?;
    if !status.success() {
        return Err("building ferrokube failed".into());
    }
    // This program was built into the same folder.
    let own = std::env::current_exe().map_err(|error| error.to_string())?;
    let folder = own.parent().ok_or("a program has a folder")?;
    Ok(Binaries { ferrokube: folder.join("ferrokube"), compare: folder.join("interop") })
}

fn compare(etcd: &Path, kube_apiserver: &Path, binaries: &Binaries, folder: &Path) -> Result<String, String> {
    let [etcd_port, peer_port, their_port, our_port] = free_ports()?;
    let tokens = folder.join("tokens.csv");
    fs::write(&tokens, TOKENS).map_err(|error| error.to_string())?;
    let key = folder.join("service-account.key");
    tell(&binaries.compare, &["key".into(), key.display().to_string()])?;
    let etcd_url = format!("http://127.0.0.1:{etcd_port}");
    let peer_url = format!("http://127.0.0.1:{peer_port}");
    let arguments = [
        format!("--data-dir={}", folder.join("etcd").display()),
        format!("--listen-client-urls={etcd_url}"),
        format!("--advertise-client-urls={etcd_url}"),
        format!("--listen-peer-urls={peer_url}"),
        format!("--initial-advertise-peer-urls={peer_url}"),
        format!("--initial-cluster=default={peer_url}"),
        "--unsafe-no-fsync".into(),
    ];
    let _etcd = Process::start("etcd", etcd, &arguments, folder)?;
    let common = |port: u16| {
        let own = [
            format!("--etcd-servers={etcd_url}"),
            format!("--secure-port={port}"),
            format!("--token-auth-file={}", tokens.display()),
        ];
        COMMON.iter().map(|argument| argument.to_string()).chain(own).collect::<Vec<String>>()
    };
    let mut theirs = common(their_port);
    theirs.extend([
        "--advertise-address=192.0.2.2".to_string(),
        format!("--cert-dir={}", folder.join("certs").display()),
        "--service-account-issuer=https://kubernetes.default.svc".into(),
        format!("--service-account-key-file={}.pub", key.display()),
        format!("--service-account-signing-key-file={}", key.display()),
    ]);
    let mut servers = vec![Process::start("kube-apiserver", kube_apiserver, &theirs, folder)?];
    let mut ours = common(our_port);
    ours.push(format!("--data-dir={}", folder.join("ferrokube").display()));
    servers.push(Process::start("ferrokube", &binaries.ferrokube, &ours, folder)?);
    let address = |port: u16| SocketAddr::from(([127, 0, 0, 1], port)).to_string();
    // It waits until both are ready.
    let arguments = [address(their_port), address(our_port), "admin-token".to_string()];
    let told = tell(&binaries.compare, &arguments);
    if let Some(ended) = servers.iter_mut().find_map(Process::ended) {
        return Err(ended);
    }
    told.map(|told| format!("interop: {}", told.lines().last().unwrap_or("")))
}

/// Runs a program and returns what it said, as the error if it failed.
fn tell(binary: &Path, arguments: &[String]) -> Result<String, String> {
    let output = Command::new(binary)
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("cannot run {}: {error}", binary.display()))?;
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    if output.status.success() { Ok(told) } else { Err(told) }
}

/// Ports that nobody listens on now.
fn free_ports() -> Result<[u16; 4], String> {
    let mut listeners = Vec::new();
    let mut ports = [0; 4];
    for port in &mut ports {
        let listener = TcpListener::bind(("127.0.0.1", 0)).map_err(|error| error.to_string())?;
        *port = listener.local_addr().map_err(|error| error.to_string())?.port();
        listeners.push(listener);
    }
    Ok(ports)
}

/// A server that is stopped when it is dropped.
struct Process {
    name: &'static str,
    child: Child,
    log: PathBuf,
}

impl Process {
    fn start(name: &'static str, binary: &Path, arguments: &[String], folder: &Path) -> Result<Process, String> {
        let log = folder.join(format!("{name}.log"));
        let file = fs::File::create(&log).map_err(|error| error.to_string())?;
        let child = Command::new(binary)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(file)
            .spawn()
            .map_err(|error| format!("cannot run {}: {error}", binary.display()))?;
        Ok(Process { name, child, log })
    }

    /// The end of its log, if it has ended.
    fn ended(&mut self) -> Option<String> {
        let status = self.child.try_wait().ok()??;
        let log = fs::read_to_string(&self.log).unwrap_or_default();
        let mut last: Vec<&str> = log.lines().rev().take(LOG_LINES).collect();
        last.reverse();
        Some(format!("{} ended ({status}):\n{}", self.name, last.join("\n")))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
