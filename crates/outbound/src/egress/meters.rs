//! Metrics of connections through proxies, under upstream's names.

use std::fmt;
use std::time::Duration;

use metrics::{Counter, Family, Histogram};

const SECONDS: &[f64] = &[0.005, 0.025, 0.1, 0.5, 2.5, 12.5];

pub struct EgressMeters {
    starts: Family<Counter>,
    seconds: Family<Histogram>,
    failures: Family<Counter>,
}

/// At which stage a connection failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// To the proxy.
    Connect,
    /// From the proxy to where it was asked for.
    Proxy,
}

/// Protocol and transport, the labels of every metric.
pub type Kind = [&'static str; 2];

impl Default for EgressMeters {
    fn default() -> EgressMeters {
        EgressMeters {
            starts: Family::new(
                "apiserver_egress_dialer_dial_start_total",
                "[ALPHA] Dial starts, labeled by the protocol (http-connect or grpc) and transport (tcp or uds).",
                &["protocol", "transport"],
                Counter::default,
            ),
            seconds: Family::new(
                "apiserver_egress_dialer_dial_duration_seconds",
                "[ALPHA] Dial latency histogram in seconds, labeled by the protocol (http-connect or grpc), transport (tcp or uds)",
                &["protocol", "transport"],
                || Histogram::new(SECONDS),
            ),
            failures: Family::new(
                "apiserver_egress_dialer_dial_failure_count",
                "[ALPHA] Dial failure count, labeled by the protocol (http-connect or grpc), transport (tcp or uds), and \
                 stage (connect or proxy). The stage indicates at which stage the dial failed",
                &["protocol", "transport", "stage"],
                Counter::default,
            ),
        }
    }
}

impl EgressMeters {
    pub(super) fn started(&self, kind: Kind) {
        self.starts.with(&kind).increment();
    }

    pub(super) fn connected(&self, kind: Kind, took: Duration) {
        self.seconds.with(&kind).observe(took.as_secs_f64());
    }

    pub(super) fn failed(&self, [protocol, transport]: Kind, stage: Stage) {
        let stage = if stage == Stage::Connect { "connect" } else { "proxy" };
        self.failures.with(&[protocol, transport, stage]).increment();
    }

    pub fn write(&self, out: &mut String) -> fmt::Result {
        self.starts.write(out)?;
        self.seconds.write(out)?;
        self.failures.write(out)
    }
}
