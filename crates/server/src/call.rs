//! Reads request targets. What a request is for is decided here, once: every filter and handler uses the path that is decoded here.

use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, StatusCode, Uri, Version, header};
use http_body_util::{BodyExt, Full};

use crate::chain::HttpResponse;

/// The decoded path. Err is the answer to a request that has none, which Go's server gives without asking who the client is.
pub fn path<B>(request: &Request<B>) -> Result<String, HttpResponse> {
    let path = request.uri().path();
    if path == "*" && request.method() == Method::OPTIONS {
        return Err(bare(StatusCode::OK, ""));
    }
    let is_whole = path.starts_with('/') || path == "*" || request.method() == Method::CONNECT;
    match request::unescape(path).filter(|_| is_whole) {
        Some(path) => Ok(path),
        None => {
            let mut answer = bare(StatusCode::BAD_REQUEST, "400 Bad Request");
            let text = HeaderValue::from_static("text/plain; charset=utf-8");
            answer.headers_mut().insert(header::CONTENT_TYPE, text);
            if request.version() != Version::HTTP_2 {
                answer.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
            }
            Err(answer)
        }
    }
}

fn bare(status: StatusCode, body: &'static str) -> HttpResponse {
    let body = Full::new(Bytes::from_static(body.as_bytes())).map_err(|never| match never {}).boxed_unsync();
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response
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
