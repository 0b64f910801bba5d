//! Real etcd members for tests: found or reported missing, started on loopback, stopped with the test.

// Test code that other crates compile as a library: a failed assumption is a failed test.
#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used, clippy::print_stdout, clippy::disallowed_methods)]

pub mod access;
mod disk;
mod maintenance;

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// Longer than etcd takes to start on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// The etcd binary: `$FERROKUBE_ETCD`, what `cargo xtask components etcd` has built, or the one in the path. None, and a
/// word about it, if there is none; in CI that is a failure.
pub fn etcd() -> Option<PathBuf> {
    let found = find();
    if found.is_none() {
        let hint = "etcd is not installed: run `cargo xtask components etcd`, or set FERROKUBE_ETCD";
        assert!(std::env::var_os("CI").is_none(), "{hint}");
        println!("SKIPPED, {hint}");
    }
    found
}

fn find() -> Option<PathBuf> {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    if let Some(path) = set("FERROKUBE_ETCD") {
        assert!(path.is_file(), "FERROKUBE_ETCD names no file: {}", path.display());
        return Some(path);
    }
    let tools = set("FERROKUBE_TOOLS")
        .or_else(|| set("XDG_CACHE_HOME").map(|cache| cache.join("ferrokube/tools")))
        .or_else(|| set("HOME").map(|home| home.join(".cache/ferrokube/tools")));
    let builds = tools.and_then(|tools| std::fs::read_dir(tools.join("etcd")).ok());
    let built =
        builds.into_iter().flatten().flatten().map(|build| build.path().join("etcd")).filter(|path| path.is_file());
    let newest = built.max_by_key(|path| path.metadata().and_then(|data| data.modified()).ok());
    let in_path =
        || std::env::split_paths(&std::env::var_os("PATH")?).map(|dir| dir.join("etcd")).find(|path| path.is_file());
    newest.or_else(in_path)
}

/// A cluster of members on loopback. Its data goes with it.
pub struct Cluster {
    binary: PathBuf,
    members: Vec<Member>,
    /// They go before the directory that they are in.
    disks: Vec<disk::Disk>,
    directory: TempDir,
    arguments: Vec<String>,
}

struct Member {
    name: String,
    client: u16,
    peer: u16,
    /// Plain HTTP, also where clients need TLS.
    health: u16,
    process: Option<Child>,
    /// How often it was replaced; each time it has a data directory of its own.
    replaced: usize,
}

impl Cluster {
    /// Starts a member that does not sync its disk; tests of what etcd promises of disks are etcd's.
    pub fn single() -> Option<Cluster> {
        Some(Cluster::start(&etcd()?, 1, &["--unsafe-no-fsync"]))
    }

    pub fn of_three() -> Option<Cluster> {
        Some(Cluster::start(&etcd()?, 3, &["--unsafe-no-fsync", "--heartbeat-interval=50", "--election-timeout=300"]))
    }

    /// Starts members and waits until they serve.
    pub fn start(binary: &Path, count: usize, arguments: &[&str]) -> Cluster {
        Cluster::start_in(binary, count, arguments, tempfile::tempdir().unwrap())
    }

    pub fn start_in(binary: &Path, count: usize, arguments: &[&str], directory: TempDir) -> Cluster {
        let ports = free_ports(count * 3);
        let member = |n: usize| {
            let [client, peer, health] = [ports[3 * n], ports[3 * n + 1], ports[3 * n + 2]];
            Member { name: format!("m{n}"), client, peer, health, process: None, replaced: 0 }
        };
        let mut cluster = Cluster {
            binary: binary.to_owned(),
            members: (0..count).map(member).collect(),
            disks: Vec::new(),
            directory,
            arguments: arguments.iter().map(|argument| argument.to_string()).collect(),
        };
        for n in 0..count {
            cluster.launch(n);
        }
        for n in 0..count {
            cluster.wait_for(n);
        }
        cluster
    }

    /// Where clients go.
    pub fn endpoints(&self) -> Vec<String> {
        let scheme = self.scheme();
        self.members.iter().map(|member| format!("{scheme}://127.0.0.1:{}", member.client)).collect()
    }

    /// Members that were given a certificate speak TLS.
    fn scheme(&self) -> &'static str {
        let tls = self.arguments.iter().any(|argument| argument.starts_with("--cert-file"));
        if tls { "https" } else { "http" }
    }

    pub fn endpoint(&self, n: usize) -> String {
        self.endpoints().swap_remove(n)
    }

    pub fn pid(&self, n: usize) -> Option<u32> {
        self.members[n].process.as_ref().map(Child::id)
    }

    /// Kills a member, as a power failure would.
    pub fn kill(&mut self, n: usize) {
        if let Some(mut process) = self.members[n].process.take() {
            let _ = process.kill();
            let _ = process.wait();
        }
    }

    /// Stops a member as it is, as a disk that does not answer would: it keeps its connections and says nothing.
    pub fn hang(&self, n: usize) {
        self.signal(n, "-STOP");
    }

    /// Lets a member that hangs go on.
    pub fn go_on(&self, n: usize) {
        self.signal(n, "-CONT");
    }

    fn signal(&self, n: usize, signal: &str) {
        let pid = self.pid(n).expect("the member runs").to_string();
        assert!(Command::new("kill").args([signal, &pid]).status().unwrap().success());
    }

    /// Starts a killed member again and waits until it serves.
    pub fn revive(&mut self, n: usize) {
        self.revive_all(&[n]);
    }

    /// Starts killed members again at the same time: too few of them serve nothing.
    pub fn revive_all(&mut self, members: &[usize]) {
        members.iter().for_each(|n| self.launch(*n));
        members.iter().for_each(|n| self.wait_for(*n));
    }

    /// Starts a killed member again.
    pub fn launch(&mut self, n: usize) {
        let peers: Vec<String> =
            self.members.iter().map(|member| format!("{}=http://127.0.0.1:{}", member.name, member.peer)).collect();
        let scheme = self.scheme();
        let member = &mut self.members[n];
        let client = format!("{scheme}://127.0.0.1:{}", member.client);
        let [peer, health] = [member.peer, member.health].map(|port| format!("http://127.0.0.1:{port}"));
        let log = std::fs::File::create(self.directory.path().join(format!("{}.log", member.name))).unwrap();
        let process = Command::new(&self.binary)
            .args(["--name", &member.name, "--log-level", "error", "--initial-cluster", &peers.join(",")])
            .args(["--listen-client-urls", &client, "--advertise-client-urls", &client])
            .args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer])
            .args(["--listen-metrics-urls", &health])
            .arg("--data-dir")
            .arg(self.directory.path().join(&member.name).join(format!("data-{}", member.replaced)))
            .args(["--initial-cluster-state", if member.replaced == 0 { "new" } else { "existing" }])
            .args(&self.arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap();
        member.process = Some(process);
    }

    fn wait_for(&mut self, n: usize) {
        let began = Instant::now();
        while !self.is_serving(n) {
            let member = &mut self.members[n];
            let ended = member.process.as_mut().and_then(|process| process.try_wait().unwrap());
            let log = || std::fs::read_to_string(self.directory.path().join(format!("{}.log", member.name)));
            assert!(ended.is_none(), "etcd ended: {}", log().unwrap_or_default());
            assert!(began.elapsed() < PATIENCE, "etcd does not serve: {}", log().unwrap_or_default());
            // It has no way to tell when it is ready but being asked.
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Asks `/health`, which says yes only when there is a leader.
    fn is_serving(&self, n: usize) -> bool {
        use std::io::{Read, Write};
        let ask = || {
            let mut stream = std::net::TcpStream::connect(("127.0.0.1", self.members[n].health))?;
            stream.set_read_timeout(Some(Duration::from_secs(5)))?;
            stream.write_all(b"GET /health HTTP/1.0\r\n\r\n")?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer)?;
            Ok::<_, std::io::Error>(answer)
        };
        ask().is_ok_and(|answer| answer.contains("\"health\":\"true\""))
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for n in 0..self.members.len() {
            self.kill(n);
        }
    }
}

/// Free ports below those of outgoing connections, one of which could take the port of a process that is down for a moment.
pub fn free_ports(count: usize) -> Vec<u16> {
    let mut listeners: Vec<TcpListener> = Vec::new();
    while listeners.len() < count {
        listeners.extend(TcpListener::bind(("127.0.0.1", rand::random_range(10_000..32_000))));
    }
    listeners.iter().map(|listener| listener.local_addr().unwrap().port()).collect()
}
