//! Fairness: many greedy clients of one user beside one polite client of another, who must hardly notice them.

use std::fmt::Write;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{Method, StatusCode};
use serde_json::json;

use crate::Arguments;
use crate::client::Client;
use crate::greedy::{self, Answered, Greedy, Manners};
use crate::objects::NAMESPACE;
use crate::scenarios::JSON;
use crate::target::{Kind, POLITE_TOKEN, Target, pin};

/// How long the polite client waits after each answer.
const PAUSE: Duration = Duration::from_millis(5);
/// Objects in the list that greedy clients ask for again and again.
const LISTED: usize = 50;
/// As an administrator would set it for a machine with few cores.
const LIMITS: [&str; 2] = ["--max-requests-inflight=20", "--max-mutating-requests-inflight=10"];

/// What one server did.
struct Fairness {
    kind: Kind,
    manners: Manners,
    quiet: Polite,
    loaded: Polite,
    greedy: Answered,
    /// Requests refused by flow schemas that neither client belongs to.
    refused_others: u64,
}

/// What the polite client saw.
struct Polite {
    requests: usize,
    p50: Duration,
    p99: Duration,
    refused: u64,
}

pub async fn run(arguments: &Arguments) -> Result<String, String> {
    let (server_cpus, client_cpus) = halves();
    pin(std::process::id(), &client_cpus).await?;
    let mut results = Vec::new();
    for kind in [Kind::KubeApiserver, Kind::Ferrokube] {
        let wanted = arguments.only.is_empty() || arguments.only.iter().any(|name| name == kind.name());
        if wanted && kind.is_possible(arguments) {
            eprintln!("== {}", kind.name());
            for manners in [Manners::Wait, Manners::Insist] {
                results.push(measure(arguments, kind, manners, &server_cpus).await?);
            }
        }
    }
    let text = report(arguments, &results);
    if let Some(path) = &arguments.out {
        std::fs::write(path, &text).map_err(|error| format!("cannot write {}: {error}", path.display()))?;
    }
    Ok(text)
}

/// The CPUs of the server and those of all clients, as `taskset` takes them.
fn halves() -> (String, String) {
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    match cpus {
        1 => ("0".into(), "0".into()),
        _ => (format!("0-{}", cpus / 2 - 1), format!("{}-{}", cpus / 2, cpus - 1)),
    }
}

async fn measure(arguments: &Arguments, kind: Kind, manners: Manners, cpus: &str) -> Result<Fairness, String> {
    let target = Target::start_with(arguments, kind, &LIMITS, cpus).await?;
    prepare(&Client::connect(target.port).await?).await?;
    let quiet = polite(target.port, arguments.seconds).await?;
    let greedy = Greedy::start(arguments, target.port, manners)?;
    // The queues fill up.
    tokio::time::sleep(Duration::from_secs(2)).await;
    let loaded = polite(target.port, arguments.seconds).await?;
    let greedy = greedy.stop().await?;
    let refused_others = refused_elsewhere(&Client::connect(target.port).await?).await?;
    target.stop().await;
    Ok(Fairness { kind, manners, quiet, loaded, greedy, refused_others })
}

/// The objects that are read, and the right to read them.
async fn prepare(admin: &Client) -> Result<(), String> {
    let create = async |path: &str, object: serde_json::Value| {
        let reply = admin.send(Method::POST, path, JSON, JSON, Bytes::from(object.to_string())).await?;
        match reply.status {
            StatusCode::CREATED => Ok(()),
            other => Err(format!("{path}: {other}: {}", String::from_utf8_lossy(&reply.head))),
        }
    };
    create("/api/v1/namespaces", json!({"metadata": {"name": NAMESPACE}})).await?;
    for at in 0..LISTED {
        let object = json!({"metadata": {"name": format!("c{at}")}, "data": {"text": "x".repeat(1000)}});
        create(&format!("/api/v1/namespaces/{NAMESPACE}/configmaps"), object).await?;
    }
    let role = json!({
        "metadata": {"name": "reader"},
        "rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list"]}],
    });
    create("/apis/rbac.authorization.k8s.io/v1/clusterroles", role).await?;
    let subject = |name: &str| json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": name});
    let binding = json!({
        "metadata": {"name": "readers"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "reader"},
        "subjects": [subject("greedy"), subject("polite")],
    });
    create("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", binding).await?;
    // Bindings are read from a cache, which may be a moment behind.
    let reader = Client::connect_as(admin.port(), POLITE_TOKEN).await?;
    for _ in 0..500 {
        if reader.get(&format!("/api/v1/namespaces/{NAMESPACE}/configmaps/c1")).await?.status == StatusCode::OK {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    Err("the polite user may not read".into())
}

/// One request after the other, from a thread of its own, so that the greedy clients' tasks do not delay it.
async fn polite(port: u16, seconds: u64) -> Result<Polite, String> {
    let task = move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.map_err(|error| error.to_string())?.block_on(async {
            let client = Client::connect_as(port, POLITE_TOKEN).await?;
            let (mut latencies, mut refused) = (Vec::new(), 0);
            let until = Instant::now() + Duration::from_secs(seconds);
            while Instant::now() < until {
                let sent = Instant::now();
                let path = format!("/api/v1/namespaces/{NAMESPACE}/configmaps/c{}", latencies.len() % LISTED);
                refused += u64::from(client.get(&path).await?.status != StatusCode::OK);
                latencies.push(sent.elapsed());
                tokio::time::sleep(PAUSE).await;
            }
            latencies.sort_unstable();
            let at = |part: f64| latencies.get((latencies.len() as f64 * part) as usize).copied().unwrap_or_default();
            Ok(Polite { requests: latencies.len(), p50: at(0.5), p99: at(0.99), refused })
        })
    };
    tokio::task::spawn_blocking(task).await.map_err(|error| error.to_string())?
}

/// How many requests flow schemas other than the clients' have refused.
async fn refused_elsewhere(admin: &Client) -> Result<u64, String> {
    const COUNTER: &str = "apiserver_flowcontrol_rejected_requests_total{";
    let metrics = admin.read("/metrics").await?;
    let lines = metrics.lines().filter(|line| line.starts_with(COUNTER) && !line.contains("\"global-default\""));
    Ok(lines.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum::<f64>() as u64)
}

fn report(arguments: &Arguments, results: &[Fairness]) -> String {
    let mut text = format!(
        "# Fairness\n\nWritten by `cargo xtask bench fairness`. {} {} greedy clients of one user list {LISTED} config \
         maps without a pause; one polite client of another user gets one config map every {} ms. Both users belong to the flow \
         schema `global-default`; the servers run with `{}`. The server has one half of the machine's CPUs and the clients the \
         other. Greedy clients that are refused wait for as long as Retry-After says, as client-go does, or ask again at once.\n\n\
         | server | greedy, when refused | polite, quiet: p50 · p99 | polite, loaded: p50 · p99 | p99 × | polite refused | greedy served · refused | refused in \
         other flow schemas |\n|---|---|---|---|---|---|---|---|\n",
        arguments.versions,
        greedy::CLIENTS,
        PAUSE.as_millis(),
        LIMITS.join(" "),
    );
    let ms = |time: Duration| format!("{:.2} ms", time.as_secs_f64() * 1000.0);
    for one in results {
        let times = one.loaded.p99.as_secs_f64() / one.quiet.p99.as_secs_f64();
        let _ = writeln!(
            text,
            "| {} | {} | {} · {} | {} · {} | {times:.1} | {} of {} | {} · {} | {} |",
            one.kind.name(),
            if one.manners == Manners::Wait { "wait" } else { "ask again" },
            ms(one.quiet.p50),
            ms(one.quiet.p99),
            ms(one.loaded.p50),
            ms(one.loaded.p99),
            one.quiet.refused + one.loaded.refused,
            one.quiet.requests + one.loaded.requests,
            one.greedy.served,
            one.greedy.refused,
            one.refused_others,
        );
    }
    text
}
