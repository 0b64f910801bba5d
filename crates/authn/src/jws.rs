//! [`Jws`]: a signed token in its compact form, taken apart; nothing in it is believed yet.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use codec::Notes;
use object::Value;

/// A token with one signature.
pub struct Jws<'a> {
    pub algorithm: String,
    /// "" if the token does not say which key signed it.
    pub key_id: String,
    /// Whether the header has extensions that the verifier must understand. We know none.
    pub has_critical: bool,
    /// What the signature is over.
    pub message: &'a [u8],
    pub payload: Vec<u8>,
    pub signature: Vec<u8>,
}

impl Jws<'_> {
    /// Err is what go-jose says.
    pub fn parse(token: &str) -> Result<Jws<'_>, String> {
        let mut parts = token.split('.');
        let (Some(header), Some(payload), Some(signature), None) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err("go-jose/go-jose: compact JWS format must have three parts".into());
        };
        let message = token.get(..header.len() + 1 + payload.len()).unwrap_or("").as_bytes();
        let header = json(&decode(header)?)?;
        let text = |name: &str| match header.field(name) {
            Value::Null => Ok(String::new()),
            Value::String(text) => Ok(text.to_string()),
            other => Err(format!("json: cannot unmarshal {} into Go value of type string", json_type(other))),
        };
        Ok(Jws {
            algorithm: text("alg")?,
            key_id: text("kid")?,
            has_critical: !header.field("crit").is_null(),
            message,
            payload: decode(payload)?,
            signature: decode(signature)?,
        })
    }

    /// What the payload says, as a JSON object.
    pub fn claims(&self) -> Result<Value, String> {
        json(&self.payload)
    }
}

fn decode(part: &str) -> Result<Vec<u8>, String> {
    URL_SAFE_NO_PAD.decode(part).map_err(|error| match error {
        base64::DecodeError::InvalidByte(at, _) | base64::DecodeError::InvalidLastSymbol(at, _) => {
            format!("illegal base64 data at input byte {at}")
        }
        _ => format!("illegal base64 data at input byte {}", part.len()),
    })
}

/// A JSON object.
pub fn json(bytes: &[u8]) -> Result<Value, String> {
    let value = codec::json::decode(bytes, None, &mut Notes::ignore()).map_err(|error| error.to_string())?;
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
