//! kubectl against the server: transcripts recorded from a real kube-apiserver, played again.
//!
//! A transcript is commands after `$ ` with what was printed below each, and `[exit N]` where a command failed. `[..]`
//! stands for whatever differs from run to run. Blanks count as one: columns are as wide as what is in them.

#![allow(clippy::unwrap_used, clippy::panic)] // In tests a failed assumption is a failed test, in helpers too.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use clients::{TestServer, component};
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{ChildStdout, Command as AsyncCommand};

fn kubectl() -> &'static PathBuf {
    static KUBECTL: OnceLock<PathBuf> = OnceLock::new();
    KUBECTL.get_or_init(|| component("kubectl"))
}

fn transcripts() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/kubectl")
}

/// Plays a transcript on a server of its own and shows every difference at once.
async fn check(name: &str) {
    let server = TestServer::start().await;
    let kubeconfig = server.kubeconfig();
    let folder = server.folder.path().to_path_buf();
    let text = std::fs::read_to_string(transcripts().join(format!("{name}.txt"))).unwrap();
    for file in std::fs::read_dir(transcripts()).unwrap().map(|file| file.unwrap().path()) {
        if file.extension().is_some_and(|extension| extension == "yaml") {
            std::fs::copy(&file, folder.join(file.file_name().unwrap())).unwrap();
        }
    }
    let played = tokio::task::spawn_blocking(move || {
        let mut wrong = String::new();
        for (command, want) in steps(&text) {
            let got = run(&command, &folder, &kubeconfig);
            if let Some(difference) = differ(&want, &got) {
                wrong.push_str(&format!("$ {command}\n{difference}\n"));
            }
        }
        wrong
    });
    let wrong = played.await.unwrap();
    server.stop().await;
    assert!(wrong.is_empty(), "{name}:\n{wrong}");
}

fn steps(text: &str) -> Vec<(String, Vec<String>)> {
    let mut steps: Vec<(String, Vec<String>)> = Vec::new();
    for line in text.lines() {
        match (line.strip_prefix("$ "), steps.last_mut()) {
            (Some(command), _) => steps.push((command.to_string(), Vec::new())),
            (None, Some((_, output))) => output.push(line.to_string()),
            (None, None) => {}
        }
    }
    steps
}

fn run(command: &str, folder: &Path, kubeconfig: &Path) -> Vec<String> {
    let path = format!("{}:/usr/local/bin:/usr/bin:/bin", kubectl().parent().unwrap().display());
    let output = Command::new("bash")
        .args(["-c", &format!("exec 2>&1; {command}")])
        .current_dir(folder)
        .env_clear()
        .env("PATH", path)
        .env("HOME", folder)
        .env("KUBECONFIG", kubeconfig)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let mut lines: Vec<String> = String::from_utf8_lossy(&output.stdout).lines().map(str::to_string).collect();
    if !output.status.success() {
        lines.push(format!("[exit {}]", output.status.code().unwrap_or(-1)));
    }
    lines
}

/// The first line that differs, with its surroundings.
fn differ(want: &[String], got: &[String]) -> Option<String> {
    let trim = |lines: &[String]| -> Vec<String> {
        let squeezed = lines.iter().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "));
        squeezed.filter(|line| !line.is_empty()).collect()
    };
    let (want, got) = (trim(want), trim(got));
    for at in 0..want.len().max(got.len()) {
        let (wanted, found) = (want.get(at), got.get(at));
        let same = matches!((wanted, found), (Some(wanted), Some(found)) if matches(wanted, found));
        if !same {
            let shown = |line: Option<&String>| line.cloned().unwrap_or_else(|| "(nothing)".into());
            return Some(format!("  line {}\n  - {}\n  + {}", at + 1, shown(wanted), shown(found)));
        }
    }
    None
}

/// Whether a line is what the pattern says, `[..]` being anything.
fn matches(pattern: &str, line: &str) -> bool {
    let mut parts = pattern.split("[..]");
    let first = parts.next().unwrap_or("");
    let Some(mut rest) = line.strip_prefix(first) else { return false };
    let mut last = "";
    for part in parts {
        let Some(at) = rest.find(part) else { return false };
        // The last part has to be at the end, wherever else it may be found.
        rest = &rest[at + part.len()..];
        last = part;
    }
    rest.is_empty()
        || (pattern.contains("[..]") && line.ends_with(last) && !last.is_empty())
        || pattern.ends_with("[..]")
}

macro_rules! transcripts {
    ($($test:ident $name:literal)*) => {
        $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $test() {
            check($name).await;
        })*
    };
}

transcripts! {
    create_and_apply "create-and-apply"
    server_side_apply "server-side-apply"
    get_and_describe "get-and-describe"
    explain "explain"
    change "change"
    rollout "rollout"
    wait_and_delete "wait-and-delete"
    discovery "discovery"
    auth "auth"
}

/// Everything printed for an object is followed as it changes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn watch() {
    let server = TestServer::start().await;
    let kubeconfig = server.kubeconfig();
    let folder = server.folder.path().to_path_buf();
    let now = |command: &str| {
        let said = run(command, &folder, &kubeconfig);
        assert!(!said.iter().any(|line| line.starts_with("[exit")), "{command}: {said:?}");
    };
    now("kubectl create configmap seen --from-literal=n=1");
    let mut child = AsyncCommand::new(kubectl())
        .args(["get", "configmaps", "--watch", "--output-watch-events", "-o"])
        .arg(r#"jsonpath={.type} {.object.metadata.name} {.object.data.n}{"\n"}"#)
        .env("KUBECONFIG", &kubeconfig)
        .env("HOME", &folder)
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert_eq!(next(&mut lines).await, "ADDED seen 1");
    now(r#"kubectl patch configmap seen -p '{"data":{"n":"2"}}'"#);
    assert_eq!(next(&mut lines).await, "MODIFIED seen 2");
    now("kubectl create configmap other --from-literal=n=0");
    assert_eq!(next(&mut lines).await, "ADDED other 0");
    now("kubectl delete configmap seen");
    assert_eq!(next(&mut lines).await, "DELETED seen 2");
    child.kill().await.unwrap();
    server.stop().await;
}

async fn next(lines: &mut Lines<BufReader<ChildStdout>>) -> String {
    let line = tokio::time::timeout(std::time::Duration::from_secs(20), lines.next_line());
    line.await.expect("an event comes").unwrap().expect("the watch goes on")
}
