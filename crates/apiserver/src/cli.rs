//! The commands: `serve` (the default), and those that maintain a server's data directory and users.

mod completion;
mod kubeconfig;
mod maintain;
mod migrate;
mod serve;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

pub(crate) use maintain::with_way_out;

use crate::flags;
use clap::{ArgMatches, Command};

/// Reads the command line and does what it says.
pub fn run() -> ExitCode {
    let matches = command().get_matches();
    hush_panics_of_redb();
    let outcome = match matches.subcommand() {
        None => serve::run(&matches, &name()),
        Some(("serve", matches)) => serve::run(matches, &name()),
        Some(("kubeconfig", matches)) => kubeconfig::run(matches),
        Some(("backup", matches)) => maintain::backup(matches),
        Some(("restore", matches)) => maintain::restore(matches),
        Some(("check", matches)) => maintain::check(matches),
        Some(("repair", matches)) => maintain::repair(matches),
        Some(("migrate", matches)) => migrate::run(matches),
        Some(("completion", matches)) => completion::run(matches),
        Some((other, _)) => Err(format!("there is no command {other}")),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            let _ = writeln!(std::io::stderr(), "{}: {why}", name());
            ExitCode::FAILURE
        }
    }
}

fn command() -> Command {
    let serve = flags::command();
    serve
        .clone()
        .name(name())
        .args_conflicts_with_subcommands(true)
        .subcommand(serve.name("serve").about("Serve the Kubernetes API (the default)").long_about(None))
        .subcommand(kubeconfig::command())
        .subcommands(maintain::commands())
        .subcommand(migrate::command())
        .subcommand(completion::command())
}

/// What we were called as: a link named kube-apiserver has that program's defaults and speaks of itself by that name.
fn name() -> String {
    let called = std::env::args_os().next().map(PathBuf::from);
    let called = called.as_deref().and_then(Path::file_name).and_then(|name| name.to_str());
    called.filter(|name| *name == flags::KUBE_APISERVER).unwrap_or("ferrokube").to_string()
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
