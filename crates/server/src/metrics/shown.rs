//! [`Shown`]: which metrics and label values `/metrics` shows (`--disabled-metrics`, `--allow-metric-labels`).

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};

/// Replaces label values that are not allowed.
const UNEXPECTED: &str = "unexpected";
const UNEXPECTED_TOTAL: &str = "cardinality_enforcement_unexpected_categorizations_total";

/// Settings that narrow what is shown. Without any, the text is sent as it was written.
#[derive(Debug, Default)]
pub struct Shown {
    disabled: BTreeSet<String>,
    /// (metric, label) → the values that are shown as they are.
    allowed: BTreeMap<(String, String), BTreeSet<String>>,
    /// How many series had a value replaced so far.
    unexpected: AtomicU64,
}

impl Shown {
    pub fn disable(&mut self, metric: &str) {
        self.disabled.insert(metric.to_string());
    }

    /// Takes `metric,label` and the allowed values, separated by commas.
    pub fn allow(&mut self, key: &str, values: &str) -> Result<(), String> {
        let (metric, label) = key.split_once(',').ok_or_else(|| format!("{key:?} is not of the form metric,label"))?;
        if [metric, label].iter().any(|name| name.trim().is_empty()) || label.contains(',') {
            return Err(format!("{key:?} is not of the form metric,label"));
        }
        let values = values.split(',').map(|value| value.trim().to_string()).collect();
        self.allowed.insert((metric.trim().to_string(), label.trim().to_string()), values);
        Ok(())
    }

    /// The metrics as they are shown.
    pub(super) fn filter(&self, text: String) -> String {
        let filtered = if self.disabled.is_empty() && self.allowed.is_empty() { text } else { self.rewrite(&text) };
        let total = self.unexpected.load(Ordering::Relaxed);
        format!(
            "{filtered}# HELP {UNEXPECTED_TOTAL} Series whose label values were replaced because they are not allowed.\n\
             # TYPE {UNEXPECTED_TOTAL} counter\n{UNEXPECTED_TOTAL} {total}\n"
        )
    }

    fn rewrite(&self, text: &str) -> String {
        let mut lines: Vec<MetricLine> = Vec::new();
        // Series whose labels become equal are summed; this is where each of them is in the output.
        let mut known: HashMap<String, usize> = HashMap::new();
        let mut replaced = 0;
        let mut family = "";
        for line in text.lines() {
            if let Some(comment) = line.strip_prefix("# ") {
                family = comment.split(' ').nth(1).unwrap_or("");
                if !self.disabled.contains(family) {
                    lines.push(MetricLine::Text(line.to_string()));
                }
                continue;
            }
            if self.disabled.contains(family) {
                continue;
            }
            let Some((series, value)) = line.rsplit_once(' ') else { continue };
            let shown = self.relabel(family, series);
            replaced += u64::from(shown.contains(UNEXPECTED) && shown != series);
            let value: f64 = value.parse().unwrap_or(f64::NAN);
            match known.get(&shown).and_then(|at| lines.get_mut(*at)) {
                Some(MetricLine::Series(_, sum)) => *sum += value,
                _ => {
                    known.insert(shown.clone(), lines.len());
                    lines.push(MetricLine::Series(shown, value));
                }
            }
        }
        self.unexpected.fetch_max(replaced, Ordering::Relaxed);
        lines.into_iter().map(MetricLine::write).collect()
    }

    /// `name{label="value",…}` with values replaced that are not allowed.
    fn relabel(&self, family: &str, series: &str) -> String {
        let Some((name, labels)) = series.split_once('{') else { return series.to_string() };
        let mut out = String::from(name);
        let mut separator = '{';
        for (label, value) in pairs(labels) {
            let allowed = self.allowed.get(&(family.to_string(), label.to_string()));
            let value = if allowed.is_some_and(|values| !values.contains(value)) { UNEXPECTED } else { value };
            out.push(separator);
            out.push_str(&format!("{label}=\"{value}\""));
            separator = ',';
        }
        if separator == ',' {
            out.push('}');
        }
        out
    }
}

enum MetricLine {
    Text(String),
    Series(String, f64),
}

impl MetricLine {
    fn write(self) -> String {
        match self {
            MetricLine::Text(text) => format!("{text}\n"),
            MetricLine::Series(series, value) => format!("{series} {}\n", metrics::number(value)),
        }
    }
}

/// The labels of a series: `a="b",c="d"}`. Quotes inside of values are escaped.
fn pairs(mut text: &str) -> Vec<(&str, &str)> {
    let mut found = Vec::new();
    while let Some((label, rest)) = text.split_once("=\"") {
        let mut escaped = false;
        let end = rest.char_indices().find(|(_, c)| {
            let ends = *c == '"' && !escaped;
            escaped = *c == '\\' && !escaped;
            ends
        });
        let Some((end, _)) = end else { break };
        found.push((label.trim_start_matches(','), &rest[..end]));
        text = &rest[end + 1..];
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# HELP a_total Things.\n# TYPE a_total counter\na_total{code=\"200\",verb=\"GET\"} 2\n\
                        a_total{code=\"404\",verb=\"GET\"} 3\na_total{code=\"201\",verb=\"GET\"} 1\n\
                        # HELP b Seconds.\n# TYPE b histogram\nb_bucket{verb=\"GET\",le=\"1\"} 1\n\
                        b_bucket{verb=\"PUT\",le=\"1\"} 2\nb_sum{verb=\"GET\"} 0.5\nb_sum{verb=\"PUT\"} 0.25\n# HELP c Bytes.\n# TYPE c gauge\nc{} 7\n";

    #[test]
    fn labels_and_metrics_are_narrowed() {
        let check = |disabled: &[&str], allowed: &[(&str, &str)], want: &[&str], unexpected: u64| {
            let mut shown = Shown::default();
            disabled.iter().for_each(|name| shown.disable(name));
            allowed.iter().for_each(|(key, values)| shown.allow(key, values).unwrap());
            let text = shown.filter(TEXT.to_string());
            let series: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
            assert_eq!(series[..series.len() - 1], *want);
            assert_eq!(series.last(), Some(&format!("{UNEXPECTED_TOTAL} {unexpected}").as_str()));
        };
        let all: Vec<&str> = TEXT.lines().filter(|line| !line.starts_with('#')).collect();
        check(&[], &[], &all, 0);
        check(&["b"], &[], &[all[0], all[1], all[2], "c 7"], 0);
        let narrowed = [
            "a_total{code=\"unexpected\",verb=\"GET\"} 5",
            "a_total{code=\"201\",verb=\"GET\"} 1",
            "b_bucket{verb=\"unexpected\",le=\"1\"} 3",
            "b_sum{verb=\"unexpected\"} 0.75",
            "c 7",
        ];
        check(&[], &[("a_total,code", "201,500"), ("b,verb", "POST")], &narrowed, 6);
        assert!(Shown::default().allow("a_total", "x").is_err());
    }
}
