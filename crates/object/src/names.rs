//! Name formats: what a string must look like to be a label, a port name, an IP address. Each function answers with the
//! messages of what is wrong, in upstream's words; an empty list means the value is fine.
//!
//! Upstream has two copies of the DNS rules whose messages differ: hand-written validation counts "characters"
//! ([`dns1123_label`], [`dns1123_subdomain`]), declarative validation counts "bytes" ([`short_name`], [`long_name`]).

mod dns;
mod domain;
mod ip;
mod keys;
mod resource;

pub use dns::{
    dns1035_label, dns1123_label, dns1123_subdomain, dns1123_subdomain_with_underscore, long_name, long_name_caseless,
    short_name, wildcard_dns1123_subdomain,
};
pub use domain::{domain_prefixed_key, domain_prefixed_path, fully_qualified_domain_name, fully_qualified_name};
pub use ip::{
    Cidr, cidr, cidr_for_legacy_field, cidr_warnings, interface_address, ip, ip_for_legacy_field, ip_warnings,
    is_global_unicast, parse_cidr_sloppy, parse_ip_sloppy,
};
pub use keys::{
    c_identifier, config_map_key, env_var_name, label_key, label_value, prefixed_label_key, relaxed_env_var_name,
};
pub use resource::{extended_resource_name, resource_fully_qualified_name, resource_pool_name};

/// The longest label of a DNS name.
pub const DNS1123_LABEL_MAX_BYTES: usize = 63;
/// The longest DNS name.
pub const DNS1123_SUBDOMAIN_MAX_BYTES: usize = 253;
/// The longest label that begins with a letter.
pub const DNS1035_LABEL_MAX_BYTES: usize = 63;
/// The longest value of a label.
pub const LABEL_VALUE_MAX_BYTES: usize = 63;
const PORT_NAME_MAX_BYTES: usize = 15;

/// What is wrong with a value, where the kind of error and the offending part differ from rule to rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Problem {
    /// The value is missing.
    Required,
    /// `value`, the whole or a part of what was checked, is malformed.
    Invalid {
        /// The text that is malformed.
        value: String,
        /// The message about it.
        detail: String,
    },
    /// Longer than so many bytes.
    TooLong {
        /// The most bytes that there may be.
        max_bytes: usize,
    },
}

impl Problem {
    fn invalid(value: &str, detail: impl Into<String>) -> Problem {
        Problem::Invalid { value: value.to_string(), detail: detail.into() }
    }
}

/// How an object's name is checked: `prefix` is true when a suffix will be generated onto it.
pub type NameRule = fn(name: &str, prefix: bool) -> Vec<String>;

/// Checks a name, or the beginning of one, that must be a DNS name.
pub fn name_is_dns_subdomain(name: &str, prefix: bool) -> Vec<String> {
    with_prefix(name, prefix, dns1123_subdomain)
}

/// Checks a name, or the beginning of one, that must be one label of a DNS name.
pub fn name_is_dns_label(name: &str, prefix: bool) -> Vec<String> {
    with_prefix(name, prefix, dns1123_label)
}

/// Checks a name, or the beginning of one, that must be such a label and begin with a letter.
pub fn name_is_dns1035_label(name: &str, prefix: bool) -> Vec<String> {
    with_prefix(name, prefix, dns1035_label)
}

/// Checks a name, or the beginning of one, that must be a part of a path.
pub fn name_is_path_segment(name: &str, prefix: bool) -> Vec<String> {
    if prefix { path_segment_prefix(name) } else { path_segment_name(name) }
}

/// A generated suffix makes a trailing dash fine. Upstream replaces the last *two* characters when it hides the dash, and
/// which names pass depends on it.
fn with_prefix(name: &str, prefix: bool, rule: fn(&str) -> Vec<String>) -> Vec<String> {
    match name.as_bytes() {
        [kept @ .., _, b'-'] if prefix => {
            // The cut may fall inside a character; such a name is wrong whatever stands there.
            let masked = format!("{}a", String::from_utf8_lossy(kept));
            rule(&masked)
        }
        _ => rule(name),
    }
}

/// Whether a name can stand in a URL path. It may be empty and of any length.
pub fn path_segment_name(name: &str) -> Vec<String> {
    if matches!(name, "." | "..") {
        return vec![format!("may not be '{name}'")];
    }
    path_segment_prefix(name)
}

/// As [`path_segment_name`], for a name that something will be appended to.
pub fn path_segment_prefix(name: &str) -> Vec<String> {
    let illegal = ["/", "%"].into_iter().filter(|part| name.contains(part));
    illegal.map(|part| format!("may not contain '{part}'")).collect()
}

/// Checks the number of a port.
pub fn port_number(port: i64) -> Vec<String> {
    in_range(port, 1, 65535)
}

/// Checks the id of a user.
pub fn user_id(uid: i64) -> Vec<String> {
    in_range(uid, 0, i64::from(i32::MAX))
}

/// Checks the id of a group of users.
pub fn group_id(gid: i64) -> Vec<String> {
    in_range(gid, 0, i64::from(i32::MAX))
}

/// Checks that a number is not outside of a range.
pub fn in_range(value: i64, min: i64, max: i64) -> Vec<String> {
    if (min..=max).contains(&value) { Vec::new() } else { vec![inclusive_range_error(min, max)] }
}

/// An IANA service name, in lower case.
pub fn port_name(port: &str) -> Vec<String> {
    let mut errors = too_long_characters(port, PORT_NAME_MAX_BYTES);
    let mut check = |fine: bool, message: &str| {
        if !fine {
            errors.push(message.to_string());
        }
    };
    let in_charset = |b: u8| b == b'-' || b.is_ascii_digit() || b.is_ascii_lowercase();
    check(
        !port.is_empty() && port.bytes().all(in_charset),
        "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)",
    );
    check(port.bytes().any(|b| b.is_ascii_lowercase()), "must contain at least one letter (a-z)");
    check(!port.contains("--"), "must not contain consecutive hyphens");
    check(!port.starts_with('-') && !port.ends_with('-'), "must not begin or end with a hyphen");
    errors
}

/// Checks a percentage such as `25%`.
pub fn percent(value: &str) -> Vec<String> {
    let fine = value.strip_suffix('%').is_some_and(|digits| non_empty_of(digits, |b| b.is_ascii_digit()));
    let message = "a valid percent string must be a numeric string followed by an ending '%'";
    matching(fine, || regex_error(message, "[0-9]+%", &["1%", "93%"]))
}

/// Checks the name of a header.
pub fn http_header_name(value: &str) -> Vec<String> {
    let fine = non_empty_of(value, |b| b == b'-' || b.is_ascii_alphanumeric());
    let message = "a valid HTTP header must consist of alphanumeric characters or '-'";
    matching(fine, || regex_error(message, "[-A-Za-z0-9]+", &["X-Header-Name"]))
}

/// An integer as one writes it: no plus sign, no leading zeros, no negative zero.
pub fn decimal_integer(value: &str) -> Vec<String> {
    if value.is_empty() {
        return vec![empty_error()];
    }
    let digits = value.strip_prefix('-').unwrap_or(value);
    let fine = value == "0" || (!digits.starts_with('0') && non_empty_of(digits, |b| b.is_ascii_digit()));
    matching(fine, || "must be a valid decimal integer in canonical form".to_string())
}

/// A UUID in lower case, with its dashes.
pub fn uuid(value: &str) -> Vec<String> {
    let fine = value.len() == 36
        && value.bytes().enumerate().all(|(i, b)| match i {
            8 | 13 | 18 | 23 => b == b'-',
            _ => matches!(b, b'0'..=b'9' | b'a'..=b'f'),
        });
    matching(fine, || "must be a lowercase UUID in 8-4-4-4-12 format".to_string())
}

/// The message about a text that is too long.
pub fn max_length_error(max: usize) -> String {
    format!("must be no more than {max} characters")
}

/// What declarative validation says where others say [`max_length_error`].
pub fn max_bytes_error(max: usize) -> String {
    format!("must be no more than {max} bytes")
}

/// The message about a number outside of a range.
pub fn inclusive_range_error(min: i64, max: i64) -> String {
    format!("must be between {min} and {max}, inclusive")
}

/// The message about a text that is empty.
pub fn empty_error() -> String {
    "must be non-empty".to_string()
}

/// How a failed pattern is told: the rule in words, examples, the pattern.
pub fn regex_error(message: &str, pattern: &str, examples: &[&str]) -> String {
    if examples.is_empty() {
        return format!("{message} (regex used for validation is '{pattern}')");
    }
    let examples: Vec<String> = examples.iter().map(|example| format!("'{example}', ")).collect();
    format!("{message} (e.g. {}regex used for validation is '{pattern}')", examples.join(" or "))
}

fn too_long_characters(value: &str, max: usize) -> Vec<String> {
    if value.len() > max { vec![max_length_error(max)] } else { Vec::new() }
}

fn too_long_bytes(value: &str, max: usize) -> Vec<String> {
    if value.len() > max { vec![max_bytes_error(max)] } else { Vec::new() }
}

fn matching(fine: bool, message: impl FnOnce() -> String) -> Vec<String> {
    if fine { Vec::new() } else { vec![message()] }
}

fn non_empty_of(value: &str, allowed: impl Fn(u8) -> bool) -> bool {
    !value.is_empty() && value.bytes().all(allowed)
}

#[cfg(test)]
mod tests;
