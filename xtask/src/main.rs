//! What developers and CI run.

use std::process::ExitCode;

mod bench;
mod changes;
mod cluster;
mod components;
mod conformance;
mod console;
mod dist;
mod features;
mod generate;
mod manual;
mod packages;
mod record;
mod reliability;
mod test;
mod tour;
mod version;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let Some(code) = features::compile(&arguments) {
        return code;
    }
    let outcome = match arguments.split_first() {
        Some((command, rest)) if command == "generate" => generate::run(rest),
        Some((command, rest)) if command == "record" => record::run(rest),
        Some((command, rest)) if command == "changes" => changes::run(rest),
        Some((command, rest)) if command == "test" => test::run(rest),
        Some((command, [])) if command == "growth" => test::growth(),
        Some((command, [])) if command == "tour" => tour::run(),
        Some((command, [])) if command == "manual" => manual::run(),
        Some((command, [new])) if command == "version" => version::run(new),
        Some((command, rest)) if command == "features" => features::run(rest),
        Some((command, rest)) if command == "console" => test::program().and_then(|program| console::run(&program, rest)),
        Some((command, rest)) if command == "bench" => bench::run(rest),
        Some((command, rest)) if command == "cluster" => cluster::run(rest),
        Some((command, rest)) if command == "reliability" => reliability::run(rest),
        Some((command, rest)) if command == "packages" => packages::run(rest),
        Some((command, rest)) if command == "dist" => dist::run(rest),
        Some((command, names)) if command == "suites" => test::program().and_then(|program| dist::suites(&program, names)),
        Some((command, names)) if command == "conformance" => conformance::run(names),
        Some((command, names)) if command == "components" => build_components(names),
        _ => Err(
            "usage: cargo xtask test | record <version> [kind…] | changes <version> <version> | generate [--check] | growth | console [--screenshots | --figures] | conformance [name…] | bench [fairness | --against <commit>] [flag…] | \
             cluster [flag…] | reliability [seed] | \
             components <name>… | packages | features [--check] | manual | tour | version <x.y.z> | dist [flag…] | suites [go] [python] [node] [java] [envtest]"
                .into(),
        ),
    };
    match outcome {
        Ok(message) => {
            eprintln!("{message}");
            ExitCode::SUCCESS
        }
        Err(message) => {
            eprintln!("error: {message}");
            ExitCode::FAILURE
        }
    }
}

/// Builds real Kubernetes components for tests by hand and says where they are.
fn build_components(names: &[String]) -> Result<String, String> {
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let built = components::ensure(&names)?;
    let lines: Vec<String> = built.iter().map(|(name, path)| format!("{name} {}", path.display())).collect();
    Ok(lines.join("\n"))
}
