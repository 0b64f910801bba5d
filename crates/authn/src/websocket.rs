//! Tokens of browsers' WebSocket clients, which cannot set headers: a subprotocol holds the token.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::{HeaderMap, HeaderValue, header};
use streams::websocket::is_websocket;

use crate::Refused;

const PREFIX: &str = "base64url.bearer.authorization.k8s.io.";

/// The token among the subprotocols of a WebSocket request, if there is one.
pub fn token(headers: &HeaderMap) -> Result<Option<String>, Refused> {
    if !headers.contains_key(header::SEC_WEBSOCKET_PROTOCOL) || !is_websocket(headers) {
        return Ok(None);
    }
    let (tokens, others): (Vec<&[u8]>, Vec<&[u8]>) =
        protocols(headers).partition(|name| name.starts_with(PREFIX.as_bytes()));
    let refused = |why: &str| Err(Refused::because(why));
    let encoded = match tokens.as_slice() {
        [] => return Ok(None),
        [one] => one.get(PREFIX.len()..).unwrap_or(b""),
        _ => return refused("multiple base64.bearer.authorization tokens specified"),
    };
    let Ok(decoded) = URL_SAFE_NO_PAD.decode(encoded) else {
        return refused("invalid base64.bearer.authorization token encoding");
    };
    let Ok(token) = String::from_utf8(decoded) else { return refused("invalid base64.bearer.authorization token") };
    if token.is_empty() {
        return Ok(None);
    }
    if others.is_empty() {
        return refused("missing additional subprotocol");
    }
    Ok(Some(token))
}

/// Removes tokens from the subprotocols: what is behind this server must not see them.
pub fn strip(headers: &mut HeaderMap) {
    if !headers.contains_key(header::SEC_WEBSOCKET_PROTOCOL)
        || !protocols(headers).any(|name| name.starts_with(PREFIX.as_bytes()))
    {
        return;
    }
    let others: Vec<&[u8]> = protocols(headers).filter(|name| !name.starts_with(PREFIX.as_bytes())).collect();
    match HeaderValue::from_bytes(&others.join(&b","[..])) {
        Ok(value) if !others.is_empty() => drop(headers.insert(header::SEC_WEBSOCKET_PROTOCOL, value)),
        _ => drop(headers.remove(header::SEC_WEBSOCKET_PROTOCOL)),
    }
}

/// As bytes: a header that is not text all over may hold a token, too.
fn protocols(headers: &HeaderMap) -> impl Iterator<Item = &[u8]> {
    let values = headers.get_all(header::SEC_WEBSOCKET_PROTOCOL).iter().map(HeaderValue::as_bytes);
    values.flat_map(|value| value.split(|byte| *byte == b',')).map(<[u8]>::trim_ascii)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subprotocol_holds_the_token() {
        let encoded = URL_SAFE_NO_PAD.encode("secret");
        for (protocols, want) in [
            (format!("v4.channel.k8s.io, {PREFIX}{encoded}"), Ok(Some("secret"))),
            ("v4.channel.k8s.io".to_string(), Ok(None)),
            (format!("{PREFIX}{encoded}"), Err("missing additional subprotocol")),
            (format!("a,{PREFIX}!"), Err("invalid base64.bearer.authorization token encoding")),
            (format!("a,{PREFIX}_w"), Err("invalid base64.bearer.authorization token")),
            (
                format!("a,{PREFIX}{encoded},{PREFIX}{encoded}"),
                Err("multiple base64.bearer.authorization tokens specified"),
            ),
            (format!("\u{e9},{PREFIX}{encoded}"), Ok(Some("secret"))),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(header::CONNECTION, HeaderValue::from_static("keep-alive, Upgrade"));
            headers.insert(header::UPGRADE, HeaderValue::from_static("WebSocket"));
            headers.insert(header::SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_bytes(protocols.as_bytes()).unwrap());
            let got = token(&headers).map_err(|refused| refused.to_string());
            assert_eq!(got, want.map(|token| token.map(str::to_string)).map_err(str::to_string), "{protocols}");
            strip(&mut headers);
            assert!(!headers.values().any(|value| String::from_utf8_lossy(value.as_bytes()).contains(PREFIX)));
            headers.remove(header::UPGRADE);
            assert_eq!(token(&headers), Ok(None));
        }
    }
}
