//! The load of many nodes on one server, and what the server uses for it; memory and start with many objects.

mod generator;

use std::time::{Duration, Instant};

use http::Method;
use serde_json::json;
use storage_etcd::testing::Cluster;
use tokio::task::JoinSet;

use crate::Settings;
use crate::client::{Client, Outcome};
use crate::process::{Usage, usage};
use crate::replicas::Replicas;
use generator::Load;

const TIMEOUT: Duration = Duration::from_secs(30);
/// How long a server may take to be ready.
const PATIENCE: Duration = Duration::from_secs(300);
/// Clients that create objects at the same time.
const CREATORS: usize = 16;
/// How long memory is given to settle before it is read.
const SETTLE: Duration = Duration::from_secs(10);
/// The size of a cluster that the numbers are carried on to, and its pods that come and go a second.
const NODES: f64 = 10_000.0;
const PODS: f64 = 200.0;
/// What they ask a second: a lease every 10 s, a node read and its status written every 300 s, and five requests a pod.
const REQUESTS: f64 = NODES / 10.0 + 2.0 * NODES / 300.0 + 5.0 * PODS;

/// One server on one etcd member, or on a store of its own.
struct Alone {
    etcd: Option<Cluster>,
    replicas: Replicas,
    port: u16,
    _folder: tempfile::TempDir,
}

impl Alone {
    async fn start(settings: &Settings) -> Result<Alone, String> {
        let mut folder = tempfile::tempdir().map_err(|error| error.to_string())?;
        folder.disable_cleanup(settings.keep);
        let flags = ["--unsafe-no-fsync", "--quota-backend-bytes=8589934592"];
        let start = || tokio::task::block_in_place(|| Cluster::start(&settings.etcd, 1, &flags));
        let etcd = (!settings.embedded).then(start);
        let members = etcd.as_ref().map(Cluster::endpoints).unwrap_or_default();
        let replicas = Replicas::start(&settings.servers, vec![members], folder.path())?;
        let port = replicas.ports()[0];
        let mut alone = Alone { etcd, replicas, port, _folder: folder };
        alone.until_ready().await?;
        Ok(alone)
    }

    async fn until_ready(&mut self) -> Result<Duration, String> {
        let began = Instant::now();
        let mut client = Client::new(self.port, Duration::from_secs(1));
        while !matches!(client.send(Method::GET, "/readyz", None).await, Outcome::Answered { status: 200, .. }) {
            if self.replicas.has_ended(0) || began.elapsed() > PATIENCE {
                return Err("the server does not become ready".into());
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        Ok(began.elapsed())
    }

    /// What the server and etcd have used so far.
    fn usage(&self) -> Result<(Usage, Usage), String> {
        let of = |pid: Option<u32>| pid.and_then(usage).ok_or("a process is gone");
        let etcd = self.etcd.as_ref().map_or(Ok(Usage::default()), |etcd| of(etcd.pid(0)))?;
        Ok((of(self.replicas.pid(0))?, etcd))
    }

    async fn restart(&mut self) -> Result<Duration, String> {
        self.replicas.terminate(0)?;
        let began = Instant::now();
        while !self.replicas.has_ended(0) {
            if began.elapsed() > PATIENCE {
                return Err("the server does not stop".into());
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        self.replicas.launch(0)?;
        self.until_ready().await
    }
}

/// Heartbeats of nodes and pods that come and go, for a while.
pub async fn nodes(settings: &Settings) -> Result<String, String> {
    let alone = Alone::start(settings).await?;
    let load = Load { port: alone.port, nodes: settings.nodes, pods: settings.pods, duration: settings.duration };
    load.create_nodes().await?;
    let watches = load.watch().await?;
    let before = alone.usage()?;
    let began = Instant::now();
    let latencies = load.run().await?;
    let took = began.elapsed().as_secs_f64();
    let after = alone.usage()?;
    let seen = watches.finish().await;
    let cores = |before: &Usage, after: &Usage| (after.processor - before.processor).as_secs_f64() / took;
    let (server, etcd) = (cores(&before.0, &after.0), cores(&before.1, &after.1));
    let mut lines = vec![
        format!("{} nodes, {} pods/s, {took:.0} s, {} watches, {seen} events", load.nodes, load.pods, load.nodes + 1),
        format!("server: {server:.3} cores, {} MiB resident", after.0.resident_bytes >> 20),
        format!("etcd: {etcd:.3} cores, {} MiB resident", after.1.resident_bytes >> 20),
    ];
    let requests = latencies.requests() as f64 / took;
    let a_request = server / requests;
    let sleeps = (after.0.sleeps - before.0.sleeps) as f64 / latencies.requests() as f64;
    lines.push(format!(
        "{requests:.0} requests/s, {:.0} µs of the server's processor and {sleeps:.1} sleeps of its threads for each",
        a_request * 1e6
    ));
    lines.extend(latencies.lines(took));
    lines.push(format!(
        "carried on to {NODES} nodes and {PODS} pods/s, {REQUESTS:.0} requests/s: {:.1} cores",
        a_request * REQUESTS
    ));
    Ok(lines.join("\n"))
}

/// Many config maps: what the server needs for them, and how soon it is ready with them.
pub async fn objects(settings: &Settings) -> Result<String, String> {
    let mut alone = Alone::start(settings).await?;
    tokio::time::sleep(SETTLE).await;
    let empty = alone.usage()?.0;
    let (began, port, count) = (Instant::now(), alone.port, settings.objects);
    let mut creators: JoinSet<Result<(), String>> = JoinSet::new();
    for first in 0..CREATORS {
        creators.spawn(async move {
            let mut client = Client::new(port, TIMEOUT);
            let text = "x".repeat(1000);
            for n in (first..count).step_by(CREATORS) {
                let (name, namespace) = (format!("object-{n}"), "default");
                let object = json!({
                    "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"text": text}
                });
                let path = format!("/api/v1/namespaces/{namespace}/configmaps");
                create(&mut client, &path, &object).await?;
            }
            Ok(())
        });
    }
    while let Some(done) = creators.join_next().await {
        done.map_err(|error| error.to_string())??;
    }
    let took = began.elapsed();
    tokio::time::sleep(SETTLE).await;
    let full = alone.usage()?.0;
    let ready = alone.restart().await?;
    let mut client = Client::new(alone.port, TIMEOUT);
    let began = Instant::now();
    client.send(Method::GET, "/api/v1/namespaces/default/configmaps?limit=1", None).await;
    let first = began.elapsed();
    tokio::time::sleep(SETTLE).await;
    let again = alone.usage()?.0;
    let mebibytes = |usage: &Usage| format!("{} MiB, {} at most", usage.resident_bytes >> 20, usage.peak_bytes >> 20);
    Ok([
        format!("{count} config maps of 1 kB created in {:.0} s", took.as_secs_f64()),
        format!("without objects: {}", mebibytes(&empty)),
        format!("after creating them: {}", mebibytes(&full)),
        format!("start to ready: {:.2} s, first list {:.3} s later", ready.as_secs_f64(), first.as_secs_f64()),
        format!("after the restart: {}", mebibytes(&again)),
    ]
    .join("\n"))
}

/// Creates an object; one that is there already came from an attempt without an answer.
async fn create(client: &mut Client, path: &str, object: &serde_json::Value) -> Result<(), String> {
    let began = Instant::now();
    loop {
        match client.send(Method::POST, path, Some(object)).await {
            Outcome::Answered { status: 201 | 409, .. } => return Ok(()),
            other if began.elapsed() > PATIENCE => return Err(format!("cannot create an object: {other:?}")),
            _ => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    }
}
