//! `ferrokube test-server` as a test program meets it: what it prints, what it begins with, and that it ends with whoever started it.

#![allow(clippy::unwrap_used, clippy::panic)] // In tests a failed assumption is a failed test, in helpers too.

use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};

use codec::Notes;
use object::Value;

const CRDS: &str = "\
apiVersion: v1
kind: ConfigMap
metadata: {name: passed-over}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: widgets, singular: widget, kind: Widget}
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}
";

struct Server {
    child: Child,
    out: BufReader<ChildStdout>,
    ready: Value,
}

impl Server {
    fn start(command: &mut Command) -> Server {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        out.read_line(&mut line).unwrap();
        let ready = codec::json::decode(line.as_bytes(), None, &mut Notes::ignore());
        Server { child, out, ready: ready.unwrap_or_else(|error| panic!("{line:?}: {error}")) }
    }

    fn of(arguments: &[&str]) -> Server {
        Server::start(Command::new(program()).args(["test-server", "--print-json"]).args(arguments))
    }

    fn text(&self, name: &str) -> String {
        self.ready.str_at(&[name]).to_string()
    }

    fn folder(&self) -> PathBuf {
        PathBuf::from(self.text("kubeconfig")).parent().unwrap().to_path_buf()
    }

    /// Waits until nobody can write to its standard output any more, and checks that nothing is left.
    fn wait(mut self) {
        let folder = self.folder();
        self.out.read_to_end(&mut Vec::new()).unwrap();
        self.child.wait().unwrap();
        assert!(!folder.exists(), "{} was left", folder.display());
    }
}

fn program() -> PathBuf {
    PathBuf::from(env!("CARGO_BIN_EXE_ferrokube"))
}

#[test]
fn it_says_what_a_client_needs() {
    let folder = tempfile::tempdir().unwrap();
    let (crds, logs) = (folder.path().join("crds"), folder.path().join("logs"));
    std::fs::create_dir(&crds).unwrap();
    std::fs::write(crds.join("widgets.yaml"), CRDS).unwrap();
    std::fs::write(crds.join("README.md"), "no definition").unwrap();
    let server = Server::of(&[
        "--crds",
        &crds.display().to_string(),
        "--logs",
        &logs.display().to_string(),
        "--user=alice::devs=view",
        "--",
        "--runtime-config=api/alpha=true",
    ]);
    assert!(server.text("url").starts_with("https://127.0.0.1:"), "{:?}", server.ready);
    assert!(server.text("ca").starts_with("-----BEGIN CERTIFICATE-----"));
    assert!(server.text("version").starts_with("v1."));
    let ask = |path: &str, token: &str| {
        let mut curl = Command::new("curl");
        curl.args(["--silent", "--cacert"]).arg(server.folder().join("pki/ca.crt"));
        let output =
            curl.args(["--header", &format!("Authorization: Bearer {token}")]).arg(server.text("url") + path).output();
        String::from_utf8(output.unwrap().stdout).unwrap()
    };
    let token = server.text("token");
    assert!(ask("/apis/example.com/v1/widgets", &token).contains("WidgetList"));
    assert!(ask("/apis/storagemigration.k8s.io", &token).contains("v1"));
    assert!(ask("/api/v1/nodes", "wrong").contains("Unauthorized"));
    let alice = std::fs::read_to_string(server.ready.str_at(&["users", "alice"])).unwrap();
    assert!(alice.contains("user: \"alice\"") && alice.contains("client-key-data"), "{alice}");
    assert!(std::fs::read_to_string(server.text("audit")).unwrap().contains("widgets"));
    assert!(std::fs::read_to_string(server.text("log")).unwrap().contains("unable to authenticate"));
    let Server { child, .. } = &server;
    Command::new("kill").arg(child.id().to_string()).status().unwrap();
    server.wait();
    assert!(logs.join("audit.log").exists());
}

#[test]
fn it_ends_with_its_input() {
    let mut server = Server::of(&[]);
    drop(server.child.stdin.take());
    server.wait();
}

#[test]
fn it_ends_with_its_parent() {
    let script = format!("'{}' test-server --print-json < /dev/null & exec sleep 1000", program().display());
    let mut server = Server::start(Command::new("sh").args(["-c", &script]));
    server.child.kill().unwrap();
    server.wait();
}

#[test]
fn what_cannot_be_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("bad.yaml");
    std::fs::write(&file, CRDS.replace("scope: Namespaced", "scope: Everywhere")).unwrap();
    let bad = file.display().to_string();
    for (arguments, want) in [
        (&["--crds", "/nowhere"][..], "/nowhere: No such file"),
        (&["--crds", &bad], "widgets.example.com: CustomResourceDefinition"),
        (&["--user", "=view"], "is not NAME"),
        (&["--", "--no-such-flag"], "--no-such-flag"),
    ] {
        let output = Command::new(program()).arg("test-server").args(arguments).stdin(Stdio::null()).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && said.contains(want), "{arguments:?}: {said}");
    }
}

/// What envtest does with etcd, and what kube-apiserver finds in it.
#[test]
fn assets_for_envtest_are_this_program() {
    let folder = tempfile::tempdir().unwrap();
    let assets = folder.path().join("assets");
    let made = Command::new(program()).arg("envtest-assets").arg(&assets).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&made.stdout).trim(), assets.display().to_string());
    let help = Command::new(assets.join("etcd")).arg("--help").output().unwrap();
    assert!(help.status.success() && String::from_utf8_lossy(&help.stdout).contains("\n  --unsafe-no-fsync"));
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let url = format!("http://127.0.0.1:{port}");
    let mut etcd = Command::new(assets.join("etcd")).arg(format!("--listen-client-urls={url}")).spawn().unwrap();
    let health = || {
        Command::new("curl")
            .args(["--silent", "--retry", "20", "--retry-connrefused", &(url.clone() + "/health")])
            .output()
    };
    assert!(String::from_utf8_lossy(&health().unwrap().stdout).contains("\"health\":\"true\""));
    let mut server = Command::new(assets.join("kube-apiserver"))
        .arg(format!("--etcd-servers={url}"))
        .args(["--secure-port=0", "--authorization-mode=RBAC", "--cert-dir"])
        .arg(folder.path().join("certificates"))
        .arg("--data-dir")
        .arg(folder.path().join("data"))
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(server.stdout.take().unwrap()).lines().map_while(Result::ok);
    assert!(lines.take(3).any(|line| line.contains("in memory")));
    for child in [&mut server, &mut etcd] {
        Command::new("kill").arg(child.id().to_string()).status().unwrap();
        assert!(child.wait().unwrap().success());
    }
}
