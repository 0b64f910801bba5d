//! The `--audit-*` flags, and the audit log they ask for.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use ::audit::{Auditor, Backend, BatchOptions, LogFormat, LogOptions, Mode, Policy, Truncation, WebhookOptions};
use async_trait::async_trait;
use outbound::{Client, Egress, Kubeconfig};

use crate::flags::Given;
use crate::reload::{self, Outcome, Reload};

/// The flags that [`AuditConfig`] takes.
pub const FLAGS: &[&str] = &[
    "audit-log-batch-buffer-size",
    "audit-log-batch-max-size",
    "audit-log-batch-max-wait",
    "audit-log-batch-throttle-burst",
    "audit-log-batch-throttle-enable",
    "audit-log-batch-throttle-qps",
    "audit-log-compress",
    "audit-log-format",
    "audit-log-maxage",
    "audit-log-maxbackup",
    "audit-log-maxsize",
    "audit-log-mode",
    "audit-log-path",
    "audit-log-truncate-enabled",
    "audit-log-truncate-max-batch-size",
    "audit-log-truncate-max-event-size",
    "audit-log-version",
    "audit-policy-file",
    "audit-webhook-batch-buffer-size",
    "audit-webhook-batch-max-size",
    "audit-webhook-batch-max-wait",
    "audit-webhook-batch-throttle-burst",
    "audit-webhook-batch-throttle-enable",
    "audit-webhook-batch-throttle-qps",
    "audit-webhook-config-file",
    "audit-webhook-batch-initial-backoff",
    "audit-webhook-initial-backoff",
    "audit-webhook-mode",
    "audit-webhook-truncate-enabled",
    "audit-webhook-truncate-max-batch-size",
    "audit-webhook-truncate-max-event-size",
    "audit-webhook-version",
];

/// What both backends can be told.
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
        let batch =
            |max_size, max_wait| BatchOptions { buffer: 10_000, max_size, max_wait, throttle: Some((10.0, 15)) };
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
    /// Takes one of the [`FLAGS`].
    pub(crate) fn apply(&mut self, name: &str, given: Given<'_>) -> Result<(), String> {
        let last = given.last();
        match name {
            "audit-policy-file" => self.policy_file = given.path(),
            "audit-log-path" => self.log_path = given.path(),
            "audit-log-format" => {
                self.format = match last {
                    "json" => LogFormat::Json,
                    "legacy" => LogFormat::Legacy,
                    other => {
                        return Err(format!("invalid audit log format {other}, allowed formats are \"legacy,json\""));
                    }
                }
            }
            "audit-log-maxsize" => self.max_megabytes = not_negative(name, last)?,
            "audit-log-maxage" => self.max_age_days = not_negative(name, last)?,
            "audit-log-maxbackup" => self.max_backups = not_negative(name, last)? as usize,
            "audit-log-compress" => self.compress = given.boolean()?,
            "audit-webhook-config-file" => self.webhook_file = given.path(),
            "audit-webhook-batch-initial-backoff" | "audit-webhook-initial-backoff" => {
                self.initial_backoff = given.span()?
            }
            _ => match (name.strip_prefix("audit-log-"), name.strip_prefix("audit-webhook-")) {
                (Some(rest), _) => self.log.apply("log", rest, given)?,
                (_, Some(rest)) => self.webhook.apply("webhook", rest, given)?,
                _ => {}
            },
        }
        Ok(())
    }

    /// Opens the audit log; None if no backend or no policy is configured, as upstream has it.
    pub fn open(&self, egress: &Egress) -> Result<Option<Arc<Auditor>>, String> {
        let Some(policy_file) = &self.policy_file else {
            if self.log_path.is_some() || self.webhook_file.is_some() {
                tracing::warn!("no audit policy file was given: no events are recorded");
            }
            return Ok(None);
        };
        let (policy, text) = read_policy(policy_file)?;
        let numbers = Arc::default();
        let mut backends = Vec::new();
        if let Some(path) = &self.log_path {
            let backend = Backend::log(self.log_options(path), Arc::clone(&numbers));
            backends.push(backend.map_err(|error| format!("ensureLogFile: {error}"))?);
        }
        if let Some(file) = &self.webhook_file {
            let read = |why: &dyn std::fmt::Display| format!("initializing audit webhook: {why}");
            let (url, options) =
                Kubeconfig::read(file).and_then(|config| config.current()).map_err(|why| read(&why))?;
            let options = outbound::ClientOptions { dial: egress.to_control_plane(), ..options };
            let client = Client::new(&options).map_err(|why| read(&why))?;
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
        if backends.is_empty() {
            return Ok(None);
        }
        let auditor = Arc::new(Auditor::new(policy, backends));
        let target = PolicyFile { path: policy_file.clone(), auditor: Arc::downgrade(&auditor) };
        tokio::spawn(reload::follow(policy_file.clone(), text, target));
        Ok(Some(auditor))
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
    fn apply(&mut self, plugin: &str, name: &str, given: Given<'_>) -> Result<(), String> {
        let last = given.last();
        let positive = |what: &str| match last.parse::<usize>() {
            Ok(number) if number > 0 => Ok(number),
            _ => Err(format!("invalid audit {what} {last}, must be a positive number")),
        };
        let (rate, burst) = self.batch.throttle.unwrap_or((10.0, 15));
        match name {
            "mode" => {
                self.mode = Mode::parse(last).ok_or_else(|| {
                    let names = Mode::NAMES.map(|(name, _)| name).join(",");
                    format!("invalid audit {plugin} mode {last}, allowed modes are \"{names}\"")
                })?;
            }
            "batch-buffer-size" => self.batch.buffer = positive(&format!("batch {plugin} buffer size"))?,
            "batch-max-size" => self.batch.max_size = positive(&format!("batch {plugin} max batch size"))?,
            "batch-max-wait" => self.batch.max_wait = given.span()?,
            "batch-throttle-enable" => self.throttle = given.boolean()?,
            "batch-throttle-qps" => match last.parse::<f64>() {
                Ok(rate) if rate > 0.0 => self.batch.throttle = Some((rate, burst)),
                _ => {
                    return Err(format!("invalid audit batch {plugin} throttle QPS {last}, must be a positive number"));
                }
            },
            "batch-throttle-burst" => {
                let burst = positive(&format!("batch {plugin} throttle burst"))?;
                self.batch.throttle = Some((rate, u32::try_from(burst).unwrap_or(u32::MAX)));
            }
            "truncate-enabled" => self.truncate = given.boolean()?,
            "truncate-max-event-size" => {
                self.truncation.max_event_bytes = positive(&format!("truncate {plugin} max event size"))?;
            }
            "truncate-max-batch-size" => {
                self.truncation.max_batch_bytes = positive(&format!("truncate {plugin} max batch size"))?;
            }
            "version" if last != "audit.k8s.io/v1" => {
                return Err("invalid group version, allowed versions are [\"audit.k8s.io/v1\"]".to_string());
            }
            _ => {}
        }
        Ok(())
    }

    fn batch(&self) -> BatchOptions {
        BatchOptions { throttle: self.batch.throttle.filter(|_| self.throttle), ..self.batch }
    }

    fn truncation(&self) -> Option<Truncation> {
        self.truncate.then_some(self.truncation)
    }
}

fn not_negative(name: &str, text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("--{name} {text} can't be a negative number"))
}

/// The policy in a file, and the file's contents.
fn read_policy(path: &Path) -> Result<(Policy, Vec<u8>), String> {
    let text = std::fs::read(path)
        .map_err(|error| format!("loading audit policy file: failed to read file path {}: {error}", path.display()))?;
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

    #[test]
    fn flags() {
        let mut config = AuditConfig::default();
        let mut apply = |name: &str, value: &str| config.apply(name, Given(&[value.to_string()]));
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
        assert_eq!((config.log.mode, config.max_megabytes), (Mode::BlockingStrict, 7));
        assert_eq!(config.webhook.batch().throttle, Some((2.5, 15)));
        assert!(config.webhook.truncation().is_some() && config.log.truncation().is_none());
        assert_eq!(config.log.batch().throttle, None);
    }
}
