//! The API servers: processes that are started, stopped, frozen and killed, and whose clocks jump.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use storage_etcd::testing::free_ports;

use crate::client::TOKEN;
use crate::clock::Clock;

pub struct Replicas {
    folder: PathBuf,
    /// Servers of several versions take turns when they are restarted.
    binaries: Vec<PathBuf>,
    /// Where each server finds the members.
    etcd: Vec<Vec<String>>,
    /// Makes clocks jump, where that is possible.
    clock: Option<Clock>,
    /// Whether servers can have hostnames of their own.
    own_hostnames: bool,
    replicas: Vec<Replica>,
}

struct Replica {
    /// Which of the binaries it is.
    binary: usize,
    port: u16,
    process: Option<Child>,
}

impl Replicas {
    /// Starts a server for each list of etcd members, of each of the binaries in turn. A binary that is called kube-apiserver is started as one.
    /// A server without members has a store of its own.
    pub fn start(binaries: &[PathBuf], etcd: Vec<Vec<String>>, folder: &Path) -> Result<Replicas, String> {
        let count = etcd.len();
        let tokens = format!("{TOKEN},admin,admin,\"system:masters\"\n");
        std::fs::write(folder.join("tokens.csv"), tokens).map_err(text)?;
        let made = Command::new("openssl").args(["genrsa", "-out"]).arg(folder.join("sa.key")).arg("2048").output();
        made.map_err(|error| format!("openssl: {error}"))?;
        let replica = |(n, port)| Replica { binary: n % binaries.len(), port, process: None };
        let replicas = free_ports(count).into_iter().enumerate().map(replica);
        let own_hostnames = Command::new("unshare").args(["--uts", "true"]).status().is_ok_and(|it| it.success());
        let (replicas, clock) = (replicas.collect(), Clock::open(folder));
        let binaries = binaries.to_vec();
        let mut all = Replicas { folder: folder.into(), binaries, etcd, clock, own_hostnames, replicas };
        (0..count).try_for_each(|n| all.launch(n))?;
        Ok(all)
    }

    pub fn ports(&self) -> Vec<u16> {
        self.replicas.iter().map(|replica| replica.port).collect()
    }

    /// The process of a server that runs.
    pub fn pid(&self, n: usize) -> Option<u32> {
        self.replicas[n].process.as_ref().map(Child::id)
    }

    pub fn launch(&mut self, n: usize) -> Result<(), String> {
        let mut command = self.command(n)?;
        let log = self.folder.join(format!("server-{n}.log"));
        let log = std::fs::OpenOptions::new().create(true).append(true).open(log).map_err(text)?;
        command.stdin(Stdio::null()).stdout(log.try_clone().map_err(text)?).stderr(log);
        self.replicas[n].process = Some(command.spawn().map_err(text)?);
        Ok(())
    }

    fn command(&self, n: usize) -> Result<Command, String> {
        let folder = self.folder.join(format!("server-{n}"));
        std::fs::create_dir_all(&folder).map_err(text)?;
        let (replica, binary) = (&self.replicas[n], self.binary(n));
        let mut command = match self.own_hostnames {
            // A server's identity is made of its hostname.
            true => {
                let mut command = Command::new("unshare");
                command.args(["--uts", "sh", "-c", "hostname \"$0\" && exec \"$@\"", &format!("replica-{n}")]);
                command.arg(binary);
                command
            }
            false => Command::new(binary),
        };
        if is_upstream(binary) {
            command.arg("--cert-dir").arg(folder.join("certs"));
        } else {
            command.arg("--data-dir").arg(&folder).arg("--standalone=false");
            if let Some(clock) = &self.clock {
                clock.set_up(&mut command, n);
            }
        }
        let key = self.folder.join("sa.key");
        command
            .arg(format!("--secure-port={}", replica.port))
            .arg(format!("--advertise-address=10.99.0.{}", n + 1))
            .arg("--token-auth-file")
            .arg(self.folder.join("tokens.csv"))
            .arg("--service-account-signing-key-file")
            .arg(&key)
            .arg("--service-account-key-file")
            .arg(&key)
            .arg("--service-account-issuer=https://kubernetes.default.svc")
            .args(["--bind-address=127.0.0.1", "--authorization-mode=RBAC", "--service-cluster-ip-range=10.0.0.0/24"])
            .args(["--disable-admission-plugins=ServiceAccount", "--shutdown-delay-duration=1s"])
            .arg("--shutdown-watch-termination-grace-period=1s");
        if !self.etcd[n].is_empty() {
            command.arg(format!("--etcd-servers={}", self.etcd[n].join(","))).arg("--etcd-compaction-interval=1m");
        }
        Ok(command)
    }

    fn binary(&self, n: usize) -> &Path {
        &self.binaries[self.replicas[n].binary]
    }

    /// From its next start on a server is of the next binary.
    pub fn upgrade(&mut self, n: usize) {
        self.replicas[n].binary = (self.replicas[n].binary + 1) % self.binaries.len();
    }

    /// Kills a server, as a power failure would.
    pub fn kill(&mut self, n: usize) {
        if let Some(mut process) = self.replicas[n].process.take() {
            // The process may have ended by itself.
            let _ = process.kill();
            let _ = process.wait();
        }
    }

    /// Asks a server to stop.
    pub fn terminate(&self, n: usize) -> Result<(), String> {
        self.signal(n, "-TERM")
    }

    /// Whether a server's process is gone.
    pub fn has_ended(&mut self, n: usize) -> bool {
        self.replicas[n].process.as_mut().is_none_or(|process| process.try_wait().is_ok_and(|status| status.is_some()))
    }

    /// Stops a server as it is, or lets it go on.
    pub fn freeze(&self, n: usize, frozen: bool) -> Result<(), String> {
        self.signal(n, if frozen { "-STOP" } else { "-CONT" })
    }

    /// Sets a server's clock ahead or back; false if its clock cannot be changed.
    pub fn set_clock(&self, n: usize, seconds: i64) -> Result<bool, String> {
        match &self.clock {
            Some(clock) if !is_upstream(self.binary(n)) => clock.set(n, seconds).map(|()| true),
            _ => Ok(false),
        }
    }

    fn signal(&self, n: usize, signal: &str) -> Result<(), String> {
        let Some(process) = &self.replicas[n].process else { return Ok(()) };
        let status = Command::new("kill").args([signal, &process.id().to_string()]).status().map_err(text)?;
        if status.success() { Ok(()) } else { Err(format!("cannot send {signal} to a server")) }
    }
}

fn is_upstream(binary: &Path) -> bool {
    binary.file_name().is_some_and(|name| name == "kube-apiserver")
}

impl Drop for Replicas {
    fn drop(&mut self) {
        (0..self.replicas.len()).for_each(|n| self.kill(n));
    }
}

fn text(error: std::io::Error) -> String {
    error.to_string()
}
