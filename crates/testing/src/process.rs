//! [`Process`]: the server as a process of its own, `ferrokube test-server`.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::{Error, TestDefinitions, client};

/// Names the program, if it is not on PATH.
const PROGRAM: &str = "FERROKUBE_BINARY";

/// What to start.
#[derive(Clone, Debug, Default)]
pub struct ProcessBuilder {
    program: Option<PathBuf>,
    arguments: Vec<String>,
    flags: Vec<String>,
}

impl ProcessBuilder {
    /// The program; without this it is what FERROKUBE_BINARY names, or `ferrokube` on PATH.
    pub fn program(mut self, program: impl Into<PathBuf>) -> ProcessBuilder {
        self.program = Some(program.into());
        self
    }

    /// Begins with the definitions in a file or in the files of a folder.
    pub fn crds(self, path: impl AsRef<Path>) -> ProcessBuilder {
        self.argument("--crds", path.as_ref().display().to_string())
    }

    /// Writes the server's log and audit log to this folder.
    pub fn logs(self, folder: impl AsRef<Path>) -> ProcessBuilder {
        self.argument("--logs", folder.as_ref().display().to_string())
    }

    /// Without the loops that a controller manager would run.
    pub fn bare(mut self) -> ProcessBuilder {
        self.arguments.push("--bare".into());
        self
    }

    /// A flag of kube-apiserver, such as `--feature-gates=…`.
    pub fn flag(mut self, flag: impl Into<String>) -> ProcessBuilder {
        self.flags.push(flag.into());
        self
    }

    fn argument(mut self, name: &str, value: String) -> ProcessBuilder {
        self.arguments.extend([name.to_string(), value]);
        self
    }

    pub async fn start(self) -> Result<Process, Error> {
        let program = self.program.clone().or_else(named_program).unwrap_or_else(|| "ferrokube".into());
        let started = tokio::task::spawn_blocking(move || self.launch(program)).await;
        started.map_err(|error| Error::Process(error.to_string()))?
    }

    fn launch(self, program: PathBuf) -> Result<Process, Error> {
        let mut command = Command::new(&program);
        command.args(["test-server", "--print-json"]).args(self.arguments);
        if !self.flags.is_empty() {
            command.arg("--").args(self.flags);
        }
        let failed = |why: String| Error::Program(program.clone(), why);
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().map_err(|e| failed(e.to_string()))?;
        let mut line = String::new();
        let read = child.stdout.take().map(|out| BufReader::new(out).read_line(&mut line));
        // From here on the child is ended with the value.
        let mut process = Process { child, url: String::new(), kubeconfig: PathBuf::new(), ready: Default::default() };
        match read {
            Some(Ok(read)) if read > 0 => {}
            _ => return Err(failed("it ended before it was ready; standard error has the reason".into())),
        }
        process.ready = serde_json::from_str(&line).map_err(|error| failed(format!("{line:?}: {error}")))?;
        let text = |name: &str| process.ready[name].as_str().unwrap_or_default().to_string();
        (process.url, process.kubeconfig) = (text("url"), text("kubeconfig").into());
        Ok(process)
    }
}

/// Where the program is differs between machines, not between tests.
#[allow(clippy::disallowed_methods)]
fn named_program() -> Option<PathBuf> {
    std::env::var_os(PROGRAM).filter(|path| !path.is_empty()).map(PathBuf::from)
}

/// Every byte of a value in a query that could mean something there.
fn escaped(text: &str) -> String {
    let escape = |byte: u8| match byte {
        b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' => char::from(byte).to_string(),
        _ => format!("%{byte:02X}"),
    };
    text.bytes().map(escape).collect()
}

/// A server that is serving. It ends when this is dropped, and also when this process ends in whatever way.
pub struct Process {
    child: Child,
    url: String,
    kubeconfig: PathBuf,
    ready: serde_json::Value,
}

impl Process {
    /// A server with nothing special about it.
    pub async fn start() -> Result<Process, Error> {
        ProcessBuilder::default().start().await
    }

    pub fn builder() -> ProcessBuilder {
        ProcessBuilder::default()
    }

    pub fn url(&self) -> &str {
        &self.url
    }

    /// What the server said when it was ready: its token, authority, process id and more.
    pub fn ready(&self) -> &serde_json::Value {
        &self.ready
    }

    /// A file that speaks for the administrator.
    pub fn kubeconfig_path(&self) -> &Path {
        &self.kubeconfig
    }

    /// A client that may do everything.
    pub async fn client(&self) -> Result<kube::Client, Error> {
        client(&std::fs::read_to_string(&self.kubeconfig)?).await
    }

    /// A kubeconfig for a user with groups, who may do what RBAC objects say.
    pub async fn kubeconfig_for(&self, user: &str, groups: &[&str]) -> Result<String, Error> {
        let groups: String = groups.iter().map(|group| format!("&group={}", escaped(group))).collect();
        self.post(&format!("/test-server/users?name={}{groups}", escaped(user))).await
    }

    /// A client for a user with groups, who may do what RBAC objects say.
    pub async fn client_for(&self, user: &str, groups: &[&str]) -> Result<kube::Client, Error> {
        client(&self.kubeconfig_for(user, groups).await?).await
    }

    /// Removes everything that was written since the start, and brings back what the server had made for itself.
    pub async fn reset(&self) -> Result<(), Error> {
        self.reset_but(TestDefinitions::Remove).await
    }

    /// The same, and says what becomes of custom resource definitions.
    pub async fn reset_but(&self, definitions: TestDefinitions) -> Result<(), Error> {
        let definitions = match definitions {
            TestDefinitions::Remove => "remove",
            TestDefinitions::Keep => "keep",
        };
        self.post(&format!("/test-server/reset?definitions={definitions}")).await.map(drop)
    }

    async fn post(&self, path: &str) -> Result<String, Error> {
        let request = http::Request::post(path).body(Vec::new()).map_err(|error| Error::Process(error.to_string()))?;
        Ok(self.client().await?.request_text(request).await?)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Closing its standard input tells it to end in order, and to leave nothing behind.
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}
