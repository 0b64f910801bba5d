//! Why a strategic merge patch is refused.

use object::{GroupResource, Map, Status, Value};

use super::go;

/// A refusal in upstream's words, with the answer it leads to.
#[derive(Debug)]
pub(super) enum Refusal {
    /// The patch is not formed as its directives demand: 400.
    Malformed(&'static str),
    /// The patch asks for something that cannot be done: 422 without a reason.
    Impossible,
    /// Everything else, which upstream answers as an error of its own: 500.
    Other(String),
}

impl Refusal {
    pub const BAD_RETAIN_KEYS: Refusal = Refusal::Malformed("invalid patch format of retainKeys");
    pub const BAD_PRIMITIVE_LIST: Refusal = Refusal::Malformed("invalid patch format of primitive list");
    pub const BAD_ELEMENT_ORDER: Refusal = Refusal::Malformed("invalid patch format of setElementOrder list");
    /// Lists of lists are not merged.
    pub const LIST_OF_LISTS: Refusal = Refusal::Impossible;

    pub fn unknown_directive(directive: &Value, patch: &Map) -> Refusal {
        let patch = go::plain(&Value::Map(patch.clone()));
        Refusal::Other(format!("unknown patch type: {} in map: {patch}", go::verb_s(directive)))
    }

    pub fn no_merge_key(item: &Map, key: &str) -> Refusal {
        let item = go::plain(&Value::Map(item.clone()));
        Refusal::Other(format!("map: {item} does not contain declared merge key: {key}"))
    }

    pub fn not_a_map(value: &Value) -> Refusal {
        Refusal::wrong_type("map[string]interface {}", value)
    }

    pub fn not_a_list(value: &Value) -> Refusal {
        Refusal::wrong_type("[]interface {}", value)
    }

    fn wrong_type(expected: &str, value: &Value) -> Refusal {
        let got = if value.is_null() { "%!s(<nil>)" } else { go::type_name(value) };
        Refusal::Other(format!("expected a {expected}, but received a {got}"))
    }

    pub fn into_status(self) -> Status {
        match self {
            Refusal::Malformed(message) => Status::bad_request(message),
            Refusal::Impossible => Status::generic(422, "", &GroupResource::default(), "", ""),
            Refusal::Other(message) => Status::unknown(500, message),
        }
    }
}
