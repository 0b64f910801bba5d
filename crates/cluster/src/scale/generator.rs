//! What kubelets and a scheduler ask for: leases, node status, pods that are created, bound, run and deleted, and watches.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use http::Method;
use http_body_util::BodyExt;
use object::timestamp::MicroTime;
use object::{Clock, SystemClock};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::{TIMEOUT, create};
use crate::client::{Client, Outcome};

/// As kubelets have them: a lease every ten seconds, the status every five minutes.
const LEASE_INTERVAL: Duration = Duration::from_secs(10);
const STATUS_INTERVAL: Duration = Duration::from_secs(300);
/// Connections of kubelets, and how many watches share one: servers allow a hundred.
const CONNECTIONS: usize = 32;
const WATCHES_A_CONNECTION: usize = 90;
/// How long a pod runs.
const POD_LIFE: Duration = Duration::from_secs(10);

const NODES: &str = "/api/v1/nodes";
const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";
const PODS: &str = "/api/v1/namespaces/default/pods";

/// So many nodes and pods.
#[derive(Clone, Copy)]
pub struct Load {
    pub port: u16,
    pub nodes: usize,
    /// That are created a second.
    pub pods: u64,
    pub duration: Duration,
}

/// How long requests took, by what they did.
#[derive(Default)]
pub struct Latencies {
    taken: Mutex<BTreeMap<&'static str, Vec<Duration>>>,
    failed: AtomicU64,
}

impl Latencies {
    /// How many requests were sent.
    pub fn requests(&self) -> usize {
        self.taken.lock().values().map(Vec::len).sum()
    }

    /// A line for each kind of request.
    pub fn lines(&self, seconds: f64) -> Vec<String> {
        let mut taken = self.taken.lock();
        let mut lines = Vec::new();
        for (what, times) in taken.iter_mut() {
            times.sort();
            let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize].as_secs_f64() * 1000.0;
            let rate = times.len() as f64 / seconds;
            lines.push(format!("{what}: {rate:.1}/s, p50 {:.1} ms, p99 {:.1} ms", at(0.5), at(0.99)));
        }
        lines.push(format!("{} requests failed", self.failed.load(Ordering::Relaxed)));
        lines
    }

    async fn send(
        &self,
        what: &'static str,
        client: &mut Client,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Value {
        let began = Instant::now();
        let outcome = client.send(method, path, body).await;
        self.taken.lock().entry(what).or_default().push(began.elapsed());
        match outcome {
            Outcome::Answered { status: 200..=202, body } => body,
            _ => {
                self.failed.fetch_add(1, Ordering::Relaxed);
                Value::Null
            }
        }
    }
}

/// Watches that are open, and what they have seen.
pub struct Watches {
    tasks: JoinSet<()>,
    lines: Arc<AtomicU64>,
}

impl Watches {
    pub async fn finish(mut self) -> u64 {
        self.tasks.shutdown().await;
        self.lines.load(Ordering::Relaxed)
    }
}

impl Load {
    /// The nodes and their leases.
    pub async fn create_nodes(self) -> Result<(), String> {
        let mut workers: JoinSet<Result<(), String>> = JoinSet::new();
        for first in 0..CONNECTIONS {
            workers.spawn(async move {
                let mut client = Client::new(self.port, TIMEOUT);
                for n in (first..self.nodes).step_by(CONNECTIONS) {
                    create(&mut client, NODES, &node(n)).await?;
                    create(&mut client, LEASES, &lease(n)).await?;
                }
                Ok(())
            });
        }
        while let Some(done) = workers.join_next().await {
            done.map_err(|error| error.to_string())??;
        }
        Ok(())
    }

    /// Each node watches its pods, and a scheduler all of them.
    pub async fn watch(self) -> Result<Watches, String> {
        let (mut tasks, lines) = (JoinSet::new(), Arc::new(AtomicU64::new(0)));
        let paths = (0..self.nodes).map(|n| format!("{PODS}?watch=true&fieldSelector=spec.nodeName%3Dnode-{n}"));
        let paths: Vec<String> = paths.chain([format!("{PODS}?watch=true")]).collect();
        for share in paths.chunks(WATCHES_A_CONNECTION) {
            let mut client = Client::new(self.port, TIMEOUT);
            for path in share {
                let opened = client.open(Method::GET, path, None).await;
                let (200, mut incoming) = opened.map_err(|outcome| format!("a watch is not opened: {outcome:?}"))?
                else {
                    return Err("a watch is refused".into());
                };
                let lines = lines.clone();
                tasks.spawn(async move {
                    while let Some(Ok(frame)) = incoming.frame().await {
                        let data = frame.into_data().unwrap_or_default();
                        let ends = memchr::memchr_iter(b'\n', &data).count();
                        lines.fetch_add(ends as u64, Ordering::Relaxed);
                    }
                });
            }
            // The connection lives as long as its watches.
            tasks.spawn(async move {
                let _client = client;
                std::future::pending::<()>().await;
            });
        }
        Ok(Watches { tasks, lines })
    }

    /// Heartbeats and pods until the time is over.
    pub async fn run(self) -> Result<Arc<Latencies>, String> {
        let latencies = Arc::new(Latencies::default());
        let mut workers = JoinSet::new();
        for worker in 0..CONNECTIONS {
            workers.spawn(self.heartbeats(worker, latencies.clone()));
            workers.spawn(self.churn(worker, latencies.clone()));
        }
        while let Some(done) = workers.join_next().await {
            done.map_err(|error| error.to_string())?;
        }
        Ok(latencies)
    }

    /// The heartbeats of every node that this worker has, spread over the interval.
    async fn heartbeats(self, worker: usize, latencies: Arc<Latencies>) {
        let mut client = Client::new(self.port, TIMEOUT);
        let mut leases: Vec<(usize, Value)> =
            (worker..self.nodes).step_by(CONNECTIONS).map(|n| (n, Value::Null)).collect();
        if leases.is_empty() {
            return;
        }
        let (began, pause) = (tokio::time::Instant::now(), LEASE_INTERVAL / leases.len() as u32);
        let status_every = (STATUS_INTERVAL.as_secs() / LEASE_INTERVAL.as_secs()) as usize;
        let mut beat = 0;
        while began.elapsed() < self.duration {
            tokio::time::sleep_until(began + pause * beat as u32).await;
            let count = leases.len();
            let (n, known) = &mut leases[beat % count];
            let path = format!("{LEASES}/node-{n}");
            if known.is_null() {
                *known = latencies.send("lease get", &mut client, Method::GET, &path, None).await;
            }
            known["spec"]["renewTime"] = now().into();
            *known = latencies.send("lease update", &mut client, Method::PUT, &path, Some(known)).await;
            if (beat / count + *n).is_multiple_of(status_every) {
                let path = format!("{NODES}/node-{n}");
                let node = latencies.send("node get", &mut client, Method::GET, &path, None).await;
                if !node.is_null() {
                    let path = format!("{path}/status");
                    latencies.send("node status", &mut client, Method::PUT, &path, Some(&node)).await;
                }
            }
            beat += 1;
        }
    }

    /// Pods that are created, bound, run and are deleted when they have lived long enough.
    async fn churn(self, worker: usize, latencies: Arc<Latencies>) {
        if self.pods == 0 {
            return;
        }
        let mut client = Client::new(self.port, TIMEOUT);
        let (began, pause) = (tokio::time::Instant::now(), Duration::from_secs(CONNECTIONS as u64) / self.pods as u32);
        // Workers do not begin at once.
        let offset = pause.mul_f64(worker as f64 / CONNECTIONS as f64);
        let mut running: Vec<(tokio::time::Instant, String)> = Vec::new();
        let mut number = 0;
        while began.elapsed() < self.duration {
            tokio::time::sleep_until(began + offset + pause * number).await;
            let name = format!("pod-{worker}-{number}");
            let path = format!("{PODS}/{name}");
            latencies.send("pod create", &mut client, Method::POST, PODS, Some(&pod(&name))).await;
            let node = (worker + number as usize * CONNECTIONS) % self.nodes.max(1);
            let target = json!({"apiVersion": "v1", "kind": "Node", "name": format!("node-{node}")});
            let binding = json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": target});
            latencies.send("pod bind", &mut client, Method::POST, &format!("{path}/binding"), Some(&binding)).await;
            let mut bound = latencies.send("pod get", &mut client, Method::GET, &path, None).await;
            if !bound.is_null() {
                bound["status"]["phase"] = "Running".into();
                latencies.send("pod status", &mut client, Method::PUT, &format!("{path}/status"), Some(&bound)).await;
            }
            running.push((tokio::time::Instant::now(), path));
            while running.first().is_some_and(|(since, _)| since.elapsed() > POD_LIFE) {
                let (_, path) = running.remove(0);
                let options = json!({"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0});
                latencies.send("pod delete", &mut client, Method::DELETE, &path, Some(&options)).await;
            }
            number += 1;
        }
    }
}

fn node(n: usize) -> Value {
    let resources = json!({"cpu": "8", "memory": "32Gi", "pods": "110"});
    let ready = json!({"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "kubelet is posting ready status"});
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": format!("node-{n}"), "labels": {"kubernetes.io/hostname": format!("node-{n}")}},
        "status": {"capacity": resources, "allocatable": resources, "conditions": [ready]}
    })
}

fn lease(n: usize) -> Value {
    json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": format!("node-{n}")},
        "spec": {"holderIdentity": format!("node-{n}"), "leaseDurationSeconds": 40, "renewTime": now()}
    })
}

fn pod(name: &str) -> Value {
    let resources = json!({"requests": {"cpu": "100m", "memory": "64Mi"}});
    let container = json!({"name": "main", "image": "registry.example/app:1.0", "resources": resources});
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"app": "churn"}},
        "spec": {"containers": [container]}
    })
}

fn now() -> String {
    MicroTime(SystemClock.now()).to_string()
}
