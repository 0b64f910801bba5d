//! ConfigMaps: plain keys and values, within a size, and immutable if they say so.

use object::{Cursor, Errors, Meta, Path, Value, names};
use registry::{Context, Facts, Strategy, columns};

use super::data;

pub struct ConfigMap;

const FACTS: Facts = Facts { checks_updated_generate_name: true, ..Facts::WITHOUT_STATUS };

impl Strategy for ConfigMap {
    fn facts(&self) -> &Facts {
        &FACTS
    }

    fn default(&self, object: &mut Value) {
        data::no_null_bytes(object.get_mut("binaryData"));
    }

    fn validate(&self, _cx: &Context, object: &Cursor, errors: &mut Errors) {
        let (text, binary) = (object.field("data"), object.field("binaryData"));
        for (key, value) in text.entries() {
            value.invalid_key(errors, key);
            if binary.value().get(key).is_some() {
                value.invalid_as(errors, key, "duplicate of key present in binaryData");
            }
        }
        for (key, value) in binary.entries() {
            value.invalid_key(errors, key);
        }
        let text_bytes: usize = text.entries().map(|(_, value)| value.str().len()).sum();
        let binary_bytes: usize = binary.entries().map(|(_, value)| data::decoded_len(value.str())).sum();
        if text_bytes.saturating_add(binary_bytes) > data::MAX_BYTES {
            // The whole object is at fault, and upstream gives that the empty path.
            // Upstream names no field here, which its paths print so.
            errors.too_long(&Path::of("[]"), data::MAX_BYTES);
        }
    }

    fn validate_update(&self, cx: &Context, new: &Cursor, old: &Cursor, errors: &mut Errors) {
        data::immutable(new, old, &["data", "binaryData"], errors);
        self.validate(cx, new, errors);
    }

    fn cells(&self, cx: &Context, object: &Value) -> Vec<Value> {
        let root = Cursor::root(object);
        let keys = root.field("data").len() + root.field("binaryData").len();
        vec![object.name().into(), keys.into(), columns::age(cx, object)]
    }
}

trait Key {
    fn invalid_key(&self, errors: &mut Errors, key: &str);
}

impl Key for Cursor<'_> {
    fn invalid_key(&self, errors: &mut Errors, key: &str) {
        for message in names::config_map_key(key) {
            self.invalid_as(errors, key, message);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Check;

    const BASE: &str = "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {key: value}}";

    #[test]
    fn keys_must_be_file_names() {
        Check::new(ConfigMap, BASE).create(&[
            ("", ""),
            ("data: {a.b_c-D: x}", ""),
            (
                "data: {'a b': x}",
                r#"data[a b]: Invalid value: "a b": a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"#,
            ),
            ("binaryData: {'..': AA==}", "binaryData[..]: Invalid value: \"..\": must not be '..'"),
            (
                "binaryData: {key: AA==}",
                r#"data[key]: Invalid value: "key": duplicate of key present in binaryData"#,
            ),
        ]);
    }

    #[test]
    fn both_bags_count_towards_the_size() {
        let half = "x".repeat(data::MAX_BYTES / 2);
        let base64 = "AAAA".repeat(data::MAX_BYTES / 6);
        let check = Check::new(ConfigMap, BASE);
        check.create(&[
            (&format!("data: {{key: {half}, b: {half}}}"), ""),
            (&format!("data: {{key: {half}, b: {half}y}}"), "[]: Too long: may not be more than 1048576 bytes"),
            (&format!("{{data: {{key: {half}}}, binaryData: {{b: {base64}}}}}"), ""),
            (
                &format!("{{data: {{key: {half}}}, binaryData: {{b: {base64}AAAA}}}}"),
                "[]: Too long: may not be more than 1048576 bytes",
            ),
        ]);
    }

    #[test]
    fn immutable_means_immutable() {
        Check::new(ConfigMap, BASE).update(&[
            ("", "data: {key: other}", ""),
            ("immutable: false", "immutable: true", ""),
            ("immutable: true", "{immutable: true, metadata: {labels: {a: b}}}", ""),
            ("immutable: true", "", "immutable: Forbidden: field is immutable when `immutable` is set"),
            (
                "immutable: true",
                "{immutable: true, data: {key: other}, binaryData: {b: AA==}}",
                "data: Forbidden: field is immutable when `immutable` is set
                 binaryData: Forbidden: field is immutable when `immutable` is set",
            ),
        ]);
    }

    #[test]
    fn cells_count_keys() {
        Check::new(ConfigMap, BASE).cells(&[("binaryData: {b: AA==}", "a 2 <unknown>")]);
    }
}
