//! Image references, as far as the API server looks into them: `registry:5000/path/name:tag@digest`.

const DEFAULT_DOMAIN: &str = "docker.io";
const NAME_MAX_BYTES: usize = 255;
const TAG_MAX_BYTES: usize = 128;
/// An image's own identifier is no name for it.
const IDENTIFIER_LENGTH: usize = 64;

/// The default pull policy of an image: always for `latest`, which is what no tag means.
pub fn default_pull_policy(image: &str) -> &'static str {
    match tag(image) {
        Some("latest") => "Always",
        _ => "IfNotPresent",
    }
}

/// The tag of a reference: `latest` if there is neither tag nor digest, None if there is only a digest or the reference
/// is none.
fn tag(image: &str) -> Option<&str> {
    let is_identifier = image.len() == IDENTIFIER_LENGTH && image.bytes().all(is_lower_hex);
    let (domain, remainder) = split_domain(image);
    let (name, digest) = split_optional(remainder, '@');
    let (path, tag) = split_optional(name, ':');
    let fine = !is_identifier
        && is_domain(domain)
        && is_path(path)
        && path.len() <= NAME_MAX_BYTES
        && tag.is_none_or(is_tag)
        && digest.is_none_or(is_digest);
    match (fine, tag, digest) {
        (false, ..) | (true, None, Some(_)) => None,
        (true, Some(tag), _) => Some(tag),
        (true, None, None) => Some("latest"),
    }
}

/// The registry, and the rest. The first element is a registry if it cannot be anything else.
fn split_domain(image: &str) -> (&str, &str) {
    match image.split_once('/') {
        Some((first, rest)) if first == "localhost" || first.contains(['.', ':']) || first.to_lowercase() != first => {
            (first, rest)
        }
        _ => (DEFAULT_DOMAIN, image),
    }
}

fn split_optional(text: &str, separator: char) -> (&str, Option<&str>) {
    match text.split_once(separator) {
        Some((before, after)) => (before, Some(after)),
        None => (text, None),
    }
}

fn is_domain(domain: &str) -> bool {
    let (host, port) = match domain.rsplit_once(':') {
        Some((host, port)) if !port.contains(']') => (host, Some(port)),
        _ => (domain, None),
    };
    let is_name = host.split('.').all(|label| {
        let framed = |b: Option<&u8>| b.is_some_and(u8::is_ascii_alphanumeric);
        framed(label.as_bytes().first())
            && framed(label.as_bytes().last())
            && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
    });
    let is_ipv6 = host
        .strip_prefix('[')
        .and_then(|host| host.strip_suffix(']'))
        .is_some_and(|address| !address.is_empty() && address.bytes().all(|b| b.is_ascii_hexdigit() || b == b':'));
    (is_name || is_ipv6) && port.is_none_or(|port| !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit()))
}

fn is_path(path: &str) -> bool {
    path.split('/').all(is_path_component)
}

/// Lower-case letters and digits, with single dots, one or two underscores or any number of dashes between them.
fn is_path_component(component: &str) -> bool {
    let alphanumeric = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let is_separator = |run: &[u8]| matches!(run, b"." | b"_" | b"__") || run.iter().all(|b| *b == b'-');
    let bytes = component.as_bytes();
    let framed = |b: Option<&u8>| b.is_some_and(|b| alphanumeric(*b));
    framed(bytes.first())
        && framed(bytes.last())
        && bytes.split(|b| alphanumeric(*b)).filter(|run| !run.is_empty()).all(is_separator)
}

fn is_tag(tag: &str) -> bool {
    let word = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
    tag.len() <= TAG_MAX_BYTES
        && tag.bytes().next().is_some_and(word)
        && tag.bytes().all(|b| word(b) || matches!(b, b'.' | b'-'))
}

fn is_digest(digest: &str) -> bool {
    let (hex, length) = match digest.split_once(':') {
        Some(("sha256", hex)) => (hex, 64),
        Some(("sha384", hex)) => (hex, 96),
        Some(("sha512", hex)) => (hex, 128),
        _ => return false,
    };
    hex.len() == length && hex.bytes().all(is_lower_hex)
}

fn is_lower_hex(b: u8) -> bool {
    matches!(b, b'0'..=b'9' | b'a'..=b'f')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_latest_is_always_pulled() {
        let digest = format!("sha256:{}", "a".repeat(64));
        let tagged_digest = format!("nginx:latest@{digest}");
        let only_digest = format!("nginx@{digest}");
        let identifier = "a".repeat(64);
        let long = "a".repeat(300);
        for (image, always) in [
            ("nginx", true),
            ("nginx:latest", true),
            ("nginx:1.25", false),
            ("library/nginx", true),
            ("registry.example.com:5000/a/b", true),
            ("registry.example.com:5000/a/b:v1", false),
            ("[::1]:5000/a", true),
            ("localhost/a", true),
            ("Upper/a", true),
            (tagged_digest.as_str(), true),
            (only_digest.as_str(), false),
            (identifier.as_str(), false),
            (long.as_str(), false),
            ("", false),
            (" nginx", false),
            ("nginx:", false),
            ("NGINX", false),
            ("a__b/c--d.e_f", true),
            ("a___b", false),
            ("a..b", false),
            ("nginx@sha256:abc", false),
            ("nginx:la test", false),
        ] {
            assert_eq!(default_pull_policy(image) == "Always", always, "{image}");
        }
    }
}
