//! Why a strategic merge patch is refused.

use object::{Map, Value};

use super::go;
use crate::Error;

impl Error {
    pub(super) fn bad_retain_keys() -> Error {
        Error::Malformed("invalid patch format of retainKeys".into())
    }

    pub(super) fn bad_primitive_list() -> Error {
        Error::Malformed("invalid patch format of primitive list".into())
    }

    pub(super) fn bad_element_order() -> Error {
        Error::Malformed("invalid patch format of setElementOrder list".into())
    }

    pub(super) fn unknown_directive(directive: &Value, patch: &Map) -> Error {
        let patch = go::plain(&Value::Map(patch.clone()));
        Error::Failed(format!("unknown patch type: {} in map: {patch}", go::verb_s(directive)))
    }

    pub(super) fn no_merge_key(item: &Map, key: &str) -> Error {
        let item = go::plain(&Value::Map(item.clone()));
        Error::Failed(format!("map: {item} does not contain declared merge key: {key}"))
    }

    pub(super) fn not_a_map(value: &Value) -> Error {
        Error::wrong_type("map[string]interface {}", value)
    }

    pub(super) fn not_a_list(value: &Value) -> Error {
        Error::wrong_type("[]interface {}", value)
    }

    fn wrong_type(expected: &str, value: &Value) -> Error {
        let got = if value.is_null() { "%!s(<nil>)" } else { object::go_type(value) };
        Error::Failed(format!("expected a {expected}, but received a {got}"))
    }
}
