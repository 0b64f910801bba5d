//! A place to run servers and components in: a folder for their files and logs, and an end to all of them.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long anything may take before something is wrong.
pub const PATIENCE: Duration = Duration::from_secs(120);
/// The token of a cluster administrator.
pub const TOKEN: &str = "conformance-token";

/// Processes end with it; files stay to be read.
pub struct Lab {
    pub folder: PathBuf,
    processes: Vec<(String, Child)>,
}

/// An API server that answers.
#[derive(Clone)]
pub struct Server {
    pub kubeconfig: PathBuf,
    port: u16,
    pub pid: u32,
    /// Keys and certificates: the authority, and what signs service-account tokens.
    pub ca: PathBuf,
    pub ca_key: PathBuf,
    pub account_key: PathBuf,
    binary: Option<(PathBuf, PathBuf)>,
}

impl Drop for Lab {
    fn drop(&mut self) {
        for (_, child) in self.processes.iter_mut().rev() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Lab {
    /// An empty folder of this name below the build directory.
    pub fn new(name: &str) -> Result<Lab, String> {
        let folder = target_folder().join("conformance").join(name);
        match fs::remove_dir_all(&folder) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(format!("cannot empty {}: {error}", folder.display()));
            }
            _ => {}
        }
        fs::create_dir_all(&folder).map_err(|error| format!("cannot create {}: {error}", folder.display()))?;
        Ok(Lab { folder, processes: Vec::new() })
    }

    /// Starts a process whose output goes to `<name>.log`.
    pub fn spawn(&mut self, name: &str, command: &mut Command) -> Result<u32, String> {
        let log = File::options().create(true).append(true).open(self.log(name)).map_err(|error| error.to_string())?;
        let errors = log.try_clone().map_err(|error| error.to_string())?;
        let spawned = command.stdin(Stdio::null()).stdout(log).stderr(errors).spawn();
        let child = spawned.map_err(|error| format!("cannot start {name}: {error}"))?;
        let pid = child.id();
        self.processes.push((name.to_string(), child));
        Ok(pid)
    }

    pub fn log(&self, name: &str) -> PathBuf {
        self.folder.join(format!("{name}.log"))
    }

    /// Asks a process to end and waits until it has.
    pub fn stop(&mut self, name: &str) -> Result<(), String> {
        let Some(at) = self.processes.iter().rposition(|(known, _)| known == name) else {
            return Err(format!("{name} is not running"));
        };
        let (_, mut child) = self.processes.remove(at);
        let asked = Command::new("kill").arg(child.id().to_string()).status();
        asked.map_err(|error| format!("kill: {error}"))?;
        wait_for(&format!("{name} to end"), || Ok(child.try_wait().map_err(|error| error.to_string())?.is_some()))
    }

    /// A process that ended on its own is a failure of the run.
    pub fn all_alive(&mut self) -> Result<(), String> {
        for (name, child) in &mut self.processes {
            if let Ok(Some(status)) = child.try_wait() {
                return Err(format!("{name} ended by itself ({status}); see its log"));
            }
        }
        Ok(())
    }

    pub fn etcd(&mut self, binary: &Path) -> Result<String, String> {
        let (port, peer) = (free_port()?, free_port()?);
        let (client, peer) = (format!("http://127.0.0.1:{port}"), format!("http://127.0.0.1:{peer}"));
        let mut command = Command::new(binary);
        command.arg("--data-dir").arg(self.folder.join(format!("etcd-{port}")));
        command.args(["--log-level=error", "--listen-client-urls", &client, "--advertise-client-urls", &client]);
        command.args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer]);
        command.args(["--initial-cluster", &format!("default={peer}")]);
        self.spawn("etcd", &mut command)?;
        wait_for("etcd", || Ok(std::net::TcpStream::connect(("127.0.0.1", port)).is_ok()))?;
        Ok(client)
    }

    /// ferrokube with these flags, on its embedded store unless they say otherwise.
    pub fn ferrokube(&mut self, flags: &[&str]) -> Result<Server, String> {
        let binary = ferrokube()?;
        let data = self.folder.join("data");
        let port = free_port()?;
        let mut command = Command::new(&binary);
        command.arg("--data-dir").arg(&data).arg(format!("--secure-port={port}")).args(flags);
        let server = self.start(&mut command, &data, port)?;
        Ok(Server { binary: Some((binary, data)), ..server })
    }

    /// Starts ferrokube by a command that has its flags, and waits until it answers.
    pub fn start(&mut self, command: &mut Command, data: &Path, port: u16) -> Result<Server, String> {
        let pid = self.spawn("ferrokube", command)?;
        let pki = data.join("pki");
        let server = Server {
            kubeconfig: data.join("kubeconfig"),
            port,
            pid,
            ca: pki.join("ca.crt"),
            ca_key: pki.join("ca.key"),
            account_key: pki.join("sa.key"),
            binary: None,
        };
        self.wait_until_ready("ferrokube", &server)?;
        Ok(server)
    }

    /// A file in which the bearer of [`TOKEN`] is the administrator, and there is a user without roles.
    pub fn tokens(&self) -> Result<PathBuf, String> {
        let path = self.folder.join("tokens.csv");
        let written = fs::write(&path, format!("{TOKEN},admin,admin,\"system:masters\"\nplain-token,plain,plain\n"));
        written.map(|()| path).map_err(|error| error.to_string())
    }

    /// The real thing, with keys and certificates by openssl.
    pub fn kube_apiserver(&mut self, binary: &Path, etcd: &str, flags: &[&str]) -> Result<Server, String> {
        let folder = self.folder.join("reference");
        fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
        let port = free_port()?;
        let file = |name: &str| folder.join(name);
        openssl(
            &["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=ca"],
            &[("-keyout", file("ca.key")), ("-out", file("ca.crt"))],
        )?;
        openssl(&["genrsa"], &[("-out", file("sa.key"))])?;
        let mut command = Command::new(binary);
        command.arg("--cert-dir").arg(file("certs")).arg("--client-ca-file").arg(file("ca.crt"));
        command.arg("--token-auth-file").arg(self.tokens()?);
        command.arg("--service-account-key-file").arg(file("sa.key"));
        command.arg("--service-account-signing-key-file").arg(file("sa.key"));
        command.arg(format!("--etcd-servers={etcd}")).arg(format!("--secure-port={port}"));
        command.args([
            "--bind-address=127.0.0.1",
            "--advertise-address=192.0.2.2",
            "--authorization-mode=Node,RBAC",
            "--service-account-issuer=https://kubernetes.default.svc",
            "--service-cluster-ip-range=10.0.0.0/24",
        ]);
        command.args(flags);
        let pid = self.spawn("kube-apiserver", &mut command)?;
        let kubeconfig = file("kubeconfig");
        fs::write(&kubeconfig, token_kubeconfig(port)).map_err(|error| error.to_string())?;
        let (ca, ca_key, account_key) = (file("ca.crt"), file("ca.key"), file("sa.key"));
        let server = Server { kubeconfig, port, pid, ca, ca_key, account_key, binary: None };
        self.wait_until_ready("kube-apiserver", &server)?;
        Ok(server)
    }

    fn wait_until_ready(&mut self, name: &str, server: &Server) -> Result<(), String> {
        let kubectl = crate::components::ensure(&["kubectl"])?.remove("kubectl").ok_or("no kubectl")?;
        wait_for(name, || {
            self.all_alive()?;
            let mut probe = Command::new(&kubectl);
            probe.env("KUBECONFIG", &server.kubeconfig).args(["get", "--raw=/readyz"]);
            Ok(server.kubeconfig.exists() && probe.output().is_ok_and(|output| output.status.success()))
        })
    }
}

impl Server {
    /// A server with keys and certificates as kubeadm names them.
    pub fn given(kubeconfig: PathBuf, port: u16, pid: u32, pki: &Path) -> Server {
        let file = |name: &str| pki.join(name);
        let (ca, ca_key, account_key) = (file("ca.crt"), file("ca.key"), file("sa.key"));
        Server { kubeconfig, port, pid, ca, ca_key, account_key, binary: None }
    }

    /// A kubeconfig for a component that is known by a user name; with the reference server all are the administrator.
    pub fn kubeconfig_for(&self, lab: &Lab, user: &str) -> Result<PathBuf, String> {
        let Some((binary, data)) = &self.binary else { return Ok(self.kubeconfig.clone()) };
        let output = Command::new(binary).arg("kubeconfig").arg("--data-dir").arg(data).args(["--user", user]).output();
        let output = output.map_err(|error| error.to_string())?;
        if !output.status.success() {
            return Err(String::from_utf8_lossy(&output.stderr).into_owned());
        }
        let path = lab.folder.join(format!("{}.kubeconfig", user.replace(':', "-")));
        fs::write(&path, output.stdout).map_err(|error| error.to_string())?;
        Ok(path)
    }

    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Resident memory in bytes.
    pub fn memory(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid)).unwrap_or_default();
        let line = status.lines().find(|line| line.starts_with("VmRSS:"));
        line.and_then(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok()).unwrap_or(0) * 1024
    }
}

/// kubectl against one server.
pub struct Kubectl {
    binary: PathBuf,
    kubeconfig: PathBuf,
}

impl Kubectl {
    pub fn of(server: &Server) -> Result<Kubectl, String> {
        let binary = crate::components::ensure(&["kubectl"])?.remove("kubectl").ok_or("no kubectl")?;
        Ok(Kubectl { binary, kubeconfig: server.kubeconfig.clone() })
    }

    /// Runs a command given as one line and answers with what it printed.
    pub fn run(&self, line: &str) -> Result<String, String> {
        self.run_with(line, "")
    }

    pub fn apply(&self, manifest: &str) -> Result<String, String> {
        self.run_with("apply -f -", manifest)
    }

    fn run_with(&self, line: &str, input: &str) -> Result<String, String> {
        use std::io::Write;
        let mut command = Command::new(&self.binary);
        command.env("KUBECONFIG", &self.kubeconfig).args(line.split_whitespace());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(|error| format!("kubectl: {error}"))?;
        if let Some(mut stdin) = child.stdin.take() {
            let _ = stdin.write_all(input.as_bytes());
        }
        let output = child.wait_with_output().map_err(|error| format!("kubectl: {error}"))?;
        if !output.status.success() {
            return Err(format!("kubectl {line}: {}", String::from_utf8_lossy(&output.stderr).trim()));
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Runs a command until what it prints is as wanted.
    pub fn wait(&self, line: &str, wanted: impl Fn(&str) -> bool) -> Result<(), String> {
        let mut last = String::new();
        wait_for(&format!("kubectl {line}"), || {
            last = self.run(line).unwrap_or_else(|why| why);
            Ok(wanted(last.trim()))
        })
        .map_err(|why| format!("{why}: {}", last.trim()))
    }
}

/// Other processes do not announce that they are ready, so they are polled.
#[allow(clippy::disallowed_methods)]
pub fn wait_for(what: &str, mut done: impl FnMut() -> Result<bool, String>) -> Result<(), String> {
    let began = Instant::now();
    while began.elapsed() < PATIENCE {
        if done()? {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(200));
    }
    Err(format!("waited in vain for {what}"))
}

/// Builds the release binary and says where it is, unless `FERROKUBE_BINARY` names another.
#[allow(clippy::disallowed_methods)]
pub fn ferrokube() -> Result<PathBuf, String> {
    if let Some(binary) = std::env::var_os("FERROKUBE_BINARY") {
        return Ok(binary.into());
    }
    crate::test::cargo_run(&["build", "--release", "--package", "ferrokube-cli"])?;
    Ok(target_folder().join("release/ferrokube"))
}

/// Runs something of ours or theirs to its end; its output is the reason when it fails.
pub fn succeed(name: &str, command: &mut Command) -> Result<String, String> {
    let output = command.output().map_err(|error| format!("{name}: {error}"))?;
    let said = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    if output.status.success() { Ok(said) } else { Err(format!("{name} ({}):\n{said}", output.status)) }
}

/// What a command prints to its standard output, if it succeeds.
pub fn standard_output(name: &str, command: &mut Command) -> Result<String, String> {
    let output = command.output().map_err(|error| format!("{name}: {error}"))?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(format!("{name} ({}):\n{}", output.status, String::from_utf8_lossy(&output.stderr))),
    }
}

pub fn free_port() -> Result<u16, String> {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").map_err(|error| error.to_string())?;
    Ok(listener.local_addr().map_err(|error| error.to_string())?.port())
}

#[allow(clippy::disallowed_methods)]
pub fn target_folder() -> PathBuf {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).parent().map(Path::to_path_buf).unwrap_or_default();
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| workspace.join("target"), PathBuf::from)
}

pub fn openssl(arguments: &[&str], files: &[(&str, PathBuf)]) -> Result<(), String> {
    let mut command = Command::new("openssl");
    command.args(arguments);
    for (flag, path) in files {
        command.arg(flag).arg(path);
    }
    succeed("openssl", &mut command).map(|_| ())
}

fn token_kubeconfig(port: u16) -> String {
    format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: c\n\
         clusters: [{{name: c, cluster: {{server: 'https://127.0.0.1:{port}', insecure-skip-tls-verify: true}}}}]\n\
         users: [{{name: u, user: {{token: {TOKEN}}}}}]\n\
         contexts: [{{name: c, context: {{cluster: c, user: u}}}}]\n"
    )
}
