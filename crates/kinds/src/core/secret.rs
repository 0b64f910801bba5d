//! Secrets: bytes by key, with a type that says which keys must be there.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use object::{Cursor, Errors, Meta, Path, Value, names};
use registry::{Context, Facts, FieldRefusal, Strategy, columns};

use super::data;
use crate::common::checks::report;

/// The account a token belongs to.
const SERVICE_ACCOUNT_NAME: &str = "kubernetes.io/service-account.name";
const TLS: &str = "kubernetes.io/tls";
const REDACTED: &str = "<secret contents redacted>";

pub struct Secret;

const FACTS: Facts = Facts {
    checks_updated_generate_name: true,
    selectable_fields: object::strs!["type"],
    field_refusal: FieldRefusal::Plain,
    ..Facts::WITHOUT_STATUS
};

impl Strategy for Secret {
    fn facts(&self) -> &Facts {
        &FACTS
    }

    /// `stringData` is for writing only: it becomes `data` and is never seen again.
    fn default(&self, object: &mut Value) {
        data::no_null_bytes(object.get_mut("data"));
        let Some(Value::Map(texts)) = object.remove(&["stringData"]) else { return };
        for (key, text) in texts {
            let encoded = STANDARD.encode(text.as_str().unwrap_or(""));
            object.set(&["data", &key], encoded);
        }
    }

    fn prepare_update(&self, _cx: &Context, new: &mut Value, old: &Value) {
        if new.str_at(&["type"]).is_empty() {
            new.keep(&["type"], old);
        }
    }

    fn validate(&self, _cx: &Context, object: &Cursor, errors: &mut Errors) {
        let bytes = object.field("data");
        let mut size: usize = 0;
        for (key, value) in bytes.entries() {
            report(errors, value.path(), key, names::config_map_key(key));
            size = size.saturating_add(data::decoded_len(value.str()));
        }
        if size > data::MAX_BYTES {
            errors.too_long(bytes.path(), data::MAX_BYTES);
        }
        validate_type(object, &bytes, errors);
    }

    fn validate_update(&self, cx: &Context, new: &Cursor, old: &Cursor, errors: &mut Errors) {
        if new.field("type").str() != old.field("type").str() {
            errors.invalid(new.field("type").path(), new.field("type").str(), "field is immutable");
        }
        data::immutable(new, old, &["data"], errors);
        self.validate(cx, new, errors);
    }

    fn warnings(&self, _cx: &Context, object: &Value, _old: Option<&Value>) -> Vec<String> {
        if object.str_at(&["type"]) != TLS {
            return Vec::new();
        }
        let pair = gox509::KeyPair::parse(&decoded(object, "tls.crt"), &decoded(object, "tls.key"));
        pair.err().into_iter().collect()
    }

    fn cells(&self, cx: &Context, object: &Value) -> Vec<Value> {
        let keys = Cursor::root(object).field("data").len();
        vec![object.name().into(), object.str_at(&["type"]).into(), keys.into(), columns::age(cx, object)]
    }
}

fn validate_type(object: &Cursor, bytes: &Cursor, errors: &mut Errors) {
    let has = |key: &str| bytes.value().get(key).is_some();
    let account = object.value().annotation(SERVICE_ACCOUNT_NAME).unwrap_or("");
    let mut require = |key: &str| errors.required(&bytes.path().key(key), "");
    match object.field("type").str() {
        "kubernetes.io/service-account-token" if account.is_empty() => {
            errors.required(&Path::of("metadata.annotations").key(SERVICE_ACCOUNT_NAME), "");
        }
        "kubernetes.io/dockercfg" => validate_json(bytes, ".dockercfg", errors),
        "kubernetes.io/dockerconfigjson" => validate_json(bytes, ".dockerconfigjson", errors),
        "kubernetes.io/basic-auth" if !has("username") && !has("password") => {
            require("username");
            require("password");
        }
        "kubernetes.io/ssh-auth" if bytes.key("ssh-privatekey").is_empty() => require("ssh-privatekey"),
        TLS => ["tls.crt", "tls.key"].into_iter().filter(|key| !has(key)).for_each(require),
        _ => {}
    }
}

/// A key that must be there and hold a JSON object.
fn validate_json(bytes: &Cursor, key: &str, errors: &mut Errors) {
    let path = bytes.path().key(key);
    let Some(text) = bytes.value().get(key) else {
        return errors.required(&path, "");
    };
    let text = STANDARD.decode(text.as_str().unwrap_or("")).unwrap_or_default();
    let wrong = match codec::json::decode(&text, None, &mut codec::Notes::ignore()) {
        Ok(Value::Map(_) | Value::Null) => return,
        Ok(other) => {
            format!("json: cannot unmarshal {} into Go value of type map[string]interface {{}}", other.type_name())
        }
        Err(error) => error.message().to_string(),
    };
    errors.invalid(&path, REDACTED, wrong);
}

fn decoded(object: &Value, key: &str) -> Vec<u8> {
    STANDARD.decode(object.str_at(&["data", key])).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Check;

    fn check() -> Check {
        Check::new(Secret, "{apiVersion: v1, kind: Secret, metadata: {name: a}}")
    }

    #[test]
    fn strings_become_bytes() {
        check().stored(&[
            ("stringData: {a: hello}", "{stringData: null, data: {a: aGVsbG8=}}"),
            ("{data: {a: AAAA, b: AAAA}, stringData: {a: ''}}", "{stringData: null, data: {a: '', b: AAAA}}"),
        ]);
    }

    #[test]
    fn types_need_their_keys() {
        let json = |text: &str| STANDARD.encode(text);
        let docker = |text: &str| {
            format!("{{type: kubernetes.io/dockerconfigjson, data: {{.dockerconfigjson: {}}}}}", json(text))
        };
        check().create(&[
            ("", ""),
            ("type: whatever", ""),
            (
                "type: kubernetes.io/service-account-token",
                "metadata.annotations[kubernetes.io/service-account.name]: Required value",
            ),
            (
                "type: kubernetes.io/basic-auth",
                "data[username]: Required value
                 data[password]: Required value",
            ),
            ("{type: kubernetes.io/basic-auth, data: {password: ''}}", ""),
            ("{type: kubernetes.io/ssh-auth, data: {ssh-privatekey: ''}}", "data[ssh-privatekey]: Required value"),
            ("{type: kubernetes.io/tls, data: {tls.crt: ''}}", "data[tls.key]: Required value"),
            ("type: kubernetes.io/dockercfg", "data[.dockercfg]: Required value"),
            (&docker("{}"), ""),
            (
                &docker("nope"),
                "data[.dockerconfigjson]: Invalid value: \"<secret contents redacted>\": invalid character 'o' in literal null (expecting 'u')",
            ),
            (
                &docker("[]"),
                "data[.dockerconfigjson]: Invalid value: \"<secret contents redacted>\": json: cannot unmarshal array into Go value of type map[string]interface {}",
            ),
            ("data: {'a/b': AAAA}", r#"data[a/b]: Invalid value: "a/b": a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"#),
        ]);
    }

    #[test]
    fn the_size_is_that_of_the_bytes() {
        let most = "AAAA".repeat(data::MAX_BYTES / 3);
        check().create(&[
            (&format!("data: {{a: {most}, b: AA==}}"), ""),
            (&format!("data: {{a: {most}, b: AAA=}}"), "data: Too long: may not be more than 1048576 bytes"),
        ]);
    }

    #[test]
    fn types_stay_and_data_may() {
        check().update(&[
            ("", "type: ''", ""),
            ("", "type: other", "type: Invalid value: \"other\": field is immutable"),
            (
                "immutable: true",
                "{immutable: true, data: {a: AAAA}}",
                "data: Forbidden: field is immutable when `immutable` is set",
            ),
        ]);
    }

    #[test]
    fn key_pairs_that_are_none_are_warned_about() {
        check().warnings(&[(
            "{type: kubernetes.io/tls, data: {tls.crt: '', tls.key: ''}}",
            &["tls: failed to find any PEM data in certificate input"],
        )]);
    }

    #[test]
    fn cells_show_the_type() {
        check().cells(&[("data: {a: AAAA}", "a Opaque 1 <unknown>")]);
    }
}
