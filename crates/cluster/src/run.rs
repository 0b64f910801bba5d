//! One run: servers, clients and watchers, then faults or restarts, then the check.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use http::Method;
use rand::SeedableRng;
use rand::rngs::StdRng;
use storage::suite::linearizability::{self, Answer, Operation};
use storage_etcd::testing::Cluster;
use tokio::task::JoinSet;

use crate::Settings;
use crate::balancer::Balancer;
use crate::client::{Client, Outcome};
use crate::extensions::{self, Followed};
use crate::faults::{MEMBERS, World};
use crate::history;
use crate::kinds::{self, KINDS};
use crate::links::Links;
use crate::replicas::Replicas;
use crate::watches::{self, Checked, Seen};
use crate::workload::{self, History, KEYS_A_CLIENT, Pace};

/// Clients wait for each answer, so a higher rate needs more of them.
const REQUESTS_A_CLIENT: u64 = 10;
const CLIENTS_MIN: u64 = 6;
const CLIENTS_MAX: u64 = 64;
const WATCHERS: usize = 3;
/// How long watchers may take to see the last write.
const CATCH_UP: Duration = Duration::from_secs(60);
const ETCD_FLAGS: [&str; 3] = ["--unsafe-no-fsync", "--heartbeat-interval=50", "--election-timeout=500"];

pub async fn run(settings: &Settings) -> Result<String, String> {
    let mut folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    folder.disable_cleanup(settings.keep);
    println!("seed {}, logs in {}", settings.seed, folder.path().display());
    let etcd = tokio::task::block_in_place(|| Cluster::start_with_disks(&settings.etcd, MEMBERS, &ETCD_FLAGS));
    let links = Links::start(settings.replicas, &etcd.endpoints()).await?;
    let members = (0..settings.replicas).map(|n| links.endpoints(n)).collect();
    let replicas = Replicas::start(&settings.servers, members, folder.path())?;
    let ports = replicas.ports();
    let balancer = Balancer::start(&ports).await?;
    let port = balancer.port;
    let (count, slowest_stop, began) = (settings.replicas, Duration::ZERO, Instant::now());
    let mut world = World { etcd, links, replicas, balancer, count, done: Default::default(), slowest_stop, began };
    for n in 0..settings.replicas {
        world.until_ready(n).await?;
    }
    kinds::define(&ports).await?;
    let each = |kind: &&'static kinds::Kind| [*kind; WATCHERS].map(|kind| Arc::new(Seen::new(kind)));
    let watchers: Vec<Arc<Seen>> = KINDS.iter().flat_map(each).collect();
    let mut following = JoinSet::new();
    watchers.iter().for_each(|seen| drop(following.spawn(watches::follow(port, seen.clone()))));
    let (history, stop) = (Arc::new(History::default()), Arc::new(AtomicBool::new(false)));
    let mut clients = JoinSet::new();
    let many = (settings.rate / REQUESTS_A_CLIENT).clamp(CLIENTS_MIN, CLIENTS_MAX);
    for number in 0..many {
        let seed = settings.seed.wrapping_mul(1000).wrapping_add(number);
        let pace = Pace { rate: settings.rate as f64 / many as f64, keys: many * KEYS_A_CLIENT };
        clients.spawn(workload::client(port, seed, pace, history.clone(), stop.clone()));
    }
    let changing = settings.extensions.then(|| tokio::spawn(extensions::change(port, ports, stop.clone())));
    let began = Instant::now();
    world.began = began;
    trouble(settings, &mut world).await?;
    stop.store(true, Ordering::SeqCst);
    while clients.join_next().await.is_some() {}
    let took = began.elapsed();
    let followed = match changing {
        Some(task) => Some(task.await.map_err(|error| error.to_string())??),
        None => None,
    };
    let keys = workload::last_look(port, &history).await?;
    catch_up(port, &watchers).await?;
    following.shutdown().await;
    if let Some(path) = &settings.history {
        history::write(path, &history.operations())?;
    }
    Report { settings, world: &world, history: &history, watchers: &watchers, took, keys, followed }.checked()
}

async fn trouble(settings: &Settings, world: &mut World) -> Result<(), String> {
    if settings.rolling == 0 {
        return world.trouble(settings.duration, &mut StdRng::seed_from_u64(settings.seed)).await;
    }
    for _ in 0..settings.rolling {
        world.rolling_restart().await?;
    }
    Ok(())
}

/// Writes one more object of each kind and waits until every watcher has seen it.
async fn catch_up(port: u16, watchers: &[Arc<Seen>]) -> Result<(), String> {
    let mut client = Client::new(port, CATCH_UP);
    let end = |kind: &kinds::Kind| format!("{}-end", kind.prefix);
    for kind in KINDS {
        let marker = kind.object(&end(kind), 0, None);
        let Outcome::Answered { status: 201, .. } = client.send(Method::POST, kind.path, Some(&marker)).await else {
            return Err("the last write failed".into());
        };
    }
    let began = Instant::now();
    let has_seen = |seen: &Arc<Seen>| seen.events.lock().iter().rev().any(|(_, (name, _))| *name == end(seen.kind));
    while !watchers.iter().all(has_seen) {
        if began.elapsed() > CATCH_UP {
            return Err("a watcher does not see the last write".into());
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Ok(())
}

struct Report<'a> {
    settings: &'a Settings,
    world: &'a World,
    history: &'a History,
    watchers: &'a [Arc<Seen>],
    took: Duration,
    keys: usize,
    followed: Option<Followed>,
}

impl Report<'_> {
    /// Checks the watches and lists of every kind.
    fn watches(&self, operations: &[Operation]) -> Result<Checked, String> {
        let mut sum = Checked::default();
        for kind in KINDS {
            let watchers: Vec<&Seen> =
                self.watchers.iter().map(|seen| &**seen).filter(|seen| seen.kind.prefix == kind.prefix).collect();
            let checked = watches::check(&watchers, operations, &self.history.lists())?;
            sum = Checked { changes: sum.changes + checked.changes, lists: sum.lists + checked.lists };
        }
        Ok(sum)
    }

    /// The numbers, or what was wrong.
    fn checked(&self) -> Result<String, String> {
        let operations = self.history.operations();
        linearizability::check(&operations)?;
        let checked = self.watches(&operations)?;
        let count = |wanted: fn(&Answer) -> bool| operations.iter().filter(|o| wanted(&o.answer)).count();
        let failures = self.history.failures();
        let failed: u64 = failures.values().sum();
        let sum = |number: fn(&Seen) -> u64| self.watchers.iter().map(|seen| number(seen)).sum::<u64>();
        let relists = sum(|seen| seen.relists.load(Ordering::SeqCst));
        let seconds = self.took.as_secs_f64();
        let mut lines = vec![
            format!("{} requests, {:.0} a second", self.history.requests(), self.history.requests() as f64 / seconds),
            format!("{} operations on {} keys", operations.len(), self.keys),
            format!("{} writes acknowledged", count(|a| matches!(a, Answer::Done(_) | Answer::Happened))),
            format!("{} writes without an answer", count(|a| *a == Answer::Unknown)),
            format!("{failed} requests without a useful answer"),
            format!(
                "{} changes, each seen once and in order by {WATCHERS} watchers; {} reconnects and {relists} relists of all",
                checked.changes,
                sum(|seen| seen.reconnects.load(Ordering::SeqCst))
            ),
            format!("{} lists, each as it was at its revision", checked.lists),
            format!("SIGTERM to exit: {:.1} s at most", self.world.slowest_stop.as_secs_f64()),
        ];
        if let Some(Followed { rounds, slowest }) = &self.followed {
            let slowest = slowest.as_secs_f64();
            lines.push(format!("{rounds} definitions, policies and roles; all servers followed within {slowest:.1} s"));
        }
        lines.extend(failures.iter().map(|(what, times)| format!("{times} × a request {what}")));
        lines.extend(self.world.done.iter().map(|(what, times)| format!("{times} × {what}")));
        let (seed, lines) = (self.settings.seed, lines.join("\n"));
        if self.settings.rolling > 0 && (failed > 0 || relists > 0) {
            return Err(format!("no request may fail and no watch may list again during rolling restarts\n{lines}"));
        }
        Ok(format!("{seconds:.0} s, seed {seed}: no violation\n{lines}"))
    }
}
