//! What servers in a process cost: `cargo bench -p ferrokube --features client`.

#![allow(clippy::unwrap_used, clippy::print_stdout)] // A measurement that fails says so.

use std::time::{Duration, Instant};

use ferrokube::{Api, Builder, Server};
use k8s_openapi::api::core::v1::ConfigMap;

const SERVERS: usize = 200;
const GETS: u32 = 100_000;
const PATH: &str = "/api/v1/namespaces/default/configmaps/x";

fn resident_kib() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").trim().parse().unwrap()
}

/// The processor time of the process.
fn cpu() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    let ticks: u64 = fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap();
    Duration::from_millis(ticks * 10)
}

async fn starts(name: &str, build: impl Fn() -> Builder) {
    let first = Instant::now();
    let mut servers = vec![build().start().await.unwrap()];
    let first = first.elapsed();
    let (before, began, used) = (resident_kib(), Instant::now(), cpu());
    for _ in 0..SERVERS {
        servers.push(build().start().await.unwrap());
    }
    let (took, used) = (began.elapsed() / SERVERS as u32, (cpu() - used) / SERVERS as u32);
    let each = (resident_kib().saturating_sub(before)) / SERVERS;
    println!("{name}: first {first:.1?}, later {took:.1?} ({used:.1?} CPU), {each} KiB each");
}

async fn gets(server: &Server) {
    let local = server.local();
    let map = serde_json::json!({"metadata": {"name": "x"}, "data": {"a": "b"}}).to_string();
    let path = "/api/v1/namespaces/default/configmaps";
    assert_eq!(local.call(http::Method::POST, path, "application/json", map).await.unwrap().code, 201);
    let began = Instant::now();
    for _ in 0..GETS {
        assert_eq!(local.get(PATH).await.unwrap().code, 200);
    }
    println!("GET by the plain client: {:.2?}", began.elapsed() / GETS);
    let maps: kube::Api<ConfigMap> = kube::Api::default_namespaced(server.client());
    let began = Instant::now();
    for _ in 0..GETS {
        maps.get("x").await.unwrap();
    }
    println!("GET by kube::Client, decoded: {:.2?}", began.elapsed() / GETS);
}

#[tokio::main]
async fn main() {
    let minimal = || Server::builder().api(Api::minimal());
    starts("minimal, no listener", || minimal().without_listener()).await;
    starts("minimal", minimal).await;
    starts("kubernetes, no listener", || Server::builder().without_listener()).await;
    starts("kubernetes", Server::builder).await;
    gets(&Server::builder().without_listener().start().await.unwrap()).await;
}
