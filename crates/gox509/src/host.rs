//! Whether a certificate is for a host, by the rules of Go's `VerifyHostname`.

use std::net::IpAddr;

use object::address;

use crate::certificate::Certificate;

/// Go's words for a certificate without subject alternative names.
pub const RELIES_ON_COMMON_NAME: &str = "x509: certificate relies on legacy Common Name field, use SANs instead";

/// Names of a certificate that an error lists; from here on, Go counts them.
const LISTED_MAX: usize = 100;

/// Err is what Go says.
pub(crate) fn verify(certificate: &Certificate, host: &str) -> Result<(), String> {
    let names = &certificate.extensions.names;
    let bare = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).filter(|inside| !inside.is_empty());
    let candidate = bare.unwrap_or(host);
    if let Some(ip) = ip(candidate) {
        let matches = |known: &IpAddr| known.to_canonical() == ip.to_canonical();
        return if names.addresses.iter().any(matches) { Ok(()) } else { Err(mismatch(certificate, candidate)) };
    }
    let lower = host.to_ascii_lowercase();
    let is_host = is_valid(&lower, false);
    let labels = labels(&lower);
    let matches = |pattern: &String| {
        if is_host && is_valid(pattern, true) { is_match(pattern, &labels) } else { is_same(pattern, &lower) }
    };
    if names.dns.iter().any(matches) { Ok(()) } else { Err(mismatch(certificate, host)) }
}

/// An address as Go's `net.ParseIP` reads it, which knows no zones.
fn ip(text: &str) -> Option<IpAddr> {
    address::parse(text).ok().filter(|address| !address.has_zone).map(|address| address.ip)
}

fn mismatch(certificate: &Certificate, host: &str) -> String {
    let names = &certificate.extensions.names;
    let has_names = certificate.extensions.alternative_names().is_some();
    if !has_names && is_match(&certificate.subject.common_name, &labels(&host.to_ascii_lowercase())) {
        return RELIES_ON_COMMON_NAME.into();
    }
    let valid = if ip(host).is_some() {
        if names.addresses.is_empty() {
            return format!("x509: cannot validate certificate for {host} because it doesn't contain any IP SANs");
        }
        if names.addresses.len() >= LISTED_MAX {
            let count = names.addresses.len();
            return format!("x509: certificate is valid for {count} IP SANs, but none matched {host}");
        }
        let shown: Vec<String> = names.addresses.iter().map(|ip| ip.to_canonical().to_string()).collect();
        shown.join(", ")
    } else {
        if names.dns.len() >= LISTED_MAX {
            return format!("x509: certificate is valid for {} names, but none matched {host}", names.dns.len());
        }
        names.dns.join(", ")
    };
    if valid.is_empty() {
        return format!("x509: certificate is not valid for any names, but wanted to match {host}");
    }
    format!("x509: certificate is valid for {valid}, not {host}")
}

/// The labels of a host without the dot at its end.
fn labels(host: &str) -> Vec<&str> {
    host.strip_suffix('.').unwrap_or(host).split('.').collect()
}

/// Whether it is a name that may have wildcards, for a pattern, or be looked up.
fn is_valid(host: &str, is_pattern: bool) -> bool {
    let host = if is_pattern { host } else { host.strip_suffix('.').unwrap_or(host) };
    if host.is_empty() || host == "*" {
        return false;
    }
    let is_label = |(at, label): (usize, &str)| {
        let is_wildcard = is_pattern && at == 0 && label == "*";
        let allowed =
            |(at, byte): (usize, u8)| byte.is_ascii_alphanumeric() || byte == b'_' || (byte == b'-' && at > 0);
        is_wildcard || (!label.is_empty() && label.bytes().enumerate().all(allowed))
    };
    host.split('.').enumerate().all(is_label)
}

fn is_match(pattern: &str, host: &[&str]) -> bool {
    let pattern = pattern.to_ascii_lowercase();
    let parts: Vec<&str> = pattern.split('.').collect();
    if pattern.is_empty() || parts.len() != host.len() {
        return false;
    }
    parts.iter().zip(host).enumerate().all(|(at, (part, label))| (at == 0 && *part == "*") || part == label)
}

fn is_same(pattern: &str, host: &str) -> bool {
    let is_name = |name: &str| !name.is_empty() && name != ".";
    is_name(pattern) && is_name(host) && pattern.eq_ignore_ascii_case(host)
}
