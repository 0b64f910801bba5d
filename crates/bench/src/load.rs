//! A closed loop of requests: so many at a time, for so long.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use futures::future::BoxFuture;

use crate::client::Client;
use crate::target::{Cpu, Target};

/// Connections the requests are spread over.
const CONNECTIONS: usize = 4;

/// What one load cost.
pub struct Cost {
    pub name: String,
    pub requests: u64,
    pub seconds: f64,
    pub p50: Duration,
    pub p99: Duration,
    /// CPU time per request.
    pub cpu: Cpu,
    pub peak_memory: u64,
}

/// Makes the n-th request; errors end the run.
pub type MakeRequest = Arc<dyn Fn(Client, u64) -> BoxFuture<'static, Result<(), String>> + Send + Sync>;

/// Keeps `at_once` requests open for `seconds`, or until `at_most` were made.
pub async fn run(
    target: &Target,
    name: &str,
    at_once: usize,
    seconds: u64,
    at_most: u64,
    make: MakeRequest,
) -> Result<Cost, String> {
    let mut clients = Vec::new();
    for _ in 0..CONNECTIONS.min(at_once) {
        clients.push(Client::connect(target.port).await?);
    }
    let counter = Arc::new(AtomicU64::new(0));
    let (cpu_before, began) = (target.cpu(), Instant::now());
    let until = began + Duration::from_secs(seconds);
    let mut tasks = tokio::task::JoinSet::new();
    for worker in 0..at_once {
        let (client, counter, make) = (clients[worker % clients.len()].clone(), counter.clone(), make.clone());
        tasks.spawn(async move {
            let mut latencies = Vec::new();
            while Instant::now() < until {
                let number = counter.fetch_add(1, Ordering::Relaxed);
                if number >= at_most {
                    break;
                }
                let sent = Instant::now();
                make(client.clone(), number).await?;
                latencies.push(sent.elapsed());
            }
            Ok::<_, String>(latencies)
        });
    }
    let mut latencies = Vec::new();
    while let Some(worker) = tasks.join_next().await {
        latencies.extend(worker.map_err(|error| error.to_string())?.map_err(|why| format!("{name}: {why}"))?);
    }
    let (took, cpu) = (began.elapsed(), target.cpu().since(cpu_before));
    let cost = cost(target, name, latencies, took, cpu);
    eprintln!("{}", crate::report::line(&cost));
    Ok(cost)
}

pub fn cost(target: &Target, name: &str, mut latencies: Vec<Duration>, took: Duration, cpu: Cpu) -> Cost {
    latencies.sort_unstable();
    let requests = latencies.len() as u64;
    let at = |part: f64| latencies.get((latencies.len() as f64 * part) as usize).copied().unwrap_or_default();
    Cost {
        name: name.to_string(),
        requests,
        seconds: took.as_secs_f64(),
        p50: at(0.5),
        p99: at(0.99),
        cpu: cpu.per(requests),
        peak_memory: target.peak_memory(),
    }
}
