//! The configuration file: `EncryptionConfiguration` of `apiserver.config.k8s.io/v1`.

use std::time::Duration;

use serde::Deserialize;

/// Why a configuration cannot be used. The message has every problem that was found.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{0}")]
pub struct ConfigError(pub String);

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Configuration {
    #[serde(rename = "apiVersion")]
    _version: String,
    #[serde(rename = "kind")]
    _kind: String,
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
    /// Reads and checks a configuration in JSON.
    pub fn parse(json: &[u8], reload: bool) -> Result<Self, ConfigError> {
        let configuration = Configuration::decode(json, &String::from_utf8_lossy(json)).map_err(ConfigError)?;
        configuration.validate(reload)
    }

    /// Reads the file's content, which has been turned into JSON. The text is what it was before.
    pub fn decode(json: &[u8], text: &str) -> Result<Self, String> {
        let mut value: serde_json::Value = serde_json::from_slice(json).map_err(|error| error.to_string())?;
        let named = |field: &str| value.get(field).and_then(|name| name.as_str()).unwrap_or_default().to_string();
        let (version, kind) = (named("apiVersion"), named("kind"));
        for (name, given) in [("Kind", &kind), ("apiVersion", &version)] {
            if given.is_empty() {
                return Err(format!("Object '{name}' is missing in '{text}'"));
            }
        }
        if version != "apiserver.config.k8s.io/v1" || kind != "EncryptionConfiguration" {
            return Err(format!("no kind {kind:?} is registered for version {version:?}"));
        }
        super::shape::check(&mut value)?;
        serde_json::from_value(value).map_err(|error| error.to_string())
    }

    pub fn validate(self, reload: bool) -> Result<Self, ConfigError> {
        let config = self;
        let problems = super::validate::problems(&config, reload);
        if problems.is_empty() { Ok(config) } else { Err(ConfigError(object::aggregate(problems))) }
    }
}

/// A duration as Go writes it, such as `3s`, `1m30s` or `1.5s`. Negative ones are zero here: neither is allowed.
pub(crate) fn parse_duration(text: &str) -> Result<Duration, String> {
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
        let no_unit = || format!("time: missing unit in duration {text:?}");
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or_else(no_unit)?;
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
                unit => return Err(format!("time: unknown unit {unit:?} in duration {text:?}")),
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
