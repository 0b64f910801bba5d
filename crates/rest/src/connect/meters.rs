//! [`StreamMeters`]: how often streams were asked for, under upstream's names.

use metrics::{Counter, Family};

pub struct StreamMeters {
    translated: Family<Counter>,
    tunneled: Family<Counter>,
    routed: Family<Counter>,
    logs: Family<Counter>,
    log_tls_failures: Counter,
}

impl Default for StreamMeters {
    fn default() -> StreamMeters {
        StreamMeters {
            translated: Family::new(
                "apiserver_stream_translator_requests_total",
                "Requests for exec and attach whose WebSocket was translated to SPDY.",
                &["code"],
                Counter::default,
            ),
            tunneled: Family::new(
                "apiserver_stream_tunnel_requests_total",
                "Requests for port-forward whose SPDY was taken out of a WebSocket.",
                &["code"],
                Counter::default,
            ),
            routed: Family::new(
                "apiserver_websocket_streaming_requests_total",
                "Requests for exec, attach and port-forward, and whether the kubelet gets them as they are.",
                &["subresource", "proxy_type"],
                Counter::default,
            ),
            logs: Family::new(
                "kube_apiserver_pod_logs_insecure_backend_total",
                "Requests for logs, and whether the kubelet's certificate is verified.",
                &["usage"],
                Counter::default,
            ),
            log_tls_failures: Counter::default(),
        }
    }
}

impl StreamMeters {
    pub(super) fn translated(&self, code: u16) {
        self.translated.with(&[&code.to_string()]).increment();
    }

    pub(super) fn tunneled(&self, code: u16) {
        self.tunneled.with(&[&code.to_string()]).increment();
    }

    pub(super) fn routed(&self, subresource: &str, to_kubelet: bool) {
        let kind = if to_kubelet { "proxied_to_kubelet" } else { "translated_at_apiserver" };
        self.routed.with(&[subresource, kind]).increment();
    }

    pub(super) fn log_asked(&self, unverified: bool) {
        self.logs.with(&[if unverified { "skip_tls_allowed" } else { "enforce_tls" }]).increment();
    }

    pub(super) fn log_tls_failed(&self) {
        self.log_tls_failures.increment();
    }

    pub fn write(&self, out: &mut String) -> std::fmt::Result {
        use std::fmt::Write;
        for family in [&self.translated, &self.tunneled, &self.routed, &self.logs] {
            family.write(out)?;
        }
        let name = "kube_apiserver_pod_logs_backend_tls_failure_total";
        metrics::head(out, name, "counter", "Requests for logs that failed at the kubelet's certificate.")?;
        writeln!(out, "{name} {}", self.log_tls_failures.value())
    }
}
