//! Proxies to pods, services and nodes: the client's request with the path below `proxy`.

use std::borrow::Cow;

use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use object::Status;
use registry::Target;
use request::RequestInfo;

use super::links::Links;
use super::{dial, not_upgraded};
use crate::Call;
use crate::forward::{Unreachable, forward, passed_on};
use crate::reply::{Reply, ReplyBody};
use crate::scope::Scope;

const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const FORWARDED_URI: HeaderName = HeaderName::from_static("x-forwarded-uri");
/// Which pages of other origins may read an answer is for this server to say, not for what is behind it.
const CORS: [HeaderName; 4] = [
    header::ACCESS_CONTROL_ALLOW_CREDENTIALS,
    header::ACCESS_CONTROL_ALLOW_HEADERS,
    header::ACCESS_CONTROL_ALLOW_METHODS,
    header::ACCESS_CONTROL_ALLOW_ORIGIN,
];

pub async fn proxy(scope: &Scope, mut target: Target) -> Result<Reply, Status> {
    let call = &scope.call;
    let mut path = clean(&path_below(&call.info));
    let mut headers = with_forwarded_for(call);
    if streams::websocket::is_upgrade(&call.headers) {
        // As upstream: the query stays behind.
        target.path = if path.is_empty() { "/".into() } else { escape(&path) };
        let sent = forward(dial(scope)?, &target, call.method.clone(), &headers, scope.take_body()).await;
        return sent.map_err(not_upgraded);
    }
    if path.is_empty() && (call.method == Method::GET || call.method == Method::HEAD) {
        return Ok(to_directory(call));
    }
    let links = Links::new(&target, &request::decode(call.uri.path()), &path, host(&headers));
    let forwarded = links.proxied_path(&escape(&path), path.ends_with('/'));
    if let Ok(value) = HeaderValue::from_str(&forwarded) {
        headers.insert(FORWARDED_URI, value);
    }
    if headers.get(header::ACCEPT).is_some_and(|accept| accept.as_bytes().starts_with(b"text/html")) {
        // The links of a page are rewritten, so it must come uncompressed.
        headers.remove(header::ACCEPT_ENCODING);
    }
    if path.is_empty() {
        path.push('/');
    }
    target.path = escape(&path);
    if let Some(query) = call.uri.query() {
        target.path.push('?');
        target.path.push_str(query);
    }
    let sent = forward(dial(scope)?, &target, call.method.clone(), &headers, scope.take_body()).await;
    let mut reply = sent.map_err(|error| match error {
        Unreachable::NotAllowed(why) => Status::bad_request(why),
        Unreachable::Failed(why) | Unreachable::Broken(why) => {
            Status::unavailable(format!("error trying to reach service: {why}"))
        }
    })?;
    CORS.iter().for_each(|name| drop(reply.headers.remove(name)));
    links.rewrite(&mut reply);
    Ok(reply)
}

/// A page at the root has relative links, which need a path that ends with a slash.
fn to_directory(call: &Call) -> Reply {
    let query = call.uri.query().map_or(String::new(), |query| format!("?{query}"));
    let location = format!("{}/{query}", request::decode(call.uri.path()));
    let mut reply = Reply::with(StatusCode::MOVED_PERMANENTLY, HeaderMap::new(), ReplyBody::Ready(Default::default()));
    if let Ok(location) = HeaderValue::from_bytes(location.as_bytes()) {
        reply.headers.insert(header::LOCATION, location);
    }
    reply
}

/// The request's headers as they are passed on, with its client added to `X-Forwarded-For` and a `Host` for those that came over
/// HTTP/2.
pub fn with_forwarded_for(call: &Call) -> HeaderMap {
    let mut headers = passed_on(&call.headers);
    if let Some(client) = call.client {
        let before = headers.get_all(FORWARDED_FOR).iter().filter_map(|value| value.to_str().ok());
        let all: Vec<Cow<'_, str>> = before.map(Cow::from).chain([Cow::from(client.to_string())]).collect();
        if let Ok(value) = HeaderValue::from_str(&all.join(", ")) {
            headers.insert(FORWARDED_FOR, value);
        }
    }
    let authority = call.uri.authority().and_then(|authority| HeaderValue::from_str(authority.as_str()).ok());
    if let Some(host) = authority {
        headers.entry(header::HOST).or_insert(host);
    }
    headers
}

fn host(headers: &HeaderMap) -> String {
    headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or("").to_string()
}

/// What follows the subresource in the path, decoded; it keeps the slash at the end.
pub fn path_below(info: &RequestInfo) -> String {
    let mut path = info.parts.get(3..).unwrap_or_default().join("/");
    if !path.is_empty() && !path.starts_with('/') {
        path.insert(0, '/');
    }
    if info.path.ends_with('/') && !path.ends_with('/') {
        path.push('/');
    }
    path
}

/// The path without empty and dot segments; it keeps the slash at the end.
pub fn clean(path: &str) -> String {
    let mut segments: Vec<&str> = Vec::new();
    for segment in path.split('/') {
        match segment {
            "" | "." => {}
            ".." => drop(segments.pop()),
            other => segments.push(other),
        }
    }
    let mut cleaned = String::with_capacity(path.len());
    for segment in segments {
        cleaned.push('/');
        cleaned.push_str(segment);
    }
    if path.ends_with('/') || (cleaned.is_empty() && !path.is_empty()) {
        cleaned.push('/');
    }
    cleaned
}

/// The path as Go's `url.URL` encodes it.
pub fn escape(path: &str) -> String {
    let mut out = String::with_capacity(path.len());
    for byte in path.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' => out.push(char::from(byte)),
            b'-' | b'_' | b'.' | b'~' | b'$' | b'&' | b'+' | b',' | b'/' | b':' | b';' | b'=' | b'@' => {
                out.push(char::from(byte));
            }
            byte => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_cleaned_and_encoded() {
        for (path, want) in [
            ("/api/v1/nodes/n/proxy", ""),
            ("/api/v1/nodes/n/proxy/", "/"),
            ("/api/v1/nodes/n/proxy/a//b/", "/a/b/"),
            ("/api/v1/nodes/n/proxy/a/./../b", "/b"),
            ("/api/v1/nodes/n/proxy/../../..", "/"),
            ("/api/v1/nodes/n/proxy/%2e%2e/x%20y", "/x%20y"),
            ("/api/v1/nodes/n/proxy/a%3Fb=c;d!", "/a%3Fb=c;d%21"),
        ] {
            let info = RequestInfo::parse("GET", path, &[]);
            assert_eq!(escape(&clean(&path_below(&info))), want, "{path}");
        }
    }
}
