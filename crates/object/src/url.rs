//! URLs as Go's `net/url` reads and writes them, with its errors.

mod escape;

use std::collections::BTreeMap;
use std::fmt;

use escape::{Mode, escape, is_valid_encoded, unescape};

use crate::address;

/// More parameters than this make Go ignore a whole query.
const QUERY_PARAMETERS_MAX: usize = 10_000;

/// A URL, taken apart as Go's `net/url` does.
#[derive(Clone, Debug, Default)]
pub struct Url {
    /// The scheme, in lower case; "" if there is none.
    pub scheme: String,
    /// What follows the scheme, if it does not begin with a slash.
    opaque: String,
    user: Option<User>,
    /// Host and port.
    pub host: String,
    path: Vec<u8>,
    /// The path as it was written, if escaping `path` gives another text.
    raw_path: String,
    /// There was a scheme and no authority.
    omit_host: bool,
    /// There was a question mark and nothing after it.
    force_query: bool,
    raw_query: String,
    fragment: Vec<u8>,
    raw_fragment: String,
}

#[derive(Clone, Debug)]
struct User {
    name: Vec<u8>,
    password: Option<Vec<u8>>,
}

impl Url {
    /// Reads a URL with or without a fragment.
    pub fn parse(text: &str) -> Result<Url, String> {
        let (before, fragment) = text.split_once('#').unwrap_or((text, ""));
        let fail = |text: &str, problem: String| format!("parse {}: {problem}", crate::quote(text));
        let mut url = Url::read(before, false).map_err(|problem| fail(before, problem))?;
        url.fragment = unescape(fragment, Mode::Fragment).map_err(|problem| fail(text, problem))?;
        if escape(&url.fragment, Mode::Fragment) != fragment {
            url.raw_fragment = fragment.to_string();
        }
        Ok(url)
    }

    /// Reads an absolute URL or path without a fragment.
    pub fn parse_request_uri(text: &str) -> Result<Url, String> {
        Url::read(text, true).map_err(|problem| format!("parse {}: {problem}", crate::quote(text)))
    }

    fn read(text: &str, via_request: bool) -> Result<Url, String> {
        if text.bytes().any(|b| b < b' ' || b == 0x7f) {
            return Err("net/url: invalid control character in URL".to_string());
        }
        if text.is_empty() && via_request {
            return Err("empty url".to_string());
        }
        if text == "*" {
            return Ok(Url { path: b"*".to_vec(), ..Url::default() });
        }
        let (scheme, mut rest) = scheme(text)?;
        let mut url = Url { scheme: scheme.to_ascii_lowercase(), ..Url::default() };
        if rest.ends_with('?') && rest.matches('?').count() == 1 {
            url.force_query = true;
            rest = &rest[..rest.len() - 1];
        } else if let Some((before, query)) = rest.split_once('?') {
            url.raw_query = query.to_string();
            rest = before;
        }
        let has_scheme = !url.scheme.is_empty();
        if !rest.starts_with('/') {
            if has_scheme {
                url.opaque = rest.to_string();
                return Ok(url);
            }
            if via_request {
                return Err("invalid URI for request".to_string());
            }
            if rest.split('/').next().is_some_and(|segment| segment.contains(':')) {
                return Err("first path segment in URL cannot contain colon".to_string());
            }
        }
        if (has_scheme || (!via_request && !rest.starts_with("///"))) && rest.starts_with("//") {
            let authority = &rest[2..];
            let end = authority.find('/').unwrap_or(authority.len());
            rest = &authority[end..];
            url.set_authority(&authority[..end])?;
        } else if has_scheme && rest.starts_with('/') {
            url.omit_host = true;
        }
        url.set_path(rest)?;
        Ok(url)
    }

    fn set_authority(&mut self, authority: &str) -> Result<(), String> {
        let Some((user, host)) = authority.rsplit_once('@') else {
            self.host = read_host(&self.scheme, authority)?;
            return Ok(());
        };
        self.host = read_host(&self.scheme, host)?;
        let is_valid = |b: u8| b.is_ascii_alphanumeric() || b"-._:~!$&'()*+,;=%@".contains(&b);
        if !user.bytes().all(is_valid) {
            return Err("net/url: invalid userinfo".to_string());
        }
        let (name, password) = user.split_once(':').map_or((user, None), |(name, password)| (name, Some(password)));
        let name = unescape(name, Mode::UserPassword)?;
        let password = password.map(|password| unescape(password, Mode::UserPassword)).transpose()?;
        self.user = Some(User { name, password });
        Ok(())
    }

    fn set_path(&mut self, path: &str) -> Result<(), String> {
        self.path = unescape(path, Mode::Path)?;
        if escape(&self.path, Mode::Path) != path {
            self.raw_path = path.to_string();
        }
        Ok(())
    }

    /// Whether there is a user name or a password.
    pub fn has_user(&self) -> bool {
        self.user.is_some()
    }

    /// Whether there is a query.
    pub fn has_query(&self) -> bool {
        !self.raw_query.is_empty()
    }

    /// Whether there is a fragment.
    pub fn has_fragment(&self) -> bool {
        !self.fragment.is_empty()
    }

    /// The host without its port and brackets.
    pub fn hostname(&self) -> &str {
        self.split_host().0
    }

    /// The port, "" if there is none.
    pub fn port(&self) -> &str {
        self.split_host().1
    }

    fn split_host(&self) -> (&str, &str) {
        let (mut host, mut port) = (self.host.as_str(), "");
        if let Some(colon) = host.rfind(':').filter(|colon| is_optional_port(&host[*colon..])) {
            (host, port) = (&host[..colon], &host[colon + 1..]);
        }
        let inside = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        (inside.unwrap_or(host), port)
    }

    /// The path as it is written in the URL.
    pub fn escaped_path(&self) -> String {
        written(&self.path, &self.raw_path, Mode::Path)
    }

    /// The parameters of the query; those that cannot be read are left out.
    pub fn query(&self) -> BTreeMap<String, Vec<String>> {
        let mut parameters: BTreeMap<String, Vec<String>> = BTreeMap::new();
        if self.raw_query.matches('&').count() >= QUERY_PARAMETERS_MAX {
            return parameters;
        }
        let text =
            |text: &str| unescape(text, Mode::QueryComponent).map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        for parameter in self.raw_query.split('&').filter(|part| !part.is_empty() && !part.contains(';')) {
            let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
            if let (Ok(name), Ok(value)) = (text(name), text(value)) {
                parameters.entry(name).or_default().push(value);
            }
        }
        parameters
    }
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let has_scheme = !self.scheme.is_empty();
        if has_scheme {
            write!(f, "{}:", self.scheme)?;
        }
        if !self.opaque.is_empty() {
            f.write_str(&self.opaque)?;
        } else {
            let has_authority = !self.host.is_empty() || self.user.is_some();
            if (has_scheme && !self.omit_host) || has_authority {
                if has_authority || !self.path.is_empty() {
                    f.write_str("//")?;
                }
                if let Some(user) = &self.user {
                    write!(f, "{}", escape(&user.name, Mode::UserPassword))?;
                    if let Some(password) = &user.password {
                        write!(f, ":{}", escape(password, Mode::UserPassword))?;
                    }
                    f.write_str("@")?;
                }
                f.write_str(&escape(self.host.as_bytes(), Mode::Host))?;
            }
            f.write_str(&self.escaped_path())?;
        }
        if self.force_query || !self.raw_query.is_empty() {
            write!(f, "?{}", self.raw_query)?;
        }
        if !self.fragment.is_empty() {
            write!(f, "#{}", written(&self.fragment, &self.raw_fragment, Mode::Fragment))?;
        }
        Ok(())
    }
}

/// A part as it was written if that is valid, or else escaped anew.
fn written(part: &[u8], raw: &str, mode: Mode) -> String {
    if !raw.is_empty() && is_valid_encoded(raw, mode) && unescape(raw, mode).is_ok_and(|bytes| bytes == part) {
        return raw.to_string();
    }
    if part == b"*" { "*".to_string() } else { escape(part, mode) }
}

/// The scheme before a colon, if there is one, and the rest.
fn scheme(text: &str) -> Result<(&str, &str), String> {
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' => {}
            b'0'..=b'9' | b'+' | b'-' | b'.' if at > 0 => {}
            b':' if at == 0 => return Err("missing protocol scheme".to_string()),
            b':' => return Ok((&text[..at], &text[at + 1..])),
            _ => break,
        }
    }
    Ok(("", text))
}

fn read_host(scheme: &str, host: &str) -> Result<String, String> {
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    match host.rfind('[') {
        Some(0) => return read_ip_literal(host),
        Some(_) => return Err("invalid IP-literal".to_string()),
        None => {}
    }
    if let Some(first) = host.find(':') {
        // Only HTTP forbids several colons.
        let is_http = matches!(scheme, "http" | "https");
        let colon = if is_http { first } else { host.rfind(':').unwrap_or(first) };
        if !is_optional_port(&host[colon..]) {
            return Err(format!("invalid port {} after host", crate::quote(&host[colon..])));
        }
    }
    unescape(host, Mode::Host).map(text)
}

/// An IPv6 address in brackets, with or without a zone and a port.
fn read_ip_literal(host: &str) -> Result<String, String> {
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    let Some(end) = host.rfind(']') else { return Err("missing ']' in host".to_string()) };
    let colon_port = &host[end + 1..];
    if !is_optional_port(colon_port) {
        return Err(format!("invalid port {} after host", crate::quote(colon_port)));
    }
    let address = &host[1..end];
    let address = match address.find("%25") {
        Some(zone) => {
            let mut bytes = unescape(&address[..zone], Mode::Host)?;
            bytes.extend(unescape(&address[zone..], Mode::Zone)?);
            text(bytes)
        }
        None => text(unescape(address, Mode::Host)?),
    };
    match address::parse(&address) {
        Err(error) => return Err(format!("invalid host: {error}")),
        Ok(parsed) if parsed.ip.is_ipv4() => return Err("invalid IP-literal".to_string()),
        Ok(_) => {}
    }
    Ok(format!("[{address}]{colon_port}"))
}

/// A colon and digits, or nothing.
fn is_optional_port(text: &str) -> bool {
    text.is_empty() || text.strip_prefix(':').is_some_and(|port| port.bytes().all(|b| b.is_ascii_digit()))
}
