//! A closed loop of requests: so many at a time, for so long.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use futures::future::BoxFuture;

use crate::client::Client;
use crate::report::{Figure, Line};
use crate::target::{Cpu, Target};

/// Connections the requests are spread over.
const CONNECTIONS: usize = 4;

/// How much load, and for how long.
#[derive(Clone, Copy)]
pub struct Extent {
    /// Requests open at a time.
    pub at_once: usize,
    pub seconds: u64,
    /// Ends after so many requests even if there is time left.
    pub at_most: u64,
}

/// What one load cost.
pub struct Cost {
    pub requests: u64,
    /// Of all bodies that were received.
    pub bytes: u64,
    pub took: Duration,
    pub p50: Duration,
    pub p99: Duration,
    /// CPU time per request.
    pub cpu: Cpu,
}

/// Makes the n-th request and returns how many bytes the answer had; errors end the run.
pub type MakeRequest = Arc<dyn Fn(Client, u64) -> BoxFuture<'static, Result<u64, String>> + Send + Sync>;

pub async fn run(target: &Target, name: &str, extent: Extent, make: MakeRequest) -> Result<Cost, String> {
    let mut clients = Vec::new();
    for _ in 0..CONNECTIONS.min(extent.at_once) {
        clients.push(Client::connect(target.port).await?);
    }
    let counter = Arc::new(AtomicU64::new(0));
    let (cpu_before, began) = (target.cpu(), Instant::now());
    let until = began + Duration::from_secs(extent.seconds);
    let mut tasks = tokio::task::JoinSet::new();
    for worker in 0..extent.at_once {
        let (client, counter, make) = (clients[worker % clients.len()].clone(), counter.clone(), make.clone());
        tasks.spawn(async move {
            let (mut latencies, mut bytes) = (Vec::new(), 0);
            while Instant::now() < until {
                let number = counter.fetch_add(1, Ordering::Relaxed);
                if number >= extent.at_most {
                    break;
                }
                let sent = Instant::now();
                bytes += make(client.clone(), number).await?;
                latencies.push(sent.elapsed());
            }
            Ok::<_, String>((latencies, bytes))
        });
    }
    let (mut latencies, mut bytes) = (Vec::new(), 0);
    while let Some(worker) = tasks.join_next().await {
        let worker = worker.map_err(|error| error.to_string())?.map_err(|why| format!("{name}: {why}"))?;
        latencies.extend(worker.0);
        bytes += worker.1;
    }
    let (took, cpu) = (began.elapsed(), target.cpu().since(cpu_before));
    let requests = latencies.len() as u64;
    latencies.sort_unstable();
    let (p50, p99) = (at(&latencies, 0.5), at(&latencies, 0.99));
    Ok(Cost { requests, bytes, took, p50, p99, cpu: cpu.per(requests) })
}

/// The latency that this part of all is below.
pub fn at(sorted: &[Duration], part: f64) -> Duration {
    let index = (sorted.len() as f64 * part) as usize;
    sorted.get(index.min(sorted.len().saturating_sub(1))).copied().unwrap_or_default()
}

impl Cost {
    /// The lines of most loads.
    pub fn lines(&self, name: &str) -> Vec<Line> {
        let rate = Figure::PerSecond(self.requests as f64 / self.took.as_secs_f64());
        self.lines_with(name, rate)
    }

    /// The lines of a load whose answers are large.
    pub fn lines_by_bytes(&self, name: &str) -> Vec<Line> {
        let rate = Figure::BytesPerSecond(self.bytes as f64 / self.took.as_secs_f64());
        self.lines_with(name, rate)
    }

    fn lines_with(&self, name: &str, rate: Figure) -> Vec<Line> {
        vec![
            Line::new(format!("{name}: CPU"), Figure::Cpu(self.cpu)),
            Line::new(format!("{name}: throughput"), rate),
            Line::new(format!("{name}: p50, p99"), Figure::Latency(vec![self.p50, self.p99])),
        ]
    }
}
