//! Reads request targets. What a request is for is decided here, once: every filter and handler uses the path that is decoded here.

use std::time::Duration;

use bytes::Bytes;
use http::request::Parts;
use http::{HeaderMap, Method, Request, StatusCode, Uri, Version, header};
use hyper::upgrade::OnUpgrade;
use object::Status;
use request::{RequestInfo, User};
use rest::{Call, Reply, ReplyBody};

use crate::arrival::ArrivingBody;
use crate::chain::HttpResponse;
use crate::peer::Peer;
use crate::refused::malformed;

/// A request whose path is understood, without a user.
pub struct Arrived {
    /// In a box because it is large and every stage would move it.
    pub call: Box<Call>,
    pub body: ArrivingBody,
    pub upgrade: Option<OnUpgrade>,
    pub version: Version,
}

/// Reads what a request is for. One that is not long-running may take `most` time at most.
pub fn parse(request: Request<ArrivingBody>, peer: &Peer, most: Duration) -> Result<Arrived, HttpResponse> {
    let path = path(&request)?;
    let (mut parts, body) = request.into_parts();
    let upgrade = parts.extensions.remove::<OnUpgrade>();
    let upgrade = upgrade.filter(|_| parts.headers.contains_key(header::UPGRADE));
    let Parts { method, uri, headers, version, .. } = parts;
    let query = query(&uri);
    let info = RequestInfo::parse(method.as_str(), &path, &query);
    let asked = timeout(&query, most).ok().filter(|_| !info.is_long_running());
    let (timeout, client) = (asked.unwrap_or(most), Some(peer.address.ip()));
    let user = User::default();
    let (record, origin, finish, parts, new_uid) = Default::default();
    let only_visible = false;
    let call = Call {
        info,
        user,
        method,
        uri,
        headers,
        query,
        timeout,
        client,
        record,
        origin,
        only_visible,
        finish,
        parts,
        new_uid,
    };
    Ok(Arrived { call: Box::new(call), body, upgrade, version })
}

/// How long a request may take: its `timeout` parameter, but no more than `--request-timeout`.
pub fn timeout(query: &[(String, String)], most: Duration) -> Result<Duration, Status> {
    let asked = query.iter().find(|(key, _)| key == "timeout").map_or("", |(_, value)| value.as_str());
    if asked.is_empty() {
        return Ok(most);
    }
    let asked = object::duration::Duration::parse(asked)
        .map_err(|error| Status::bad_request(format!("invalid timeout specified in the request URL - {error}")))?;
    match u64::try_from(asked.0) {
        Ok(nanos) if nanos > 0 => Ok(Duration::from_nanos(nanos).min(most)),
        _ => Ok(most),
    }
}

/// The decoded path. Err is the answer to a request that has none, which Go's server gives without asking who the client is.
fn path<B>(request: &Request<B>) -> Result<String, HttpResponse> {
    let path = request.uri().path();
    if path == "*" && request.method() == Method::OPTIONS {
        return Err(Reply::with(StatusCode::OK, HeaderMap::new(), ReplyBody::Ready(Bytes::new())).into_response());
    }
    let is_whole = path.starts_with('/') || path == "*" || request.method() == Method::CONNECT;
    let decoded = request::unescape(path).filter(|_| is_whole);
    decoded.ok_or_else(|| malformed(StatusCode::BAD_REQUEST, "400 Bad Request", request.version()))
}

/// The decoded parameters of a query string, in order. As Go's URL.Query, it leaves out those with a broken escape or a semicolon.
pub fn query(uri: &Uri) -> Vec<(String, String)> {
    let Some(text) = uri.query() else { return Vec::new() };
    let decode = |part: &str| request::unescape(&part.replace('+', " "));
    text.split('&')
        .filter(|pair| !pair.is_empty() && !pair.contains(';'))
        .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
        .filter_map(|(key, value)| Some((decode(key)?, decode(value)?)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_request_has_one_path() {
        let check = |method: &str, target: &str, want: Result<&str, u16>| {
            let request = Request::builder().method(method).uri(target).body(()).unwrap();
            let got = path(&request).map_err(|answer| answer.status().as_u16());
            assert_eq!(got.as_deref().map_err(|code| *code), want, "{method} {target}");
        };
        check("GET", "/%6detrics?x=%zz", Ok("/metrics"));
        check("GET", "https://other.example.com/%2e%2e/x", Ok("/../x"));
        check("GET", "//metrics/", Ok("//metrics/"));
        check("GET", "*", Ok("*"));
        check("OPTIONS", "*", Err(200));
        check("CONNECT", "other.example.com:443", Ok(""));
        check("GET", "other.example.com:443", Err(400));
        for broken in ["/%", "/%a", "/%zz", "/a%2/b", "/metrics%"] {
            check("GET", broken, Err(400));
        }
    }

    #[test]
    fn queries_decode() {
        let uri: Uri = "/x?a=b%3Dc&d=&e&labelSelector=x+in+(y)&bad=%zz&worse=%+1&a;b=c".parse().unwrap();
        let got = query(&uri);
        let want = [("a", "b=c"), ("d", ""), ("e", ""), ("labelSelector", "x in (y)")];
        assert_eq!(got, want.map(|(k, v)| (k.to_string(), v.to_string())));
    }
}
