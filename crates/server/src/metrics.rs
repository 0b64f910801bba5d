//! `/metrics`: counts and durations under upstream's names, in the Prometheus text format.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use request::RequestInfo;

/// The buckets of request durations, in seconds, as upstream has them.
const DURATION_BUCKETS: [f64; 14] = [0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 5.0, 60.0];
/// Requests for resources nobody serves are counted together, so that clients cannot make series up.
const UNKNOWN: &str = "unknown";

/// Everything that is counted.
#[derive(Default)]
pub struct Metrics {
    requests: Mutex<BTreeMap<Labels, Series>>,
    inflight_read: AtomicI64,
    inflight_write: AtomicI64,
    panics: AtomicU64,
    /// Lines others contribute: store sizes, cache budgets.
    extra: Mutex<Vec<Box<dyn Fn(&mut String) + Send + Sync>>>,
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Labels {
    verb: String,
    group: String,
    version: String,
    resource: String,
    subresource: String,
    scope: &'static str,
    code: u16,
}

#[derive(Default)]
struct Series {
    count: u64,
    seconds: f64,
    buckets: [u64; DURATION_BUCKETS.len()],
}

impl Metrics {
    /// Counts a request that is over. `known` tells whether its resource exists.
    pub fn record(&self, info: &RequestInfo, known: bool, code: u16, took: Duration) {
        let known = |text: &str| if known { text.to_string() } else { UNKNOWN.to_string() };
        let labels = Labels {
            verb: info.verb.as_str().to_uppercase(),
            group: known(&info.group),
            version: known(&info.version),
            resource: known(&info.resource),
            subresource: known(&info.subresource),
            scope: scope_of(info),
            code,
        };
        let mut requests = self.requests.lock();
        let series = requests.entry(labels).or_default();
        let seconds = took.as_secs_f64();
        series.count += 1;
        series.seconds += seconds;
        for (bucket, limit) in series.buckets.iter_mut().zip(DURATION_BUCKETS) {
            *bucket += u64::from(seconds <= limit);
        }
    }

    /// Counts a request that is under way until the guard is dropped.
    pub fn begin(&self, info: &RequestInfo) -> InFlight<'_> {
        let gauge = if info.verb.is_read() { &self.inflight_read } else { &self.inflight_write };
        gauge.fetch_add(1, Ordering::Relaxed);
        InFlight(gauge)
    }

    pub fn panicked(&self) {
        self.panics.fetch_add(1, Ordering::Relaxed);
    }

    /// Lets somebody else add lines.
    pub fn contribute(&self, write: impl Fn(&mut String) + Send + Sync + 'static) {
        self.extra.lock().push(Box::new(write));
    }

    pub fn render(&self) -> String {
        let mut out = String::with_capacity(16 * 1024);
        self.render_requests(&mut out).expect("writing to a string cannot fail");
        for contribute in self.extra.lock().iter() {
            contribute(&mut out);
        }
        out
    }

    fn render_requests(&self, out: &mut String) -> std::fmt::Result {
        let requests = self.requests.lock();
        writeln!(out, "# HELP apiserver_request_total Requests by verb, group, version, resource, scope and code.")?;
        writeln!(out, "# TYPE apiserver_request_total counter")?;
        for (labels, series) in requests.iter() {
            let (text, code) = (labels.text(), labels.code);
            writeln!(out, "apiserver_request_total{{code=\"{code}\",dry_run=\"\",{text}}} {}", series.count)?;
        }
        writeln!(out, "# HELP apiserver_request_duration_seconds Time from a request's arrival to its answer.")?;
        writeln!(out, "# TYPE apiserver_request_duration_seconds histogram")?;
        for (labels, series) in requests.iter() {
            let text = labels.text();
            for (bucket, limit) in series.buckets.iter().zip(DURATION_BUCKETS) {
                writeln!(
                    out,
                    "apiserver_request_duration_seconds_bucket{{dry_run=\"\",{text},le=\"{limit}\"}} {bucket}"
                )?;
            }
            writeln!(
                out,
                "apiserver_request_duration_seconds_bucket{{dry_run=\"\",{text},le=\"+Inf\"}} {}",
                series.count
            )?;
            writeln!(out, "apiserver_request_duration_seconds_sum{{dry_run=\"\",{text}}} {}", series.seconds)?;
            writeln!(out, "apiserver_request_duration_seconds_count{{dry_run=\"\",{text}}} {}", series.count)?;
        }
        writeln!(out, "# HELP apiserver_current_inflight_requests Requests under way.")?;
        writeln!(out, "# TYPE apiserver_current_inflight_requests gauge")?;
        for (kind, gauge) in [("mutating", &self.inflight_write), ("readOnly", &self.inflight_read)] {
            let value = gauge.load(Ordering::Relaxed);
            writeln!(out, "apiserver_current_inflight_requests{{request_kind=\"{kind}\"}} {value}")?;
        }
        writeln!(out, "# HELP apiserver_panics_total Requests that ended in a panic.")?;
        writeln!(out, "# TYPE apiserver_panics_total counter")?;
        writeln!(out, "apiserver_panics_total {}", self.panics.load(Ordering::Relaxed))
    }
}

impl Labels {
    fn text(&self) -> String {
        format!(
            "group=\"{}\",resource=\"{}\",scope=\"{}\",subresource=\"{}\",verb=\"{}\",version=\"{}\"",
            self.group, self.resource, self.scope, self.subresource, self.verb, self.version
        )
    }
}

fn scope_of(info: &RequestInfo) -> &'static str {
    match (info.is_resource, info.name.is_empty(), info.namespace.is_empty()) {
        (false, ..) => "",
        (true, false, _) => "resource",
        (true, true, false) => "namespace",
        (true, true, true) => "cluster",
    }
}

/// A request under way.
pub struct InFlight<'a>(&'a AtomicI64);

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
