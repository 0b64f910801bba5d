//! A Prometheus histogram that many threads can add to at once.

use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};

/// Counts observations by size.
pub struct Histogram {
    bounds: &'static [f64],
    /// One for each bound and one for what is larger than all of them.
    buckets: Box<[AtomicU64]>,
    /// The bits of an f64.
    sum: AtomicU64,
}

impl Histogram {
    pub fn new(bounds: &'static [f64]) -> Histogram {
        let buckets = (0..=bounds.len()).map(|_| AtomicU64::new(0)).collect();
        Histogram { bounds, buckets, sum: AtomicU64::new(0f64.to_bits()) }
    }

    pub fn observe(&self, value: f64) {
        self.observe_times(value, 1);
    }

    /// The same value so many times.
    pub fn observe_times(&self, value: f64, times: u64) {
        let at = self.bounds.partition_point(|bound| *bound < value);
        self.buckets[at].fetch_add(times, Ordering::Relaxed);
        let add = |bits| Some((f64::from_bits(bits) + value * times as f64).to_bits());
        let _ = self.sum.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add);
    }

    pub fn count(&self) -> u64 {
        self.buckets.iter().map(|bucket| bucket.load(Ordering::Relaxed)).sum()
    }

    /// How many values were up to each bound and above the one before, and how many were above all.
    pub fn counts(&self) -> Vec<u64> {
        self.buckets.iter().map(|bucket| bucket.load(Ordering::Relaxed)).collect()
    }

    /// Writes the sum and the count, which is all that a summary without quantiles has.
    pub fn write_summary(&self, name: &str, labels: &str, out: &mut String) -> std::fmt::Result {
        let sum = f64::from_bits(self.sum.load(Ordering::Relaxed));
        writeln!(out, "{name}_sum{{{labels}}} {}", number(sum))?;
        writeln!(out, "{name}_count{{{labels}}} {}", self.count())
    }

    /// Writes the buckets, the sum and the count. `labels` is `a="b",c="d"`.
    pub fn write(&self, name: &str, labels: &str, out: &mut String) -> std::fmt::Result {
        let comma = if labels.is_empty() { "" } else { "," };
        let mut count = 0;
        for (at, bucket) in self.buckets.iter().enumerate() {
            count += bucket.load(Ordering::Relaxed);
            match self.bounds.get(at) {
                Some(bound) => writeln!(out, "{name}_bucket{{{labels}{comma}le=\"{}\"}} {count}", number(*bound))?,
                None => writeln!(out, "{name}_bucket{{{labels}{comma}le=\"+Inf\"}} {count}")?,
            }
        }
        let sum = f64::from_bits(self.sum.load(Ordering::Relaxed));
        writeln!(out, "{name}_sum{{{labels}}} {}", number(sum))?;
        writeln!(out, "{name}_count{{{labels}}} {count}")
    }
}

/// A number as Go prints it: from a million on with an exponent.
pub fn number(value: f64) -> String {
    if value.abs() < 1e6 {
        return value.to_string();
    }
    let text = format!("{value:e}");
    match text.split_once('e') {
        Some((digits, exponent)) if exponent.len() == 1 => format!("{digits}e+0{exponent}"),
        Some((digits, exponent)) => format!("{digits}e+{exponent}"),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_cumulative() {
        let histogram = Histogram::new(&[1.0, 1e6]);
        for value in [0.5, 1.0, 2.0, 3e6] {
            histogram.observe(value);
        }
        let mut out = String::new();
        histogram.write("x", "a=\"b\"", &mut out).unwrap();
        let want = "x_bucket{a=\"b\",le=\"1\"} 2\nx_bucket{a=\"b\",le=\"1e+06\"} 3\nx_bucket{a=\"b\",le=\"+Inf\"} 4\n\
                    x_sum{a=\"b\"} 3.0000035e+06\nx_count{a=\"b\"} 4\n";
        assert_eq!(out, want);
    }
}
