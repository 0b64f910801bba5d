//! A server under load: its processes, from start to end.

use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use storage_etcd::testing::Cluster;
use tempfile::TempDir;
use tokio::process::{Child, Command};

use crate::Arguments;
use crate::client::Client;

pub const TOKEN: &str = "bench-token";
/// Tokens of users who may do what they are allowed to.
pub const GREEDY_TOKEN: &str = "greedy-token";
pub const POLITE_TOKEN: &str = "polite-token";
const PATIENCE: Duration = Duration::from_secs(120);

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    KubeApiserver,
    /// kube-apiserver on SQLite, as k3s runs it.
    KubeApiserverOnKine,
    /// An earlier build of ferrokube.
    Earlier,
    Ferrokube,
    FerrokubeOnEtcd,
}

impl Kind {
    pub fn name(self) -> &'static str {
        match self {
            Kind::KubeApiserver => "kube-apiserver",
            Kind::KubeApiserverOnKine => "kube-apiserver-kine",
            Kind::Earlier => "earlier ferrokube",
            Kind::Ferrokube => "ferrokube",
            Kind::FerrokubeOnEtcd => "ferrokube-etcd",
        }
    }

    /// The head of its column.
    pub fn title(self) -> &'static str {
        match self {
            Kind::KubeApiserver => "kube-apiserver + etcd",
            Kind::KubeApiserverOnKine => "kube-apiserver + kine (SQLite)",
            Kind::Earlier => "ferrokube, earlier",
            Kind::Ferrokube => "ferrokube",
            Kind::FerrokubeOnEtcd => "ferrokube + etcd",
        }
    }

    pub fn is_ferrokube(self) -> bool {
        !matches!(self, Kind::KubeApiserver | Kind::KubeApiserverOnKine)
    }

    pub fn is_possible(self, arguments: &Arguments) -> bool {
        match self {
            Kind::Ferrokube => true,
            Kind::Earlier => arguments.earlier.is_some(),
            Kind::FerrokubeOnEtcd => arguments.etcd.is_some(),
            Kind::KubeApiserver => arguments.etcd.is_some() && arguments.kube_apiserver.is_some(),
            Kind::KubeApiserverOnKine => arguments.kine.is_some() && arguments.kube_apiserver.is_some(),
        }
    }
}

/// Resident memory of the API server and of its store, in bytes.
#[derive(Clone, Copy, Default)]
pub struct Memory {
    pub server: u64,
    pub store: u64,
}

/// CPU time of the API server and of its store.
#[derive(Clone, Copy, Default)]
pub struct Cpu {
    pub server: Duration,
    pub store: Duration,
}

impl Cpu {
    pub fn since(self, before: Cpu) -> Cpu {
        Cpu { server: self.server - before.server, store: self.store - before.store }
    }

    pub fn per(self, requests: u64) -> Cpu {
        let requests = u32::try_from(requests).unwrap_or(u32::MAX).max(1);
        Cpu { server: self.server / requests, store: self.store / requests }
    }

    pub fn total(self) -> Duration {
        self.server + self.store
    }
}

/// The processes and what they need.
pub struct Target {
    kind: Kind,
    /// Further flags of the API server.
    flags: Vec<String>,
    cpus: String,
    server: Child,
    store: Option<Store>,
    pub port: u16,
    /// From the start of the API server until it said that it is ready.
    pub ready: Duration,
    folder: TempDir,
}

/// A store that is a process of its own.
enum Store {
    Etcd(Cluster),
    Kine { process: Child, port: u16 },
}

impl Store {
    fn endpoint(&self) -> String {
        match self {
            Store::Etcd(cluster) => cluster.endpoint(0),
            Store::Kine { port, .. } => format!("http://127.0.0.1:{port}"),
        }
    }

    fn pid(&self) -> Option<u32> {
        match self {
            Store::Etcd(cluster) => cluster.pid(0),
            Store::Kine { process, .. } => process.id(),
        }
    }
}

impl Target {
    pub async fn start(arguments: &Arguments, kind: Kind) -> Result<Target, String> {
        Target::start_with(arguments, kind, &[], "").await
    }

    /// Starts a server with further flags, on some CPUs only if that is not "".
    pub async fn start_with(arguments: &Arguments, kind: Kind, flags: &[&str], cpus: &str) -> Result<Target, String> {
        let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
        let store = match kind {
            Kind::Ferrokube | Kind::Earlier => None,
            Kind::KubeApiserverOnKine => Some(start_kine(arguments, folder.path()).await?),
            Kind::KubeApiserver | Kind::FerrokubeOnEtcd => {
                let etcd = arguments.etcd.as_deref().ok_or("etcd is missing")?;
                Some(Store::Etcd(Cluster::start(etcd, 1, &["--quota-backend-bytes=8589934592"])))
            }
        };
        let port = free_port()?;
        let began = Instant::now();
        let flags: Vec<String> = flags.iter().map(|flag| flag.to_string()).collect();
        if let Some(pid) = store.as_ref().and_then(Store::pid).filter(|_| !cpus.is_empty()) {
            pin(pid, cpus).await?;
        }
        let server = start_server(arguments, kind, folder.path(), port, store.as_ref(), &flags, cpus)?;
        let mut target = Target { kind, flags, cpus: cpus.into(), server, store, port, ready: Duration::ZERO, folder };
        target.wait_until_ready(began).await?;
        Ok(target)
    }

    /// Ends the API server in order and starts it again with what it has stored.
    pub async fn restart(&mut self, arguments: &Arguments) -> Result<(), String> {
        if let Some(pid) = self.server.id() {
            let sent = Command::new("kill").arg(pid.to_string()).status().await;
            sent.map_err(|error| format!("kill: {error}"))?;
        }
        let ended = tokio::time::timeout(PATIENCE, self.server.wait()).await;
        ended.map_err(|_| "the server does not end")?.map_err(|error| error.to_string())?;
        let began = Instant::now();
        let (folder, store) = (self.folder.path(), self.store.as_ref());
        self.server = start_server(arguments, self.kind, folder, self.port, store, &self.flags, &self.cpus)?;
        self.wait_until_ready(began).await
    }

    async fn wait_until_ready(&mut self, began: Instant) -> Result<(), String> {
        while began.elapsed() < PATIENCE {
            if let Ok(Some(status)) = self.server.try_wait() {
                return Err(format!("the server ended before it was ready: {status}"));
            }
            let ready = async { Client::connect(self.port).await?.get("/readyz").await };
            if ready.await.is_ok_and(|reply| reply.status.is_success()) {
                self.ready = began.elapsed();
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        Err("the server did not become ready".into())
    }

    /// CPU time so far.
    pub fn cpu(&self) -> Cpu {
        let of = |pid: Option<u32>| pid.and_then(cpu_of).unwrap_or_default();
        Cpu { server: of(self.server.id()), store: of(self.store.as_ref().and_then(Store::pid)) }
    }

    /// Resident memory now.
    pub fn memory(&self) -> Memory {
        let of = |pid: Option<u32>| pid.and_then(memory_of).unwrap_or_default();
        Memory { server: of(self.server.id()), store: of(self.store.as_ref().and_then(Store::pid)) }
    }

    pub async fn stop(mut self) {
        let _ = self.server.kill().await;
    }
}

/// kine with the settings that k3s gives it.
async fn start_kine(arguments: &Arguments, folder: &Path) -> Result<Store, String> {
    let port = free_port()?;
    let database = folder.join("state.db");
    let mut command = Command::new(arguments.kine.as_ref().ok_or("kine is missing")?);
    command.arg("--endpoint").arg(format!(
        "sqlite://{}?_journal=WAL&cache=shared&_busy_timeout=30000&_txlock=immediate",
        database.display()
    ));
    command.arg(format!("--listen-address=127.0.0.1:{port}")).arg("--metrics-bind-address=0");
    let process = spawn(&mut command, &folder.join("kine.log"))?;
    let began = Instant::now();
    while tokio::net::TcpStream::connect(("127.0.0.1", port)).await.is_err() {
        if began.elapsed() > PATIENCE {
            return Err("kine did not become ready".into());
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Ok(Store::Kine { process, port })
}

fn start_server(
    arguments: &Arguments,
    kind: Kind,
    folder: &Path,
    port: u16,
    store: Option<&Store>,
    flags: &[String],
    cpus: &str,
) -> Result<Child, String> {
    let mut command = command(arguments, kind, folder, port)?;
    if !cpus.is_empty() {
        let mut pinned = Command::new("taskset");
        pinned.args(["-c", cpus]).arg(command.as_std().get_program()).args(command.as_std().get_args());
        command = pinned;
    }
    command.args(flags);
    if let Some(store) = store {
        command.arg(format!("--etcd-servers={}", store.endpoint()));
    }
    spawn(&mut command, &folder.join("server.log"))
}

fn command(arguments: &Arguments, kind: Kind, folder: &Path, port: u16) -> Result<Command, String> {
    let text = |error: std::io::Error| error.to_string();
    let tokens = folder.join("tokens.csv");
    let users =
        format!("{TOKEN},admin,admin,\"system:masters\"\n{GREEDY_TOKEN},greedy,greedy\n{POLITE_TOKEN},polite,polite\n");
    std::fs::write(&tokens, users).map_err(text)?;
    let mut command;
    if !kind.is_ferrokube() {
        command = Command::new(arguments.kube_apiserver.as_ref().ok_or("kube-apiserver is missing")?);
        let key = folder.join("sa.key");
        if !key.exists() {
            let made = std::process::Command::new("openssl").args(["genrsa", "-out"]).arg(&key).arg("2048").output();
            made.map_err(|error| format!("openssl: {error}"))?;
        }
        command.arg("--cert-dir").arg(folder.join("certs"));
        command.arg("--service-account-issuer=https://kubernetes.default.svc");
        command.arg("--service-account-key-file").arg(&key).arg("--service-account-signing-key-file").arg(&key);
    } else {
        let earlier = arguments.earlier.as_ref().filter(|_| kind == Kind::Earlier);
        command = Command::new(earlier.unwrap_or(&arguments.ferrokube));
        command.arg("--data-dir").arg(folder.join("data"));
    }
    command.arg("--bind-address=127.0.0.1").arg(format!("--secure-port={port}"));
    command.arg("--token-auth-file").arg(&tokens);
    command.args([
        "--advertise-address=192.0.2.2",
        "--authorization-mode=RBAC",
        "--disable-admission-plugins=ServiceAccount",
        "--service-cluster-ip-range=10.0.0.0/16",
    ]);
    Ok(command)
}

/// Lets a process run on some CPUs only.
pub async fn pin(pid: u32, cpus: &str) -> Result<(), String> {
    let mut command = Command::new("taskset");
    let done = command.args(["-a", "-c", "-p", cpus]).arg(pid.to_string()).stdout(Stdio::null()).status().await;
    match done.map_err(|error| format!("taskset: {error}"))?.success() {
        true => Ok(()),
        false => Err(format!("process {pid} cannot be put on the CPUs {cpus}")),
    }
}

fn spawn(command: &mut Command, log: &Path) -> Result<Child, String> {
    let log = std::fs::File::create(log).map_err(|error| error.to_string())?;
    let errors = log.try_clone().map_err(|error| error.to_string())?;
    let command = command.stdin(Stdio::null()).stdout(log).stderr(errors).kill_on_drop(true);
    command.spawn().map_err(|error| format!("cannot start {:?}: {error}", command.as_std().get_program()))
}

fn free_port() -> Result<u16, String> {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").map_err(|error| error.to_string())?;
    Ok(listener.local_addr().map_err(|error| error.to_string())?.port())
}

/// User and system time, from the fields after the command's name.
fn cpu_of(pid: u32) -> Option<Duration> {
    const TICKS_PER_SECOND: u64 = 100;
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let fields: Vec<&str> = stat.rsplit_once(") ")?.1.split(' ').collect();
    let ticks: u64 = fields.get(11)?.parse::<u64>().ok()? + fields.get(12)?.parse::<u64>().ok()?;
    Some(Duration::from_millis(ticks * 1000 / TICKS_PER_SECOND))
}

fn memory_of(pid: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find(|line| line.starts_with("VmRSS:"))?;
    line.split_whitespace().nth(1)?.parse::<u64>().ok().map(|kilobytes| kilobytes * 1024)
}
