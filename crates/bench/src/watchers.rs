//! Many watchers of one collection while it changes: what an event costs, and how long it takes to arrive.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::Method;
use http_body_util::BodyExt;
use hyper::body::Incoming;

use crate::client::Client;
use crate::load::{self, Cost};
use crate::objects::{NAMESPACE, config_map_object};
use crate::scenarios::write;
use crate::target::Target;

/// A connection may have 100 requests open, here as upstream; one more would wait for another to end.
const WATCHES_PER_CONNECTION: usize = 50;
const WRITES_PER_SECOND: u64 = 50;
const PATIENCE: Duration = Duration::from_secs(30);

/// `count` watchers see every one of the writes; a request in the result is one event delivered to one watcher.
pub async fn run(target: &Target, count: usize, seconds: u64) -> Result<Cost, String> {
    let name = format!("{count} watchers, {WRITES_PER_SECOND} writes/s, per event");
    let writer = Client::connect(target.port).await?;
    let path = format!("/api/v1/namespaces/{NAMESPACE}/configmaps");
    let label = format!("watched-{count}");
    let head = writer.get(&format!("{path}?limit=1")).await?;
    let head = String::from_utf8_lossy(&head.head).into_owned();
    let found = head.split_once("\"resourceVersion\":\"").and_then(|(_, rest)| rest.split_once('"'));
    let revision = found.ok_or("a list has no revision")?.0.to_string();
    let began = Instant::now();
    let delivered = Arc::new(AtomicU64::new(0));
    let writes = WRITES_PER_SECOND * seconds;
    let mut tasks = tokio::task::JoinSet::new();
    let mut client = None;
    for number in 0..count {
        if number % WATCHES_PER_CONNECTION == 0 {
            client = Some(Client::connect(target.port).await?);
        }
        let Some(client) = client.clone() else { continue };
        let watch = format!("{path}?watch=true&resourceVersion={revision}&labelSelector=set%3D{label}");
        let (status, body) =
            client.open(Method::GET, &watch, "application/json", "application/json", Bytes::new()).await?;
        if !status.is_success() {
            return Err(format!("a watch was refused: {status}"));
        }
        tasks.spawn(follow(body, writes, began, delivered.clone()));
    }
    let cpu_before = target.cpu();
    let sent = Instant::now();
    for number in 0..writes {
        tokio::time::sleep_until((sent + Duration::from_secs(1) * number as u32 / WRITES_PER_SECOND as u32).into())
            .await;
        let mut object = config_map_object(&format!("{label}-{number}"), &number.to_string());
        object["metadata"]["labels"]["set"] = label.clone().into();
        object["metadata"]["annotations"] = serde_json::json!({"sent": began.elapsed().as_nanos().to_string()});
        write(writer.clone(), Method::POST, path.clone(), "application/json", object.to_string().into()).await?;
    }
    let mut latencies = Vec::new();
    let all = async {
        while let Some(watcher) = tasks.join_next().await {
            latencies.extend(watcher.map_err(|error| error.to_string())??);
        }
        Ok::<_, String>(())
    };
    if tokio::time::timeout(PATIENCE, all).await.is_err() {
        let got = delivered.load(Ordering::Relaxed);
        return Err(format!("{name}: {got} of {} events arrived", writes * count as u64));
    }
    let (took, cpu) = (sent.elapsed(), target.cpu().since(cpu_before));
    let cost = load::cost(target, &name, latencies, took, cpu);
    eprintln!("{}", crate::report::line(&cost));
    Ok(cost)
}

/// Counts events until all have come; the time each was sent is in it.
async fn follow(
    mut body: Incoming,
    wanted: u64,
    began: Instant,
    delivered: Arc<AtomicU64>,
) -> Result<Vec<Duration>, String> {
    let mut latencies = Vec::new();
    let mut rest: Vec<u8> = Vec::new();
    while (latencies.len() as u64) < wanted {
        let Some(frame) = body.frame().await else { return Err("a watch ended".into()) };
        let Ok(data) = frame.map_err(|error| error.to_string())?.into_data() else { continue };
        rest.extend_from_slice(&data);
        let Some(end) = memchr::memrchr(b'\n', &rest) else { continue };
        let now = began.elapsed();
        for line in rest[..end].split(|byte| *byte == b'\n') {
            latencies.push(now.saturating_sub(sent_at(line).ok_or("an event does not say when it was sent")?));
            delivered.fetch_add(1, Ordering::Relaxed);
        }
        rest.drain(..=end);
    }
    Ok(latencies)
}

fn sent_at(line: &[u8]) -> Option<Duration> {
    const MARK: &[u8] = b"\"sent\":\"";
    let at = memchr::memmem::find(line, MARK)? + MARK.len();
    let digits: String = line[at..].iter().take_while(|byte| byte.is_ascii_digit()).map(|byte| *byte as char).collect();
    digits.parse().ok().map(Duration::from_nanos)
}
