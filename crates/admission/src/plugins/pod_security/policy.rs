//! [`Policy`]: what the labels of a namespace ask for.

use std::fmt;

use object::{Cursor, Errors, Path, Value};

/// How strict to be, in rising order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    #[default]
    Privileged,
    Baseline,
    Restricted,
}

/// The release whose idea of a level counts: 1.x.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Version {
    #[default]
    Latest,
    Minor(u32),
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LevelVersion {
    pub level: Level,
    pub version: Version,
}

/// Levels to enforce, to note in the audit log and to warn about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Policy {
    pub enforce: LevelVersion,
    pub audit: LevelVersion,
    pub warn: LevelVersion,
}

impl Policy {
    /// The policy of a namespace. There always is one: a broken label means the strictest enforcement, and no warnings.
    pub fn of(namespace: &Value, default: &Policy) -> (Policy, Errors) {
        let mut errors = Errors::new();
        let labels = namespace.at(&["metadata", "labels"]);
        let (enforce, own_level, _) = mode(labels, "enforce", default.enforce, Level::Restricted, &mut errors);
        let (audit, _, _) = mode(labels, "audit", default.audit, Level::Privileged, &mut errors);
        let (mut warn, _, warn_version) = mode(labels, "warn", default.warn, Level::Privileged, &mut errors);
        let warn_level_given = labels.get(&label("warn", "")).is_some();
        if !warn_level_given && own_level && enforce.level > warn.level {
            warn.level = enforce.level;
            if !warn_version {
                warn.version = enforce.version;
            }
        }
        (Policy { enforce, audit, warn }, errors)
    }

    /// The policy of namespaces that do not say: the `defaults` of a PodSecurityConfiguration.
    pub fn configured(defaults: &Cursor, errors: &mut Errors) -> Policy {
        let mut one = |mode: &str| {
            let version = format!("{mode}-version");
            let (level, version) = (defaults.field(mode), defaults.field(&version));
            let mut found = LevelVersion::default();
            match Level::parse(level.str()) {
                Some(given) => found.level = given,
                None if level.is_empty() => {}
                None => level.invalid(errors, "must be one of privileged, baseline, restricted"),
            }
            match Version::parse(version.str()) {
                Some(given) => found.version = given,
                None if version.is_empty() => {}
                None => version.invalid(errors, "must be \"latest\" or \"v1.x\""),
            }
            found
        };
        let enforce = one("enforce");
        let warn = one("warn");
        Policy { enforce, warn, audit: one("audit") }
    }

    /// The modes that a namespace states itself and that ask for anything: `enforce=baseline:latest, warn=…`.
    pub fn stated(&self, namespace: &Value) -> String {
        let labels = namespace.at(&["metadata", "labels"]);
        let modes = [("enforce", self.enforce), ("audit", self.audit), ("warn", self.warn)];
        let stated = modes.iter().filter(|(mode, policy)| {
            let given = |suffix: &str| labels.get(&label(mode, suffix)).is_some();
            policy.level != Level::Privileged && (given("") || given("-version"))
        });
        stated.map(|(mode, policy)| format!("{mode}={policy}")).collect::<Vec<_>>().join(", ")
    }

    pub fn is_privileged(&self) -> bool {
        [self.enforce, self.audit, self.warn].iter().all(|mode| mode.level == Level::Privileged)
    }
}

fn label(mode: &str, suffix: &str) -> String {
    format!("pod-security.kubernetes.io/{mode}{suffix}")
}

/// Level and version of one mode, whether a valid level was given and whether a version was given at all.
fn mode(
    labels: &Value,
    mode: &str,
    default: LevelVersion,
    broken: Level,
    errors: &mut Errors,
) -> (LevelVersion, bool, bool) {
    let mut found = default;
    let path = Path::of("metadata").field("labels");
    let mut valid = false;
    if let Some(text) = labels.get(&label(mode, "")).and_then(Value::as_str) {
        match Level::parse(text) {
            Some(level) => {
                found.level = level;
                valid = true;
            }
            None => {
                found.level = broken;
                errors.invalid(&path.key(&label(mode, "")), text, "must be one of privileged, baseline, restricted");
            }
        }
    }
    let version = labels.get(&label(mode, "-version")).and_then(Value::as_str);
    if let Some(text) = version {
        match Version::parse(text) {
            Some(version) => found.version = version,
            None => {
                errors.invalid(&path.key(&label(mode, "-version")), text, "must be \"latest\" or \"v1.x\"");
            }
        }
    }
    (found, valid, version.is_some())
}

impl Level {
    fn parse(text: &str) -> Option<Level> {
        match text {
            "privileged" => Some(Level::Privileged),
            "baseline" => Some(Level::Baseline),
            "restricted" => Some(Level::Restricted),
            _ => None,
        }
    }
}

impl Version {
    fn parse(text: &str) -> Option<Version> {
        if text == "latest" {
            return Some(Version::Latest);
        }
        let minor = text.strip_prefix("v1.")?;
        let plain = minor.bytes().all(|b| b.is_ascii_digit()) && (minor == "0" || !minor.starts_with('0'));
        if plain { minor.parse().ok().map(Version::Minor) } else { None }
    }
}

impl fmt::Display for LevelVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let level = match self.level {
            Level::Privileged => "privileged",
            Level::Baseline => "baseline",
            Level::Restricted => "restricted",
        };
        match self.version {
            Version::Latest => write!(f, "{level}:latest"),
            Version::Minor(minor) => write!(f, "{level}:v1.{minor}"),
        }
    }
}
