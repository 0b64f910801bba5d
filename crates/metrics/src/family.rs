//! [`Family`]: the series of one metric, told apart by the values of its labels.

use std::fmt::Write;
use std::sync::Arc;

use hashbrown::HashMap;
use parking_lot::RwLock;

use crate::{Metric, head};

/// The most series a family keeps. Further label values are counted in one series whose labels are all `other`, so that
/// clients cannot make the server's memory grow by inventing label values.
pub const SERIES_MAX: usize = 10_000;

/// All series of one metric.
pub struct Family<M> {
    name: &'static str,
    help: &'static str,
    labels: &'static [&'static str],
    make: fn() -> M,
    /// By the label part of a line, as it is printed.
    series: RwLock<HashMap<String, Arc<M>>>,
}

impl<M: Metric> Family<M> {
    pub fn new(name: &'static str, help: &'static str, labels: &'static [&'static str], make: fn() -> M) -> Family<M> {
        Family { name, help, labels, make, series: RwLock::default() }
    }

    /// The series with these label values, in the order in which the family declares its labels.
    pub fn with(&self, values: &[&str]) -> Arc<M> {
        let key = self.key(values);
        if let Some(metric) = self.series.read().get(&key) {
            return metric.clone();
        }
        let mut series = self.series.write();
        let key = if series.len() < SERIES_MAX { key } else { self.key(&vec!["other"; values.len()]) };
        series.entry(key).or_insert_with(|| Arc::new((self.make)())).clone()
    }

    /// Removes the series whose first label has this value.
    pub fn forget(&self, first: &str) {
        // Quotes in values are escaped, so this stands only where the label does.
        let pair = self.key(&[first]);
        let has_pair = |key: &str| key.match_indices(&pair).any(|(at, _)| at == 0 || key[..at].ends_with(','));
        self.series.write().retain(|key, _| !has_pair(key));
    }

    /// Writes the family, sorted by labels; nothing if it has no series.
    pub fn write(&self, out: &mut String) -> std::fmt::Result {
        let series = self.series.read();
        let mut sorted: Vec<_> = series.iter().filter(|(_, metric)| metric.is_shown()).collect();
        if sorted.is_empty() {
            return Ok(());
        }
        head(out, self.name, M::TYPE, self.help)?;
        sorted.sort_by_key(|(key, _)| *key);
        sorted.into_iter().try_for_each(|(key, metric)| metric.write(self.name, key, out))
    }

    /// Every series with its labels, sorted by them.
    pub fn each(&self, mut visit: impl FnMut(&str, &M)) {
        let series = self.series.read();
        let mut sorted: Vec<_> = series.iter().collect();
        sorted.sort_by_key(|(key, _)| *key);
        sorted.into_iter().for_each(|(key, metric)| visit(key, metric));
    }

    /// The labels as they are printed: sorted by name, as Prometheus' libraries do it.
    fn key(&self, values: &[&str]) -> String {
        let mut key = String::new();
        let mut pairs: Vec<_> = self.labels.iter().zip(values).collect();
        pairs.sort_unstable();
        for (label, value) in pairs {
            let comma = if key.is_empty() { "" } else { "," };
            // Writing to a String cannot fail.
            let _ = write!(key, "{comma}{label}=\"{}\"", Escaped(value));
        }
        key
    }
}

/// A label value with backslash, quote and newline escaped as the text format asks for.
struct Escaped<'a>(&'a str);

impl std::fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.chars().try_for_each(|c| match c {
            '\\' => f.write_str("\\\\"),
            '"' => f.write_str("\\\""),
            '\n' => f.write_str("\\n"),
            c => f.write_char(c),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Counter;

    fn family() -> Family<Counter> {
        Family::new("calls_total", "Calls.", &["who", "how"], Counter::default)
    }

    #[test]
    fn series_are_sorted_and_escaped() {
        let calls = family();
        calls.with(&["b", "x"]).increment();
        calls.with(&["a\"\\\n", "x"]).add(2);
        calls.with(&["b", "x"]).increment();
        let mut out = String::new();
        calls.write(&mut out).unwrap();
        let want = "# HELP calls_total Calls.\n# TYPE calls_total counter\n\
                    calls_total{how=\"x\",who=\"a\\\"\\\\\\n\"} 2\ncalls_total{how=\"x\",who=\"b\"} 2\n";
        assert_eq!(out, want);
    }

    #[test]
    fn a_forgotten_label_takes_its_series_along() {
        let calls = family();
        calls.with(&["a", "x"]);
        calls.with(&["ab", "x"]);
        calls.forget("a");
        let mut out = String::new();
        calls.write(&mut out).unwrap();
        assert!(!out.contains("who=\"a\"") && out.contains("who=\"ab\""), "{out}");
    }

    #[test]
    fn series_are_bounded() {
        let calls = family();
        for n in 0..SERIES_MAX + 10 {
            calls.with(&[&n.to_string(), ""]).increment();
        }
        assert_eq!(calls.with(&["other", "other"]).value(), 10);
        assert_eq!(calls.series.read().len(), SERIES_MAX + 1);
    }
}
