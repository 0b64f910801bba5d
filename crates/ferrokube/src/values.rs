//! JSON documents of the program, and values of the server.

use ::object::{Status, Value};
use codec::Notes;

/// A JSON document as the server holds it.
pub fn to_value(document: &serde_json::Value) -> Result<Value, Status> {
    codec::json::decode(document.to_string().as_bytes(), None, &mut Notes::ignore())
        .map_err(|error| Status::internal(error.to_string()))
}

/// A value of the server as a JSON document.
pub fn from_value(object: &Value) -> Result<serde_json::Value, String> {
    let mut json = Vec::new();
    codec::json::encode(object, None, &mut json);
    serde_json::from_slice(&json).map_err(|error| error.to_string())
}
