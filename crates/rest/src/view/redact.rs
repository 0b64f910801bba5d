//! Redaction: Secrets with their keys and sizes, and without their values, for users who may know which there are and no more
//! (`--redact-secrets-for`).

use authz::Permitted;
use object::{Map, Meta, Value};
use request::{User, Verb};

use crate::Call;

/// Says how large the values were: a JSON object with the number of bytes of each key.
const SIZES: &str = "lists.ferrokube.io/redacted";
/// Where kubectl keeps an object that it applied, as a whole.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Whether the answer to a request is redacted: it is about Secrets, and its user is in one of the groups or may read them only so.
pub fn is_for(groups: &[String], call: &Permitted<Call>) -> bool {
    let info = &call.info;
    call.is_redacted() || is_secrets(&info.group, &info.resource) && is_member(groups, &call.user)
}

/// Whether Secrets are redacted for a user, whatever roles say.
pub fn is_member(groups: &[String], user: &User) -> bool {
    groups.iter().any(|group| user.is_member(group))
}

/// Whether these are Secrets.
pub fn is_secrets(group: &str, resource: &str) -> bool {
    resource == "secrets" && group.is_empty()
}

/// Whether a request reads Secrets: `list-redacted` allows that.
pub fn reads(call: &Call) -> bool {
    let info = &call.info;
    let reads = matches!(info.verb, Verb::Get | Verb::List | Verb::Watch);
    info.is_resource && reads && info.subresource.is_empty() && is_secrets(&info.group, &info.resource)
}

/// Removes the values of a Secret. A Secret that was redacted stays as it is.
pub fn redact(secret: &mut Value) {
    let mut sizes = Map::new();
    for field in ["data", "stringData"] {
        if let Some(data) = secret.get_mut(field).and_then(Value::as_map_mut) {
            for (key, value) in data.iter_mut() {
                sizes.insert(key, decoded_bytes(value.as_str().unwrap_or("")));
                *value = Value::from("");
            }
        }
    }
    if let Some(annotations) = secret.metadata_mut().get_mut("annotations").and_then(Value::as_map_mut) {
        annotations.remove(LAST_APPLIED);
    }
    if !sizes.is_empty() {
        let mut json = Vec::new();
        codec::json::encode(&Value::Map(sizes), None, &mut json);
        secret.set_annotation(SIZES, &String::from_utf8_lossy(&json));
    }
}

/// Whether an object was redacted, as far as it says.
pub fn was_redacted(object: &Value) -> bool {
    !object.field("metadata").field("annotations").field(SIZES).is_null()
}

/// How many bytes base64 stands for.
fn decoded_bytes(base64: &str) -> usize {
    base64.trim_end_matches('=').len() * 3 / 4
}

#[cfg(test)]
mod tests {
    use object::value;

    use super::*;

    #[test]
    fn values_are_gone_and_keys_stay() {
        let mut secret = value!({
            "metadata": {"name": "s", "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "{\"data\":{}}", "a": "b"}},
            "type": "Opaque",
            "data": {"empty": "", "one": "YQ==", "three": "YWJj", "five": "YWJjZGU="}
        });
        redact(&mut secret);
        let sizes = r#"{"empty":0,"five":5,"one":1,"three":3}"#;
        let want = value!({
            "metadata": {"name": "s", "annotations": {"a": "b", "lists.ferrokube.io/redacted": (sizes)}},
            "type": "Opaque",
            "data": {"empty": "", "one": "", "three": "", "five": ""}
        });
        assert_eq!(secret, want);
        let mut none = value!({"metadata": {"name": "s"}, "type": "Opaque"});
        redact(&mut none);
        assert_eq!(none, value!({"metadata": {"name": "s"}, "type": "Opaque"}));
    }
}
