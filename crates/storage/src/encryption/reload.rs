//! The configuration file, and following its changes.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use aws_lc_rs::digest;

use super::config::{ConfigError, Configuration};
use super::rules::{Encryption, KmsOptions, Rules};
use crate::watch::AbortOnDrop;

/// Turns the file's content, YAML or JSON, into JSON.
pub type ToJson = Arc<dyn Fn(&[u8]) -> Result<Vec<u8>, String> + Send + Sync>;

/// A new configuration comes into force only when its plugins are well; they get this long at least.
const HEALTH_PATIENCE: Duration = Duration::from_secs(10);
const HEALTH_RETRY: Duration = Duration::from_millis(100);

/// The file behind rules in force.
pub struct ConfigFile {
    path: PathBuf,
    to_json: ToJson,
    /// Of the content in force. The content itself has keys in it and is not kept.
    digest: tokio::sync::Mutex<Vec<u8>>,
    encryption: Arc<Encryption>,
}

impl ConfigFile {
    /// Reads the file for the first time. `kms_v1` says whether it may name plugins of version 1.
    pub async fn load(path: impl Into<PathBuf>, to_json: ToJson, kms_v1: bool) -> Result<Self, ConfigError> {
        let path = path.into();
        let content = read(&path).await?;
        let config = parse(&path, &content, &to_json, false)?;
        let kms = KmsOptions::new(kms_v1);
        let rules = build(&config, &kms).await?;
        let encryption = Encryption::of(rules, kms);
        let digest = tokio::sync::Mutex::new(digest_of(&content));
        Ok(ConfigFile { path, to_json, digest, encryption: Arc::new(encryption) })
    }

    /// The encryption that is reloaded.
    pub fn encryption(&self) -> &Arc<Encryption> {
        &self.encryption
    }

    /// Reads the file again if it has changed; says whether it had. On an error the old rules stay in force.
    pub async fn reload(&self) -> Result<bool, ConfigError> {
        let mut digest = self.digest.lock().await;
        let content = read(&self.path).await?;
        let new = digest_of(&content);
        if *digest == new {
            return Ok(false);
        }
        let config = parse(&self.path, &content, &self.to_json, true)?;
        let rules = build(&config, self.encryption.kms()).await?;
        wait_until_healthy(&rules).await?;
        self.encryption.replace(rules);
        *digest = new;
        Ok(true)
    }

    /// Looks at the file at an interval until the returned guard is dropped. Upstream looks every minute.
    pub fn follow(self: Arc<Self>, interval: Duration) -> Following {
        let task = tokio::spawn(async move {
            loop {
                tokio::time::sleep(interval).await;
                match self.reload().await {
                    Ok(true) => tracing::info!(file = %self.path.display(), "loaded a new encryption configuration"),
                    Ok(false) => {}
                    Err(error) => {
                        tracing::error!(file = %self.path.display(), %error, "error processing encryption config file");
                    }
                }
            }
        });
        Following { _task: AbortOnDrop(task.abort_handle()) }
    }
}

#[must_use = "dropping it ends the following"]
pub struct Following {
    _task: AbortOnDrop,
}

async fn read(path: &Path) -> Result<Vec<u8>, ConfigError> {
    let wrong = |why: String| ConfigError(format!("error while parsing file: error while loading file: {why}"));
    let content = tokio::fs::read(path).await.map_err(|error| {
        let (shown, why) = (path.display(), in_gos_words(&error));
        wrong(format!("error reading encryption provider configuration file {path:?}: open {shown}: {why}"))
    })?;
    if content.is_empty() {
        return Err(wrong(format!("encryption provider configuration file {path:?} is empty")));
    }
    Ok(content)
}

/// What the system says, without our language's number behind it and with a small letter.
fn in_gos_words(error: &std::io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or_default().to_lowercase()
}

fn parse(path: &Path, content: &[u8], to_json: &ToJson, reload: bool) -> Result<Configuration, ConfigError> {
    let wrong = |error: String| {
        ConfigError(format!(
            "error while parsing file: error decoding encryption provider configuration file {path:?}: {error}"
        ))
    };
    let json = to_json(content).map_err(wrong)?;
    let config = Configuration::decode(&json, &String::from_utf8_lossy(content)).map_err(wrong)?;
    config.validate(reload).map_err(|error| ConfigError(format!("error while parsing file: {error}")))
}

async fn build(config: &Configuration, kms: &KmsOptions) -> Result<Rules, ConfigError> {
    let wrong = |error: ConfigError| ConfigError(format!("error while building transformers: {error}"));
    Rules::build(config, kms).await.map_err(wrong)
}

async fn wait_until_healthy(rules: &Rules) -> Result<(), ConfigError> {
    let patience = (rules.timeouts * 2).max(HEALTH_PATIENCE);
    let mut last = String::new();
    let healthy = async {
        while let Err(error) = rules.check_health().await {
            last = error;
            tokio::time::sleep(HEALTH_RETRY).await;
        }
    };
    let outcome = tokio::time::timeout(patience, healthy).await;
    outcome.map_err(|_| ConfigError(format!("health check for new transformers failed: {last}")))
}

fn digest_of(content: &[u8]) -> Vec<u8> {
    digest::digest(&digest::SHA256, content).as_ref().to_vec()
}
