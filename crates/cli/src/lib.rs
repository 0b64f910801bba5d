//! The `ferrokube` command: `serve` (the default), and the commands that maintain a server's data directory and users.

mod client;
mod completion;
mod console;
mod envtest;
mod kubeconfig;
mod lists;
mod maintain;
mod man;
mod migrate;
mod outcome;
mod past;
mod progress;
mod sealed;
mod serve;
mod test_server;
mod version;

use std::ffi::OsString;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use apiserver::flags;
use clap::{ArgMatches, Command};
use outcome::{Failure, Output};

/// Reads the command line and does what it says. `build` is what the program was built from.
pub fn run(build: &server::Build) -> ExitCode {
    if called_as().as_deref() == Some(flags::ETCD) {
        let arguments: Vec<String> = std::env::args().skip(1).collect();
        return exit_code(envtest::etcd::run(&arguments).map_err(Failure::from), Output::Text);
    }
    let arguments = past::as_plugin(called_as().as_deref(), std::env::args_os().collect());
    let matches = command().get_matches_from(with_command_first(arguments));
    hush_panics_of_redb();
    let output = matches.subcommand().map_or(Output::Text, |(_, matches)| Output::of(matches));
    exit_code(carry_out(&matches, build), output)
}

fn carry_out(matches: &ArgMatches, build: &server::Build) -> Result<(), Failure> {
    let done = match matches.subcommand() {
        None => serve::run(matches, &name(), build),
        Some(("serve", matches)) => serve::run(matches, &name(), build),
        Some(("kubeconfig", matches)) => kubeconfig::run(matches),
        Some(("console", matches)) => console::run(matches),
        Some(("backup", matches)) => return maintain::backup(matches),
        Some(("restore", matches)) => return maintain::restore(matches),
        Some(("check", matches)) => return maintain::check(matches),
        Some(("repair", matches)) => return maintain::repair(matches),
        Some((name @ ("history" | "changes" | "diff" | "blame" | "undelete" | "restore-at"), matches)) => {
            past::run(name, matches)
        }
        Some((name @ ("count" | "top-n" | "find" | "get"), matches)) => lists::run(name, matches),
        Some(("migrate", matches)) => migrate::run(matches),
        Some(("completion", matches)) => completion::run(matches),
        Some(("man", matches)) => man::run(matches),
        Some(("etcd-stand-in", matches)) => {
            let arguments: Vec<String> = matches.get_many("flags").into_iter().flatten().cloned().collect();
            envtest::etcd::run(&arguments)
        }
        Some(("envtest-assets", matches)) => envtest::run(matches),
        Some(("test-server", matches)) => test_server::run(matches, build),
        Some(("version", matches)) => version::run(matches, build),
        Some((other, _)) => Err(format!("there is no command {other}")),
    };
    done.map_err(Failure::from)
}

fn exit_code(outcome: Result<(), Failure>, output: Output) -> ExitCode {
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.end(output),
    }
}

/// Commands have flags of their own, so `--data-dir X backup` is read as `backup --data-dir X`.
fn with_command_first(mut arguments: Vec<OsString>) -> Vec<OsString> {
    let flag = match arguments.get(1).and_then(|argument| argument.to_str()) {
        Some("--data-dir") => 2,
        Some(argument) if argument.starts_with("--data-dir=") => 1,
        _ => return arguments,
    };
    let is_command = |name: &OsString| {
        let command = command();
        let found = name.to_str().and_then(|name| command.find_subcommand(name));
        found.is_some_and(|found| found.get_arguments().any(|argument| argument.get_id() == "data-dir"))
    };
    if arguments.get(flag + 1).is_some_and(is_command) {
        arguments[1..=flag + 1].rotate_right(1);
    }
    arguments
}

fn command() -> Command {
    let serve = flags::command(&name());
    serve
        .clone()
        .name(name())
        .args_conflicts_with_subcommands(true)
        .subcommand(serve.name("serve").about("Serve the Kubernetes API (the default)").long_about(None))
        .subcommand(kubeconfig::command())
        .subcommand(console::command())
        .subcommands(maintain::commands())
        .subcommands(past::commands())
        .subcommands(lists::commands())
        .subcommand(migrate::command())
        .subcommand(test_server::command())
        .subcommand(envtest::command())
        .subcommand(envtest::etcd::command())
        .subcommand(completion::command())
        .subcommand(man::command())
        .subcommand(version::command())
}

/// The name that the program was called by: a link named kube-apiserver has that program's defaults and speaks of itself by that name.
fn name() -> String {
    called_as().filter(|name| name == flags::KUBE_APISERVER || name == flags::ETCD).unwrap_or("ferrokube".into())
}

fn called_as() -> Option<String> {
    let called = std::env::args_os().next().map(PathBuf::from)?;
    called.file_name()?.to_str().map(str::to_string)
}

/// Which data directory a command is about; every command has the flag.
fn data_dir_of(matches: &ArgMatches) -> PathBuf {
    matches.get_one::<PathBuf>("data-dir").cloned().unwrap_or_default()
}

/// redb panics on some damage to its file. The store catches that and reports it as an error, so that the panic's own
/// message would only confuse.
fn hush_panics_of_redb() {
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if !panic.location().is_some_and(|location| location.file().contains("/redb-")) {
            hook(panic);
        }
    }));
}

/// Prints a line. Fails silently if standard output was closed.
fn say(line: &str) {
    let _ = writeln!(std::io::stdout(), "{line}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_data_directory_may_come_before_the_command() {
        for (given, want) in [
            ("f --data-dir d backup x", "f backup --data-dir d x"),
            ("f --data-dir=d check", "f check --data-dir=d"),
            ("f --data-dir d serve --v 2", "f serve --data-dir d --v 2"),
            ("f --data-dir d", "f --data-dir d"),
            ("f --data-dir backup", "f --data-dir backup"),
            ("f --data-dir d --secure-port 1", "f --data-dir d --secure-port 1"),
            ("f --data-dir d version", "f --data-dir d version"),
            ("f backup --data-dir d x", "f backup --data-dir d x"),
            ("f", "f"),
        ] {
            let got = with_command_first(given.split(' ').map(OsString::from).collect());
            let got: Vec<_> = got.iter().map(|argument| argument.to_string_lossy()).collect();
            assert_eq!(got.join(" "), want);
        }
    }
}
