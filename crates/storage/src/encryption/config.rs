//! The configuration file: `EncryptionConfiguration` of `apiserver.config.k8s.io/v1`.

use std::time::Duration;

use serde::Deserialize;

/// Why a configuration cannot be used. The message has every problem that was found.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{0}")]
pub struct ConfigError(pub String);

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Configuration {
    #[serde(default)]
    api_version: String,
    #[serde(default)]
    kind: String,
    #[serde(default)]
    pub resources: Vec<ResourceRule>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ResourceRule {
    #[serde(default)]
    pub resources: Vec<String>,
    #[serde(default)]
    pub providers: Vec<ProviderConfig>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ProviderConfig {
    pub aesgcm: Option<Keys>,
    pub aescbc: Option<Keys>,
    pub secretbox: Option<Keys>,
    pub identity: Option<Nothing>,
    pub kms: Option<Kms>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Keys {
    #[serde(default)]
    pub keys: Vec<NamedKey>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NamedKey {
    #[serde(default)]
    pub name: String,
    #[serde(default)]
    pub secret: String,
}

impl std::fmt::Debug for NamedKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Name: {}, Secret: [REDACTED]", self.name)
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Nothing {}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Kms {
    #[serde(default = "v1", rename = "apiVersion")]
    pub api_version: String,
    #[serde(default)]
    pub name: String,
    pub cachesize: Option<i32>,
    #[serde(default)]
    pub endpoint: String,
    timeout: Option<String>,
}

fn v1() -> String {
    "v1".into()
}

impl Kms {
    /// The timeout of a call in the plugin, or what is wrong with it.
    pub fn timeout(&self) -> Result<Duration, String> {
        self.timeout.as_deref().map_or(Ok(Duration::from_secs(3)), parse_duration)
    }

    pub fn timeout_text(&self) -> &str {
        self.timeout.as_deref().unwrap_or("3s")
    }
}

impl Configuration {
    /// Reads and checks the file's content, which has been turned into JSON.
    pub fn parse(json: &[u8], reload: bool) -> Result<Self, ConfigError> {
        let config: Configuration = serde_json::from_slice(json).map_err(|error| ConfigError(error.to_string()))?;
        let (version, kind) = (&config.api_version, &config.kind);
        if version != "apiserver.config.k8s.io/v1" || kind != "EncryptionConfiguration" {
            return Err(ConfigError(format!("no kind {kind:?} is registered for version {version:?}")));
        }
        let problems = super::validate::problems(&config, reload);
        match problems.as_slice() {
            [] => Ok(config),
            [only] => Err(ConfigError(only.clone())),
            many => Err(ConfigError(format!("[{}]", many.join(", ")))),
        }
    }
}

/// A duration as Go writes it, such as `3s`, `1m30s` or `1.5s`. Negative ones are zero here: neither is allowed.
fn parse_duration(text: &str) -> Result<Duration, String> {
    let wrong = || format!("time: invalid duration {text:?}");
    let (negative, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    if rest == "0" {
        return Ok(Duration::ZERO);
    }
    let mut seconds = 0.0;
    if rest.is_empty() {
        return Err(wrong());
    }
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or_else(wrong)?;
        let number: f64 = rest[..end].parse().map_err(|_| wrong())?;
        rest = &rest[end..];
        let end = rest.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(rest.len());
        seconds += number
            * match &rest[..end] {
                "ns" => 1e-9,
                "us" | "µs" | "μs" => 1e-6,
                "ms" => 1e-3,
                "s" => 1.0,
                "m" => 60.0,
                "h" => 3600.0,
                _ => return Err(wrong()),
            };
        rest = &rest[end..];
    }
    let duration = Duration::try_from_secs_f64(seconds).map_err(|_| wrong())?;
    Ok(if negative { Duration::ZERO } else { duration })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_gos() {
        let cases = [
            ("3s", Some(3000)),
            ("1m30s", Some(90_000)),
            ("1.5s", Some(1500)),
            ("250ms", Some(250)),
            ("0", Some(0)),
            ("-3s", Some(0)),
            ("", None),
            ("3", None),
            ("s", None),
            ("3 s", None),
            ("3d", None),
            ("1e3s", None),
            ("99999999999999999999h", None),
        ];
        for (text, expected) in cases {
            assert_eq!(parse_duration(text).ok(), expected.map(Duration::from_millis), "{text}");
        }
    }
}
