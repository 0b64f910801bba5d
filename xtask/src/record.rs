//! `cargo xtask record <version> [kind…]`: records a Kubernetes version from its published modules into `versions/<version>/facts.tar.gz`.
//!
//! The real kube-apiserver and etcd are built through Go's module proxy and started on a loopback address; docs/versions.md says what is
//! recorded and how. With names of kinds only those are recorded again, and the other facts stay.

mod flags;
mod modules;
mod protobuf;
mod server;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use facts::Facts;

use crate::conformance::{standard_output, succeed, target_folder};
use modules::Modules;
pub use modules::module_folder;
pub use protobuf::read_text as read_protobuf;
use server::Running;

/// A kind of facts: its name, what it has in the archive, and what records it.
type Kind = (&'static str, &'static [&'static str], fn(&Modules, &mut Facts) -> Result<(), String>);

/// In the order in which they need each other: types are printed with the schemas that the server has.
const KINDS: &[Kind] = &[
    ("flags", &["flags.json"], flags),
    ("server", &["discovery/", "openapi/", "bootstrap/", "table-columns.json"], defaults),
    ("all-apis", &["all-apis/"], everything),
    ("types", &["protobuf-fields.json", "go-fields.txt", "codec/"], types),
    ("cel", &["cel/"], cel),
    ("answers", &["answers/", "metric-names.json"], answers),
];

/// What is on by default is off in some group versions and behind gates.
const EVERYTHING: [&str; 2] = ["--runtime-config=api/all=true", "--feature-gates=AllAlpha=true,AllBeta=true"];

pub fn run(arguments: &[String]) -> Result<String, String> {
    let names: Vec<&str> = KINDS.iter().map(|(name, ..)| *name).collect();
    let usage = || format!("usage: cargo xtask record <version, such as 1.37.1> [{}]…", names.join(" | "));
    let (version, wanted) = arguments.split_first().ok_or_else(usage)?;
    let minor = minor(version).ok_or_else(usage)?;
    if let Some(unknown) = wanted.iter().find(|wanted| !names.contains(&wanted.as_str())) {
        return Err(format!("there are no facts called {unknown}; {}", usage()));
    }
    let mut recorded = if wanted.is_empty() { Facts::default() } else { Facts::of(minor).unwrap_or_default() };
    let modules = Modules::of(version)?;
    let mut report = Vec::new();
    for (name, beginnings, record) in
        KINDS.iter().filter(|(name, ..)| wanted.is_empty() || wanted.iter().any(|w| w == name))
    {
        eprintln!("==> {name}");
        let began = Instant::now();
        beginnings.iter().for_each(|beginning| recorded.remove(beginning));
        record(&modules, &mut recorded).map_err(|why| format!("{name}: {why}"))?;
        report.push(format!("{name}: {} s", began.elapsed().as_secs()));
    }
    let path = recorded.save(minor)?;
    Ok(format!("{}\n{}", report.join("\n"), path.display()))
}

/// `1.37` of `1.37.1`.
fn minor(version: &str) -> Option<&str> {
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let is_version = version.split('.').count() == 3 && version.split('.').all(is_number);
    version.rsplit_once('.').filter(|_| is_version).map(|(minor, _)| minor)
}

fn flags(modules: &Modules, recorded: &mut Facts) -> Result<(), String> {
    let help = standard_output("kube-apiserver", Command::new(modules.program("kube-apiserver")?).arg("--help"))?;
    recorded.insert("flags.json", facts::pretty(&flags::read(&help), " ")?);
    Ok(())
}

fn defaults(modules: &Modules, recorded: &mut Facts) -> Result<(), String> {
    let server = Running::start(modules, "record-defaults", &[])?;
    said(&server, "defaults", recorded)
}

fn everything(modules: &Modules, recorded: &mut Facts) -> Result<(), String> {
    let server = Running::start(modules, "record-everything", &EVERYTHING)?;
    // What is only there with everything on is told by what is there without.
    for name in ["table-columns.json", "openapi/v3-schemas.json"] {
        write(&server.folder().join("facts").join(name), recorded.bytes(name)?)?;
    }
    said(&server, "everything", recorded)
}

/// The cases are answered by two fresh servers, and what both say alike is kept.
fn answers(modules: &Modules, recorded: &mut Facts) -> Result<(), String> {
    let mut other = Facts::default();
    for (name, facts) in [("record-answers-1", &mut *recorded), ("record-answers-2", &mut other)] {
        let server = Running::start(modules, name, &[])?;
        said(&server, "answers", facts)?;
    }
    recorded.keep_stable_answers(&other)
}

/// Keeps what the recorder of crate `difftest` finds out about a server.
fn said(server: &Running, what: &str, recorded: &mut Facts) -> Result<(), String> {
    crate::test::cargo_run(&["build", "--quiet", "--workspace", "--bin", "record"])?;
    let folder = server.folder().join("facts");
    let mut recorder = Command::new(target_folder().join("debug/record"));
    recorder.arg(server.address()).arg(&folder).arg(what);
    succeed("record", &mut recorder)?;
    insert_folder(&folder, "", recorded)
}

/// Everything in a folder becomes a fact that is named by its path below it.
fn insert_folder(folder: &Path, beginning: &str, recorded: &mut Facts) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("{}: {error}", folder.display());
    for entry in fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let name = format!("{beginning}{}", path.file_name().unwrap_or_default().to_string_lossy());
        if path.is_dir() {
            insert_folder(&path, &format!("{name}/"), recorded)?;
        } else {
            recorded.insert(&name, fs::read(&path).map_err(failed)?);
        }
    }
    Ok(())
}

/// What the Go types say: protobuf tags from their published descriptions, an object of each kind with every field set, and what only
/// reflection tells.
fn types(modules: &Modules, recorded: &mut Facts) -> Result<(), String> {
    recorded.insert("protobuf-fields.json", facts::pretty(&protobuf::fields(modules)?, "")?);
    let folder = empty_folder("record-goldens")?;
    succeed("goldens", Command::new(modules.program("goldens")?).arg(&folder))?;
    insert_folder(&folder, "codec/", recorded)?;
    let folder = empty_folder("record-types")?;
    let mut program = Command::new(modules.program("gofacts")?);
    for (at, name) in ["openapi/v3-schemas.json", "all-apis/v3-schemas-added.json"].into_iter().enumerate() {
        let path = folder.join(format!("{at}.json"));
        write(&path, recorded.bytes(name)?)?;
        program.arg(path);
    }
    recorded.insert("go-fields.txt", standard_output("gofacts", &mut program)?.into_bytes());
    Ok(())
}

/// The outcomes of our expressions and rules, and every overload of every function.
fn cel(modules: &Modules, recorded: &mut Facts) -> Result<(), String> {
    let program = modules.program("celfacts")?;
    let inputs = facts::folder().join("cases/cel.jsonl");
    let inputs = fs::File::open(&inputs).map_err(|error| format!("{}: {error}", inputs.display()))?;
    recorded.insert_cel(&standard_output("celfacts", Command::new(&program).arg("outcomes").stdin(inputs))?)?;
    let functions = standard_output("celfacts", Command::new(&program).arg("functions").stdin(Stdio::null()))?;
    recorded.insert("cel/functions.json", functions.into_bytes());
    Ok(())
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), String> {
    let made = path.parent().map_or(Ok(()), fs::create_dir_all);
    made.and_then(|()| fs::write(path, bytes)).map_err(|error| format!("{}: {error}", path.display()))
}

fn empty_folder(name: &str) -> Result<PathBuf, String> {
    Ok(crate::conformance::Lab::new(name)?.folder.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_belongs_to_a_minor_one() {
        assert_eq!(minor("1.37.1"), Some("1.37"));
        assert_eq!(minor("1.38.0-alpha.2"), None);
        for bad in ["", "1", "1.37", "v1.37.1", "1..2", "../1.37.1"] {
            assert_eq!(minor(bad), None, "{bad}");
        }
    }
}
