//! Requests: how many, how long, how large, by what they asked for.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::hash::{Hash, Hasher};
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use hashbrown::{Equivalent, HashMap};
use http::HeaderMap;
use metrics::Histogram;
use parking_lot::{Mutex, RwLock};
use request::{RequestInfo, Verb};

/// Upstream's buckets.
const SECONDS: &[f64] = &[
    0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 15.0, 20.0, 30.0,
    45.0, 60.0,
];
const RESPONSE_BYTES: &[f64] = &[1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9];
/// The bounds of request bodies are 31 steps of 100,000 from 50,000 on.
const BODY_BYTES: &[f64] = &[
    50e3, 150e3, 250e3, 350e3, 450e3, 550e3, 650e3, 750e3, 850e3, 950e3, 1050e3, 1150e3, 1250e3, 1350e3, 1450e3,
    1550e3, 1650e3, 1750e3, 1850e3, 1950e3, 2050e3, 2150e3, 2250e3, 2350e3, 2450e3, 2550e3, 2650e3, 2750e3, 2850e3,
    2950e3, 3050e3,
];

/// The labels that requests are counted by.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Labels<'a> {
    pub verb: &'static str,
    pub group: &'a str,
    pub version: &'a str,
    pub resource: &'a str,
    pub subresource: &'a str,
    pub scope: &'static str,
    pub component: &'static str,
    pub dry_run: &'static str,
}

impl<'a> Labels<'a> {
    /// The labels upstream would use. Requests that are not for resources are labelled with their path.
    pub fn of(info: &'a RequestInfo, method: &http::Method, headers: &HeaderMap, dry_run: bool) -> Labels<'a> {
        let dry_run = if dry_run { "All" } else { "" };
        if !info.is_resource {
            let verb = if *method == http::Method::GET { "GET" } else { verb_of(info, headers) };
            let subresource = non_resource(&info.path);
            return Labels {
                verb,
                group: "",
                version: "",
                resource: "",
                subresource,
                scope: "",
                component: "",
                dry_run,
            };
        }
        let scope = match (info.name.is_empty() && info.verb != Verb::Create, info.namespace.is_empty()) {
            (false, _) => "resource",
            (true, false) => "namespace",
            (true, true) => "cluster",
        };
        Labels {
            verb: verb_of(info, headers),
            group: &info.group,
            version: &info.version,
            resource: &info.resource,
            subresource: &info.subresource,
            scope,
            component: "apiserver",
            dry_run,
        }
    }

    fn text(&self, with_dry_run: bool) -> String {
        let dry_run = if with_dry_run { format!("dry_run=\"{}\",", self.dry_run) } else { String::new() };
        format!("component=\"{}\",{dry_run}{}", self.component, self.asked_for())
    }

    fn asked_for(&self) -> String {
        format!(
            "group=\"{}\",resource=\"{}\",scope=\"{}\",subresource=\"{}\",verb=\"{}\",version=\"{}\"",
            self.group, self.resource, self.scope, self.subresource, self.verb, self.version
        )
    }
}

/// The first part of a path, so that clients cannot make up series.
fn non_resource(path: &str) -> &str {
    const KNOWN: [&str; 9] =
        ["/healthz", "/livez", "/readyz", "/metrics", "/version", "/openapi/v2", "/openapi/v3", "/apis", "/api"];
    KNOWN.into_iter().find(|known| path.starts_with(known)).unwrap_or("/")
}

fn verb_of(info: &RequestInfo, headers: &HeaderMap) -> &'static str {
    let connects = matches!(info.subresource.as_str(), "log" | "exec" | "attach" | "portforward" | "proxy");
    if info.is_resource && connects {
        return "CONNECT";
    }
    match info.verb {
        Verb::Get | Verb::Head => "GET",
        Verb::List => "LIST",
        Verb::Watch => "WATCH",
        Verb::Create | Verb::Post => "POST",
        Verb::Update | Verb::Put => "PUT",
        Verb::Patch => {
            let apply =
                headers.get(http::header::CONTENT_TYPE).is_some_and(|kind| kind == "application/apply-patch+yaml");
            if apply { "APPLY" } else { "PATCH" }
        }
        Verb::Delete => "DELETE",
        Verb::DeleteCollection => "DELETECOLLECTION",
        Verb::Proxy => "CONNECT",
        Verb::Options | Verb::Connect | Verb::Trace | Verb::Unknown => "other",
    }
}

#[derive(PartialEq, Eq)]
struct Owned {
    verb: &'static str,
    names: [String; 4],
    scope: &'static str,
    component: &'static str,
    dry_run: &'static str,
}

impl Owned {
    fn of(labels: &Labels<'_>) -> Owned {
        let names = [labels.group, labels.version, labels.resource, labels.subresource].map(str::to_string);
        let Labels { verb, scope, component, dry_run, .. } = *labels;
        Owned { verb, names, scope, component, dry_run }
    }

    fn labels(&self) -> Labels<'_> {
        let [group, version, resource, subresource] = self.names.each_ref().map(String::as_str);
        let (verb, scope, component, dry_run) = (self.verb, self.scope, self.component, self.dry_run);
        Labels { verb, group, version, resource, subresource, scope, component, dry_run }
    }
}

impl Hash for Owned {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.labels().hash(state);
    }
}

/// Lookups borrow: a request that was seen before costs no allocation to count.
impl Equivalent<Owned> for Labels<'_> {
    fn equivalent(&self, key: &Owned) -> bool {
        *self == key.labels()
    }
}

/// All requests with the same labels.
pub struct Series {
    codes: Mutex<Vec<(u16, u64)>>,
    seconds: Histogram,
    shared: Arc<SharedSeries>,
    /// The release that removes the API, "" if that is not decided; unset if the API is not deprecated.
    removed_release: OnceLock<String>,
}

/// Histograms and the gauge that do not tell dry runs from other requests.
struct SharedSeries {
    /// Durations for `apiserver_request_sli_duration_seconds`: without long-running requests and the shortest buckets.
    promised: Histogram,
    bytes: Histogram,
    /// How many long-running requests are open.
    open: AtomicI64,
    /// How many answers were broken off.
    aborted: AtomicU64,
}

impl Default for SharedSeries {
    fn default() -> SharedSeries {
        SharedSeries {
            promised: Histogram::new(&SECONDS[2..]),
            bytes: Histogram::new(RESPONSE_BYTES),
            open: AtomicI64::new(0),
            aborted: AtomicU64::new(0),
        }
    }
}

impl Series {
    /// Counts a request when its response has been sent.
    pub fn record(&self, code: u16, took: Duration, bytes: u64, long_running: bool) {
        let mut codes = self.codes.lock();
        match codes.iter_mut().find(|(known, _)| *known == code) {
            Some((_, count)) => *count += 1,
            None => codes.push((code, 1)),
        }
        drop(codes);
        self.seconds.observe(took.as_secs_f64());
        self.shared.bytes.observe(bytes as f64);
        if !long_running {
            self.shared.promised.observe(took.as_secs_f64());
        }
    }

    /// The release that removes the API, "" if that is not decided; None if the API is not deprecated.
    pub fn removed_release(&self) -> Option<&str> {
        self.removed_release.get().map(String::as_str)
    }

    /// Notes that the API is deprecated.
    pub fn deprecated(&self, removed_release: &str) {
        self.removed_release.get_or_init(|| removed_release.to_string());
    }

    pub fn aborted(&self) {
        self.shared.aborted.fetch_add(1, Ordering::Relaxed);
    }

    pub fn opened(&self) {
        self.shared.open.fetch_add(1, Ordering::Relaxed);
    }

    pub fn closed(&self) {
        self.shared.open.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The requests of a verb.
#[derive(Clone, Debug, Default)]
pub struct VerbTotal {
    pub codes: BTreeMap<u16, u64>,
    /// How many long-running ones are open.
    pub open: i64,
    /// How many took up to each bound, and above all.
    pub buckets: Vec<u64>,
}

/// All requests by verb.
#[derive(Clone, Debug)]
pub struct RequestTotals {
    /// The bounds of the buckets, in seconds.
    pub bounds: &'static [f64],
    pub verbs: BTreeMap<&'static str, VerbTotal>,
}

#[derive(Default)]
pub struct Requests {
    series: RwLock<HashMap<Owned, Arc<Series>>>,
    bodies: RwLock<HashMap<(String, String, &'static str), Arc<Histogram>>>,
    terminated: AtomicU64,
}

impl Requests {
    pub fn series(&self, labels: &Labels<'_>) -> Arc<Series> {
        if let Some(series) = self.series.read().get(labels) {
            return series.clone();
        }
        let other = Labels { dry_run: if labels.dry_run.is_empty() { "All" } else { "" }, ..*labels };
        let mut all = self.series.write();
        let shared = all.get(&other).map(|series| series.shared.clone()).unwrap_or_default();
        let (codes, seconds, removed_release) = (Mutex::default(), Histogram::new(SECONDS), OnceLock::new());
        let series = || Arc::new(Series { codes, seconds, shared, removed_release });
        all.entry(Owned::of(labels)).or_insert_with(series).clone()
    }

    /// How many requests there were of each verb, how they ended, and how long they took.
    pub fn totals(&self) -> RequestTotals {
        let mut verbs: BTreeMap<&'static str, VerbTotal> = BTreeMap::new();
        for (key, series) in self.series.read().iter() {
            let total = verbs.entry(key.verb).or_default();
            for (code, count) in series.codes.lock().iter() {
                *total.codes.entry(*code).or_default() += count;
            }
            if key.dry_run.is_empty() {
                total.open += series.shared.open.load(Ordering::Relaxed);
            }
            let counts = series.seconds.counts();
            total.buckets.resize(counts.len(), 0);
            total.buckets.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
        }
        RequestTotals { bounds: SECONDS, verbs }
    }

    /// Counts the size of a body that was read.
    pub fn body(&self, info: &RequestInfo, bytes: u64) {
        let key = (info.group.clone(), info.resource.clone(), info.verb.as_str());
        let known = self.bodies.read().get(&key).cloned();
        let sizes = known.unwrap_or_else(|| {
            self.bodies.write().entry(key).or_insert_with(|| Arc::new(Histogram::new(BODY_BYTES))).clone()
        });
        sizes.observe(bytes as f64);
    }

    /// Counts a request the server ended by itself: too many, or too slow.
    pub fn terminated(&self) {
        self.terminated.fetch_add(1, Ordering::Relaxed);
    }

    pub fn write(&self, out: &mut String) -> std::fmt::Result {
        let series = self.series.read();
        let mut sorted: Vec<(Labels<'_>, &Arc<Series>)> = series.iter().map(|(key, one)| (key.labels(), one)).collect();
        sorted.sort_by_key(|(l, _)| (l.group, l.version, l.resource, l.subresource, l.verb, l.scope, l.dry_run));
        super::head(out, "apiserver_request_total", "counter", "Requests by what they asked for and how they ended.")?;
        for (labels, one) in &sorted {
            let text = labels.text(true);
            for (code, count) in one.codes.lock().iter() {
                writeln!(out, "apiserver_request_total{{code=\"{code}\",{text}}} {count}")?;
            }
        }
        let name = "apiserver_request_duration_seconds";
        super::head(out, name, "histogram", "Time from a request's arrival to the end of its answer.")?;
        for (labels, one) in &sorted {
            one.seconds.write(name, &labels.text(true), out)?;
        }
        sorted.dedup_by(|(_, one), (_, before)| Arc::ptr_eq(&one.shared, &before.shared));
        let name = "apiserver_request_sli_duration_seconds";
        super::head(out, name, "histogram", "Time that requests take which are not long-running.")?;
        for (labels, one) in sorted.iter().filter(|(_, one)| one.shared.promised.count() > 0) {
            one.shared.promised.write(name, &labels.text(false), out)?;
        }
        let name = "apiserver_response_sizes";
        super::head(out, name, "histogram", "Bytes of an answer's body.")?;
        for (labels, one) in &sorted {
            one.shared.bytes.write(name, &labels.text(false), out)?;
        }
        let name = "apiserver_longrunning_requests";
        super::head(out, name, "gauge", "Long-running requests under way.")?;
        for (labels, one) in &sorted {
            let open = one.shared.open.load(Ordering::Relaxed);
            if open > 0 {
                writeln!(out, "{name}{{{}}} {open}", labels.text(false))?;
            }
        }
        write_aborted(&sorted, out)?;
        write_deprecated(&sorted, out)?;
        let name = "apiserver_request_body_size_bytes";
        super::head(out, name, "histogram", "Bytes of a request's body.")?;
        for ((group, resource, verb), sizes) in self.bodies.read().iter() {
            sizes.write(name, &format!("group=\"{group}\",resource=\"{resource}\",verb=\"{verb}\""), out)?;
        }
        let name = "apiserver_request_terminations_total";
        super::head(out, name, "counter", "Requests the server ended in self-defence.")?;
        writeln!(out, "{name}{{component=\"apiserver\"}} {}", self.terminated.load(Ordering::Relaxed))
    }
}

/// Nothing if no answer was broken off.
fn write_aborted(sorted: &[(Labels<'_>, &Arc<Series>)], out: &mut String) -> std::fmt::Result {
    let name = "apiserver_request_aborts_total";
    let aborted = |series: &Series| series.shared.aborted.load(Ordering::Relaxed);
    let mut lines = sorted.iter().filter(|(_, one)| aborted(one) > 0).peekable();
    if lines.peek().is_some() {
        super::head(
            out,
            name,
            "counter",
            "Requests whose answers were broken off, because their time was over or what they read failed.",
        )?;
    }
    for (labels, one) in lines {
        writeln!(out, "{name}{{{}}} {}", labels.asked_for(), aborted(one))?;
    }
    Ok(())
}

fn write_deprecated(series: &[(Labels<'_>, &Arc<Series>)], out: &mut String) -> std::fmt::Result {
    let name = "apiserver_requested_deprecated_apis";
    super::head(out, name, "gauge", "What is on its way out and was asked for.")?;
    let asked = series.iter().filter_map(|(labels, one)| Some((labels, one.removed_release.get()?)));
    let lines: BTreeSet<String> = asked
        .map(|(l, removed)| {
            format!(
                "{name}{{group=\"{}\",removed_release=\"{removed}\",resource=\"{}\",subresource=\"{}\",version=\"{}\"}} 1",
                l.group, l.resource, l.subresource, l.version
            )
        })
        .collect();
    lines.iter().try_for_each(|line| writeln!(out, "{line}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_counted_under_upstreams_labels() {
        let requests = Requests::default();
        let record = |method: &str, path: &str, code| {
            let info = RequestInfo::parse(method, path, &[]);
            let method = http::Method::from_bytes(method.as_bytes()).unwrap();
            let dry_run = path.ends_with("/dry");
            let series = requests.series(&Labels::of(&info, &method, &HeaderMap::new(), dry_run));
            series.record(code, Duration::from_millis(3), 10, info.is_long_running());
        };
        record("GET", "/api/v1/namespaces/x/pods", 200);
        record("GET", "/api/v1/namespaces/x/pods", 200);
        record("GET", "/api/v1/namespaces/x/pods/p", 404);
        record("POST", "/apis/apps/v1/namespaces/x/deployments", 201);
        record("GET", "/healthz/ping", 200);
        record("PUT", "/api/v1/namespaces/x/pods/real", 200);
        record("PUT", "/api/v1/namespaces/x/pods/dry", 200);
        for path in ["/api/v1/namespaces/x/endpoints", "/api/v1/namespaces/x/endpoints/e"] {
            record("GET", path, 200);
            let info = RequestInfo::parse("GET", path, &[]);
            requests.series(&Labels::of(&info, &http::Method::GET, &HeaderMap::new(), false)).deprecated("1.40");
        }
        let mut out = String::new();
        requests.write(&mut out).unwrap();
        for want in [
            r#"apiserver_request_total{code="200",component="apiserver",dry_run="",group="",resource="pods",scope="namespace",subresource="",verb="LIST",version="v1"} 2"#,
            r#"apiserver_request_total{code="404",component="apiserver",dry_run="",group="",resource="pods",scope="resource",subresource="",verb="GET",version="v1"} 1"#,
            r#"apiserver_request_total{code="201",component="apiserver",dry_run="",group="apps",resource="deployments",scope="resource",subresource="",verb="POST",version="v1"} 1"#,
            r#"apiserver_request_total{code="200",component="",dry_run="",group="",resource="",scope="",subresource="/healthz",verb="GET",version=""} 1"#,
            r#"apiserver_request_duration_seconds_bucket{component="apiserver",dry_run="",group="",resource="pods",scope="namespace",subresource="",verb="LIST",version="v1",le="0.005"} 2"#,
            r#"apiserver_response_sizes_count{component="apiserver",group="",resource="pods",scope="namespace",subresource="",verb="LIST",version="v1"} 2"#,
            r#"apiserver_request_duration_seconds_count{component="apiserver",dry_run="All",group="",resource="pods",scope="resource",subresource="",verb="PUT",version="v1"} 1"#,
            r#"apiserver_response_sizes_count{component="apiserver",group="",resource="pods",scope="resource",subresource="",verb="PUT",version="v1"} 2"#,
            r#"apiserver_request_sli_duration_seconds_bucket{component="apiserver",group="",resource="pods",scope="resource",subresource="",verb="PUT",version="v1",le="0.05"} 2"#,
            r#"apiserver_requested_deprecated_apis{group="",removed_release="1.40",resource="endpoints",subresource="",version="v1"} 1"#,
        ] {
            assert_eq!(out.lines().filter(|line| *line == want).count(), 1, "{want}\n{out}");
        }
        let mut series: Vec<&str> = out.lines().filter_map(|line| Some(line.rsplit_once(' ')?.0)).collect();
        series.sort_unstable();
        let all = series.len();
        series.dedup();
        assert_eq!(series.len(), all, "a series may be there only once");
    }
}
