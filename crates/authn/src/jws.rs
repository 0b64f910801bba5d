//! [`Jws`]: a signed token in its compact form, taken apart; nothing in it is believed yet.

use base64::Engine;
use base64::alphabet::URL_SAFE;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use base64::engine::{GeneralPurpose, GeneralPurposeConfig};
use codec::Notes;
use object::Value;

/// Base64 as Go's `RawURLEncoding` reads it: the bits of the last character that count for nothing may be anything.
const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &URL_SAFE,
    GeneralPurposeConfig::new()
        .with_decode_allow_trailing_bits(true)
        .with_decode_padding_mode(base64::engine::DecodePaddingMode::RequireNone),
);

/// The one extension of headers that go-jose understands: whether the payload was encoded before it was signed.
const B64: &str = "b64";

/// A token with one signature.
pub struct Jws {
    pub algorithm: String,
    /// "" if the token does not say which key signed it.
    pub key_id: String,
    /// Whether the verifier knows every extension that the header says it must know.
    pub is_understood: bool,
    /// What the signature is over.
    pub message: Vec<u8>,
    pub payload: Vec<u8>,
    pub signature: Vec<u8>,
}

impl Jws {
    /// Err is what go-jose says.
    pub fn parse(token: &str) -> Result<Jws, String> {
        let mut parts = token.split('.');
        let (Some(header), Some(payload), Some(signature), None) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err("go-jose/go-jose: compact JWS format must have three parts".into());
        };
        let (raw, payload) = (decode(header)?, decode(payload)?);
        let header = header_of(&raw)?;
        let text = |name: &str| match header.field(name) {
            Value::Null => Ok(String::new()),
            Value::String(text) => Ok(text.to_string()),
            other => Err(format!("json: cannot unmarshal {} into Go value of type string", json_type(other))),
        };
        text("nonce")?;
        let mut message = URL_SAFE_NO_PAD.encode(&raw).into_bytes();
        message.push(b'.');
        match header.field(B64).as_bool() {
            Some(false) => message.extend_from_slice(&payload),
            _ => message.extend_from_slice(URL_SAFE_NO_PAD.encode(&payload).as_bytes()),
        }
        Ok(Jws {
            algorithm: text("alg")?,
            key_id: text("kid")?,
            is_understood: is_understood(header.field("crit")),
            message,
            payload,
            signature: decode(signature)?,
        })
    }

    /// What the payload of a token says, whatever stands in front of it and behind it.
    pub fn unverified_claims(token: &str) -> Result<Value, String> {
        let mut parts = token.split('.');
        match (parts.next(), parts.next(), parts.next(), parts.next()) {
            (Some(_), Some(payload), Some(_), None) => json(&decode(payload)?),
            _ => Err("malformed token".into()),
        }
    }

    /// What the payload says, as a JSON object.
    pub fn claims(&self) -> Result<Value, String> {
        json(&self.payload)
    }
}

fn is_understood(critical: &Value) -> bool {
    match critical {
        Value::Null => true,
        Value::List(names) => names.iter().all(|name| name.as_str() == Some(B64)),
        _ => false,
    }
}

/// A header as go-jose reads it: a key that is there twice, at any depth, makes it unreadable.
fn header_of(bytes: &[u8]) -> Result<Value, String> {
    let mut notes = Notes::collect();
    let header = object(codec::json::decode(bytes, None, &mut notes).map_err(|error| error.to_string())?)?;
    let Some(note) = notes.messages().first() else { return Ok(header) };
    let key = note.trim_end_matches('"').rsplit(['"', '.']).next().unwrap_or_default();
    Err(format!("json: duplicate key '{key}' in object"))
}

fn decode(part: &str) -> Result<Vec<u8>, String> {
    LENIENT.decode(part).map_err(|error| match error {
        base64::DecodeError::InvalidByte(at, _) | base64::DecodeError::InvalidLastSymbol(at, _) => {
            format!("illegal base64 data at input byte {at}")
        }
        _ => format!("illegal base64 data at input byte {}", part.len()),
    })
}

/// A JSON object.
pub fn json(bytes: &[u8]) -> Result<Value, String> {
    object(codec::json::decode(bytes, None, &mut Notes::ignore()).map_err(|error| error.to_string())?)
}

fn object(value: Value) -> Result<Value, String> {
    match value {
        Value::Map(_) => Ok(value),
        other => Err(format!(
            "json: cannot unmarshal {} into Go value of type map[string]json.RawMessage",
            json_type(&other)
        )),
    }
}

/// What Go calls a JSON value in errors.
pub fn json_type(value: &Value) -> &'static str {
    match value {
        Value::Null | Value::Raw(_) => "null",
        Value::Bool(_) => "bool",
        Value::Int(_) | Value::Float(_) => "number",
        Value::String(_) => "string",
        Value::List(_) => "array",
        Value::Map(_) => "object",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(header: &str, payload: &str) -> Result<Jws, String> {
        Jws::parse(&format!("{}.{}.AAAA", URL_SAFE_NO_PAD.encode(header), URL_SAFE_NO_PAD.encode(payload)))
    }

    /// What go-jose v2 answers for the same headers.
    #[test]
    fn headers_are_read_as_go_jose_reads_them() {
        let duplicate = |key: &str| Err(format!("json: duplicate key '{key}' in object"));
        for (header, want) in [
            (r#"{"alg":"RS256","kid":"k"}"#, Ok(("RS256", "k", true))),
            (r#"{"alg":"RS256","crit":null}"#, Ok(("RS256", "", true))),
            (r#"{"alg":"RS256","crit":[]}"#, Ok(("RS256", "", true))),
            (r#"{"alg":"RS256","crit":["b64"],"b64":true}"#, Ok(("RS256", "", true))),
            (r#"{"alg":"RS256","crit":["b64"],"b64":false}"#, Ok(("RS256", "", true))),
            (r#"{"alg":"RS256","crit":["exp"]}"#, Ok(("RS256", "", false))),
            (r#"{"alg":"RS256","crit":["b64","exp"]}"#, Ok(("RS256", "", false))),
            (r#"{"alg":"RS256","crit":"b64"}"#, Ok(("RS256", "", false))),
            (r#"{"ALG":"RS256"}"#, Ok(("", "", true))),
            (r#"{"alg":"none","alg":"RS256"}"#, duplicate("alg")),
            (r#"{"alg":"RS256","alg":"RS256"}"#, duplicate("alg")),
            (r#"{"kid":"a","alg":"RS256","kid":"b"}"#, duplicate("kid")),
            (r#"{"alg":"RS256","x":{"y":1,"y":2}}"#, duplicate("y")),
            (r#"{"alg":1}"#, Err("json: cannot unmarshal number into Go value of type string".to_string())),
        ] {
            let got = parse(header, "{}").map(|jws| (jws.algorithm, jws.key_id, jws.is_understood));
            let want = want.map(|(alg, kid, understood)| (alg.to_string(), kid.to_string(), understood));
            assert_eq!(got, want, "{header}");
        }
    }

    /// A signature is over the payload as it is sent, or over the payload itself if the header says so.
    #[test]
    fn what_is_signed_depends_on_the_header() {
        let message = |header: &str| String::from_utf8(parse(header, "{}").unwrap().message).unwrap();
        assert!(message(r#"{"alg":"RS256"}"#).ends_with(".e30"));
        assert!(message(r#"{"alg":"RS256","crit":["b64"],"b64":false}"#).ends_with(".{}"));
        assert!(message(r#"{"alg":"RS256","b64":"false"}"#).ends_with(".e30"));
        // Bits that count for nothing are not what was signed.
        let loose = Jws::parse("e31.e31.AAAA").unwrap();
        assert_eq!(loose.message, b"e30.e30");
    }
}
