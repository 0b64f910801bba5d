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
    /// An earlier build of ferrokube.
    Earlier,
    Ferrokube,
    FerrokubeOnEtcd,
}

impl Kind {
    pub fn name(self) -> &'static str {
        match self {
            Kind::KubeApiserver => "kube-apiserver",
            Kind::Earlier => "earlier ferrokube",
            Kind::Ferrokube => "ferrokube",
            Kind::FerrokubeOnEtcd => "ferrokube-etcd",
        }
    }

    pub fn is_possible(self, arguments: &Arguments) -> bool {
        match self {
            Kind::Ferrokube => true,
            Kind::Earlier => arguments.earlier.is_some(),
            Kind::FerrokubeOnEtcd => arguments.etcd.is_some(),
            Kind::KubeApiserver => arguments.etcd.is_some() && arguments.kube_apiserver.is_some(),
        }
    }
}

/// CPU time of the API server and of its etcd.
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
    server: Child,
    etcd: Option<Cluster>,
    pub port: u16,
    /// From the start of the API server until it said that it is ready.
    pub ready: Duration,
    _folder: TempDir,
}

impl Target {
    pub async fn start(arguments: &Arguments, kind: Kind) -> Result<Target, String> {
        Target::start_with(arguments, kind, &[]).await
    }

    /// Starts a server with further flags.
    pub async fn start_with(arguments: &Arguments, kind: Kind, flags: &[&str]) -> Result<Target, String> {
        let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
        let etcd = match kind {
            Kind::Ferrokube | Kind::Earlier => None,
            _ => Some(Cluster::start(arguments.etcd.as_deref().ok_or("etcd is missing")?, 1, &[])),
        };
        let port = free_port()?;
        let mut command = command(arguments, kind, folder.path(), port)?;
        command.args(flags);
        if let Some(etcd) = &etcd {
            command.arg(format!("--etcd-servers={}", etcd.endpoint(0)));
        }
        let began = Instant::now();
        let server = spawn(&mut command, &folder.path().join("server.log"))?;
        let mut target = Target { server, etcd, port, ready: Duration::ZERO, _folder: folder };
        target.wait_until_ready(began).await?;
        Ok(target)
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
        Cpu { server: of(self.server.id()), store: of(self.etcd.as_ref().and_then(|etcd| etcd.pid(0))) }
    }

    /// Resident memory of all processes now, in bytes.
    pub fn memory(&self) -> u64 {
        self.pids().filter_map(|pid| memory_of(pid, "VmRSS:")).sum()
    }

    /// The most that each process ever had, summed.
    pub fn peak_memory(&self) -> u64 {
        self.pids().filter_map(|pid| memory_of(pid, "VmHWM:")).sum()
    }

    fn pids(&self) -> impl Iterator<Item = u32> {
        self.server.id().into_iter().chain(self.etcd.as_ref().and_then(|etcd| etcd.pid(0)))
    }

    pub async fn stop(mut self) {
        let _ = self.server.kill().await;
    }
}

fn command(arguments: &Arguments, kind: Kind, folder: &Path, port: u16) -> Result<Command, String> {
    let text = |error: std::io::Error| error.to_string();
    let tokens = folder.join("tokens.csv");
    let users =
        format!("{TOKEN},admin,admin,\"system:masters\"\n{GREEDY_TOKEN},greedy,greedy\n{POLITE_TOKEN},polite,polite\n");
    std::fs::write(&tokens, users).map_err(text)?;
    let mut command;
    if kind == Kind::KubeApiserver {
        command = Command::new(arguments.kube_apiserver.as_ref().ok_or("kube-apiserver is missing")?);
        let key = folder.join("sa.key");
        let made = std::process::Command::new("openssl").args(["genrsa", "-out"]).arg(&key).arg("2048").output();
        made.map_err(|error| format!("openssl: {error}"))?;
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

fn memory_of(pid: u32, field: &str) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find(|line| line.starts_with(field))?;
    line.split_whitespace().nth(1)?.parse::<u64>().ok().map(|kilobytes| kilobytes * 1024)
}
