//! Several API servers on an etcd cluster behind a balancer, a workload, a fault script, and a check of all answers.
//!
//! ```text
//! cargo xtask cluster --seconds 1800 --seed 7
//! cargo xtask cluster --rolling 3 --rate 500
//! ```

#![allow(clippy::print_stdout)] // A command that reports.

mod balancer;
mod client;
mod faults;
mod replicas;
mod watches;
mod workload;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use http::Method;
use rand::SeedableRng;
use rand::rngs::StdRng;
use storage::suite::linearizability::{self, Answer};
use storage_etcd::testing::Cluster;
use tokio::task::JoinSet;

use balancer::Balancer;
use client::{Client, Outcome};
use faults::World;
use replicas::Replicas;
use watches::Seen;
use workload::History;

const CLIENTS: u64 = 6;
const WATCHERS: usize = 3;
/// How long watchers may take to see the last write.
const CATCH_UP: Duration = Duration::from_secs(60);
const END: &str = "the-end";

fn main() -> ExitCode {
    let matches = command().get_matches();
    let outcome = tokio::runtime::Runtime::new()
        .map_err(|error| error.to_string())
        .and_then(|runtime| runtime.block_on(run(&Settings::read(&matches))));
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
        Arg::new(name).long(name).value_parser(value_parser!(PathBuf)).required(true).help(help)
    };
    Command::new("cluster")
        .about("Several API servers on one etcd cluster, with faults, and a check of everything they answered")
        .arg(path("server", "The API server's binary; one called kube-apiserver is started as such"))
        .arg(path("etcd", "etcd's binary"))
        .arg(number("replicas", "3", "How many API servers"))
        .arg(number("seconds", "60", "How long faults go on"))
        .arg(number("rolling", "0", "Instead of faults: how often all servers are restarted in order"))
        .arg(number("rate", "100", "Requests a second"))
        .arg(number("seed", "1", "Decides faults and requests"))
        .arg(Arg::new("keep").long("keep").action(ArgAction::SetTrue).help("Keep the logs of the servers"))
}

struct Settings {
    server: PathBuf,
    etcd: PathBuf,
    replicas: usize,
    duration: Duration,
    rolling: u64,
    rate: u64,
    seed: u64,
    keep: bool,
}

impl Settings {
    fn read(matches: &ArgMatches) -> Settings {
        let number = |name: &str| matches.get_one::<u64>(name).copied().unwrap_or_default();
        let path = |name: &str| matches.get_one::<PathBuf>(name).cloned().unwrap_or_default();
        Settings {
            server: path("server"),
            etcd: path("etcd"),
            replicas: usize::try_from(number("replicas")).unwrap_or(3).max(1),
            duration: Duration::from_secs(number("seconds")),
            rolling: number("rolling"),
            rate: number("rate").max(1),
            seed: number("seed"),
            keep: matches.get_flag("keep"),
        }
    }
}

async fn run(settings: &Settings) -> Result<String, String> {
    let mut folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    folder.disable_cleanup(settings.keep);
    println!("seed {}, logs in {}", settings.seed, folder.path().display());
    let etcd = tokio::task::block_in_place(|| {
        Cluster::start(&settings.etcd, 3, &["--unsafe-no-fsync", "--heartbeat-interval=50", "--election-timeout=500"])
    });
    let replicas = Replicas::start(&settings.server, settings.replicas, &etcd.endpoints(), folder.path())?;
    let balancer = Balancer::start(&replicas.ports()).await?;
    let port = balancer.port;
    let mut world = World { etcd, replicas, balancer, count: settings.replicas, done: Default::default() };
    for n in 0..settings.replicas {
        world.until_ready(n).await?;
    }
    let watchers: Vec<Arc<Seen>> = (0..WATCHERS).map(|_| Arc::new(Seen::default())).collect();
    let mut following = JoinSet::new();
    watchers.iter().for_each(|seen| drop(following.spawn(watches::follow(port, seen.clone()))));
    let (history, stop) = (Arc::new(History::default()), Arc::new(AtomicBool::new(false)));
    let mut clients = JoinSet::new();
    for number in 0..CLIENTS {
        let rate = settings.rate as f64 / CLIENTS as f64;
        let seed = settings.seed.wrapping_mul(1000).wrapping_add(number);
        clients.spawn(workload::client(port, seed, rate, history.clone(), stop.clone()));
    }
    let began = Instant::now();
    match settings.rolling {
        0 => world.trouble(settings.duration, &mut StdRng::seed_from_u64(settings.seed)).await?,
        times => {
            for _ in 0..times {
                world.rolling_restart().await?;
            }
        }
    }
    stop.store(true, Ordering::SeqCst);
    while clients.join_next().await.is_some() {}
    let took = began.elapsed();
    let keys = workload::last_look(port, &history).await?;
    catch_up(port, &watchers).await?;
    following.shutdown().await;
    report(settings, &world, &history, &watchers, took, keys)
}

/// Writes one more object and waits until every watcher has seen it.
async fn catch_up(port: u16, watchers: &[Arc<Seen>]) -> Result<(), String> {
    let mut client = Client::new(port, CATCH_UP);
    let marker = workload::config_map(END, 0, None);
    let Outcome::Answered { status: 201, .. } = client.send(Method::POST, workload::CONFIG_MAPS, Some(&marker)).await
    else {
        return Err("the last write failed".into());
    };
    let began = Instant::now();
    let has_seen = |seen: &Arc<Seen>| seen.events.lock().iter().rev().any(|(_, (name, _))| name == END);
    while !watchers.iter().all(has_seen) {
        if began.elapsed() > CATCH_UP {
            return Err("a watcher does not see the last write".into());
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Ok(())
}

fn report(
    settings: &Settings,
    world: &World,
    history: &History,
    watchers: &[Arc<Seen>],
    took: Duration,
    keys: usize,
) -> Result<String, String> {
    let operations = history.operations();
    linearizability::check(&operations)?;
    let changes = watches::check(watchers, &operations)?;
    let count = |wanted: fn(&Answer) -> bool| operations.iter().filter(|o| wanted(&o.answer)).count();
    let failures = history.failures();
    let failed: u64 = failures.values().sum();
    let sum = |number: fn(&Seen) -> u64| watchers.iter().map(|seen| number(seen)).sum::<u64>();
    let relists = sum(|seen| seen.relists.load(Ordering::SeqCst));
    if settings.rolling > 0 && (failed > 0 || relists > 0) {
        return Err(format!(
            "{failed} requests failed and {relists} watches had to list again during rolling restarts"
        ));
    }
    let mut lines = vec![
        format!("{} s, seed {}: no violation", took.as_secs(), settings.seed),
        format!(
            "{} operations on {keys} keys, {:.0} a second",
            operations.len(),
            operations.len() as f64 / took.as_secs_f64()
        ),
        format!("{} writes acknowledged", count(|a| matches!(a, Answer::Done(_) | Answer::Happened))),
        format!("{} writes without an answer", count(|a| *a == Answer::Unknown)),
        format!("{failed} requests without a useful answer"),
        format!(
            "{changes} changes, each seen once and in order by {WATCHERS} watchers with {} reconnects and {relists} relists",
            sum(|seen| seen.reconnects.load(Ordering::SeqCst))
        ),
    ];
    lines.extend(failures.iter().map(|(what, times)| format!("{times} × a request {what}")));
    lines.extend(world.done.iter().map(|(what, times)| format!("{times} × {what}")));
    Ok(lines.join("\n"))
}
