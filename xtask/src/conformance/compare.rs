//! The same play on ferrokube and on kube-apiserver: what kubectl prints must be the same.

use std::path::Path;

use super::lab::{Kubectl, Lab, Server};
use crate::components;

/// What the errors in a log are called, before the log's name.
const ERRORS: &str = "errors in ";
/// What the two servers call their administrator.
const ADMINISTRATORS: [&str; 2] = ["kubernetes-admin", "admin"];

/// Commands and what they printed.
pub type Printed = Vec<(String, String)>;

/// Plays on both servers, one after the other, and returns how many outputs were the same. Each server gets what `flags` says for
/// its lab.
pub fn both(
    name: &str,
    flags: impl Fn(&Lab) -> Result<Vec<String>, String>,
    mut play: impl FnMut(&mut Lab, &Server) -> Result<Printed, String>,
) -> Result<usize, String> {
    let tools = components::ensure(&["etcd", "kube-apiserver", "kubectl"])?;
    let ours = {
        let mut lab = Lab::new(name)?;
        let flags = flags(&lab)?;
        let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
        let server = lab.ferrokube(&flags)?;
        let printed = play(&mut lab, &server).map_err(|why| format!("ferrokube: {why}"))?;
        lab.all_alive()?;
        printed
    };
    let theirs = {
        let mut lab = Lab::new(&format!("{name}-reference"))?;
        let flags = flags(&lab)?;
        let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
        let store = lab.etcd(&tools["etcd"])?;
        let server = lab.kube_apiserver(&tools["kube-apiserver"], &store, &flags)?;
        play(&mut lab, &server).map_err(|why| format!("kube-apiserver: {why}"))?
    };
    differences(&ours, &theirs)?;
    Ok(ours.len())
}

fn differences(ours: &Printed, theirs: &Printed) -> Result<(), String> {
    let mut told = Vec::new();
    for at in 0..ours.len().max(theirs.len()) {
        let nothing = (String::new(), String::new());
        let ((what, one), (_, other)) = (ours.get(at).unwrap_or(&nothing), theirs.get(at).unwrap_or(&nothing));
        if !is_same(what, one, other) {
            told.push(format!("{what}:\nferrokube:\n{one}\nkube-apiserver:\n{other}"));
        }
    }
    if told.is_empty() { Ok(()) } else { Err(format!("{} outputs differ\n{}", told.len(), told.join("\n"))) }
}

/// Of a log's errors, those on kube-apiserver need not be there on ferrokube.
fn is_same(what: &str, ours: &str, theirs: &str) -> bool {
    let known: Vec<&str> = theirs.lines().collect();
    ours == theirs || what.starts_with(ERRORS) && ours.lines().all(|line| known.contains(&line))
}

/// Runs commands and keeps what they print, failures included.
pub struct Recorder {
    pub kubectl: Kubectl,
    pub printed: Printed,
}

impl Recorder {
    pub fn new(server: &Server) -> Result<Recorder, String> {
        Ok(Recorder { kubectl: Kubectl::of(server)?, printed: Vec::new() })
    }

    pub fn show(&mut self, line: &str) {
        let printed = self.kubectl.run(line).unwrap_or_else(|why| why);
        self.printed.push((line.to_string(), without_uids(&printed.replace(ADMINISTRATORS[0], ADMINISTRATORS[1]))));
    }

    /// Runs a command that prints measured values: the numbers may differ.
    pub fn show_measured(&mut self, line: &str) {
        self.show(line);
        if let Some((_, printed)) = self.printed.last_mut() {
            *printed = without_numbers(printed);
        }
    }

    pub fn apply(&mut self, manifest: &str) {
        let printed = self.kubectl.apply(manifest).unwrap_or_else(|why| why);
        self.printed.push((manifest.to_string(), printed));
    }

    /// Every line of a log in which a component complains, without what no two runs have alike.
    pub fn complaints(&mut self, log: &Path) -> Result<(), String> {
        let text = std::fs::read_to_string(log).map_err(|error| format!("{}: {error}", log.display()))?;
        let mut lines: Vec<String> = text.lines().filter_map(complaint).collect();
        lines.sort();
        lines.dedup();
        self.printed.push((format!("{ERRORS}{}", log.file_name().unwrap_or_default().display()), lines.join("\n")));
        Ok(())
    }
}

/// A text with `N` for each number, in which columns are one space apart.
fn without_numbers(text: &str) -> String {
    let is_number = |c: char| c.is_ascii_digit() || c == '.';
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            c if c.is_ascii_digit() && !out.ends_with('N') => out.push('N'),
            c if is_number(c) && out.ends_with('N') => {}
            ' ' if out.ends_with(' ') => {}
            c => out.push(c),
        }
    }
    out
}

/// A text with `UID` for each UID.
fn without_uids(text: &str) -> String {
    const GROUPS: [usize; 5] = [8, 4, 4, 4, 12];
    let is_uid = |part: &str| {
        let groups: Vec<&str> = part.split('-').collect();
        let is_hexadecimal = |group: &&str| group.bytes().all(|byte| byte.is_ascii_hexdigit());
        groups.iter().map(|group| group.len()).eq(GROUPS) && groups.iter().all(is_hexadecimal)
    };
    let length = GROUPS.iter().sum::<usize>() + GROUPS.len() - 1;
    let (mut out, mut rest) = (String::with_capacity(text.len()), text);
    while let Some(first) = rest.chars().next() {
        match rest.get(..length).filter(|part| is_uid(part)) {
            Some(_) => {
                out.push_str("UID");
                rest = &rest[length..];
            }
            None => {
                out.push(first);
                rest = &rest[first.len_utf8()..];
            }
        }
    }
    out
}

/// The message of a line of klog or slog that is an error or a warning. A write that came after another one is no error: it is
/// tried again, and which of two is first is chance.
fn complaint(line: &str) -> Option<String> {
    let is_klog = line.starts_with(['E', 'W', 'F']) && line[1..].starts_with(|c: char| c.is_ascii_digit());
    let slog = line.split_once("level=").map_or("", |(_, rest)| rest);
    let is_slog = ["ERROR", "WARN", "error", "warn"].iter().any(|level| slog.starts_with(level));
    if !(is_klog || is_slog) || line.contains("the object has been modified") {
        return None;
    }
    let message = if is_klog { line.split_once("] ").map_or(line, |(_, rest)| rest) } else { slog };
    Some(message.chars().filter(|c| !c.is_ascii_digit()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_and_warnings_are_complaints() {
        let check = |line: &str, want: Option<&str>| assert_eq!(complaint(line).as_deref(), want, "{line}");
        check("I1116 12:00:00.123 7 a.go:1] \"fine\"", None);
        check("E1116 12:00:00.123 7 a.go:12] \"failed\" err=\"x\"", Some("\"failed\" err=\"x\""));
        check("E1116 12:00:00.123 7 a.go:12] \"again\" err=\"the object has been modified; please\"", None);
        check("ts=2026 level=INFO msg=fine", None);
        check("ts=2026 level=WARN caller=a.go:3 msg=odd", Some("WARN caller=a.go: msg=odd"));
        check("Error is the first word of this line", None);
    }

    #[test]
    fn numbers_are_replaced() {
        for (text, want) in [
            ("n   500m  12%\n", "n Nm N%\n"),
            ("a 100002499n 16Mi 10.001s", "a Nn NMi Ns"),
            ("v1beta1. It is.", "vNbetaN It is."),
        ] {
            assert_eq!(without_numbers(text), want);
        }
    }

    #[test]
    fn uids_are_replaced() {
        let uid = "4d4b47d2-4bf1-4092-aef6-0e75cb91dc4b";
        for (text, want) in [
            (format!("a-{uid}.yaml {uid}"), "a-UID.yaml UID"),
            ("ä-4d4b47d2-4bf1-4092-aef6-0e75cb91dc4".into(), "ä-4d4b47d2-4bf1-4092-aef6-0e75cb91dc4"),
        ] {
            assert_eq!(without_uids(&text), want);
        }
    }

    #[test]
    fn what_kube_apiserver_does_not_cause_is_a_difference() {
        for (what, ours, theirs, want) in [
            ("get a", "x", "x", true),
            ("get a", "x", "y", false),
            ("errors in a.log", "", "x", true),
            ("errors in a.log", "x", "y\nx", true),
            ("errors in a.log", "x\nz", "y\nx", false),
        ] {
            assert_eq!(is_same(what, ours, theirs), want, "{what}: {ours} / {theirs}");
        }
    }
}
