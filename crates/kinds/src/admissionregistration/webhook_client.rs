//! How to reach a webhook: a URL, or a Service. Admission webhooks and conversion webhooks share the rules.

use object::{Cursor, Errors, names};

use crate::common::checks::Checks;

const FORM: &str = "; desired format: https://host[/path]";

/// Checks a client config: exactly one of `url` and `service`.
pub fn validate(config: &Cursor, errors: &mut Errors) {
    let (url, service) = (config.field("url"), config.field("service"));
    match (url.is_set(), service.is_set()) {
        (true, false) => validate_url(&url, errors),
        (false, true) => validate_service(&service, errors),
        _ => config.required(errors, "exactly one of url or service is required"),
    }
}

/// A URL of a webhook: https, and nothing but a host and a path.
pub fn validate_url(url: &Cursor, errors: &mut Errors) {
    let parts = match Parts::of(url.str()) {
        Ok(parts) => parts,
        Err(problem) => return url.required(errors, format!("url must be a valid URL: {problem}{FORM}")),
    };
    let mut report = |wrong: bool, shown: &str, detail: String| {
        if wrong {
            url.invalid_as(errors, shown, detail);
        }
    };
    report(parts.scheme != "https", &parts.scheme, format!("'https' is the only allowed URL scheme{FORM}"));
    report(parts.host.is_empty(), parts.host, format!("host must be specified{FORM}"));
    let user = parts.user.unwrap_or("");
    report(parts.user.is_some(), user, "user information is not permitted in the URL".to_string());
    report(!parts.fragment.is_empty(), parts.fragment, "fragments are not permitted in the URL".to_string());
    report(!parts.query.is_empty(), parts.query, "query parameters are not permitted in the URL".to_string());
}

/// Checks a reference to the Service of a webhook. Upstream has the two names the wrong way round, which decides the order.
pub fn validate_service(service: &Cursor, errors: &mut Errors) {
    let (name, namespace, port) = (service.field("name"), service.field("namespace"), service.field("port"));
    if namespace.is_empty() {
        errors.required(name.path(), "");
    }
    if name.is_empty() {
        errors.required(namespace.path(), "");
    }
    let messages = names::port_number(port.int());
    if !messages.is_empty() {
        port.invalid_as(errors, port.int(), format!("port is not valid: {}", messages.join(", ")));
    }
    validate_path(&service.field("path"), errors);
}

fn validate_path(path: &Cursor, errors: &mut Errors) {
    let text = path.str();
    if text.is_empty() || text == "/" {
        return;
    }
    if text == "//" {
        return path.bad(errors, "segment[0] may not be empty");
    }
    if !text.starts_with('/') {
        path.bad(errors, "must start with a '/'");
    }
    // Upstream drops the first byte whether or not it is the slash.
    let checked = String::from_utf8_lossy(&text.as_bytes()[1..]);
    let checked = checked.strip_suffix('/').unwrap_or(&checked);
    for (i, segment) in checked.split('/').enumerate() {
        if segment.is_empty() {
            path.bad(errors, format!("segment[{i}] may not be empty"));
            continue;
        }
        for message in names::dns1123_subdomain(segment) {
            path.bad(errors, format!("segment[{i}]: {message}"));
        }
    }
}

/// A URL taken apart as Go does it.
struct Parts<'a> {
    scheme: String,
    user: Option<&'a str>,
    host: &'a str,
    query: &'a str,
    fragment: &'a str,
}

impl<'a> Parts<'a> {
    fn of(url: &'a str) -> Result<Parts<'a>, String> {
        let quoted = object::quote(url);
        let (rest, fragment) = url.split_once('#').unwrap_or((url, ""));
        if url.bytes().any(|b| b < 0x20 || b == 0x7f) {
            return Err(format!("parse {quoted}: net/url: invalid control character in URL"));
        }
        let (scheme, rest) = Parts::scheme(rest).map_err(|problem| format!("parse {quoted}: {problem}"))?;
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let Some(authority) = rest.strip_prefix("//") else {
            return Ok(Parts { scheme, user: None, host: "", query, fragment });
        };
        let authority = authority.split_once('/').map_or(authority, |(authority, _)| authority);
        let (user, host) = match authority.rsplit_once('@') {
            Some((user, host)) => (Some(user), host),
            None => (None, authority),
        };
        if let Some(problem) = bad_host(host) {
            return Err(format!("parse {quoted}: {problem}"));
        }
        Ok(Parts { scheme, user, host, query, fragment })
    }

    fn scheme(url: &str) -> Result<(String, &str), &'static str> {
        for (i, c) in url.char_indices() {
            match c {
                'a'..='z' | 'A'..='Z' => {}
                '0'..='9' | '+' | '-' | '.' if i > 0 => {}
                ':' if i == 0 => return Err("missing protocol scheme"),
                ':' => return Ok((url.get(..i).unwrap_or("").to_lowercase(), url.get(i + 1..).unwrap_or(""))),
                _ => break,
            }
        }
        let first = url.split('/').next().unwrap_or("");
        if !url.starts_with('/') && first.contains(':') {
            return Err("first path segment in URL cannot contain colon");
        }
        Ok((String::new(), url))
    }
}

/// What Go finds wrong with a host.
fn bad_host(host: &str) -> Option<String> {
    let bad = host.chars().find(|c| matches!(c, ' ' | '<' | '>' | '"' | '\\' | '^' | '`' | '{' | '}' | '|'));
    if let Some(c) = bad {
        return Some(format!("invalid character {} in host name", object::quote(&c.to_string())));
    }
    let port = match host.rsplit_once(']') {
        Some((_, port)) => port,
        None if host.starts_with('[') => return Some("missing ']' in host".to_string()),
        None => host.rfind(':').and_then(|at| host.get(at..)).unwrap_or(""),
    };
    let fine = port.is_empty() || port.strip_prefix(':').is_some_and(|p| p.bytes().all(|b| b.is_ascii_digit()));
    (!fine).then(|| format!("invalid port {} after host", object::quote(port)))
}
