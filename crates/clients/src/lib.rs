//! What tests with real clients share: a server of their own, and the clients' binaries.

// Test code that is compiled as a library: a failed assumption is a failed test.
#![allow(clippy::panic)]

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use apiserver::{Config, Running, kubeconfig, start};
use tempfile::TempDir;

/// A fresh server with a folder of its own, gone when it is dropped.
pub struct TestServer {
    pub running: Running,
    pub folder: TempDir,
}

impl TestServer {
    /// Starts one in this process, on the embedded store, with administrator and user tokens.
    pub async fn start() -> TestServer {
        TestServer::start_with(|_| {}).await
    }

    pub async fn start_with(change: impl FnOnce(&mut Config)) -> TestServer {
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        let tokens = folder.path().join("tokens.csv");
        let lines = "admin-token,admin,admin-uid,\"system:masters\"\nuser-token,alice,alice-uid,\"devs\"\n";
        std::fs::write(&tokens, lines).expect("the folder is ours");
        let mut config = Config {
            data_dir: folder.path().join("data"),
            port: 0,
            own_authority: Some(true),
            token_auth_file: Some(tokens),
            disable_admission_plugins: vec!["ServiceAccount".into()],
            ..Config::default()
        };
        change(&mut config);
        let running = start(config).await.expect("the server starts");
        TestServer { running, folder }
    }

    /// An administrator's kubeconfig.
    pub fn kubeconfig(&self) -> PathBuf {
        let path = self.folder.path().join("kubeconfig");
        let text = kubeconfig::admin(&self.running.pki, self.running.address).expect("the certificates are there");
        kubeconfig::write(&path, &text).expect("the folder is ours");
        path
    }

    pub async fn stop(self) {
        self.running.stop(std::time::Duration::ZERO).await;
    }
}

/// The server as a process of its own, where what it needs can be measured.
pub struct Process {
    child: Child,
    pub address: SocketAddr,
    _folder: TempDir,
}

impl Process {
    pub async fn start(flags: &[&str]) -> Process {
        Process::start_with(flags, &[]).await
    }

    pub async fn start_with(flags: &[&str], environment: &[(&str, &Path)]) -> Process {
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        let tokens = folder.path().join("tokens.csv");
        std::fs::write(&tokens, "admin-token,admin,admin-uid,\"system:masters\"\n").expect("the folder is ours");
        let mut child = Command::new(ferrokube())
            .arg(format!("--data-dir={}", folder.path().join("data").display()))
            .arg(format!("--token-auth-file={}", tokens.display()))
            .args(["--secure-port=0", "--disable-admission-plugins=ServiceAccount"])
            .args(flags)
            .envs(environment.iter().copied())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the server can be run");
        let stdout = child.stdout.take().expect("it is piped");
        let mut lines = BufReader::new(stdout).lines();
        let ready = lines.find_map(|line| {
            let line = line.expect("the server says where it is");
            line.strip_prefix("ferrokube is ready on https://")?.split(' ').next()?.parse().ok()
        });
        // Whatever else it says is read and forgotten, so that it never waits for us.
        std::thread::spawn(move || lines.for_each(drop));
        Process { child, address: ready.expect("the server starts"), _folder: folder }
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// How much memory the process has in use.
    pub fn resident_bytes(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).expect("the process lives");
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("Linux says how much");
        let kib: u64 = line.trim().trim_end_matches("kB").trim().parse().expect("a number");
        kib * 1024
    }

    /// Asks it to end, as a service manager does.
    pub fn terminate(&self) {
        let asked = Command::new("kill").arg(self.child.id().to_string()).status();
        assert!(asked.expect("kill can be run").success());
    }

    /// Waits until it has ended and says with which code.
    pub fn wait(mut self) -> Option<i32> {
        self.child.wait().expect("the process is ours").code()
    }

    pub fn stop(mut self) {
        self.child.kill().expect("the process is ours");
        self.child.wait().expect("the process is ours");
    }
}

/// The server's binary: `$FERROKUBE_BINARY`, or else built if it is not up to date. `cargo xtask test` names the one that is
/// built with all tests, since a build of the server alone has other features and compiles most crates again.
#[allow(clippy::disallowed_methods)]
pub fn ferrokube() -> PathBuf {
    if let Some(binary) = std::env::var_os("FERROKUBE_BINARY") {
        return binary.into();
    }
    let built = Command::new(env!("CARGO")).args(["build", "--quiet", "--package", "ferrokube-cli"]).status();
    assert!(built.expect("cargo can be run").success(), "the server does not build");
    let tests = std::env::current_exe().expect("we are a program");
    // target/<profile>/deps/<test>
    let profile = tests.ancestors().nth(2).expect("tests are built below the target folder");
    profile.join("ferrokube")
}

/// Where a component's binary is: where the environment says, or else it is built if it is not there yet, which takes
/// minutes the first time.
#[allow(clippy::disallowed_methods)]
pub fn component(name: &str) -> PathBuf {
    if let Some(path) = std::env::var_os(format!("FERROKUBE_{}", name.to_uppercase())) {
        return path.into();
    }
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let output = Command::new(env!("CARGO"))
        .args(["run", "--quiet", "--package", "xtask", "--", "components", name])
        .current_dir(workspace)
        .output()
        .expect("cargo can be run");
    let said = String::from_utf8_lossy(&output.stderr);
    let path = said.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix(' ')).next_back();
    PathBuf::from(path.unwrap_or_else(|| panic!("`cargo xtask components {name}` failed: {said}")))
}
