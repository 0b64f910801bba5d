//! The API servers: processes that are started, stopped, frozen and killed, and whose clocks jump.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::client::TOKEN;
use crate::clock::Clock;

pub struct Replicas {
    folder: PathBuf,
    etcd: Vec<String>,
    /// Makes clocks jump, where that is possible.
    clock: Option<Clock>,
    /// Whether servers can have hostnames of their own.
    own_hostnames: bool,
    replicas: Vec<Replica>,
}

struct Replica {
    binary: PathBuf,
    port: u16,
    process: Option<Child>,
}

impl Replicas {
    /// Starts so many servers, of each of the binaries in turn. A binary that is called kube-apiserver is started as one.
    pub fn start(binaries: &[PathBuf], count: usize, etcd: &[String], folder: &Path) -> Result<Replicas, String> {
        let tokens = format!("{TOKEN},admin,admin,\"system:masters\"\n");
        std::fs::write(folder.join("tokens.csv"), tokens).map_err(text)?;
        let made = Command::new("openssl").args(["genrsa", "-out"]).arg(folder.join("sa.key")).arg("2048").output();
        made.map_err(|error| format!("openssl: {error}"))?;
        let listeners: Vec<TcpListener> =
            (0..count).map(|_| TcpListener::bind(("127.0.0.1", 0))).collect::<Result<_, _>>().map_err(text)?;
        let ports: Vec<u16> =
            listeners.iter().map(|l| l.local_addr().map(|a| a.port())).collect::<Result<_, _>>().map_err(text)?;
        drop(listeners);
        let binaries = binaries.iter().cycle().cloned();
        let replicas = ports.into_iter().zip(binaries).map(|(port, binary)| Replica { binary, port, process: None });
        let own_hostnames = Command::new("unshare").args(["--uts", "true"]).status().is_ok_and(|it| it.success());
        let (replicas, clock) = (replicas.collect(), Clock::open(folder));
        let mut all = Replicas { folder: folder.into(), etcd: etcd.to_vec(), clock, own_hostnames, replicas };
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
        let replica = &self.replicas[n];
        let mut command = match self.own_hostnames {
            // A server's identity is made of its hostname.
            true => {
                let mut command = Command::new("unshare");
                command.args(["--uts", "sh", "-c", "hostname \"$0\" && exec \"$@\"", &format!("replica-{n}")]);
                command.arg(&replica.binary);
                command
            }
            false => Command::new(&replica.binary),
        };
        if is_upstream(&replica.binary) {
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
            .arg(format!("--etcd-servers={}", self.etcd.join(",")))
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
        Ok(command)
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
            Some(clock) if !is_upstream(&self.replicas[n].binary) => clock.set(n, seconds).map(|()| true),
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
