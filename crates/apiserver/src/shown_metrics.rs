//! `--allow-metric-labels`, `--allow-metric-labels-manifest`, `--disabled-metrics` and `--show-hidden-metrics-for-version`.

use std::path::PathBuf;

use registry::Release;
use server::Shown;

use crate::flags::{Row, rows};

/// The flags that [`ShownMetrics`] takes.
pub(crate) const FLAGS: &[Row] = rows! { shown = &mut config.metrics, |config, given|
    "allow-metric-labels" => {
        for item in given.0.iter().flat_map(|text| records(text)) {
            let (key, values) =
                item.split_once('=').ok_or_else(|| format!("{item} must be formatted as key=value"))?;
            shown.allowed.push((key.to_string(), values.to_string()));
        }
    },
    "allow-metric-labels-manifest" => shown.manifest = given.path(),
    "disabled-metrics" => shown.disabled = given.list().collect(),
    // No metric is hidden here, so that the version only has to be one that upstream takes.
    "show-hidden-metrics-for-version" => check_version(given.last())?,
};

/// Which metrics are shown, and with which values of their labels.
#[derive(Clone, Debug, Default)]
pub struct ShownMetrics {
    disabled: Vec<String>,
    /// `metric,label` and the allowed values, separated by commas.
    allowed: Vec<(String, String)>,
    manifest: Option<PathBuf>,
}

impl ShownMetrics {
    /// The filter of `/metrics`. A manifest is read now.
    pub(crate) fn open(&self) -> Result<Shown, String> {
        let mut shown = Shown::default();
        self.disabled.iter().for_each(|metric| shown.disable(metric));
        let wrong = |why: String| format!("--allow-metric-labels: {why}");
        for (key, values) in &self.allowed {
            shown.allow(key, values).map_err(wrong)?;
        }
        if let Some(path) = &self.manifest {
            let wrong = |why: String| format!("--allow-metric-labels-manifest {}: {why}", path.display());
            let bytes = std::fs::read(path).map_err(|error| wrong(error.to_string()))?;
            let manifest = codec::yaml::decode(&bytes, None, &mut codec::Notes::ignore());
            let manifest = manifest.map_err(|error| wrong(error.to_string()))?;
            for (key, values) in manifest.as_map().into_iter().flat_map(|map| map.iter()) {
                shown.allow(key, values.as_str().unwrap_or("")).map_err(wrong)?;
            }
        }
        Ok(shown)
    }
}

/// The records of a line of comma-separated values; those in quotes may have commas.
fn records(text: &str) -> Vec<String> {
    let mut found = vec![String::new()];
    let mut quoted = false;
    for c in text.chars() {
        match c {
            '"' => quoted = !quoted,
            ',' if !quoted => found.push(String::new()),
            c => {
                if let Some(last) = found.last_mut() {
                    last.push(c);
                }
            }
        }
    }
    found.retain(|record| !record.is_empty());
    found
}

fn check_version(text: &str) -> Result<(), String> {
    let previous = Release::CURRENT.previous();
    if text.is_empty() || Release::parse(text) == Some(previous) {
        return Ok(());
    }
    let why = format!("must be omitted or have the value '{previous}'; only the previous minor version is allowed");
    Err(format!("metrics.showHiddenMetricsForVersion: Invalid value: {}: {why}", object::quote(text)))
}

#[cfg(test)]
mod tests {
    use crate::flags::{Given, set};

    #[test]
    fn flags_are_read() {
        let check = |name: &str, value: &str, want: Result<&[(&str, &str)], ()>| {
            let mut config = crate::Config::default();
            let values = [value.to_string()];
            let result = set(&mut config, name, Given(&values)).and_then(|_| config.metrics.open().map(drop));
            let got: Vec<(&str, &str)> = config.metrics.allowed.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
            assert_eq!(result.map(|()| got.as_slice()).map_err(drop), want, "--{name}={value}");
        };
        let two = r#""a,code=201,500","b,verb=GET""#;
        check("allow-metric-labels", two, Ok(&[("a,code", "201,500"), ("b,verb", "GET")]));
        check("allow-metric-labels", "a", Err(()));
        check("allow-metric-labels", "a=1", Err(()));
        check("disabled-metrics", "a,b", Ok(&[]));
        check("allow-metric-labels-manifest", "/no/such/file", Err(()));
        check("show-hidden-metrics-for-version", "1.36", Ok(&[]));
        check("show-hidden-metrics-for-version", "1.30", Err(()));
    }
}
