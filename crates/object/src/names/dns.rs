//! Labels and subdomains of DNS.

use super::{
    DNS1035_LABEL_MAX_BYTES, DNS1123_LABEL_MAX_BYTES, DNS1123_SUBDOMAIN_MAX_BYTES, regex_error, too_long_bytes,
    too_long_characters,
};

const LABEL: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?";
const LABEL_MESSAGE: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and \
                             must start and end with an alphanumeric character";
const SUBDOMAIN: &str = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*";
const SUBDOMAIN_MESSAGE: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' \
                                 or '.', and must start and end with an alphanumeric character";

/// Checks a label of a DNS name.
pub fn dns1123_label(value: &str) -> Vec<String> {
    label(value, too_long_characters(value, DNS1123_LABEL_MAX_BYTES))
}

/// [`dns1123_label`] as declarative validation words it.
pub fn short_name(value: &str) -> Vec<String> {
    label(value, too_long_bytes(value, DNS1123_LABEL_MAX_BYTES))
}

fn label(value: &str, mut errors: Vec<String>) -> Vec<String> {
    if is_label(value) {
        return errors;
    }
    errors.push(if is_subdomain(value) {
        "must not contain dots".to_string()
    } else {
        regex_error(LABEL_MESSAGE, LABEL, &["my-name", "123-abc"])
    });
    errors
}

/// Checks a DNS name.
pub fn dns1123_subdomain(value: &str) -> Vec<String> {
    subdomain(value, too_long_characters(value, DNS1123_SUBDOMAIN_MAX_BYTES))
}

/// [`dns1123_subdomain`] as declarative validation words it.
pub fn long_name(value: &str) -> Vec<String> {
    subdomain(value, too_long_bytes(value, DNS1123_SUBDOMAIN_MAX_BYTES))
}

fn subdomain(value: &str, mut errors: Vec<String>) -> Vec<String> {
    if !is_subdomain(value) {
        errors.push(regex_error(SUBDOMAIN_MESSAGE, SUBDOMAIN, &["example.com"]));
    }
    errors
}

/// A subdomain that may have capitals, as driver names may.
pub fn long_name_caseless(value: &str) -> Vec<String> {
    let mut errors = too_long_bytes(value, DNS1123_SUBDOMAIN_MAX_BYTES);
    if !is_subdomain(&fold_case(value)) {
        let message = "an RFC 1123 subdomain must consist of alphanumeric characters, '-' or '.', and must start and end \
                       with an alphanumeric character";
        errors.push(regex_error(message, SUBDOMAIN, &["Example.com"]));
    }
    errors
}

/// Go's `(?i)` folds two letters beyond ASCII onto `k` and `s`: the Kelvin sign and the long s.
fn fold_case(value: &str) -> String {
    value.to_ascii_lowercase().replace('\u{212a}', "k").replace('\u{17f}', "s")
}

/// Checks a DNS name that may have underscores.
pub fn dns1123_subdomain_with_underscore(value: &str) -> Vec<String> {
    let mut errors = too_long_characters(value, DNS1123_SUBDOMAIN_MAX_BYTES);
    let is_part = |part: &str| {
        let part = part.strip_prefix('_').unwrap_or(part);
        let inner = |b: u8| is_lower_alphanumeric(b) || matches!(b, b'-' | b'_');
        is_framed(part, is_lower_alphanumeric, inner, is_lower_alphanumeric)
    };
    if !value.split('.').all(is_part) {
        let message = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' or '.', \
                       and must start and end with an alphanumeric character";
        let pattern = r"_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?(\._?[a-z0-9]([-_a-z0-9]*[a-z0-9])?)*";
        errors.push(regex_error(message, pattern, &["example.com"]));
    }
    errors
}

/// Checks a label of a DNS name that begins with a letter.
pub fn dns1035_label(value: &str) -> Vec<String> {
    let mut errors = too_long_characters(value, DNS1035_LABEL_MAX_BYTES);
    let inner = |b: u8| is_lower_alphanumeric(b) || b == b'-';
    if !is_framed(value, |b| b.is_ascii_lowercase(), inner, is_lower_alphanumeric) {
        let message = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an \
                       alphabetic character, and end with an alphanumeric character";
        errors.push(regex_error(message, "[a-z]([-a-z0-9]*[a-z0-9])?", &["my-name", "abc-123"]));
    }
    errors
}

/// A subdomain with `*.` in front.
pub fn wildcard_dns1123_subdomain(value: &str) -> Vec<String> {
    let mut errors = too_long_characters(value, DNS1123_SUBDOMAIN_MAX_BYTES);
    if !value.strip_prefix("*.").is_some_and(is_subdomain) {
        let message = "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must \
                       consist of lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character";
        errors.push(regex_error(message, &format!(r"\*\.{SUBDOMAIN}"), &["*.example.com"]));
    }
    errors
}

fn is_label(value: &str) -> bool {
    is_framed(value, is_lower_alphanumeric, |b| is_lower_alphanumeric(b) || b == b'-', is_lower_alphanumeric)
}

fn is_subdomain(value: &str) -> bool {
    value.split('.').all(is_label)
}

fn is_lower_alphanumeric(b: u8) -> bool {
    b.is_ascii_digit() || b.is_ascii_lowercase()
}

/// Whether the first byte, the last byte and those between them are each of the kind allowed there. A single byte must be
/// a first one.
pub(super) fn is_framed(
    value: &str,
    first: impl Fn(u8) -> bool,
    inner: impl Fn(u8) -> bool,
    last: impl Fn(u8) -> bool,
) -> bool {
    match value.as_bytes() {
        [] => false,
        [only] => first(*only),
        [start, between @ .., end] => first(*start) && last(*end) && between.iter().all(|b| inner(*b)),
    }
}
