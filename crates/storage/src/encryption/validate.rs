//! What may be wrong with a configuration, in upstream's words: operators know them and search for them.

use std::collections::BTreeSet;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::config::{Configuration, Keys, Kms, NamedKey, ProviderConfig};
use super::rules::{GroupResource, parse_group_resource};

const AES_KEY_SIZES: &[usize] = &[16, 24, 32];
const SECRETBOX_KEY_SIZES: &[usize] = &[32];

/// Every problem, with its field path.
pub(crate) fn problems(config: &Configuration, reload: bool) -> Vec<String> {
    let mut problems = Problems(Vec::new());
    if config.resources.is_empty() {
        problems.required("resources", "at least one resources is required");
    }
    let mut kms_names = BTreeSet::new();
    for (index, rule) in config.resources.iter().enumerate() {
        let (resources, providers) = (format!("resources[{index}].resources"), format!("resources[{index}].providers"));
        if rule.resources.is_empty() {
            problems.required(&resources, &format!("at least one {resources} is required"));
        }
        overlaps(&rule.resources, &resources, &mut problems);
        for (index, name) in rule.resources.iter().enumerate() {
            if let Some(detail) = wrong_resource(name) {
                problems.invalid(&format!("{resources}[{index}]"), &format!("{name:?}"), detail);
            }
        }
        if rule.providers.is_empty() {
            problems.required(&providers, &format!("at least one {providers} is required"));
        }
        for (index, provider) in rule.providers.iter().enumerate() {
            check_provider(provider, &format!("{providers}[{index}]"), &mut kms_names, reload, &mut problems);
        }
    }
    problems.0
}

struct Problems(Vec<String>);

impl Problems {
    fn required(&mut self, path: &str, detail: &str) {
        self.0.push(format!("{path}: Required value: {detail}"));
    }

    fn invalid(&mut self, path: &str, value: &str, detail: &str) {
        self.0.push(format!("{path}: Invalid value: {value}: {detail}"));
    }
}

fn overlaps(names: &[String], path: &str, problems: &mut Problems) {
    let resources: Vec<GroupResource> = names.iter().map(|name| parse_group_resource(name)).collect();
    let pairs = || {
        resources.iter().enumerate().flat_map(|(i, one)| {
            resources.iter().enumerate().filter(move |(j, _)| *j != i).map(move |(_, two)| (one, two))
        })
    };
    let masks = |(one, two): (&GroupResource, &GroupResource)| {
        one != two && (*one == ("*", "*") || (one.0 == two.0 && (one.1 == "*" || two.1 == "*")))
    };
    let shown = serde_json::to_string(names).unwrap_or_default();
    if pairs().any(|(one, two)| one == two) {
        problems.invalid(path, &shown, "the same resource cannot be specified multiple times");
    }
    if pairs().any(masks) {
        problems.invalid(
            path,
            &shown,
            "using overlapping resources such as 'secrets' and '*.' in the same resource list is not allowed as they \
             will be masked",
        );
    }
}

fn wrong_resource(name: &str) -> Option<&'static str> {
    let (group, resource) = parse_group_resource(name);
    if name.to_lowercase() != name {
        return Some("resource name should not contain capital letters");
    }
    if name == "*" {
        return Some("use '*.' to encrypt all the resources from core API group or *.* to encrypt all resources");
    }
    if ["apiserveripinfo", "serviceipallocations", "servicenodeportallocations"].contains(&name) {
        return Some("resources which do not have REST API/s cannot be encrypted");
    }
    match group {
        "events.k8s.io" => Some(
            "'*.events.k8s.io' objects are stored using the 'events' API group in etcd. Use 'events' instead in the \
             config file",
        ),
        "extensions" => Some("'extensions' group has been removed and cannot be used for encryption"),
        "*" if resource != "*" => Some("encrypting the same resource across groups is not supported"),
        _ => None,
    }
}

fn check_provider(
    provider: &ProviderConfig,
    path: &str,
    kms_names: &mut BTreeSet<String>,
    reload: bool,
    problems: &mut Problems,
) {
    let present = [
        provider.kms.is_some(),
        provider.aesgcm.is_some(),
        provider.aescbc.is_some(),
        provider.secretbox.is_some(),
        provider.identity.is_some(),
    ];
    let named = ["KMS", "AESGCM", "AESCBC", "Secretbox", "Identity"].into_iter().zip(present);
    let shown: Vec<&str> = named.filter_map(|(name, present)| present.then_some(name)).collect();
    match shown.len() {
        0 => problems.invalid(
            path,
            r#"{"AESGCM":null,"AESCBC":null,"Secretbox":null,"Identity":null,"KMS":null}"#,
            "provider does not contain any of the expected providers: KMS, AESGCM, AESCBC, Secretbox, Identity",
        ),
        1 => {}
        // Upstream shows the whole provider here, keys included. We do not.
        _ => problems.invalid(
            path,
            &format!("[{}]", shown.join(" ")),
            "more than one provider specified in a single element, should split into different list elements",
        ),
    }
    if let Some(kms) = &provider.kms {
        check_kms(kms, &format!("{path}.kms"), kms_names, reload, problems);
        kms_names.insert(kms.name.clone());
    } else if let Some(keys) = &provider.aesgcm {
        check_keys(keys, &format!("{path}.aesgcm.keys"), AES_KEY_SIZES, problems);
    } else if let Some(keys) = &provider.aescbc {
        check_keys(keys, &format!("{path}.aescbc.keys"), AES_KEY_SIZES, problems);
    } else if let Some(keys) = &provider.secretbox {
        check_keys(keys, &format!("{path}.secretbox.keys"), SECRETBOX_KEY_SIZES, problems);
    }
}

fn check_keys(keys: &Keys, path: &str, sizes: &[usize], problems: &mut Problems) {
    if keys.keys.is_empty() {
        problems.required(path, "at least one keys is required");
    }
    for (index, key) in keys.keys.iter().enumerate() {
        check_key(key, &format!("{path}[{index}]"), sizes, problems);
    }
}

fn check_key(key: &NamedKey, path: &str, sizes: &[usize], problems: &mut Problems) {
    if key.name.is_empty() {
        problems.required(&format!("{path}.name"), "name is a mandatory field for a key");
    }
    let path = format!("{path}.secret");
    if key.secret.is_empty() {
        return problems.required(&path, "secret is a mandatory field for a key");
    }
    match STANDARD.decode(&key.secret) {
        Err(_) => problems.invalid(&path, "\"REDACTED\"", "secrets must be base64 encoded"),
        Ok(secret) if !sizes.contains(&secret.len()) => {
            let sizes: Vec<String> = sizes.iter().map(usize::to_string).collect();
            let (got, expected) = (secret.len(), sizes.join(" "));
            let detail = format!("secret is not of the expected length, got {got}, expected one of [{expected}]");
            problems.invalid(&path, "\"REDACTED\"", &detail);
        }
        Ok(_) => {}
    }
}

fn check_kms(kms: &Kms, path: &str, names: &BTreeSet<String>, reload: bool, problems: &mut Problems) {
    let name = &kms.name;
    let is_v1 = kms.api_version == "v1";
    if name.is_empty() {
        problems.required(&format!("{path}.name"), "name is a mandatory field for a provider");
    }
    if !is_v1 && name.contains(':') {
        let detail = format!("invalid KMS provider name {name}, must not contain ':'");
        problems.invalid(&format!("{path}.name"), &format!("{name:?}"), &detail);
    }
    if (reload || !is_v1) && names.contains(name) {
        let detail = format!("duplicate KMS provider name {name}, names must be unique");
        problems.invalid(&format!("{path}.name"), &format!("{name:?}"), &detail);
    }
    match kms.timeout() {
        Ok(timeout) if !timeout.is_zero() => {}
        Ok(_) => {
            let shown = format!("{:?}", kms.timeout_text());
            problems.invalid(&format!("{path}.timeout"), &shown, "timeout should be a positive value");
        }
        Err(error) => problems.invalid(&format!("{path}.timeout"), &format!("{:?}", kms.timeout_text()), &error),
    }
    check_endpoint(&kms.endpoint, &format!("{path}.endpoint"), problems);
    match kms.cachesize {
        Some(size) if !is_v1 => {
            problems.invalid(&format!("{path}.cachesize"), &size.to_string(), "cachesize is not supported in v2");
        }
        Some(0) => {
            let detail = "cachesize should be a positive value, or negative to disable";
            problems.invalid(&format!("{path}.cachesize"), "0", detail);
        }
        _ => {}
    }
    if !["v1", "v2"].contains(&kms.api_version.as_str()) {
        let detail = "unsupported apiVersion apiVersion for KMS provider, only v1 and v2 are supported";
        problems.invalid(&format!("{path}.apiVersion"), &format!("{:?}", kms.api_version), detail);
    }
}

fn check_endpoint(endpoint: &str, path: &str, problems: &mut Problems) {
    if endpoint.is_empty() {
        return problems.invalid(path, "\"\"", "endpoint is a mandatory field for a kms");
    }
    let scheme = endpoint.split_once(':').map_or("", |(scheme, _)| scheme);
    if scheme != "unix" {
        let detail = format!("unsupported scheme {scheme:?} for KMS provider, only unix is supported");
        problems.invalid(path, &format!("{endpoint:?}"), &detail);
    }
}
