//! Many watchers of one collection while it changes: what an event costs, and how long it takes to arrive.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::Method;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use serde_json::Value;
use tokio::task::JoinSet;

use crate::client::Client;
use crate::load;
use crate::objects::config_map_object;
use crate::report::{Figure, Line};
use crate::scenarios::{JSON, collection, write};
use crate::target::{Cpu, Target};

/// A connection may have 100 requests open, here as upstream; one more would wait for another to end.
const WATCHES_PER_CONNECTION: usize = 50;
const WRITES_PER_SECOND: u64 = 50;
const PATIENCE: Duration = Duration::from_secs(30);

/// When something was sent, from the beginning, and how long it took.
pub type Sample = (Duration, Duration);

/// A collection that is watched.
pub struct Watched {
    pub path: String,
    /// Makes an object of a name and a content.
    pub object: Box<dyn Fn(&str, &str) -> Value + Send + Sync>,
}

/// Watchers that wait for events with one label.
pub struct Watchers {
    watched: Watched,
    label: String,
    count: usize,
    began: Instant,
    delivered: Arc<AtomicU64>,
    events: u64,
    tasks: JoinSet<Result<Vec<Sample>, String>>,
}

/// What the load of so many watchers is called.
pub fn name(count: usize) -> String {
    format!("an event to each of {count} watchers")
}

/// `count` watchers see every one of the writes; a request in the result is one event delivered to one watcher.
pub async fn run(target: &Target, count: usize, seconds: u64) -> Result<Vec<Line>, String> {
    let (cpu, latencies) = measure(target, Watched::config_maps(), count, seconds).await?;
    let name = name(count);
    let percentiles = vec![load::at(&latencies, 0.5), load::at(&latencies, 0.99)];
    Ok(vec![
        Line::new(format!("{name}: CPU"), Figure::Cpu(cpu)),
        Line::new(format!("{name}: p50, p99"), Figure::Latency(percentiles)),
    ])
}

/// The CPU of one event for one watcher, its part of the write included, and how long each event took.
pub async fn measure(
    target: &Target,
    watched: Watched,
    count: usize,
    seconds: u64,
) -> Result<(Cpu, Vec<Duration>), String> {
    let writer = Client::connect(target.port).await?;
    let writes = WRITES_PER_SECOND * seconds;
    let watchers = Watchers::start(target, watched, &format!("watched-{count}"), count, writes).await?;
    let cpu_before = target.cpu();
    let sent = Instant::now();
    for number in 0..writes {
        let due = sent + Duration::from_secs(1) * number as u32 / WRITES_PER_SECOND as u32;
        tokio::time::sleep_until(due.into()).await;
        watchers.create(&writer, number).await?;
    }
    let mut latencies: Vec<Duration> = watchers.finish().await?.into_iter().map(|(_, latency)| latency).collect();
    let cpu = target.cpu().since(cpu_before).per(latencies.len() as u64);
    latencies.sort_unstable();
    Ok((cpu, latencies))
}

impl Watched {
    pub fn config_maps() -> Watched {
        Watched { path: collection("configmaps"), object: Box::new(config_map_object) }
    }
}

impl Watchers {
    /// Starts watchers, each of which ends after so many events.
    pub async fn start(
        target: &Target,
        watched: Watched,
        label: &str,
        count: usize,
        events: u64,
    ) -> Result<Watchers, String> {
        let first = Client::connect(target.port).await?;
        let path = &watched.path;
        // An empty list is short: wherever its metadata stands, it is in what is kept of the answer.
        let head = first.get(&format!("{path}?labelSelector=matches%3Dnothing")).await?;
        let head = String::from_utf8_lossy(&head.head).into_owned();
        let found = head.split_once("\"resourceVersion\":\"").and_then(|(_, rest)| rest.split_once('"'));
        let revision = found.ok_or("a list has no revision")?.0.to_string();
        let (began, delivered) = (Instant::now(), Arc::new(AtomicU64::new(0)));
        let (mut tasks, mut client) = (JoinSet::new(), first);
        for number in 0..count {
            if number % WATCHES_PER_CONNECTION == 0 {
                client = Client::connect(target.port).await?;
            }
            let watch = format!("{path}?watch=true&resourceVersion={revision}&labelSelector=set%3D{label}");
            let (status, body) = client.open(Method::GET, &watch, JSON, JSON, Bytes::new()).await?;
            if !status.is_success() {
                return Err(format!("a watch was refused: {status}"));
            }
            tasks.spawn(follow(body, events, began, delivered.clone()));
        }
        Ok(Watchers { watched, label: label.to_string(), count, began, delivered, events, tasks })
    }

    /// Creates an object that all of them watch, and returns when it was sent and how long that took.
    pub async fn create(&self, client: &Client, number: u64) -> Result<Sample, String> {
        let mut object = (self.watched.object)(&format!("{}-{number}", self.label), &number.to_string());
        object["metadata"]["labels"]["set"] = self.label.clone().into();
        let sent = self.began.elapsed();
        object["metadata"]["annotations"] = serde_json::json!({"sent": sent.as_nanos().to_string()});
        write(client.clone(), Method::POST, self.watched.path.clone(), JSON, object.to_string().into()).await?;
        Ok((sent, self.began.elapsed() - sent))
    }

    /// Waits until all events have arrived.
    pub async fn finish(mut self) -> Result<Vec<Sample>, String> {
        let mut samples = Vec::new();
        let all = async {
            while let Some(watcher) = self.tasks.join_next().await {
                samples.extend(watcher.map_err(|error| error.to_string())??);
            }
            Ok::<_, String>(())
        };
        match tokio::time::timeout(PATIENCE, all).await {
            Ok(outcome) => outcome.map(|()| samples),
            Err(_) => {
                let (got, all) = (self.delivered.load(Ordering::Relaxed), self.events * self.count as u64);
                Err(format!("{got} of {all} events arrived"))
            }
        }
    }
}

/// Counts events until all have come; the time each was sent is in it.
async fn follow(
    mut body: Incoming,
    wanted: u64,
    began: Instant,
    delivered: Arc<AtomicU64>,
) -> Result<Vec<Sample>, String> {
    let mut samples = Vec::new();
    let mut rest: Vec<u8> = Vec::new();
    while (samples.len() as u64) < wanted {
        let Some(frame) = body.frame().await else { return Err("a watch ended".into()) };
        let Ok(data) = frame.map_err(|error| error.to_string())?.into_data() else { continue };
        rest.extend_from_slice(&data);
        let Some(end) = memchr::memrchr(b'\n', &rest) else { continue };
        let now = began.elapsed();
        for line in rest[..end].split(|byte| *byte == b'\n') {
            let sent = sent_at(line).ok_or("an event does not say when it was sent")?;
            samples.push((sent, now.saturating_sub(sent)));
            delivered.fetch_add(1, Ordering::Relaxed);
        }
        rest.drain(..=end);
    }
    Ok(samples)
}

fn sent_at(line: &[u8]) -> Option<Duration> {
    const MARK: &[u8] = b"\"sent\":\"";
    let at = memchr::memmem::find(line, MARK)? + MARK.len();
    let digits: String = line[at..].iter().take_while(|byte| byte.is_ascii_digit()).map(|byte| *byte as char).collect();
    digits.parse().ok().map(Duration::from_nanos)
}
