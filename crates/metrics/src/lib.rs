//! Counters, gauges and histograms in the Prometheus text format, for every crate that counts something.
//!
//! A crate keeps its metrics in a struct of [`Family`]s and writes them with a function that the server's `/metrics`
//! handler calls.

mod family;
mod histogram;

use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};

pub use family::{Family, SERIES_MAX};
pub use histogram::{Histogram, number};

/// A value that one series of a family holds.
pub trait Metric {
    /// The type as Prometheus names it.
    const TYPE: &'static str;

    /// Whether there is something to show. A series that was made ahead of its first observation is not shown before it.
    fn is_shown(&self) -> bool {
        true
    }

    /// Writes the lines of one series; `labels` is `a="b",c="d"`.
    fn write(&self, name: &str, labels: &str, out: &mut String) -> std::fmt::Result;
}

/// A number that only grows.
#[derive(Default)]
pub struct Counter(AtomicU64);

impl Counter {
    pub fn increment(&self) {
        self.add(1);
    }

    pub fn add(&self, count: u64) {
        self.0.fetch_add(count, Ordering::Relaxed);
    }

    pub fn value(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Metric for Counter {
    const TYPE: &'static str = "counter";

    fn write(&self, name: &str, labels: &str, out: &mut String) -> std::fmt::Result {
        write_sample(name, labels, self.value() as f64, out)
    }
}

/// A number that goes up and down.
#[derive(Default)]
pub struct Gauge(AtomicU64);

impl Gauge {
    pub fn set(&self, value: f64) {
        self.0.store(value.to_bits(), Ordering::Relaxed);
    }

    pub fn add(&self, value: f64) {
        let sum = |bits| Some((f64::from_bits(bits) + value).to_bits());
        let _ = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, sum);
    }

    pub fn value(&self) -> f64 {
        f64::from_bits(self.0.load(Ordering::Relaxed))
    }
}

impl Metric for Gauge {
    const TYPE: &'static str = "gauge";

    fn write(&self, name: &str, labels: &str, out: &mut String) -> std::fmt::Result {
        write_sample(name, labels, self.value(), out)
    }
}

impl Metric for Histogram {
    const TYPE: &'static str = "histogram";

    fn is_shown(&self) -> bool {
        self.count() > 0
    }

    fn write(&self, name: &str, labels: &str, out: &mut String) -> std::fmt::Result {
        Histogram::write(self, name, labels, out)
    }
}

fn write_sample(name: &str, labels: &str, value: f64, out: &mut String) -> std::fmt::Result {
    match labels {
        "" => writeln!(out, "{name} {}", number(value)),
        _ => writeln!(out, "{name}{{{labels}}} {}", number(value)),
    }
}

/// Writes the HELP and TYPE lines that introduce a metric.
pub fn head(out: &mut String, name: &str, kind: &str, help: &str) -> std::fmt::Result {
    writeln!(out, "# HELP {name} {help}")?;
    writeln!(out, "# TYPE {name} {kind}")
}
