//! The opening handshake.

use aws_lc_rs::digest;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};

/// RFC 6455 has this appended to the client's key.
const ACCEPT_SUFFIX: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

const UPGRADE: &[u8] = b"upgrade";

/// A client's request to speak WebSocket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Handshake {
    /// The subprotocols that the client offers, its favourite first.
    pub protocols: Vec<String>,
    key: String,
}

/// Why a handshake failed: the response's code and text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    pub code: StatusCode,
    pub text: &'static str,
}

/// Whether the connection is to become something else.
pub fn is_upgrade(headers: &HeaderMap) -> bool {
    let mut values = headers.get_all(header::CONNECTION).iter();
    values.any(|value| value.as_bytes().windows(UPGRADE.len()).any(|part| part.eq_ignore_ascii_case(UPGRADE)))
}

/// Whether the connection is to become a WebSocket.
pub fn is_websocket(headers: &HeaderMap) -> bool {
    let wanted = headers.get(header::UPGRADE).and_then(|value| value.to_str().ok()).unwrap_or("");
    wanted.eq_ignore_ascii_case("websocket") && is_upgrade(headers)
}

/// The subprotocols of the first header that offers any.
pub fn offered(headers: &HeaderMap) -> Vec<String> {
    let text = headers.get(header::SEC_WEBSOCKET_PROTOCOL).and_then(|value| value.to_str().ok()).unwrap_or("").trim();
    if text.is_empty() {
        return Vec::new();
    }
    text.split(',').map(|protocol| protocol.trim().to_string()).collect()
}

impl Handshake {
    /// Reads a request's handshake. The texts of refusals are those of golang.org/x/net/websocket.
    pub fn read(method: &Method, headers: &HeaderMap) -> Result<Handshake, Refused> {
        let refused = |code, text| Err(Refused { code, text });
        let text = |name| headers.get(name).and_then(|value: &HeaderValue| value.to_str().ok()).unwrap_or("");
        if method != Method::GET {
            return refused(StatusCode::METHOD_NOT_ALLOWED, "bad method");
        }
        if !is_websocket(headers) {
            return refused(StatusCode::BAD_REQUEST, "not websocket protocol");
        }
        let key = text(header::SEC_WEBSOCKET_KEY).to_string();
        if key.is_empty() {
            return refused(StatusCode::BAD_REQUEST, "mismatch challenge/response");
        }
        if text(header::SEC_WEBSOCKET_VERSION) != "13" {
            return refused(StatusCode::BAD_REQUEST, "missing or bad WebSocket Version");
        }
        Ok(Handshake { protocols: offered(headers), key })
    }

    /// The first offered protocol that is among these.
    pub fn select<'a>(&self, supported: &[&'a str]) -> Option<&'a str> {
        self.protocols.iter().find_map(|offered| supported.iter().find(|known| *known == offered).copied())
    }

    /// The headers of a response that accepts, with the selected subprotocol if there is one.
    pub fn accept(&self, protocol: Option<&str>) -> HeaderMap {
        let proof = digest::digest(
            &digest::SHA1_FOR_LEGACY_USE_ONLY,
            [self.key.as_bytes(), ACCEPT_SUFFIX.as_bytes()].concat().as_slice(),
        );
        let mut headers = HeaderMap::new();
        headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
        headers.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
        let texts = [
            (header::SEC_WEBSOCKET_ACCEPT, Some(STANDARD.encode(proof))),
            (header::SEC_WEBSOCKET_PROTOCOL, protocol.map(str::to_string)),
        ];
        for (name, text) in texts {
            if let Some(value) = text.and_then(|text| HeaderValue::from_str(&text).ok()) {
                headers.insert(name, value);
            }
        }
        headers
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect()
    }

    #[test]
    fn handshakes_are_read_and_accepted() {
        let good = [
            ("connection", "keep-alive, Upgrade"),
            ("upgrade", "WebSocket"),
            // The example of RFC 6455, section 1.3.
            ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
            ("sec-websocket-version", "13"),
            ("sec-websocket-protocol", "v4.channel.k8s.io, v5.channel.k8s.io"),
        ];
        let handshake = Handshake::read(&Method::GET, &headers(&good)).unwrap();
        assert_eq!(handshake.protocols, ["v4.channel.k8s.io", "v5.channel.k8s.io"]);
        assert_eq!(handshake.select(&["v5.channel.k8s.io"]), Some("v5.channel.k8s.io"));
        assert_eq!(handshake.select(&["v1"]), None);
        let accepted = handshake.accept(Some("v5.channel.k8s.io"));
        assert_eq!(accepted["sec-websocket-accept"], "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
        assert_eq!(accepted["sec-websocket-protocol"], "v5.channel.k8s.io");

        let check = |method: Method, without: &str, code: u16, text: &str| {
            let left: Vec<_> = good.iter().copied().filter(|(name, _)| *name != without).collect();
            let refused = Handshake::read(&method, &headers(&left)).unwrap_err();
            assert_eq!((refused.code.as_u16(), refused.text), (code, text), "without {without}");
        };
        check(Method::POST, "", 405, "bad method");
        check(Method::GET, "upgrade", 400, "not websocket protocol");
        check(Method::GET, "connection", 400, "not websocket protocol");
        check(Method::GET, "sec-websocket-key", 400, "mismatch challenge/response");
        check(Method::GET, "sec-websocket-version", 400, "missing or bad WebSocket Version");
    }
}
