//! What kube-apiserver refuses of values that are of the right type, in its words.

use object::duration;

use super::Given;

/// Durations and numbers that must not be negative, each with its own sentence.
const NOT_NEGATIVE: &[(&str, &str)] = &[
    ("livez-grace-period", "--livez-grace-period can not be a negative value"),
    ("max-requests-inflight", "--max-requests-inflight can not be negative value"),
    ("max-mutating-requests-inflight", "--max-mutating-requests-inflight can not be negative value"),
    ("request-timeout", "--request-timeout can not be negative value"),
    ("min-request-timeout", "--min-request-timeout can not be negative value"),
    ("storage-initialization-timeout", "--storage-initialization-timeout can not be negative value"),
    ("shutdown-delay-duration", "--shutdown-delay-duration can not be negative value"),
    (
        "shutdown-watch-termination-grace-period",
        "shutdown-watch-termination-grace-period, if provided, can not be a negative value",
    ),
    (
        "service-account-max-token-expiration",
        "the service-account-max-token-expiration must be between 1 hour and 2^32 seconds",
    ),
];

/// Lists whose items must not be empty.
const WITHOUT_EMPTY: &[&str] = &[
    "requestheader-allowed-names",
    "requestheader-extra-headers-prefix",
    "requestheader-group-headers",
    "requestheader-uid-headers",
    "requestheader-username-headers",
];

const HSTS: &str = "--strict-transport-security-directives invalid, allowed values: max-age=expireTime, includeSubDomains, \
                    preload. see https://tools.ietf.org/html/rfc6797#section-6.1 for more information";

const CORS_HELP: &str = "List of allowed origins for CORS, comma separated. An allowed origin can be a regular expression to \
                         support subdomain matching. If this list is empty CORS will not be enabled. Please ensure each \
                         expression matches the entire hostname by anchoring to the start with '^' or including the '//' \
                         prefix, and by anchoring to the end with '$' or including the ':' port separator suffix. Examples of \
                         valid expressions are '//example\\.com(:|$)' and '^https://example\\.com(:|$)'";

/// The flags that are checked by name.
#[cfg(test)]
pub fn names() -> impl Iterator<Item = &'static str> {
    NOT_NEGATIVE.iter().map(|(name, _)| *name).chain(WITHOUT_EMPTY.iter().copied())
}

/// One flag, before it is applied.
pub fn flag(name: &str, given: Given<'_>) -> Result<(), String> {
    let last = given.last();
    if let Some((_, why)) = NOT_NEGATIVE.iter().find(|(flag, _)| *flag == name)
        && is_negative(last)
    {
        return Err((*why).to_string());
    }
    let items: Vec<&str> =
        given.0.iter().filter(|value| !value.is_empty()).flat_map(|value| value.split(',')).collect();
    if WITHOUT_EMPTY.contains(&name) && items.iter().any(|item| item.trim().is_empty()) {
        return Err(format!("empty value in {}", object::quote(name)));
    }
    match name {
        "strict-transport-security-directives" => all(items.iter().filter_map(|item| hsts(item))),
        "cors-allowed-origins" => all(items.iter().filter_map(|item| cors(item))),
        "secure-port" if !(0..=65535).contains(&given.number()?) => {
            Err(format!("--secure-port {last} must be between 1 and 65535, inclusive. It cannot be turned off with 0"))
        }
        "service-account-issuer" => all(given.0.iter().filter_map(|issuer| not_a_url(issuer))),
        _ => Ok(()),
    }
}

fn is_negative(text: &str) -> bool {
    match text.parse::<i64>() {
        Ok(number) => number < 0,
        Err(_) => duration::Duration::parse(text).is_ok_and(|duration| duration.0 < 0),
    }
}

fn hsts(directive: &str) -> Option<String> {
    match directive {
        directive if directive.trim().is_empty() => {
            Some("empty value in strict-transport-security-directives".to_string())
        }
        "includeSubDomains" | "preload" => None,
        directive => match directive.split('=').collect::<Vec<_>>()[..] {
            ["max-age", _] => None,
            _ => Some(HSTS.to_string()),
        },
    }
}

/// An origin that is not pinned to a whole host name also allows longer names that contain it.
fn cors(pattern: &str) -> Option<String> {
    if pattern.is_empty() {
        return Some(format!("empty value in --cors-allowed-origins, help: {CORS_HELP}"));
    }
    let has = |marks: [&str; 2]| marks.iter().any(|mark| pattern.contains(mark));
    let why = match goregex::check(pattern) {
        Err(error) => error.to_string(),
        Ok(_) if has(["^", "//"]) && has(["$", ":"]) => return None,
        Ok(_) => "regular expression does not pin to start/end of host in the origin header".to_string(),
    };
    Some(format!("--cors-allowed-origins has an invalid regular expression: {why}, help: {CORS_HELP}"))
}

fn not_a_url(issuer: &str) -> Option<String> {
    let (scheme, _) = issuer.split_once(':')?;
    let why = match () {
        () if scheme.is_empty() => "missing protocol scheme",
        () if scheme.contains('/') => return None,
        () if !scheme.starts_with(|c: char| c.is_ascii_alphabetic()) => {
            "first path segment in URL cannot contain colon"
        }
        () => return None,
    };
    let issuer = object::quote(issuer);
    Some(format!("service-account-issuer {issuer} contained a ':' but was not a valid URL: parse {issuer}: {why}"))
}

fn all(problems: impl Iterator<Item = String>) -> Result<(), String> {
    let problems: Vec<String> = problems.collect();
    if problems.is_empty() { Ok(()) } else { Err(object::aggregate(problems)) }
}
