//! The history of what is stored: its flags, where it is, and how it is served.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use ::history::{Archive, Exceptions, Options, RecordedStore, Recorder};
use authz::Permitted;
use clap::{Arg, ArgMatches};
use object::GroupVersionKind;
use registry::{Catalog, Subresource};
use rest::{Api, Body, Call, Reply};
use server::{Metrics, Paths, metric_head};
use storage::Store;

use crate::StartError;
use crate::store::{OpenedStore, StoreConfig, resources_of_keys};

/// The directory of the files, beside the store.
const DIRECTORY: &str = "history";
/// `--history-size`, if it is not given.
const BYTES: u64 = 10 << 30;
/// Less would be deleted before it can be read.
const BYTES_MIN: u64 = 16 << 20;
const AGE_MAX: Duration = Duration::from_secs(100 * 365 * 86_400);

/// What history is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HistoryConfig {
    /// `--history`: how long changes are kept.
    pub age: Duration,
    /// `--history-size`: how many bytes the files may have.
    pub bytes: u64,
    /// `--history-exceptions`: resources that are kept for another time.
    pub exceptions: Exceptions,
}

/// The flags of a history.
pub(crate) fn arguments() -> [Arg; 3] {
    let argument = |name: &'static str, value: &'static str, help: &'static str| {
        Arg::new(name).long(name).value_name(value).help(help).help_heading("ferrokube")
    };
    [
        argument(
            "history",
            "DURATION",
            "Keep every change of every object for this long, such as 7d or 12h, with who made it and when, so that the past \
             can be read and brought back [default: 0, which keeps none]",
        ),
        argument(
            "history-size",
            "BYTES",
            "How many bytes the files of the history may have, such as 10GiB; the oldest changes are deleted first \
             [default: 10GiB]",
        ),
        argument(
            "history-exceptions",
            "RESOURCE=DURATION,...",
            "Resources whose changes are kept for a shorter time, or with 0 not at all, such as leases=0,events=1h",
        ),
    ]
}

/// Reads the flags; None if no history is kept.
pub(crate) fn read(matches: &ArgMatches) -> Result<Option<HistoryConfig>, String> {
    let given = |name: &str| matches.get_one::<String>(name).map(String::as_str);
    let wrong = |name: &str, why: String| format!("--{name}: {why}");
    let age = given("history").map_or(Ok(Duration::ZERO), age).map_err(|why| wrong("history", why))?;
    let bytes = given("history-size").map_or(Ok(BYTES), bytes).map_err(|why| wrong("history-size", why))?;
    let exceptions = exceptions(given("history-exceptions").unwrap_or_default());
    let exceptions = exceptions.map_err(|why| wrong("history-exceptions", why))?;
    let is_alone = given("history-size").or(given("history-exceptions")).is_some();
    match age.is_zero() {
        true if is_alone => Err("--history-size and --history-exceptions need --history".into()),
        true => Ok(None),
        false => Ok(Some(HistoryConfig { age, bytes, exceptions })),
    }
}

/// A duration as Go has them, or a number of days: `7d`.
fn age(text: &str) -> Result<Duration, String> {
    let wrong = || format!("{} is no duration such as 7d, 12h or 30m", object::quote(text));
    let age = match text.strip_suffix('d').and_then(|days| days.parse::<u64>().ok()) {
        Some(days) => Duration::from_secs(days.checked_mul(86_400).ok_or_else(wrong)?),
        None => {
            let parsed = object::duration::Duration::parse(text).map_err(|_| wrong())?;
            Duration::from_nanos(u64::try_from(parsed.0).map_err(|_| wrong())?)
        }
    };
    if age > AGE_MAX { Err(wrong()) } else { Ok(age) }
}

/// A number of bytes, with a unit such as MiB or G.
fn bytes(text: &str) -> Result<u64, String> {
    let wrong = || format!("{} is no number of bytes such as 10GiB, and at least 16MiB", object::quote(text));
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let unit: u64 = match text.get(digits..).unwrap_or_default() {
        "" | "B" => 1,
        "K" | "Ki" | "KiB" => 1 << 10,
        "M" | "Mi" | "MiB" => 1 << 20,
        "G" | "Gi" | "GiB" => 1 << 30,
        "T" | "Ti" | "TiB" => 1 << 40,
        _ => return Err(wrong()),
    };
    let number: u64 = text.get(..digits).unwrap_or_default().parse().map_err(|_| wrong())?;
    number.checked_mul(unit).filter(|bytes| *bytes >= BYTES_MIN && *bytes < 1 << 60).ok_or_else(wrong)
}

fn exceptions(text: &str) -> Result<Exceptions, String> {
    let mut exceptions = Exceptions::default();
    for item in text.split(',').filter(|item| !item.is_empty()) {
        let (resource, text) = item
            .split_once('=')
            .filter(|(resource, _)| !resource.is_empty())
            .ok_or_else(|| format!("{} is not as leases=0 or events=1h", object::quote(item)))?;
        exceptions.set(resource, age(text)?);
    }
    Ok(exceptions)
}

impl HistoryConfig {
    /// Begins to record the changes of a store; returns the store to use in its place.
    pub(crate) async fn open(
        &self,
        config: &StoreConfig,
        data_dir: &Path,
        below: Arc<dyn Store>,
    ) -> Result<(Arc<Recorder>, Arc<RecordedStore>), StartError> {
        if !config.etcd_overrides.is_empty() {
            // Each etcd counts revisions for itself, and a history has one sequence.
            return Err(StartError::Setting("--history cannot be used with --etcd-servers-overrides".into()));
        }
        let options = Options {
            age: self.age,
            bytes: self.bytes,
            exceptions: self.exceptions.clone(),
            resource_of: resources_of_keys(&config.prefix()),
            ..Options::at(directory(data_dir))
        };
        let opened = tokio::task::spawn_blocking(move || Archive::open(options)).await;
        let archive = opened.map_err(|error| StartError::Store(error.to_string()))?;
        Ok(Recorder::start(below, archive.map_err(|error| StartError::Store(error.to_string()))?))
    }
}

/// Where a data directory keeps its history.
pub fn directory(data_dir: &Path) -> PathBuf {
    data_dir.join(DIRECTORY)
}

/// Shows how large and how old the history is.
pub(crate) fn contribute(metrics: &Metrics, recorder: Arc<Recorder>) {
    metrics.contribute(move |out| write(&recorder, out).expect("writing to a string cannot fail"));
}

fn write(recorder: &Recorder, out: &mut String) -> std::fmt::Result {
    let status = recorder.archive().status();
    let (failures, gaps) = recorder.counts();
    let is_recording = u64::from(recorder.failing().is_none());
    let whole = |number: Option<i64>| number.and_then(|number| u64::try_from(number).ok()).unwrap_or(0);
    for (name, kind, help, value) in [
        ("bytes", "gauge", "Bytes of the history's files.", status.bytes),
        ("raw_bytes", "gauge", "Bytes of the recorded changes before they were compressed.", status.raw_bytes),
        ("changes", "gauge", "Recorded changes.", status.changes),
        ("files", "gauge", "Files of the history.", status.files as u64),
        ("begin_seconds", "gauge", "Since when every change is recorded.", whole(status.begun) / 1000),
        ("recorded_revision", "gauge", "The revision up to which everything is recorded.", whole(status.recorded)),
        ("recording", "gauge", "Whether changes can be recorded.", is_recording),
        ("failures_total", "counter", "How often recording has failed.", failures),
        ("gaps_total", "counter", "How often the store had forgotten changes before they were recorded.", gaps),
    ] {
        let name = ["ferrokube_history_", name].concat();
        metric_head(out, &name, kind, help)?;
        writeln!(out, "{name} {value}")?;
    }
    let name = "ferrokube_history_busy_seconds_total";
    metric_head(out, name, "counter", "How long recording and looking after the files took.")?;
    writeln!(out, "{name} {}", recorder.busy().as_secs_f64())?;
    Ok(())
}

/// The path for the changes of all kinds, if a history is kept.
pub(crate) fn paths(api: &Arc<Api>) -> Option<Arc<dyn Paths>> {
    api.history.as_ref().map(|_| Arc::new(Changes(api.clone())) as Arc<dyn Paths>)
}

struct Changes(Arc<Api>);

#[async_trait::async_trait]
impl Paths for Changes {
    async fn answer(&self, call: &Permitted<Call>, _: &mut Body) -> Option<Reply> {
        if call.info.path != rest::CHANGES_PATH || call.method != http::Method::GET {
            return None;
        }
        Some(rest::changes_of_everything(&self.0, call).await)
    }

    fn listed(&self) -> Vec<String> {
        vec![rest::CHANGES_PATH.into()]
    }
}

/// Serves the history, if one is kept: each stored resource has a subresource for it.
pub(crate) fn serve(catalog: &mut Catalog, opened: &OpenedStore) {
    if opened.history.is_none() {
        return;
    }
    catalog.keep_history(Subresource {
        name: "history".into(),
        kind: GroupVersionKind::new("history.ferrokube.io", "v1alpha1", "ChangeList"),
        verbs: vec!["create".into(), "get".into()],
        action: None,
        connect: None,
        form: None,
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_are_read_or_refused() {
        let read = |flags: &[&str]| {
            let command = clap::Command::new("x").args(arguments());
            read(&command.try_get_matches_from(std::iter::once(&"x").chain(flags)).unwrap())
        };
        let kept = |age: u64, bytes: u64, except: &[(&str, u64)]| {
            let mut exceptions = Exceptions::default();
            except.iter().for_each(|(name, age)| exceptions.set(name, Duration::from_secs(*age)));
            Some(HistoryConfig { age: Duration::from_secs(age), bytes, exceptions })
        };
        for (flags, want) in [
            (&[][..], Ok(None)),
            (&["--history=0"], Ok(None)),
            (&["--history=7d"], Ok(kept(604_800, 10 << 30, &[]))),
            (&["--history=90m", "--history-size=1GiB"], Ok(kept(5400, 1 << 30, &[]))),
            (
                &["--history=1h", "--history-size=20000000", "--history-exceptions=leases=0,events=1h"],
                Ok(kept(3600, 20_000_000, &[("leases", 0), ("events", 3600)])),
            ),
            (&["--history=-1h"], Err("--history: \"-1h\" is no duration such as 7d, 12h or 30m")),
            (&["--history=d"], Err("--history: \"d\" is no duration such as 7d, 12h or 30m")),
            (
                &["--history=99999999999999999999d"],
                Err("--history: \"99999999999999999999d\" is no duration such as 7d, 12h or 30m"),
            ),
            (
                &["--history=1d", "--history-size=1k"],
                Err("--history-size: \"1k\" is no number of bytes such as 10GiB, and at least 16MiB"),
            ),
            (
                &["--history=1d", "--history-size=1M"],
                Err("--history-size: \"1M\" is no number of bytes such as 10GiB, and at least 16MiB"),
            ),
            (
                &["--history=1d", "--history-size=99999999999T"],
                Err("--history-size: \"99999999999T\" is no number of bytes such as 10GiB, and at least 16MiB"),
            ),
            (
                &["--history=1d", "--history-exceptions=leases"],
                Err("--history-exceptions: \"leases\" is not as leases=0 or events=1h"),
            ),
            (&["--history-size=1GiB"], Err("--history-size and --history-exceptions need --history")),
        ] {
            assert_eq!(read(flags), want.map_err(str::to_string), "{flags:?}");
        }
    }
}
