//! Names that belong to a domain: `example.com`, `example.com/foo`.

use super::{Problem, dns1123_label, dns1123_subdomain, label_key, non_empty_of, regex_error};

/// A domain of at least three parts, without a dot at the end.
pub fn fully_qualified_name(name: &str) -> Vec<Problem> {
    if name.is_empty() {
        return vec![Problem::Required];
    }
    let errors = dns1123_subdomain(name);
    if !errors.is_empty() {
        return vec![Problem::invalid(name, errors.join(","))];
    }
    if name.split('.').count() < 3 {
        return vec![Problem::invalid(name, "should be a domain with at least three segments separated by dots")];
    }
    Vec::new()
}

/// A domain of at least two parts; a dot at the end is fine.
pub fn fully_qualified_domain_name(name: &str) -> Vec<Problem> {
    if name.is_empty() {
        return vec![Problem::Required];
    }
    let name = name.strip_suffix('.').unwrap_or(name);
    let errors = dns1123_subdomain(name);
    if !errors.is_empty() {
        return vec![Problem::invalid(name, errors.join(","))];
    }
    if name.split('.').count() < 2 {
        return vec![Problem::invalid(name, "should be a domain with at least two segments separated by dots")];
    }
    let bad_label = name.split('.').map(|label| (label, dns1123_label(label))).find(|(_, errors)| !errors.is_empty());
    bad_label.map(|(label, errors)| Problem::invalid(label, errors.join(","))).into_iter().collect()
}

/// A domain, a slash, and a path of an HTTP URL.
pub fn domain_prefixed_path(value: &str) -> Vec<Problem> {
    if value.is_empty() {
        return vec![Problem::Required];
    }
    let Some((host, path)) = value.split_once('/').filter(|(host, path)| !host.is_empty() && !path.is_empty()) else {
        return vec![Problem::invalid(value, r#"must be a domain-prefixed path (such as "acme.io/foo")"#)];
    };
    let mut problems: Vec<Problem> =
        dns1123_subdomain(host).into_iter().map(|message| Problem::invalid(host, message)).collect();
    if !non_empty_of(path, is_http_path_byte) {
        problems.push(Problem::invalid(path, regex_error("Invalid path", r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+", &[])));
    }
    problems
}

fn is_http_path_byte(b: u8) -> bool {
    b.is_ascii_alphanumeric() || br"/-._~%!$&'()*+,;=:".contains(&b)
}

/// A label key that must have a prefix, as hand-written validation words it.
pub fn domain_prefixed_key(key: &str) -> Vec<Problem> {
    if key.is_empty() {
        return vec![Problem::Required];
    }
    let errors = label_key(key);
    if !errors.is_empty() {
        return errors.into_iter().map(|message| Problem::invalid(key, message)).collect();
    }
    if !key.contains('/') {
        return vec![Problem::invalid(key, r#"must be a domain-prefixed key (such as "acme.io/foo")"#)];
    }
    Vec::new()
}
