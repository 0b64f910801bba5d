//! Measures how long `/livez` takes while clients send the most expensive requests, and how much memory stays afterwards.
//!
//! `cargo run --release -p ferrokube-hostile -- [--seconds N] [--clients N]`

// What a command says, it says on its output.
#![allow(clippy::print_stdout)]

mod worst;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use hostile::{ADMIN, Target};
use http_body_util::Full;

const USAGE: &str = "usage: hostile [--seconds 60] [--clients 8]";
/// The slowest that one in a hundred health checks may be.
const P99_MAX: Duration = Duration::from_millis(100);
/// How often health is asked for.
const PROBE_INTERVAL: Duration = Duration::from_millis(20);

fn main() -> Result<(), String> {
    let (mut seconds, mut clients) = (60, 8);
    let mut arguments = std::env::args().skip(1);
    while let Some(flag) = arguments.next() {
        let value = arguments.next().and_then(|value| value.parse().ok()).ok_or(USAGE)?;
        match flag.as_str() {
            "--seconds" => seconds = value,
            "--clients" => clients = value as usize,
            _ => return Err(USAGE.into()),
        }
    }
    // The server has threads of its own, so that clients do not slow it down more than those of another process would.
    let runtime = || tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let (serving, attacking) =
        (runtime().map_err(|error| error.to_string())?, runtime().map_err(|error| error.to_string())?);
    let target = Arc::new(serving.block_on(Target::start()));
    let before = resident_bytes();
    let slow = attacking.block_on(attack(target.clone(), Duration::from_secs(seconds), clients));
    let after = resident_bytes();
    attacking.block_on(async { tokio::time::sleep(Duration::from_secs(60)).await });
    println!(
        "memory: {} MiB before, {} MiB at the end, {} MiB a minute later",
        before >> 20,
        after >> 20,
        resident_bytes() >> 20
    );
    match slow {
        true => Err(format!("p99 of /livez is more than {P99_MAX:?}")),
        false => Ok(()),
    }
}

/// Runs the attack and says whether health checks were too slow.
async fn attack(target: Arc<Target>, time: Duration, clients: usize) -> bool {
    let requests = Arc::new(worst::requests());
    let ends = Instant::now() + time;
    let sent: Arc<Vec<AtomicUsize>> = Arc::new(requests.iter().map(|_| AtomicUsize::new(0)).collect());
    let mut attackers = tokio::task::JoinSet::new();
    for client in 0..clients {
        let (target, requests, sent) = (target.clone(), requests.clone(), sent.clone());
        attackers.spawn(async move {
            let mut at = client;
            while Instant::now() < ends {
                at = (at + 1) % requests.len();
                let one = &requests[at];
                let mut builder = hostile::request(ADMIN, one.method, one.path);
                if let (Some(headers), Ok(value)) = (builder.headers_mut(), one.content_type.parse()) {
                    headers.insert(http::header::CONTENT_TYPE, value);
                }
                // Responses with many warnings are too much for the client; what counts is what they cost the server.
                if let Ok(request) = builder.body(Full::new(one.body.clone())) {
                    let _ = target.client.send(request).await;
                }
                sent[at].fetch_add(1, Ordering::Relaxed);
            }
        });
    }
    let session = target.session().await;
    let mut took = Vec::new();
    while Instant::now() < ends {
        let began = Instant::now();
        let answer = session.ask(ADMIN, "GET", "/livez", "").await;
        took.push(if answer.code == 200 { began.elapsed() } else { time });
        tokio::time::sleep(PROBE_INTERVAL).await;
    }
    while attackers.join_next().await.is_some() {}
    for (one, sent) in requests.iter().zip(&*sent) {
        println!("{:>6} × {} ({} KB)", sent.load(Ordering::Relaxed), one.what, one.body.len() / 1000);
    }
    took.sort();
    let at = |share: f64| took.get((took.len() as f64 * share) as usize).or(took.last()).copied().unwrap_or(time);
    println!("/livez: {} probes, p50 {:?}, p99 {:?}, slowest {:?}", took.len(), at(0.5), at(0.99), at(1.0));
    at(0.99) > P99_MAX
}

/// How much memory this process has in use; 0 where Linux does not say.
fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.trim().trim_end_matches("kB").trim().parse::<u64>().ok());
    kib.unwrap_or(0) * 1024
}
