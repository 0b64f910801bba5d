//! Names of extended resources, device pools and device attributes, as declarative validation checks them.

use super::{Problem, c_identifier, label_key, long_name};

const POOL_NAME_MAX_BYTES: usize = 253;
const ATTRIBUTE_DOMAIN_MAX_BYTES: usize = 63;
const ATTRIBUTE_NAME_MAX_BYTES: usize = 32;
const DEFAULT_DOMAIN: &str = "kubernetes.io/";
const QUOTA_PREFIX: &str = "requests.";

/// One or more DNS subdomains with slashes between them.
pub fn resource_pool_name(value: &str) -> Vec<Problem> {
    let mut problems = Vec::new();
    if value.len() > POOL_NAME_MAX_BYTES {
        problems.push(Problem::TooLong { max_bytes: POOL_NAME_MAX_BYTES });
    }
    for (i, part) in value.split('/').enumerate() {
        if part.is_empty() {
            problems.push(Problem::invalid(value, format!("segment {i}: must not be empty")));
            continue;
        }
        let messages = long_name(part).into_iter();
        problems.extend(messages.map(|message| Problem::invalid(part, format!("segment {i}: {message}"))));
    }
    problems
}

/// A resource outside Kubernetes' own domain, which must still be a label key with `requests.` in front, as quota
/// writes it.
pub fn extended_resource_name(value: &str) -> Vec<Problem> {
    let mut details = Vec::new();
    if !value.contains('/') {
        details.push("a name must be a domain-prefixed path, such as 'example.com/my-prop'".to_string());
    } else if value.contains(DEFAULT_DOMAIN) {
        details.push(format!("must not have \"{DEFAULT_DOMAIN}\" domain"));
    }
    if value.starts_with(QUOTA_PREFIX) {
        details.push(format!("must not have \"{QUOTA_PREFIX}\" prefix"));
    }
    details.extend(label_key(&format!("{QUOTA_PREFIX}{value}")));
    details.into_iter().map(|detail| Problem::invalid(value, detail)).collect()
}

/// `domain/identifier`, as device attributes and capacities are named.
pub fn resource_fully_qualified_name(value: &str) -> Vec<Problem> {
    let mut problems = Vec::new();
    let mut parts = value.split('/');
    match (parts.next(), parts.next(), parts.next()) {
        (Some(name), None, _) => problems.extend(attribute_name(name)),
        (Some(domain), Some(name), None) => {
            problems.extend(attribute_domain(domain));
            if name.is_empty() {
                problems.push(Problem::invalid("", "name must not be empty"));
            } else {
                problems.extend(attribute_name(name));
            }
        }
        // Upstream lets more than one slash pass.
        _ => {}
    }
    if !value.contains('/') {
        let detail = "a fully qualified name must be a domain and a name separated by a slash";
        problems.push(Problem::invalid(value, detail));
    }
    problems
}

fn attribute_domain(domain: &str) -> Vec<Problem> {
    if domain.is_empty() {
        return vec![Problem::invalid("", "prefix must not be empty")];
    }
    let mut problems = Vec::new();
    if domain.len() > ATTRIBUTE_DOMAIN_MAX_BYTES {
        problems.push(Problem::TooLong { max_bytes: ATTRIBUTE_DOMAIN_MAX_BYTES });
    }
    let messages = long_name(domain).into_iter();
    problems.extend(messages.map(|message| Problem::invalid(domain, format!("prefix: {message}"))));
    problems
}

fn attribute_name(name: &str) -> Vec<Problem> {
    let mut problems = Vec::new();
    if name.len() > ATTRIBUTE_NAME_MAX_BYTES {
        problems.push(Problem::TooLong { max_bytes: ATTRIBUTE_NAME_MAX_BYTES });
    }
    problems.extend(c_identifier(name).into_iter().map(|message| Problem::invalid(name, message)));
    problems
}
