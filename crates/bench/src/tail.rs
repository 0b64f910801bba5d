//! The tail over time: writes at a steady rate and their delivery to watchers, in windows of a few seconds. A pause of the
//! server, be it for a checkpoint, a compaction or a garbage collection, shows in the window it falls into.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::Arguments;
use crate::client::Client;
use crate::load;
use crate::report::{Figure, Line};
use crate::scenarios::create_namespace;
use crate::target::{Kind, Target};
use crate::watchers::{Sample, Watched, Watchers};

const WRITES_PER_SECOND: u64 = 200;
const WATCHERS: usize = 50;
const WINDOW: Duration = Duration::from_secs(5);

pub async fn run(arguments: &Arguments, kind: Kind) -> Result<Vec<Line>, String> {
    let target = Target::start(arguments, kind).await?;
    let client = create_namespace(&target).await?;
    let writes = WRITES_PER_SECOND * arguments.tail_seconds;
    let watchers = Arc::new(Watchers::start(&target, Watched::config_maps(), "tail", WATCHERS, writes).await?);
    let written = write_steadily(&watchers, &client, writes).await?;
    let watchers = Arc::into_inner(watchers).ok_or("a writer has not ended")?;
    let delivered = watchers.finish().await?;
    target.stop().await;
    let what = format!("{} s at {WRITES_PER_SECOND} writes/s", arguments.tail_seconds);
    let mut lines = lines(&format!("{what}, write"), written);
    lines.extend(lines_of_delivery(&what, delivered));
    Ok(lines)
}

/// Sends each write when it is due, whether or not those before it were answered.
async fn write_steadily(watchers: &Arc<Watchers>, client: &Client, writes: u64) -> Result<Vec<Sample>, String> {
    let began = Instant::now();
    let mut tasks = tokio::task::JoinSet::new();
    for number in 0..writes {
        let due = began + Duration::from_secs(1) * number as u32 / WRITES_PER_SECOND as u32;
        tokio::time::sleep_until(due.into()).await;
        let (watchers, client) = (watchers.clone(), client.clone());
        tasks.spawn(async move { watchers.create(&client, number).await });
    }
    let mut samples = Vec::new();
    while let Some(sample) = tasks.join_next().await {
        samples.push(sample.map_err(|error| error.to_string())??);
    }
    Ok(samples)
}

fn lines_of_delivery(what: &str, samples: Vec<Sample>) -> Vec<Line> {
    lines(&format!("{what}, delivery to {WATCHERS} watchers"), samples)
}

/// Percentiles of all samples, and the p99 of the best, the middle and the worst window.
fn lines(name: &str, samples: Vec<Sample>) -> Vec<Line> {
    let sorted = |mut latencies: Vec<Duration>| {
        latencies.sort_unstable();
        latencies
    };
    let mut windows: Vec<Vec<Duration>> = Vec::new();
    for (sent, latency) in &samples {
        let window = (sent.as_nanos() / WINDOW.as_nanos()) as usize;
        windows.resize(windows.len().max(window + 1), Vec::new());
        windows[window].push(*latency);
    }
    let of_windows = windows.into_iter().filter(|window| !window.is_empty());
    let of_windows = sorted(of_windows.map(|window| load::at(&sorted(window), 0.99)).collect());
    let all = sorted(samples.into_iter().map(|(_, latency)| latency).collect());
    let percentiles =
        |latencies: &[Duration], parts: &[f64]| parts.iter().map(|part| load::at(latencies, *part)).collect();
    vec![
        Line::new(format!("{name}: p50, p99, p99.9"), Figure::Latency(percentiles(&all, &[0.5, 0.99, 0.999]))),
        Line::new(
            format!("{name}: p99 of the best, median and worst {} s", WINDOW.as_secs()),
            Figure::Latency(percentiles(&of_windows, &[0.0, 0.5, 1.0])),
        ),
    ]
}
