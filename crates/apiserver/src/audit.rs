//! The `--audit-*` flags, and the audit log they ask for.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use ::audit::{
    Auditor, Backend, BatchOptions, EventSink, LogFormat, LogOptions, Mode, Policy, Truncation, WebhookOptions,
};
use async_trait::async_trait;
use object::Clock;
use outbound::{Client, Egress, Kubeconfig};

use crate::flags::{Given, Row, rows};
use crate::reload::{self, Outcome, Reload};

/// The flags that [`AuditConfig`] takes.
pub(crate) const FLAGS: &[Row] = rows! { audit = &mut config.audit, |config, given|
    "audit-policy-file" => audit.policy_file = given.path(),
    "audit-log-path" => audit.log_path = given.path(),
    "audit-log-format" => audit.format = log_format(given)?,
    "audit-log-maxsize" => audit.max_megabytes = not_negative("audit-log-maxsize", given.last())?,
    "audit-log-maxage" => audit.max_age_days = not_negative("audit-log-maxage", given.last())?,
    "audit-log-maxbackup" => audit.max_backups = not_negative("audit-log-maxbackup", given.last())? as usize,
    "audit-log-compress" => audit.compress = given.boolean()?,
    "audit-log-batch-buffer-size" => audit.log.batch.buffer = positive("batch log buffer size", given)?,
    "audit-log-batch-max-size" => audit.log.batch.max_size = positive("batch log max batch size", given)?,
    "audit-log-batch-max-wait" => audit.log.batch.max_wait = given.span()?,
    "audit-log-batch-throttle-burst" => audit.log.set_burst("log", given)?,
    "audit-log-batch-throttle-enable" => audit.log.throttle = given.boolean()?,
    "audit-log-batch-throttle-qps" => audit.log.set_rate("log", given)?,
    "audit-log-mode" => audit.log.mode = mode("log", given)?,
    "audit-log-truncate-enabled" => audit.log.truncate = given.boolean()?,
    "audit-log-truncate-max-batch-size" => {
        audit.log.truncation.max_batch_bytes = positive("truncate log max batch size", given)?
    },
    "audit-log-truncate-max-event-size" => {
        audit.log.truncation.max_event_bytes = positive("truncate log max event size", given)?
    },
    "audit-log-version" => check_version(given)?,
    "audit-webhook-config-file" => audit.webhook_file = given.path(),
    "audit-webhook-batch-initial-backoff" => audit.initial_backoff = given.span()?,
    "audit-webhook-initial-backoff" => audit.initial_backoff = given.span()?,
    "audit-webhook-batch-buffer-size" => audit.webhook.batch.buffer = positive("batch webhook buffer size", given)?,
    "audit-webhook-batch-max-size" => audit.webhook.batch.max_size = positive("batch webhook max batch size", given)?,
    "audit-webhook-batch-max-wait" => audit.webhook.batch.max_wait = given.span()?,
    "audit-webhook-batch-throttle-burst" => audit.webhook.set_burst("webhook", given)?,
    "audit-webhook-batch-throttle-enable" => audit.webhook.throttle = given.boolean()?,
    "audit-webhook-batch-throttle-qps" => audit.webhook.set_rate("webhook", given)?,
    "audit-webhook-mode" => audit.webhook.mode = mode("webhook", given)?,
    "audit-webhook-truncate-enabled" => audit.webhook.truncate = given.boolean()?,
    "audit-webhook-truncate-max-batch-size" => {
        audit.webhook.truncation.max_batch_bytes = positive("truncate webhook max batch size", given)?
    },
    "audit-webhook-truncate-max-event-size" => {
        audit.webhook.truncation.max_event_bytes = positive("truncate webhook max event size", given)?
    },
    "audit-webhook-version" => check_version(given)?,
};

/// How many events a second are sent, and how many at once, where that is limited and no flag says otherwise.
const THROTTLE: (f64, u32) = (10.0, 15);

/// Settings that both backends have.
#[derive(Clone, Debug)]
struct Delivery {
    mode: Mode,
    batch: BatchOptions,
    throttle: bool,
    truncate: bool,
    truncation: Truncation,
}

/// The audit log that was asked for, with kube-apiserver's defaults.
#[derive(Clone, Debug)]
pub struct AuditConfig {
    pub policy_file: Option<PathBuf>,
    pub log_path: Option<PathBuf>,
    format: LogFormat,
    max_megabytes: u64,
    max_age_days: u64,
    max_backups: usize,
    compress: bool,
    log: Delivery,
    webhook_file: Option<PathBuf>,
    initial_backoff: Duration,
    webhook: Delivery,
}

impl Default for AuditConfig {
    fn default() -> AuditConfig {
        let truncation = Truncation { max_event_bytes: 100 << 10, max_batch_bytes: 10 << 20 };
        let batch = |max_size, max_wait| BatchOptions { buffer: 10_000, max_size, max_wait, throttle: Some(THROTTLE) };
        AuditConfig {
            policy_file: None,
            log_path: None,
            format: LogFormat::Json,
            max_megabytes: 100,
            max_age_days: 366,
            max_backups: 100,
            compress: false,
            log: Delivery {
                mode: Mode::Blocking,
                batch: batch(1, Duration::ZERO),
                throttle: false,
                truncate: false,
                truncation,
            },
            webhook_file: None,
            initial_backoff: Duration::from_secs(10),
            webhook: Delivery {
                mode: Mode::Batch,
                batch: batch(400, Duration::from_secs(30)),
                throttle: true,
                truncate: false,
                truncation,
            },
        }
    }
}

impl AuditConfig {
    /// Records everything that a policy says in one file and one that came before it, unless flags say otherwise.
    pub fn record(&mut self, log: &Path, policy: PathBuf, megabytes_max: u32) {
        self.log_path.get_or_insert_with(|| log.to_path_buf());
        self.policy_file.get_or_insert(policy);
        (self.max_megabytes, self.max_backups) = (megabytes_max.into(), 1);
    }

    /// Whether the sizes of each backend go together.
    pub(crate) fn check(&self) -> Result<(), String> {
        for (plugin, is_used, delivery) in
            [("log", self.log_path.is_some(), &self.log), ("webhook", self.webhook_file.is_some(), &self.webhook)]
        {
            let Truncation { max_event_bytes, max_batch_bytes } = delivery.truncation;
            if is_used && delivery.truncate && max_batch_bytes < max_event_bytes {
                return Err(format!(
                    "invalid audit truncate {plugin} max batch size {max_batch_bytes}, must be greater than max event size \
                     ({max_event_bytes})"
                ));
            }
        }
        Ok(())
    }

    /// Opens the audit log; None if no backend or no policy is configured, as upstream has it. What the program adds needs no
    /// policy: it gets the metadata of every request.
    pub fn open(
        &self,
        egress: &Egress,
        sinks: &[Arc<dyn EventSink>],
        clock: &Arc<dyn Clock>,
    ) -> Result<Option<Arc<Auditor>>, String> {
        let (policy, text) = match &self.policy_file {
            Some(policy_file) => read_policy(policy_file)?,
            None => {
                if self.log_path.is_some() || self.webhook_file.is_some() {
                    tracing::warn!("no audit policy file was given: no events are recorded");
                }
                if sinks.is_empty() {
                    return Ok(None);
                }
                (Policy::metadata(), Vec::new())
            }
        };
        let backends = self.backends(egress, sinks)?;
        if backends.is_empty() {
            return Ok(None);
        }
        let auditor = Arc::new(Auditor::new(policy, backends, clock.clone()));
        if let Some(path) = self.policy_file.clone() {
            let target = PolicyFile { path: path.clone(), auditor: Arc::downgrade(&auditor) };
            tokio::spawn(reload::run(path, text, target));
        }
        Ok(Some(auditor))
    }

    /// The sinks of the program and, with a policy, those of the flags.
    fn backends(&self, egress: &Egress, sinks: &[Arc<dyn EventSink>]) -> Result<Vec<Backend>, String> {
        let numbers = Arc::default();
        let sink = |sink: &Arc<dyn EventSink>| Backend::sink(sink.clone(), self.webhook.batch(), Arc::clone(&numbers));
        let mut backends: Vec<Backend> = sinks.iter().map(sink).collect();
        if self.policy_file.is_none() {
            return Ok(backends);
        }
        if let Some(path) = &self.log_path {
            let backend = Backend::log(self.log_options(path), Arc::clone(&numbers));
            backends.push(backend.map_err(|error| format!("ensureLogFile: {error}"))?);
        }
        if let Some(file) = &self.webhook_file {
            let read = |why: &dyn std::fmt::Display| format!("initializing audit webhook: {why}");
            let (url, options) =
                Kubeconfig::read(file).and_then(|config| config.current()).map_err(|why| read(&why))?;
            let client = Client::new(&egress.of_control_plane(options)).map_err(|why| read(&why))?;
            let options = WebhookOptions {
                client,
                url,
                mode: self.webhook.mode,
                initial_backoff: self.initial_backoff,
                batch: self.webhook.batch(),
                truncation: self.webhook.truncation(),
            };
            backends.push(Backend::webhook(options, numbers));
        }
        Ok(backends)
    }

    fn log_options(&self, path: &Path) -> LogOptions {
        LogOptions {
            path: path.to_owned(),
            format: self.format,
            max_megabytes: self.max_megabytes,
            max_age_days: self.max_age_days,
            max_backups: self.max_backups,
            compress: self.compress,
            mode: self.log.mode,
            batch: self.log.batch(),
            truncation: self.log.truncation(),
        }
    }
}

impl Delivery {
    /// Sets how many events a second are sent, on average.
    fn set_rate(&mut self, plugin: &str, given: Given<'_>) -> Result<(), String> {
        let (_, burst) = self.batch.throttle.unwrap_or(THROTTLE);
        match given.last().parse::<f64>() {
            Ok(rate) if rate > 0.0 => self.batch.throttle = Some((rate, burst)),
            _ => {
                let rate = given.last();
                return Err(format!("invalid audit batch {plugin} throttle QPS {rate}, must be a positive number"));
            }
        }
        Ok(())
    }

    /// Sets how many events may be sent at once.
    fn set_burst(&mut self, plugin: &str, given: Given<'_>) -> Result<(), String> {
        let (rate, _) = self.batch.throttle.unwrap_or(THROTTLE);
        let burst = positive(&format!("batch {plugin} throttle burst"), given)?;
        self.batch.throttle = Some((rate, u32::try_from(burst).unwrap_or(u32::MAX)));
        Ok(())
    }
    fn batch(&self) -> BatchOptions {
        BatchOptions { throttle: self.batch.throttle.filter(|_| self.throttle), ..self.batch }
    }

    fn truncation(&self) -> Option<Truncation> {
        self.truncate.then_some(self.truncation)
    }
}

fn log_format(given: Given<'_>) -> Result<LogFormat, String> {
    match given.last() {
        "json" => Ok(LogFormat::Json),
        "legacy" => Ok(LogFormat::Legacy),
        other => Err(format!("invalid audit log format {other}, allowed formats are \"legacy,json\"")),
    }
}

fn mode(plugin: &str, given: Given<'_>) -> Result<Mode, String> {
    Mode::parse(given.last()).ok_or_else(|| {
        let names = Mode::NAMES.map(|(name, _)| name).join(",");
        format!("invalid audit {plugin} mode {}, allowed modes are \"{names}\"", given.last())
    })
}

fn check_version(given: Given<'_>) -> Result<(), String> {
    match given.last() {
        "audit.k8s.io/v1" => Ok(()),
        _ => Err("invalid group version, allowed versions are [\"audit.k8s.io/v1\"]".to_string()),
    }
}

fn positive(what: &str, given: Given<'_>) -> Result<usize, String> {
    match given.last().parse::<usize>() {
        Ok(number) if number > 0 => Ok(number),
        _ => Err(format!("invalid audit {what} {}, must be a positive number", given.last())),
    }
}

fn not_negative(name: &str, text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("--{name} {text} can't be a negative number"))
}

/// The policy in a file, and the file's contents.
fn read_policy(path: &Path) -> Result<(Policy, Vec<u8>), String> {
    let text = std::fs::read(path).map_err(|error| {
        let (quoted, why) = (object::quote(&path.display().to_string()), outbound::in_gos_words(&error));
        format!("loading audit policy file: failed to read file path {quoted}: open {}: {why}", path.display())
    })?;
    let policy = Policy::read(&text)
        .map_err(|error| format!("loading audit policy file: {error}: from file {}", path.display()))?;
    Ok((policy, text))
}

/// Takes over a policy file that has changed. One that cannot be used is reported, and the old policy stays.
struct PolicyFile {
    path: PathBuf,
    auditor: std::sync::Weak<Auditor>,
}

#[async_trait]
impl Reload for PolicyFile {
    async fn reload(&mut self, contents: Result<&[u8], &std::io::Error>) -> Outcome {
        let path = self.path.display();
        let text = match contents {
            Ok(text) => text,
            Err(error) => {
                tracing::error!(%path, %error, "the audit policy cannot be read");
                return Outcome::Again;
            }
        };
        match (Policy::read(text), self.auditor.upgrade()) {
            (Ok(policy), Some(auditor)) => {
                auditor.set_policy(policy);
                tracing::info!(%path, "the audit policy was reloaded");
            }
            (Ok(_), None) => {}
            (Err(error), _) => tracing::error!(%path, %error, "the changed audit policy is not used"),
        }
        Outcome::Settled
    }

    fn is_over(&self) -> bool {
        self.auditor.strong_count() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flags::set;

    #[test]
    fn flags() {
        let mut config = crate::Config::default();
        let mut apply = |name: &str, value: &str| set(&mut config, name, Given(&[value.to_string()]));
        for (name, value) in [
            ("audit-log-mode", "blocking-strict"),
            ("audit-log-maxsize", "7"),
            ("audit-webhook-batch-throttle-qps", "2.5"),
            ("audit-webhook-truncate-enabled", "true"),
            ("audit-log-version", "audit.k8s.io/v1"),
        ] {
            apply(name, value).unwrap();
        }
        for (name, value, want) in [
            ("audit-log-mode", "x", "invalid audit log mode x, allowed modes are \"batch,blocking,blocking-strict\""),
            ("audit-log-format", "x", "invalid audit log format x, allowed formats are \"legacy,json\""),
            ("audit-log-maxage", "-1", "--audit-log-maxage -1 can't be a negative number"),
            (
                "audit-webhook-batch-buffer-size",
                "0",
                "invalid audit batch webhook buffer size 0, must be a positive number",
            ),
        ] {
            assert_eq!(apply(name, value).unwrap_err(), want);
        }
        let config = config.audit;
        assert_eq!((config.log.mode, config.max_megabytes), (Mode::BlockingStrict, 7));
        assert_eq!(config.webhook.batch().throttle, Some((2.5, 15)));
        assert!(config.webhook.truncation().is_some() && config.log.truncation().is_none());
        assert_eq!(config.log.batch().throttle, None);
    }
}
