//! Several API servers on an etcd cluster behind a balancer, a workload, a fault script, and a check of all answers; and the
//! load of many nodes on one of them.
//!
//! ```text
//! cargo xtask cluster --seconds 1800 --seed 7
//! cargo xtask cluster --rolling 3 --rate 500
//! cargo xtask cluster --mixed --seconds 60
//! cargo xtask cluster --nodes 500
//! cargo xtask cluster --objects 100000
//! ```

#![allow(clippy::print_stdout)] // A command that reports.

mod balancer;
mod client;
mod clock;
mod extensions;
mod faults;
mod history;
mod kinds;
mod links;
mod lists;
mod process;
mod replicas;
mod run;
mod scale;
mod watches;
mod workload;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};

fn main() -> ExitCode {
    let settings = Settings::read(&command().get_matches());
    let outcome = tokio::runtime::Runtime::new().map_err(|error| error.to_string()).and_then(|runtime| {
        runtime.block_on(async {
            match (settings.nodes, settings.objects) {
                (0, 0) => run::run(&settings).await,
                (0, _) => scale::objects(&settings).await,
                _ => scale::nodes(&settings).await,
            }
        })
    });
    match outcome {
        Ok(report) => {
            println!("{report}");
            ExitCode::SUCCESS
        }
        Err(why) => {
            eprintln!("error: {why}");
            ExitCode::FAILURE
        }
    }
}

fn command() -> Command {
    let number = |name: &'static str, default: &'static str, help: &'static str| {
        Arg::new(name).long(name).value_parser(value_parser!(u64)).default_value(default).help(help)
    };
    let path = |name: &'static str, help: &'static str| {
        Arg::new(name).long(name).value_parser(value_parser!(PathBuf)).help(help)
    };
    let servers = "The API server's binary; one called kube-apiserver is started as such. Several are used in turn";
    Command::new("cluster")
        .about("Several API servers on one etcd cluster, with faults, and a check of everything they answered")
        .arg(path("server", servers).required(true).action(ArgAction::Append))
        .arg(path("etcd", "etcd's binary").required(true))
        .arg(number("replicas", "3", "How many API servers"))
        .arg(number("seconds", "60", "How long faults, or the load of nodes, go on"))
        .arg(number("rolling", "0", "Instead of faults: how often all servers are restarted in order"))
        .arg(number("rate", "100", "Requests a second"))
        .arg(number("seed", "1", "Decides faults and requests"))
        .arg(number("nodes", "0", "Instead: the load of so many nodes on one server"))
        .arg(number("pods", "10", "With --nodes: pods that come and go a second"))
        .arg(number("objects", "0", "Instead: memory and start of one server with so many objects"))
        .arg(
            Arg::new("embedded")
                .long("embedded")
                .action(ArgAction::SetTrue)
                .help("With --nodes or --objects: the server has a store of its own instead of etcd"),
        )
        .arg(
            Arg::new("extensions")
                .long("extensions")
                .action(ArgAction::SetTrue)
                .help("Definitions, policies and roles change meanwhile"),
        )
        .arg(path("history", "Where the history is written for porcupine"))
        .arg(Arg::new("keep").long("keep").action(ArgAction::SetTrue).help("Keep the logs of the servers"))
}

/// What the command line says.
pub struct Settings {
    pub servers: Vec<PathBuf>,
    pub etcd: PathBuf,
    pub replicas: usize,
    pub duration: Duration,
    pub rolling: u64,
    pub rate: u64,
    pub seed: u64,
    pub nodes: usize,
    pub pods: u64,
    pub objects: usize,
    pub embedded: bool,
    pub extensions: bool,
    pub history: Option<PathBuf>,
    pub keep: bool,
}

impl Settings {
    fn read(matches: &ArgMatches) -> Settings {
        let number = |name: &str| matches.get_one::<u64>(name).copied().unwrap_or_default();
        let count = |name: &str| usize::try_from(number(name)).unwrap_or(usize::MAX);
        Settings {
            servers: matches.get_many::<PathBuf>("server").into_iter().flatten().cloned().collect(),
            etcd: matches.get_one::<PathBuf>("etcd").cloned().unwrap_or_default(),
            replicas: count("replicas").max(1),
            duration: Duration::from_secs(number("seconds")),
            rolling: number("rolling"),
            rate: number("rate").max(1),
            seed: number("seed"),
            nodes: count("nodes"),
            pods: number("pods"),
            objects: count("objects"),
            embedded: matches.get_flag("embedded"),
            extensions: matches.get_flag("extensions"),
            history: matches.get_one::<PathBuf>("history").cloned(),
            keep: matches.get_flag("keep"),
        }
    }
}
