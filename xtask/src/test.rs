//! `cargo xtask test`: everything CI runs, in the order that finds mistakes cheapest.

use std::path::PathBuf;
use std::process::Command;
use std::time::Instant;

/// A step: what it is for, and the cargo arguments.
const STEPS: &[(&str, &[&str])] = &[
    ("the code is formatted", &["fmt", "--all", "--check"]),
    ("generated tables are what the facts say", &["run", "--quiet", "--package", "xtask", "--", "generate", "--check"]),
    ("lints", &["clippy", "--quiet", "--workspace", "--lib", "--bins", "--bench", "*", "--", "--deny", "warnings"]),
    ("tests", &["test", "--workspace", "--no-fail-fast", "--", "--nocapture"]),
];

/// Advisories are left to a scheduled job: they need the network and change without us.
const DEPENDENCIES: (&str, &[&str]) = ("dependencies are allowed", &["deny", "check", "bans", "licenses", "sources"]);

/// Languages whose packages are tried with every change, in seconds each, and the program that each needs. Maven takes its time to fetch what it needs for the first
/// time, so that Java's are tried by `cargo xtask suites java` and `cargo xtask dist --check`.
const SUITES: [(&str, &str); 4] = [("go", "go"), ("python", "python3"), ("node", "npm"), ("envtest", "go")];

/// For each of the four decoders, a minute together, and for the rules of all kinds.
const CI_FUZZ_SECONDS: &str = "15";

/// Runs all steps; the first that fails ends it.
pub fn run(arguments: &[String]) -> Result<String, String> {
    if !arguments.is_empty() {
        return Err("usage: cargo xtask test".into());
    }
    let began = Instant::now();
    let mut environment = Vec::new();
    // Tests that need a real etcd say so and pass where there is none; here there is one. Those with kubectl build it
    // themselves if they are missing.
    eprintln!("==> etcd and kubectl for the tests that need them");
    for (name, path) in crate::components::ensure(&["etcd", "kubectl"])? {
        environment.push((format!("FERROKUBE_{}", name.to_uppercase()), path));
    }
    environment.push(("FERROKUBE_BINARY".into(), server_beside_us()?));
    // On a desk a couple of seconds of fuzzing will do; CI takes its time.
    if is_set("CI") && !is_set("FERROKUBE_FUZZ_SECONDS") {
        environment.push(("FERROKUBE_FUZZ_SECONDS".into(), CI_FUZZ_SECONDS.into()));
    }
    let mut steps = STEPS.to_vec();
    if has_cargo_deny() {
        steps.insert(1, DEPENDENCIES);
    } else {
        eprintln!("==> {}: left out, cargo-deny is not installed", DEPENDENCIES.0);
    }
    for (purpose, arguments) in steps {
        let step = Instant::now();
        eprintln!("==> {purpose}: cargo {}", arguments.join(" "));
        cargo_with(arguments, &environment).map_err(|why| format!("{purpose}: {why}"))?;
        eprintln!("    {} s", step.elapsed().as_secs());
    }
    match crate::console::is_possible() {
        true => eprintln!("==> the console: {}", crate::console::run(&server_beside_us()?, &[])?),
        false => eprintln!("==> the console: left out, npm is not installed"),
    }
    let (names, missing): (Vec<_>, Vec<_>) = SUITES.iter().partition(|(_, program)| is_installed(program));
    for (name, program) in missing {
        eprintln!("==> the package for {name}: left out, {program} is not installed");
    }
    let names: Vec<String> = names.into_iter().map(|(name, _)| (*name).to_string()).collect();
    eprintln!("==> packages for test programs: {}", names.join(", "));
    eprintln!("{}", crate::dist::suites(&server_beside_us()?, &names)?);
    Ok(format!("all tests pass ({} s)", began.elapsed().as_secs()))
}

fn is_installed(program: &str) -> bool {
    let argument = if program == "go" { "version" } else { "--version" };
    Command::new(program).arg(argument).output().is_ok_and(|output| output.status.success())
}

/// `cargo xtask growth`: every list and map of every kind, large, through every kind of write, against an ordinary Pod of the
/// same size; fails if one takes time with its square or twenty times as long. Takes some minutes.
pub fn growth() -> Result<String, String> {
    const BYTES: &str = "262144";
    let environment = [("FERROKUBE_GROWTH_BYTES", BYTES), ("FERROKUBE_GROWTH_ALL", "1")];
    let environment = environment.map(|(name, value)| (name.to_string(), PathBuf::from(value)));
    let test = ["test", "--release", "--package", "ferrokube-kinds", "--test", "rules", "growth", "--", "--nocapture"];
    cargo_with(&test, &environment)?;
    Ok("no list or map takes time with its square".into())
}

/// The server that the packages for test programs are tried with: what `FERROKUBE_BINARY` names, or a debug build.
#[allow(clippy::disallowed_methods)]
pub fn program() -> Result<PathBuf, String> {
    if let Some(named) = std::env::var_os("FERROKUBE_BINARY") {
        return Ok(named.into());
    }
    cargo_run(&["build", "--workspace", "--bin", "ferrokube"])?;
    server_beside_us()
}

/// Where `cargo test --workspace` leaves the server's binary before the first test runs: beside this program.
fn server_beside_us() -> Result<PathBuf, String> {
    let program = std::env::current_exe().map_err(|error| format!("cannot tell where this program is: {error}"))?;
    Ok(program.with_file_name("ferrokube"))
}

fn has_cargo_deny() -> bool {
    Command::new(cargo()).args(["deny", "--version"]).output().is_ok_and(|output| output.status.success())
}

/// Runs cargo to its end.
pub fn cargo_run(arguments: &[&str]) -> Result<(), String> {
    cargo_with(arguments, &[])
}

fn cargo_with(arguments: &[&str], environment: &[(String, PathBuf)]) -> Result<(), String> {
    let started = Command::new(cargo()).args(arguments).envs(environment.iter().cloned()).status();
    let status = started.map_err(|error| format!("cannot run cargo: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("cargo {} failed", arguments.join(" "))) }
}

#[allow(clippy::disallowed_methods)]
fn is_set(name: &str) -> bool {
    std::env::var_os(name).is_some_and(|value| !value.is_empty())
}

/// The cargo that runs us, so that the toolchain stays the pinned one.
#[allow(clippy::disallowed_methods)]
fn cargo() -> String {
    std::env::var("CARGO").unwrap_or_else(|_| "cargo".into())
}
