//! [`Configuration`]: which authorizers there are, from `--authorization-config` or from flags.

use std::collections::BTreeSet;
use std::path::{Path as FilePath, PathBuf};
use std::time::Duration;

use codec::{ConfigKind, ConfigType, Fields};
use object::{BadValue, Cursor, Errors, Path, Value, names};

use crate::conditions::{CONDITIONS_MAX, Conditions};
use crate::review::Version;
use crate::{Verdict, webhook};

/// The modes of `--authorization-mode`, sorted.
pub const MODES: [&str; 6] = ["ABAC", "AlwaysAllow", "AlwaysDeny", "Node", "RBAC", "Webhook"];
const WEBHOOK: &str = "Webhook";

const TIMEOUT_MAX: Duration = Duration::from_secs(30);
const AUTHORIZED_TTL: Duration = Duration::from_secs(5 * 60);
const UNAUTHORIZED_TTL: Duration = Duration::from_secs(30);

/// Authorizers in the order they are asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Configuration {
    pub authorizers: Vec<Configured>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Configured {
    /// One of [`MODES`].
    pub mode: String,
    pub name: String,
    /// Set for webhooks.
    pub webhook: Option<webhook::WebhookAuthorizerSettings>,
}

const WEBHOOK_FIELDS: Fields = &[
    ("authorizedTTL", ConfigType::Duration),
    ("cacheAuthorizedRequests", ConfigType::Bool),
    ("unauthorizedTTL", ConfigType::Duration),
    ("cacheUnauthorizedRequests", ConfigType::Bool),
    ("timeout", ConfigType::Duration),
    ("subjectAccessReviewVersion", ConfigType::String),
    ("matchConditionSubjectAccessReviewVersion", ConfigType::String),
    ("failurePolicy", ConfigType::String),
    ("connectionInfo", ConfigType::Object(&[("type", ConfigType::String), ("kubeConfigFile", ConfigType::String)])),
    ("matchConditions", ConfigType::List(&ConfigType::Object(&[("expression", ConfigType::String)]))),
];

const FILE: ConfigKind = ConfigKind {
    kind: "AuthorizationConfiguration",
    versions: &["apiserver.config.k8s.io/v1", "apiserver.config.k8s.io/v1beta1", "apiserver.config.k8s.io/v1alpha1"],
    scheme: "pkg/apis/apiserver/load/load.go:32",
    fields: &[(
        "authorizers",
        ConfigType::List(&ConfigType::Object(&[
            ("type", ConfigType::String),
            ("name", ConfigType::String),
            ("webhook", ConfigType::Object(WEBHOOK_FIELDS)),
        ])),
    )],
};

impl Configuration {
    /// Reads the contents of a file. `required` are modes that must be among them: those the server started with, except
    /// webhooks.
    pub fn read(text: &[u8], required: &BTreeSet<String>) -> Result<Configuration, String> {
        let value = FILE.read(text);
        let value = value.map_err(|why| format!("failed to load AuthorizationConfiguration from file: {why}"))?;
        let mut errors = Errors::new();
        validate(&Cursor::root(&value), &mut errors);
        if !errors.is_empty() {
            return Err(errors.aggregate());
        }
        let authorizers: Vec<Configured> = value.list_at(&["authorizers"]).iter().map(Configured::of).collect();
        let mut wrong = Vec::new();
        for Configured { mode, name, .. } in authorizers.iter().filter(|one| one.mode != WEBHOOK) {
            let expected = mode.to_lowercase();
            if *name != expected {
                wrong.push(format!("expected name {expected} for authorizer {mode} instead of {name}"));
            }
        }
        let missing: Vec<&str> = required.iter().map(String::as_str).filter(|mode| !has(&authorizers, mode)).collect();
        if !missing.is_empty() {
            wrong.push(format!("missing required types: [{}]", missing.join(" ")));
        }
        if wrong.is_empty() { Ok(Configuration { authorizers }) } else { Err(object::aggregate(wrong)) }
    }

    /// The modes of `--authorization-mode`, with what other flags say about the webhook.
    pub fn of_flags(modes: &[String], webhook: &webhook::WebhookAuthorizerSettings) -> Configuration {
        let authorizer = |mode: &String| match mode.as_str() {
            WEBHOOK => Configured { mode: mode.clone(), name: webhook.name.clone(), webhook: Some(webhook.clone()) },
            _ => Configured { mode: mode.clone(), name: mode.to_lowercase(), webhook: None },
        };
        Configuration { authorizers: modes.iter().map(authorizer).collect() }
    }

    /// The modes that stay required when the file is reloaded.
    pub fn lasting_modes(&self) -> BTreeSet<String> {
        self.authorizers.iter().map(|one| one.mode.clone()).filter(|mode| mode != WEBHOOK).collect()
    }
}

fn has(authorizers: &[Configured], mode: &str) -> bool {
    authorizers.iter().any(|one| one.mode == mode)
}

impl Configured {
    /// Reads one that is valid.
    fn of(authorizer: &Value) -> Configured {
        let (mode, name) = (authorizer.str_at(&["type"]).to_string(), authorizer.str_at(&["name"]).to_string());
        let webhook = authorizer.field("webhook");
        let webhook = (!webhook.is_null()).then(|| settings(&name, webhook));
        Configured { mode, name, webhook }
    }
}

fn settings(name: &str, webhook: &Value) -> webhook::WebhookAuthorizerSettings {
    let ttl = |cached: &str, field: &str, default: Duration| match webhook.field(cached).as_bool() {
        Some(false) => Duration::ZERO,
        _ => span(webhook, field).filter(|span| !span.is_zero()).unwrap_or(default),
    };
    let conditions = webhook.list_at(&["matchConditions"]).iter();
    webhook::WebhookAuthorizerSettings {
        name: name.to_string(),
        kubeconfig: PathBuf::from(webhook.str_at(&["connectionInfo", "kubeConfigFile"])),
        version: match webhook.str_at(&["subjectAccessReviewVersion"]) {
            "v1beta1" => Version::V1beta1,
            _ => Version::V1,
        },
        timeout: span(webhook, "timeout").unwrap_or(TIMEOUT_MAX),
        authorized_ttl: ttl("cacheAuthorizedRequests", "authorizedTTL", AUTHORIZED_TTL),
        unauthorized_ttl: ttl("cacheUnauthorizedRequests", "unauthorizedTTL", UNAUTHORIZED_TTL),
        on_failure: match webhook.str_at(&["failurePolicy"]) {
            "NoOpinion" => Verdict::NoOpinion,
            _ => Verdict::Deny,
        },
        conditions: conditions.map(|condition| condition.str_at(&["expression"]).to_string()).collect(),
    }
}

fn nanos(webhook: &Value, field: &str) -> i64 {
    object::duration::Duration::parse(webhook.str_at(&[field])).map_or(0, |duration| duration.0)
}

fn span(webhook: &Value, field: &str) -> Option<Duration> {
    u64::try_from(nanos(webhook, field)).ok().map(Duration::from_nanos)
}

fn validate(file: &Cursor<'_>, errors: &mut Errors) {
    let authorizers = file.field("authorizers");
    if authorizers.is_empty() {
        authorizers.required(errors, "at least one authorization mode must be defined");
    }
    let (mut modes, mut names_seen) = (BTreeSet::new(), BTreeSet::new());
    for authorizer in authorizers.each() {
        let (mode, name) = (authorizer.field("type"), authorizer.field("name"));
        if mode.is_empty() {
            mode.required(errors, "");
            continue;
        }
        if !MODES.contains(&mode.str()) {
            mode.not_supported(errors, &MODES);
            continue;
        }
        if !modes.insert(mode.str()) && mode.str() != WEBHOOK {
            mode.duplicate(errors);
            continue;
        }
        let wrong = names::dns1123_subdomain(name.str());
        if name.is_empty() {
            name.required(errors, "");
        } else if !names_seen.insert(name.str()) {
            name.duplicate(errors);
        } else if !wrong.is_empty() {
            name.invalid(errors, format!("authorizer name is invalid: {}", wrong.join(", ")));
        }
        let webhook = authorizer.field("webhook");
        match (mode.str() == WEBHOOK, webhook.is_set()) {
            (true, true) => validate_webhook(authorizer.path(), webhook.value(), errors),
            (true, false) => webhook.required(errors, "required when type=Webhook"),
            (false, true) => {
                webhook.invalid_as(errors, "non-null", "may only be specified when type=Webhook");
            }
            (false, false) => {}
        }
    }
}

/// Upstream names the fields of a webhook as if they were the authorizer's own.
fn validate_webhook(path: &Path, webhook: &Value, errors: &mut Errors) {
    let field = |name: &str| Cursor::new(webhook.field(name), path.field(name));
    let timeout = nanos(webhook, "timeout");
    if timeout == 0 {
        field("timeout").required(errors, "");
    } else if timeout < 0 || u128::try_from(timeout).is_ok_and(|timeout| timeout > TIMEOUT_MAX.as_nanos()) {
        field("timeout").invalid_as(errors, shown(timeout), "must be > 0s and <= 30s");
    }
    for ttl in ["authorizedTTL", "unauthorizedTTL"] {
        if nanos(webhook, ttl) < 0 {
            field(ttl).invalid_as(errors, shown(nanos(webhook, ttl)), "must be > 0s");
        }
    }
    one_of(&field("subjectAccessReviewVersion"), &["v1", "v1beta1"], errors);
    let conditions = field("matchConditions");
    let version = field("matchConditionSubjectAccessReviewVersion");
    if !version.is_empty() {
        one_of(&version, &["v1"], errors);
    } else if !conditions.is_empty() {
        version.required(errors, "required if match conditions are specified");
    }
    one_of(&field("failurePolicy"), &["NoOpinion", "Deny"], errors);
    validate_connection(&field("connectionInfo"), errors);
    validate_conditions(&conditions, errors);
}

fn shown(nanos: i64) -> String {
    object::duration::Duration(nanos).to_string()
}

fn one_of(field: &Cursor<'_>, supported: &[&str], errors: &mut Errors) {
    if field.is_empty() {
        field.required(errors, "");
    } else if !supported.contains(&field.str()) {
        field.not_supported(errors, supported);
    }
}

fn validate_connection(connection: &Cursor<'_>, errors: &mut Errors) {
    let (kind, file) = (connection.field("type"), connection.field("kubeConfigFile"));
    match kind.str() {
        "" => kind.required(errors, ""),
        "InClusterConfig" if file.is_set() => file.invalid(errors, "can only be set when type=KubeConfigFile"),
        "InClusterConfig" => {}
        "KubeConfigFile" if file.is_empty() => file.required(errors, ""),
        "KubeConfigFile" => validate_file(&file, errors),
        other => {
            let path = if file.is_set() { object::quote(file.str()) } else { "null".into() };
            let shown = BadValue::Raw(format!("{{\"Type\":{},\"KubeConfigFile\":{path}}}", object::quote(other)));
            errors.not_supported(kind.path(), shown, &["InClusterConfig", "KubeConfigFile"]);
        }
    }
}

fn validate_file(file: &Cursor<'_>, errors: &mut Errors) {
    let path = FilePath::new(file.str());
    if !path.is_absolute() {
        file.invalid(errors, "must be an absolute path");
        return;
    }
    match std::fs::metadata(path) {
        Err(error) => {
            let why = outbound::in_gos_words(&error);
            file.invalid(errors, format!("error loading file: stat {}: {why}", path.display()));
        }
        Ok(metadata) if !metadata.is_file() => file.invalid(errors, "must be a regular file"),
        Ok(_) => {}
    }
}

fn validate_conditions(conditions: &Cursor<'_>, errors: &mut Errors) {
    if conditions.len() > CONDITIONS_MAX {
        errors.too_many(conditions.path(), conditions.len(), CONDITIONS_MAX);
        return;
    }
    let mut seen = BTreeSet::new();
    for condition in conditions.each() {
        let expression = condition.field("expression");
        if expression.str().trim().is_empty() {
            expression.required(errors, "");
        } else if !seen.insert(expression.str()) {
            expression.duplicate(errors);
        } else if let Err(why) = Conditions::default().add(expression.str()) {
            expression.invalid(errors, why);
        }
    }
}

#[cfg(test)]
mod tests;
