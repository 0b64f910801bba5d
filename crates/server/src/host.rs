//! The `Host` header of HTTP/1 requests, which Go's server checks before anything else.

use http::header::HOST;
use http::{Method, Request, StatusCode, Version};
use hyper::ext::ReasonPhrase;

use crate::chain::HttpResponse;
use crate::refused::malformed;

/// The answer to a request without a usable `Host`; its connection is closed.
pub(crate) fn refusal<B>(request: &Request<B>) -> Option<HttpResponse> {
    let (status, body) = problem(request)?;
    let mut response = malformed(StatusCode::BAD_REQUEST, body, request.version());
    if let Some(reason) = status {
        response.extensions_mut().insert(ReasonPhrase::from_static(reason));
    }
    Some(response)
}

/// The status line's text, where it is not the usual one, and the body.
fn problem<B>(request: &Request<B>) -> Option<(Option<&'static [u8]>, &'static str)> {
    const MISSING: &[u8] = b"Bad Request: missing required Host header";
    const MALFORMED: &[u8] = b"Bad Request: malformed Host header";
    if !matches!(request.version(), Version::HTTP_10 | Version::HTTP_11) {
        return None;
    }
    let mut hosts = request.headers().get_all(HOST).iter();
    match (hosts.next(), hosts.next()) {
        (None, _) if request.version() == Version::HTTP_10 || request.method() == Method::CONNECT => None,
        (None, _) => Some((Some(MISSING), "400 Bad Request: missing required Host header")),
        (Some(_), Some(_)) => Some((None, "400 Bad Request")),
        (Some(host), None) if !host.as_bytes().iter().all(is_host_byte) => {
            Some((Some(MALFORMED), "400 Bad Request: malformed Host header"))
        }
        _ => None,
    }
}

/// Whether the byte can stand in a host and a port at all; Go looks no closer.
fn is_host_byte(byte: &u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!$%&'()*+,-.:;=[]_~".contains(byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_checked_as_go_checks_them() {
        let missing = Some("400 Bad Request: missing required Host header");
        let malformed = Some("400 Bad Request: malformed Host header");
        let get = Method::GET;
        for (method, version, hosts, want) in [
            (&get, Version::HTTP_11, &["a"] as &[&str], None),
            (&get, Version::HTTP_11, &["[::1%25x]:6443"], None),
            (&get, Version::HTTP_11, &[""], None),
            (&get, Version::HTTP_11, &[], missing),
            (&get, Version::HTTP_10, &[], None),
            (&Method::CONNECT, Version::HTTP_11, &[], None),
            (&get, Version::HTTP_2, &[], None),
            (&get, Version::HTTP_11, &["a", "a"], Some("400 Bad Request")),
            (&get, Version::HTTP_10, &["a", "b"], Some("400 Bad Request")),
            (&get, Version::HTTP_11, &["a/b"], malformed),
            (&get, Version::HTTP_11, &["a b"], malformed),
            (&get, Version::HTTP_11, &["user@a"], malformed),
            (&get, Version::HTTP_10, &["a\"b"], malformed),
        ] {
            let mut request = Request::builder().method(method).version(version);
            for host in hosts {
                request = request.header(HOST, *host);
            }
            let answer = problem(&request.body(()).unwrap());
            assert_eq!(answer.map(|(_, body)| body), want, "{method} {version:?} {hosts:?}");
        }
    }
}
