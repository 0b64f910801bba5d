//! Formats of networks: hosts, addresses, URIs.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::LazyLock;

use goregex::Regex;

/// A host name of the Internet in a wide sense: symbols and letters of any script are allowed.
static HOSTNAME: LazyLock<Regex> = LazyLock::new(|| {
    let label = r"[a-zA-Z0-9\p{S}\p{L}]";
    let single = format!("{label}((-?{label}{{0,62}})?)");
    let dotted =
        format!(r"({label}(([a-zA-Z0-9\-\p{{S}}\p{{L}}]{{0,61}}{label})?)(\.)){{1,}}([a-zA-Z\p{{L}}]){{2,63}}");
    Regex::new(&format!("^({single}|{dotted})$")).expect("a regular expression that a test compiles")
});

pub fn is_hostname(text: &str) -> bool {
    HOSTNAME.is_match(text) && text.len() <= 255 && text.split('.').all(|label| label.len() <= 63)
}

/// Leading zeros are tolerated, and an IPv4 address written as an IPv6 one counts.
pub fn is_ipv4(text: &str) -> bool {
    text.contains('.') && (sloppy_ipv4(text).is_some() || text.parse::<Ipv6Addr>().is_ok())
}

pub fn is_ipv6(text: &str) -> bool {
    text.contains(':') && text.parse::<Ipv6Addr>().is_ok()
}

pub fn is_cidr(text: &str) -> bool {
    let Some((address, length)) = text.split_once('/') else { return false };
    let max = match sloppy_ipv4(address) {
        Some(_) => 32,
        None if address.parse::<Ipv6Addr>().is_ok() => 128,
        None => return false,
    };
    !length.is_empty()
        && length.bytes().all(|b| b.is_ascii_digit())
        && length.trim_start_matches('0').len() <= 3
        && length.parse::<u32>().is_ok_and(|length| length <= max)
}

/// An IPv4 address whose parts may have leading zeros, as Go before 1.17 read them.
fn sloppy_ipv4(text: &str) -> Option<Ipv4Addr> {
    let mut parts = [0u8; 4];
    let mut given = text.split('.');
    for part in &mut parts {
        let text = given.next()?;
        if text.is_empty() || !text.bytes().all(|b| b.is_ascii_digit()) {
            return None;
        }
        *part = text.trim_start_matches('0').parse().ok().or(text.bytes().all(|b| b == b'0').then_some(0))?;
    }
    given.next().is_none().then(|| Ipv4Addr::from(parts))
}

/// 6, 8 or 20 bytes in pairs of digits between colons or dashes, in fours between dots, or without anything between them.
pub fn is_mac(text: &str) -> bool {
    let hex = |group: &str, length: usize| group.len() == length && group.bytes().all(|b| b.is_ascii_hexdigit());
    let groups = |separator: char, length: usize, counts: [usize; 3]| {
        let groups: Vec<&str> = text.split(separator).collect();
        counts.contains(&groups.len()) && groups.iter().all(|group| hex(group, length))
    };
    let plain = [12, 16, 40].contains(&text.len()) && hex(text, text.len());
    plain || groups(':', 2, [6, 8, 20]) || groups('-', 2, [6, 8, 20]) || groups('.', 4, [3, 4, 10])
}

/// What Go's `url.ParseRequestURI` takes: an absolute URI or an absolute path.
pub fn is_request_uri(text: &str) -> bool {
    if text.is_empty() || text.bytes().any(|b| b < 0x20 || b == 0x7f) {
        return false;
    }
    if text == "*" {
        return true;
    }
    let Some((scheme, rest)) = split_scheme(text) else { return false };
    let rest = rest.split('?').next().unwrap_or(rest);
    if !rest.starts_with('/') {
        // With a scheme the rest is opaque, without one it is a relative path.
        return scheme;
    }
    let path = match rest.strip_prefix("//") {
        Some(after) if scheme => {
            let (authority, path) = after.split_at(after.find('/').unwrap_or(after.len()));
            if !is_authority(authority) {
                return false;
            }
            path
        }
        _ => rest,
    };
    has_valid_escapes(path)
}

/// Whether there is a scheme, and what is behind it; none where there is a colon without a scheme before it.
fn split_scheme(text: &str) -> Option<(bool, &str)> {
    for (at, b) in text.bytes().enumerate() {
        match b {
            b'a'..=b'z' | b'A'..=b'Z' => {}
            b'0'..=b'9' | b'+' | b'-' | b'.' if at > 0 => {}
            b':' if at == 0 => return None,
            b':' => return Some((true, &text[at + 1..])),
            _ => break,
        }
    }
    Some((false, text))
}

fn is_authority(text: &str) -> bool {
    let (user, host) = text.rsplit_once('@').unwrap_or(("", text));
    is_user_info(user) && is_host(host)
}

fn is_user_info(text: &str) -> bool {
    text.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._:~!$&'()*+,;=%@".contains(&b)) && has_valid_escapes(text)
}

fn is_host(text: &str) -> bool {
    let is_port =
        |port: &str| port.is_empty() || port.strip_prefix(':').is_some_and(|p| p.bytes().all(|b| b.is_ascii_digit()));
    if text.starts_with('[') {
        let Some(end) = text.rfind(']') else { return false };
        let address = &text[1..end];
        let address = address.split_once("%25").map_or(address, |(address, _)| address);
        return is_port(&text[end + 1..]) && address.parse::<Ipv6Addr>().is_ok();
    }
    let (name, port) = text.split_at(text.rfind(':').unwrap_or(text.len()));
    is_port(port)
        && name.bytes().all(|b| !b.is_ascii() || b.is_ascii_alphanumeric() || b"-_.~!$&'()*+,;=:[]<>\"%".contains(&b))
        && escapes(name).all(|escape| escape.is_some_and(|byte| byte >= 0x80))
}

fn has_valid_escapes(text: &str) -> bool {
    escapes(text).all(|escape| escape.is_some())
}

/// The bytes that percent signs stand for; none for one that stands for nothing.
fn escapes(text: &str) -> impl Iterator<Item = Option<u8>> {
    text.match_indices('%').map(|(at, _)| {
        let digits = text.get(at + 1..at + 3)?;
        if digits.bytes().all(|b| b.is_ascii_hexdigit()) { u8::from_str_radix(digits, 16).ok() } else { None }
    })
}
