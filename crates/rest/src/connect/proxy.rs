//! Proxies to pods, services and nodes: the client's request with the path below `proxy`.

use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use object::Status;
use registry::Target;
use request::{RequestInfo, escaped};

use super::links::Links;
use super::{dial, not_upgraded};
use crate::Call;
use crate::forward::{Unreachable, append_forwarded_for, forward, header_value, passed_on};
use crate::reply::{Reply, ReplyBody};
use crate::scope::Scope;

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
        target.path = if path.is_empty() { "/".into() } else { escaped(&path) };
        let sent = forward(dial(scope)?, &target, call.method.clone(), &headers, scope.take_body()).await;
        return sent.map_err(not_upgraded);
    }
    if path.is_empty() && (call.method == Method::GET || call.method == Method::HEAD) {
        return Ok(to_directory(call));
    }
    let links = Links::new(&target, &call.info.path, &path, host(&headers));
    let forwarded = links.proxied_path(&escaped(&path), path.ends_with('/'));
    let forwarded = header_value("X-Forwarded-Uri", &forwarded)
        .map_err(|error| Status::unavailable(format!("error trying to reach service: {error}")))?;
    headers.insert(FORWARDED_URI, forwarded);
    if headers.get(header::ACCEPT).is_some_and(|accept| accept.as_bytes().starts_with(b"text/html")) {
        // The links of a page are rewritten, so it must come uncompressed.
        headers.remove(header::ACCEPT_ENCODING);
    }
    if path.is_empty() {
        path.push('/');
    }
    target.path = escaped(&path);
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
    // What a client escaped is shown as it is meant, unless no header can hold that.
    let mut location = match HeaderValue::from_bytes(call.info.path.as_bytes()) {
        Ok(_) => call.info.path.clone(),
        Err(_) => escaped(&call.info.path),
    };
    location.push('/');
    if let Some(query) = call.uri.query() {
        location.push('?');
        location.push_str(query);
    }
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
        append_forwarded_for(&mut headers, client);
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
            let info = RequestInfo::parse("GET", &request::unescape(path).unwrap(), &[]);
            assert_eq!(escaped(&clean(&path_below(&info))), want, "{path}");
        }
    }
}
