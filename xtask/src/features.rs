//! `cargo xtask features [NAME…]`: how large a program with a server in it is, and how long compiling it takes, by feature of the crate `ferrokube`, as a table.
//! `--check` only compiles each, without warnings, and tries that what is left out is refused.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use serde_json::Value;

use crate::conformance::target_folder;
use crate::dist::{builder, workspace};
use crate::test::cargo_run;

/// The smallest server without other clients than the crate's own.
const EXAMPLE: &str = "plain";
/// Says where [`compile`] writes how long each crate took.
const TIMES: &str = "FERROKUBE_COMPILE_TIMES";
/// Clock ticks of /proc in a second.
const TICKS: f64 = 100.0;

/// A row of the table: what it is called, and the features.
const ROWS: &[(&str, &str)] = &[
    ("none", ""),
    ("console", "console"),
    ("egress", "egress"),
    ("embedded", "embedded"),
    ("etcd", "etcd"),
    ("oidc", "oidc"),
    ("profiles", "profiles"),
    ("kms", "kms"),
    ("all of these, which is the default", "default"),
    ("the default and `client`", "default,client"),
];

pub fn run(arguments: &[String]) -> Result<String, String> {
    if arguments == ["--check"] {
        return check();
    }
    let is_wanted = |(name, _): &&(&str, &str)| arguments.is_empty() || arguments.iter().any(|wanted| wanted == name);
    let rows: Vec<_> = ROWS.iter().filter(is_wanted).collect();
    if rows.len() < arguments.len() {
        let names: Vec<&str> = ROWS.iter().map(|(name, _)| *name).collect();
        return Err(format!("there are {}", names.join("; ")));
    }
    let mut table = "| features | program | crates | compiling them, CPU time |\n|---|---|---|---|\n".to_string();
    for (name, features) in rows {
        let built = build(features)?;
        let line =
            format!("| {name} | {:.1} MB | {} | {:.0} s |\n", built.bytes as f64 / 1e6, built.crates, built.seconds);
        eprint!("{line}");
        table.push_str(&line);
    }
    Ok(table)
}

/// Every feature alone, and none, compiles without warnings, and a server refuses what it was built without.
fn check() -> Result<String, String> {
    let alone = ROWS.iter().filter(|(_, features)| !features.contains("default"));
    for (name, features) in alone.clone() {
        eprintln!("==> {name}");
        let features = format!("--features={features}");
        cargo_run(&[
            "clippy",
            "--package=ferrokube",
            "--lib",
            "--no-default-features",
            &features,
            "--",
            "--deny=warnings",
        ])?;
    }
    // Tests of the crate need a client's types.
    cargo_run(&["test", "--package=ferrokube", "--no-default-features", "--features=client", "--test=left_out"])?;
    Ok(format!("{} ways to leave something out compile", alone.count()))
}

/// A program that was built.
struct Built {
    bytes: u64,
    crates: usize,
    /// CPU time of rustc for all of its crates, whenever they were compiled.
    seconds: f64,
}

/// Builds the example as a release is built, in a project of its own: tests of ours need more crates.
fn build(features: &str) -> Result<Built, String> {
    let project = make_project(features)?;
    let (mut cargo, folder) = builder(&target_folder())?;
    let times = target_folder().join("compile-times");
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    cargo.args(["--offline", "--message-format=json"]).current_dir(project);
    cargo.env("RUSTC_WRAPPER", program).env(TIMES, &times);
    let output = cargo.stderr(Stdio::inherit()).output().map_err(|error| format!("cannot run cargo: {error}"))?;
    if !output.status.success() {
        return Err(format!("cargo failed with the features {features:?}"));
    }
    let times = read_times(&fs::read_to_string(&times).map_err(|error| format!("{}: {error}", times.display()))?);
    let (mut crates, mut seconds, mut unknown) = (BTreeSet::new(), 0.0, 0);
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        let Ok(message) = serde_json::from_str::<Value>(line) else { continue };
        if message["reason"] != "compiler-artifact" {
            continue;
        }
        crates.insert(message["package_id"].to_string());
        let is_example = message["target"]["name"] == EXAMPLE;
        let unit = if is_example { Some(EXAMPLE.to_string()) } else { unit(&message["filenames"][0]) };
        match unit.and_then(|unit| times.get(&unit)) {
            Some(took) => seconds += took,
            None => unknown += 1,
        }
    }
    if unknown > 0 {
        let folder = folder.display();
        return Err(format!("{unknown} crates were compiled by something else before: remove {folder} and try again"));
    }
    let path = folder.join("release").join(EXAMPLE);
    let bytes = fs::metadata(&path).map_err(|error| format!("{}: {error}", path.display()))?.len();
    Ok(Built { bytes, crates: crates.len(), seconds })
}

/// A project with the example, and the profile and the versions of this one.
fn make_project(features: &str) -> Result<PathBuf, String> {
    let project = target_folder().join("features");
    let failed = |path: &Path, error: std::io::Error| format!("{}: {error}", path.display());
    let sources = project.join("src");
    fs::create_dir_all(&sources).map_err(|error| failed(&sources, error))?;
    let (here, example) = (workspace(), format!("crates/ferrokube/examples/{EXAMPLE}.rs"));
    for (from, to) in [
        (example.as_str(), "src/main.rs"),
        ("Cargo.lock", "Cargo.lock"),
        ("rust-toolchain.toml", "rust-toolchain.toml"),
    ] {
        let path = here.join(from);
        fs::copy(&path, project.join(to)).map_err(|error| failed(&path, error))?;
    }
    let path = here.join("Cargo.toml");
    let ours = fs::read_to_string(&path).map_err(|error| failed(&path, error))?;
    let profile =
        ours.find("[profile.release]").map(|at| &ours[at..]).ok_or("Cargo.toml has no profile of releases")?;
    let features: Vec<&str> = features.split(',').filter(|name| !name.is_empty()).collect();
    let manifest = format!(
        "[package]\nname = \"{EXAMPLE}\"\nversion = \"0.0.0\"\nedition = \"2024\"\npublish = false\n\n[workspace]\n\n[dependencies]\n\
         ferrokube = {{ path = {:?}, default-features = false, features = {features:?} }}\n\
         serde_json = \"1\"\ntokio = {{ version = \"1\", features = [\"macros\", \"rt-multi-thread\"] }}\n\n{profile}",
        here.join("crates/ferrokube").display().to_string()
    );
    let path = project.join("Cargo.toml");
    fs::write(&path, manifest).map_err(|error| failed(&path, error))?;
    Ok(project)
}

/// The part of a file's name by which cargo tells one compilation of a crate from another. Build scripts have it in their folder's name.
fn unit(file: &Value) -> Option<String> {
    let path = Path::new(file.as_str()?);
    let stem = path.file_stem()?.to_str()?;
    let named = if stem.starts_with("build-script") { path.parent()?.file_name()?.to_str()? } else { stem };
    Some(named.rsplit_once('-')?.1.to_string())
}

/// Compilations and the seconds that each took; the last one counts.
fn read_times(text: &str) -> BTreeMap<String, f64> {
    text.lines()
        .filter_map(|line| line.split_once(' '))
        .filter_map(|(unit, took)| Some((unit.into(), took.parse().ok()?)))
        .collect()
}

/// What cargo calls instead of rustc, if this program is asked to be that: runs it, and writes how much CPU time it took.
#[allow(clippy::disallowed_methods)]
pub fn compile(arguments: &[String]) -> Option<ExitCode> {
    let times = PathBuf::from(std::env::var_os(TIMES)?);
    let (rustc, arguments) = arguments.split_first()?;
    if Path::new(rustc).file_stem()? != "rustc" {
        return None;
    }
    let status = Command::new(rustc).args(arguments).status().ok()?;
    let value = |name: &str| arguments.iter().find_map(|argument| argument.strip_prefix(name));
    let following = |name: &str| arguments.iter().skip_while(|argument| *argument != name).nth(1).map(String::as_str);
    let unit = match following("--crate-name") {
        Some(EXAMPLE) => Some(EXAMPLE),
        _ => value("extra-filename=-"),
    };
    if let (Some(unit), Some(seconds)) = (unit, children_seconds()) {
        let written = File::options().create(true).append(true).open(times);
        let _ = written.and_then(|mut file| file.write_all(format!("{unit} {seconds:.2}\n").as_bytes()));
    }
    Some(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// CPU time of the processes that this one has waited for.
fn children_seconds() -> Option<f64> {
    let stat = fs::read_to_string("/proc/self/stat").ok()?;
    let mut numbers = stat.rsplit_once(')')?.1.split_whitespace().skip(13).map(str::parse::<f64>);
    Some((numbers.next()?.ok()? + numbers.next()?.ok()?) / TICKS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compilations_are_told_apart() {
        let of = |file: &str| unit(&Value::from(file));
        assert_eq!(of("/t/release/deps/libtokio-0123ab.rlib").as_deref(), Some("0123ab"));
        assert_eq!(of("/t/release/build/ring-77ff/build-script-build").as_deref(), Some("77ff"));
        assert_eq!(of("/t/release/examples/plain"), None);
        let times = read_times("a 1.5\nb 2\na 3.25\nnothing\n");
        assert_eq!((times["a"], times["b"], times.len()), (3.25, 2.0, 2));
    }

    #[test]
    fn features_are_those_of_the_crate() {
        let manifest = fs::read_to_string(workspace().join("crates/ferrokube/Cargo.toml")).unwrap();
        let default = manifest.lines().find_map(|line| line.strip_prefix("default = [")).unwrap();
        let mut default: Vec<&str> = default.split('"').skip(1).step_by(2).collect();
        let mut rows: Vec<&str> = ROWS.iter().map(|(_, one)| *one).filter(|one| default.contains(one)).collect();
        rows.sort_unstable();
        default.sort_unstable();
        assert_eq!(rows, default);
    }
}
