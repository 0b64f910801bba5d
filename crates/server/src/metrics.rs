//! `/metrics`: what is counted, under upstream's names, in the Prometheus text format.

mod authorization;
mod filters;
mod process;
mod requests;
mod shown;

use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use registry::Catalog;
use rest::Call;

use authorization::Authorization;
pub use filters::{ChainFilter, FilterTimes};
use metrics::{Histogram, head};
pub use requests::{Labels, Requests, Series};
pub use shown::Shown;

/// All metrics of the server.
#[derive(Default)]
pub struct Metrics {
    pub requests: Requests,
    pub authorization: Authorization,
    pub filters: FilterTimes,
    panics: AtomicU64,
    handshake_errors: AtomicU64,
    refused_connections: AtomicU64,
    certificates: Certificates,
    /// Functions of other crates that write more metrics: store latencies, object counts.
    extra: Mutex<Vec<Contribution>>,
    shown: Shown,
}

type Contribution = Arc<dyn Fn(&mut String) + Send + Sync>;

impl Metrics {
    pub fn panicked(&self) {
        self.panics.fetch_add(1, Ordering::Relaxed);
    }

    /// The metrics that a request counts for; None if it asks for what is not served, so that clients cannot make up labels.
    pub fn series(&self, catalog: &Catalog, call: &Call, body_bytes: Option<u64>) -> Option<Arc<Series>> {
        let info = &call.info;
        let resource = match info.is_resource {
            true => {
                let resource = catalog.get(&info.group, &info.version, &info.resource)?;
                if !info.subresource.is_empty() {
                    resource.subresource(&info.subresource)?;
                }
                Some(resource)
            }
            false => None,
        };
        if let Some(bytes) = body_bytes.filter(|bytes| *bytes > 0) {
            self.requests.body(info, bytes);
        }
        let dry_run = call.query.iter().any(|(key, value)| key == "dryRun" && value == "All");
        let series = self.requests.series(&Labels::of(info, &call.method, &call.headers, dry_run));
        if let Some(old) = resource.and_then(|resource| resource.deprecation.as_ref()) {
            series.deprecated(&old.removed_release);
        }
        Some(series)
    }

    /// Counts a failed TLS handshake.
    pub fn handshake_failed(&self) {
        self.handshake_errors.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a connection that was closed at once because its address has too many.
    pub fn connection_refused(&self) {
        self.refused_connections.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a request with a client certificate that expires in so many seconds.
    pub fn certificate_seen(&self, seconds_left: i64) {
        self.certificates.0.observe(seconds_left as f64);
    }

    /// Adds a function that writes more metrics.
    pub fn contribute(&self, write: impl Fn(&mut String) + Send + Sync + 'static) {
        self.extra.lock().push(Arc::new(write));
    }

    pub fn render(&self, in_flight: (usize, usize)) -> String {
        let mut out = String::with_capacity(64 * 1024);
        self.write(in_flight, &mut out).expect("writing to a string cannot fail");
        let extra = self.extra.lock().clone();
        extra.iter().for_each(|contribute| contribute(&mut out));
        self.shown.filter(out)
    }

    /// Metrics of which only a part is shown.
    pub fn showing(shown: Shown) -> Metrics {
        Metrics { shown, ..Metrics::default() }
    }

    fn write(&self, (reads, writes): (usize, usize), out: &mut String) -> std::fmt::Result {
        self.requests.write(out)?;
        self.authorization.write(out)?;
        self.filters.write(out)?;
        let name = "apiserver_current_inflight_requests";
        head(out, name, "gauge", "Requests under way that are not long-running.")?;
        for (kind, count) in [("mutating", writes), ("readOnly", reads)] {
            writeln!(out, "{name}{{request_kind=\"{kind}\"}} {count}")?;
        }
        for (name, help, value) in [
            ("apiserver_panics_total", "Requests that ended in a panic.", &self.panics),
            (
                "apiserver_tls_handshake_errors_total",
                "Connections that did not get through TLS.",
                &self.handshake_errors,
            ),
            (
                "ferrokube_refused_connections_total",
                "Connections that were closed at once because their addresses had too many.",
                &self.refused_connections,
            ),
        ] {
            head(out, name, "counter", help)?;
            writeln!(out, "{name} {}", value.load(Ordering::Relaxed))?;
        }
        let name = "apiserver_client_certificate_expiration_seconds";
        head(out, name, "histogram", "How long the certificates are good for that requests come with.")?;
        self.certificates.0.write(name, "", out)?;
        process::write(out)
    }
}

struct Certificates(Histogram);

impl Default for Certificates {
    fn default() -> Certificates {
        const HOUR: f64 = 3600.0;
        const DAY: f64 = 24.0 * HOUR;
        Certificates(Histogram::new(&[
            0.0,
            HOUR / 2.0,
            HOUR,
            2.0 * HOUR,
            6.0 * HOUR,
            12.0 * HOUR,
            DAY,
            2.0 * DAY,
            4.0 * DAY,
            7.0 * DAY,
            30.0 * DAY,
            90.0 * DAY,
            180.0 * DAY,
            360.0 * DAY,
        ]))
    }
}
