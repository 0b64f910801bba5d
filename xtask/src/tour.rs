//! `cargo xtask tour`: records the tour of the README on a server that is started for it, as a terminal in `docs/tour.svg`.
//!
//! Everything shown was printed, and lines appear as long after one another as they did; only pauses for readers are added.

use std::fmt::Write;
use std::fs;
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::components;
use crate::conformance::{Lab, ferrokube};
use crate::dist::workspace;

const PAGE: &str = "docs/tour.svg";
const PORT: u16 = 6443;

/// What is typed once the server serves.
const COMMANDS: &[&str] = &[
    "kubectl get namespaces",
    "kubectl create namespace tour",
    "kubectl -n tour create deployment web --image=nginx --replicas=3",
    "kubectl -n tour scale deployment web --replicas=5",
    "kubectl -n tour get deployments -o wide",
    "kubectl delete namespace tour",
];

/// How long a reader has for a command before its output comes, and for the output before the next command.
const TYPED: Duration = Duration::from_millis(900);
const READ: Duration = Duration::from_millis(1600);

const WIDTH: usize = 860;
const LINE_HEIGHT: usize = 18;
const LEFT: usize = 16;
const TOP: usize = 44;

pub fn run() -> Result<String, String> {
    let kubectl = components::ensure(&["kubectl"])?.remove("kubectl").ok_or("no kubectl")?;
    let lab = Lab::new("tour")?;
    // The tour shows the usual port.
    drop(TcpListener::bind(("127.0.0.1", PORT)).map_err(|error| format!("port {PORT}: {error}"))?);
    let mut tape = Tape::default();
    tape.type_in("ferrokube");
    let server = Server::start(&lab.folder, &mut tape)?;
    tape.wait(READ);
    tape.type_in("export KUBECONFIG=$PWD/.ferrokube/kubeconfig");
    for command in COMMANDS {
        tape.type_in(command);
        let began = Instant::now();
        let mut process = Command::new(&kubectl);
        process.args(command.split(' ').skip(1)).env("KUBECONFIG", lab.folder.join(".ferrokube/kubeconfig"));
        let output = process.stdin(Stdio::null()).output().map_err(|error| format!("kubectl: {error}"))?;
        tape.wait(began.elapsed());
        let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        if !output.status.success() {
            return Err(format!("{command}: {said}"));
        }
        said.lines().for_each(|line| tape.print(line, &lab.folder));
        tape.wait(READ);
    }
    drop(server);
    let page = workspace().join(PAGE);
    fs::write(&page, tape.svg()).map_err(|error| format!("{}: {error}", page.display()))?;
    Ok(format!("{PAGE}: {} lines in {:.1} s", tape.lines.len(), tape.now.as_secs_f64()))
}

/// Ends with it.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Server {
    /// Starts it without any flag and records what it says until it says what to try.
    fn start(folder: &Path, tape: &mut Tape) -> Result<Server, String> {
        let began = Instant::now();
        let mut command = Command::new(ferrokube()?);
        command.current_dir(folder).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().map_err(|error| format!("ferrokube: {error}"))?;
        let said = child.stdout.take().ok_or("no output")?;
        let server = Server(child);
        for line in BufReader::new(said).lines() {
            let line = line.map_err(|error| error.to_string())?;
            if tape.lines.len() == 1 {
                tape.wait(began.elapsed());
            }
            tape.print(&line, folder);
            if line.contains("get namespaces") {
                return Ok(server);
            }
        }
        Err("the server ended before it served".into())
    }
}

/// Lines, and when each appears.
#[derive(Default)]
struct Tape {
    lines: Vec<Line>,
    now: Duration,
}

struct Line {
    at: Duration,
    text: String,
    is_typed: bool,
}

impl Tape {
    fn wait(&mut self, time: Duration) {
        self.now += time;
    }

    fn type_in(&mut self, command: &str) {
        self.lines.push(Line { at: self.now, text: command.to_string(), is_typed: true });
        self.wait(TYPED);
    }

    /// What was printed, without the folder that the recording was made in.
    fn print(&mut self, line: &str, folder: &Path) {
        let text = line.replace(&folder.display().to_string(), "~");
        self.lines.push(Line { at: self.now, text, is_typed: false });
    }

    fn svg(&self) -> String {
        let height = TOP + self.lines.len() * LINE_HEIGHT + LEFT;
        let mut out = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" \
             aria-label=\"ferrokube is started and used with kubectl\">\n\
             <style>\n\
             text {{ font: 13px ui-monospace, Menlo, Consolas, monospace; fill: #d6deeb; white-space: pre; opacity: 0; animation: show 0.01s linear forwards }}\n\
             .typed {{ fill: #addb67 }}\n\
             @keyframes show {{ to {{ opacity: 1 }} }}\n\
             @media (prefers-reduced-motion: reduce) {{ text {{ animation-delay: 0s !important }} }}\n\
             </style>\n\
             <rect width=\"{WIDTH}\" height=\"{height}\" rx=\"8\" fill=\"#011627\"/>\n\
             <circle cx=\"20\" cy=\"18\" r=\"5\" fill=\"#ef5350\"/><circle cx=\"38\" cy=\"18\" r=\"5\" fill=\"#ffca28\"/><circle cx=\"56\" cy=\"18\" r=\"5\" fill=\"#66bb6a\"/>\n"
        );
        for (number, line) in self.lines.iter().enumerate().filter(|(_, line)| !line.text.is_empty()) {
            let (y, seconds) = (TOP + number * LINE_HEIGHT, line.at.as_secs_f64());
            let (class, prompt) = if line.is_typed { (" class=\"typed\"", "$ ") } else { ("", "") };
            let text = escaped(&line.text);
            let _ = writeln!(
                out,
                "<text{class} x=\"{LEFT}\" y=\"{y}\" style=\"animation-delay: {seconds:.2}s\">{prompt}{text}</text>"
            );
        }
        out + "</svg>\n"
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tape_becomes_a_picture() {
        let mut tape = Tape::default();
        tape.type_in("kubectl get <what>");
        tape.print("a & b in /lab/x", Path::new("/lab"));
        let svg = tape.svg();
        for want in [
            "style=\"animation-delay: 0.00s\">$ kubectl get &lt;what&gt;</text>",
            "style=\"animation-delay: 0.90s\">a &amp; b in ~/x</text>",
        ] {
            assert!(svg.contains(want), "{svg}");
        }
        assert_eq!(svg.matches("<text").count(), 2);
    }
}
