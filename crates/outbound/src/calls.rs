//! [`CallMeters`]: calls of webhooks, under the names of client-go's metrics.

use std::fmt;

use metrics::{Counter, Family, Histogram};
use tokio::time::Instant;

const SECONDS: &[f64] = &[0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0];
const BYTES: &[f64] =
    &[64.0, 256.0, 512.0, 1024.0, 4096.0, 16384.0, 65536.0, 262144.0, 1048576.0, 4194304.0, 16777216.0];
const WHERE: &[&str] = &["verb", "host"];
/// The code of a call without a response, as client-go has it.
const NO_CODE: &str = "<error>";

/// Counts calls by the host that is called.
pub struct CallMeters {
    requests: Family<Counter>,
    seconds: Family<Histogram>,
    request_bytes: Family<Histogram>,
    response_bytes: Family<Histogram>,
}

impl Default for CallMeters {
    fn default() -> CallMeters {
        let sizes: fn() -> Histogram = || Histogram::new(BYTES);
        CallMeters {
            requests: Family::new(
                "rest_client_requests_total",
                "[ALPHA] Number of HTTP requests, partitioned by status code, method, and host.",
                &["code", "method", "host"],
                Counter::default,
            ),
            seconds: Family::new(
                "rest_client_request_duration_seconds",
                "[ALPHA] Request latency in seconds. Broken down by verb, and host.",
                WHERE,
                || Histogram::new(SECONDS),
            ),
            request_bytes: Family::new(
                "rest_client_request_size_bytes",
                "[ALPHA] Request size in bytes. Broken down by verb and host.",
                WHERE,
                sizes,
            ),
            response_bytes: Family::new(
                "rest_client_response_size_bytes",
                "[ALPHA] Response size in bytes. Broken down by verb and host.",
                WHERE,
                sizes,
            ),
        }
    }
}

impl CallMeters {
    /// Notes a POST of so many bytes, and that it got a response with this code, or none.
    pub(crate) fn posted(&self, host: &str, bytes: usize, began: Instant, code: Option<u16>) {
        let code = code.map_or_else(|| NO_CODE.to_string(), |code| code.to_string());
        self.requests.with(&[&code, "POST", host]).increment();
        self.seconds.with(&["POST", host]).observe(began.elapsed().as_secs_f64());
        self.request_bytes.with(&["POST", host]).observe(bytes as f64);
    }

    /// Notes that its response has so many bytes.
    pub(crate) fn received(&self, host: &str, bytes: usize) {
        self.response_bytes.with(&["POST", host]).observe(bytes as f64);
    }

    pub fn write(&self, out: &mut String) -> fmt::Result {
        self.requests.write(out)?;
        self.seconds.write(out)?;
        self.request_bytes.write(out)?;
        self.response_bytes.write(out)
    }
}
