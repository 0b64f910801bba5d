//! What the server's parts contribute to `/metrics`: the store's latencies and watch events.

use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use rest::{Api, SIZE_BOUNDS};
use server::{Metrics, metric_head};

use crate::metered::{Timing, Timings};

/// Lets the metrics show what the API and the store know.
pub fn contribute(metrics: &Metrics, api: &Arc<Api>, timings: Arc<Timings>) {
    let weak = Arc::downgrade(api);
    metrics.contribute(move |out| {
        if let Some(api) = weak.upgrade() {
            let written = stores(&api, &timings, out).and_then(|()| watches(&api, out));
            written.expect("writing to a string cannot fail");
        }
    });
}

fn stores(api: &Api, timings: &Timings, out: &mut String) -> std::fmt::Result {
    let catalog = api.catalog.load();
    let mut names: Vec<(String, String)> = Vec::new();
    for storage in catalog.resources().filter_map(|resource| resource.storage.as_ref()) {
        let labels = format!("group=\"{}\",resource=\"{}\"", storage.resource.group, storage.resource.resource);
        names.push((storage.prefix.clone(), labels));
    }
    let labels_of = |part: &str, operation: &str| {
        let (_, labels) = names.iter().find(|(prefix, _)| prefix == part)?;
        let (group, resource) = labels.split_once(',')?;
        Some(format!("{group},operation=\"{operation}\",{resource}"))
    };
    let name = "etcd_request_duration_seconds";
    metric_head(out, name, "histogram", "Time the store takes, by operation and resource.")?;
    let mut result = Ok(());
    timings.each(|operation, part, timing| {
        if let Some(labels) = labels_of(part, operation) {
            result = result.and_then(|()| timing.seconds.write(name, &labels, out));
        }
    });
    result?;
    let mut family = |name: &str, help: &str, count: fn(&Timing) -> u64| {
        metric_head(out, name, "counter", help)?;
        let mut result = Ok(());
        timings.each(|operation, part, timing| {
            let count = count(timing);
            if let Some(labels) = labels_of(part, operation).filter(|_| count > 0) {
                result = result.and_then(|()| writeln!(out, "{name}{{{labels}}} {count}"));
            }
        });
        result
    };
    family("etcd_requests_total", "Operations the store was asked for.", |timing| {
        timing.requests.load(Ordering::Relaxed)
    })?;
    family("etcd_request_errors_total", "Operations the store failed to carry out.", |timing| {
        timing.errors.load(Ordering::Relaxed)
    })
}

fn watches(api: &Api, out: &mut String) -> std::fmt::Result {
    let mut totals = String::new();
    let mut sizes = String::new();
    api.meters.each(|resource, meter| {
        let labels =
            format!("group=\"{}\",resource=\"{}\",version=\"{}\"", resource.group, resource.resource, resource.version);
        let (counts, bytes) = meter.read();
        let mut sum = 0;
        for (at, count) in counts.iter().enumerate() {
            sum += count;
            let bound = SIZE_BOUNDS.get(at).map_or("+Inf".to_string(), ToString::to_string);
            sizes.push_str(&format!("apiserver_watch_events_sizes_bucket{{{labels},le=\"{bound}\"}} {sum}\n"));
        }
        sizes.push_str(&format!("apiserver_watch_events_sizes_sum{{{labels}}} {bytes}\n"));
        sizes.push_str(&format!("apiserver_watch_events_sizes_count{{{labels}}} {sum}\n"));
        totals.push_str(&format!("apiserver_watch_events_total{{{labels}}} {sum}\n"));
    });
    metric_head(out, "apiserver_watch_events_sizes", "histogram", "Bytes of an event as it is sent.")?;
    out.push_str(&sizes);
    metric_head(out, "apiserver_watch_events_total", "counter", "Events sent to watchers.")?;
    out.push_str(&totals);
    Ok(())
}
