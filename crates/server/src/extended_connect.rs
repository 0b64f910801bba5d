//! WebSocket over HTTP/2 (RFC 8441): an extended CONNECT is served as the GET that upgrades an HTTP/1.1 connection.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use hyper::ext::Protocol;

/// Rewrites an extended CONNECT for WebSocket to the GET of an HTTP/1.1 upgrade; false for every other request.
pub fn accept<B>(request: &mut Request<B>) -> bool {
    let wants =
        |request: &Request<B>| request.extensions().get::<Protocol>().is_some_and(|name| name.as_str() == "websocket");
    if request.method() != Method::CONNECT || !wants(request) {
        return false;
    }
    *request.method_mut() = Method::GET;
    let headers = request.headers_mut();
    headers.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
    // HTTP/2 has no such key, but a backend that speaks HTTP/1.1 wants one.
    let key: [u8; 16] = rand::random();
    if let Ok(key) = HeaderValue::from_str(&STANDARD.encode(key)) {
        headers.insert(header::SEC_WEBSOCKET_KEY, key);
    }
    true
}

/// Rewrites a `101 Switching Protocols` response to the 200 that RFC 8441 has instead.
pub fn answer<B>(response: &mut Response<B>) {
    if response.status() == StatusCode::SWITCHING_PROTOCOLS {
        *response.status_mut() = StatusCode::OK;
    }
    for name in [header::CONNECTION, header::UPGRADE, header::SEC_WEBSOCKET_ACCEPT] {
        response.headers_mut().remove(name);
    }
}
