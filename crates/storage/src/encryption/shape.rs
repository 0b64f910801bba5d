//! Whether a configuration has the right shape, before it is read: upstream's decoder tells where it has not, and operators
//! know its words.

use serde_json::Value;

/// What may be where. Names are those of upstream's types, which its messages show.
enum ConfigShape {
    Text,
    Number,
    Duration,
    List(&'static ConfigShape),
    Object(&'static str, &'static [(&'static str, ConfigShape)]),
}

const KEYS: ConfigShape =
    ConfigShape::List(&ConfigShape::Object("Key", &[("name", ConfigShape::Text), ("secret", ConfigShape::Text)]));
const PROVIDER: ConfigShape = ConfigShape::Object(
    "ProviderConfiguration",
    &[
        ("aesgcm", ConfigShape::Object("AESConfiguration", &[("keys", KEYS)])),
        ("aescbc", ConfigShape::Object("AESConfiguration", &[("keys", KEYS)])),
        ("secretbox", ConfigShape::Object("SecretboxConfiguration", &[("keys", KEYS)])),
        ("identity", ConfigShape::Object("IdentityConfiguration", &[])),
        (
            "kms",
            ConfigShape::Object(
                "KMSConfiguration",
                &[
                    ("apiVersion", ConfigShape::Text),
                    ("name", ConfigShape::Text),
                    ("cachesize", ConfigShape::Number),
                    ("endpoint", ConfigShape::Text),
                    ("timeout", ConfigShape::Duration),
                ],
            ),
        ),
    ],
);
const RULE: ConfigShape = ConfigShape::Object(
    "ResourceConfiguration",
    &[("resources", ConfigShape::List(&ConfigShape::Text)), ("providers", ConfigShape::List(&PROVIDER))],
);
const CONFIGURATION: ConfigShape = ConfigShape::Object(
    "EncryptionConfiguration",
    &[("apiVersion", ConfigShape::Text), ("kind", ConfigShape::Text), ("resources", ConfigShape::List(&RULE))],
);

/// Says what is wrong with the shape of a configuration, if anything. A value that is null counts as absent and is taken
/// out.
pub(crate) fn check(configuration: &mut Value) -> Result<(), String> {
    let mut found = Found { wrong: None, unknown: Vec::new() };
    found.walk(&CONFIGURATION, configuration, &FieldPlace { object: "", fields: Vec::new(), path: String::new() });
    match (found.wrong, found.unknown.as_slice()) {
        (Some(wrong), _) => Err(wrong),
        (None, []) => Ok(()),
        (None, unknown) => Err(format!("strict decoding error: {}", unknown.join(", "))),
    }
}

struct Found {
    /// The first value of a wrong type.
    wrong: Option<String>,
    /// Unknown fields.
    unknown: Vec<String>,
}

struct FieldPlace {
    /// The type that the field is of.
    object: &'static str,
    /// The names of the fields on the way here.
    fields: Vec<&'static str>,
    /// The way here for people, with the numbers of elements.
    path: String,
}

impl Found {
    fn walk(&mut self, shape: &'static ConfigShape, value: &mut Value, at: &FieldPlace) {
        match (shape, value) {
            (ConfigShape::Text, Value::String(_)) | (ConfigShape::Number, Value::Number(_)) => {}
            (ConfigShape::Duration, Value::String(text)) => {
                if let Err(why) = super::config::parse_duration(text) {
                    self.wrong.get_or_insert(why);
                }
            }
            (ConfigShape::List(of), Value::Array(items)) => {
                for (index, item) in items.iter_mut().enumerate() {
                    let path = format!("{}[{index}]", at.path);
                    self.walk(of, item, &FieldPlace { object: at.object, fields: at.fields.clone(), path });
                }
            }
            (ConfigShape::Object(name, fields), Value::Object(members)) => {
                members.retain(|_, value| !value.is_null());
                for (key, value) in members {
                    let path = if at.path.is_empty() { key.clone() } else { format!("{}.{key}", at.path) };
                    match fields.iter().find(|(field, _)| field == key) {
                        None => self.unknown.push(format!("unknown field {path:?}")),
                        Some((field, shape)) => {
                            let fields = at.fields.iter().copied().chain([*field]).collect();
                            self.walk(shape, value, &FieldPlace { object: name, fields, path });
                        }
                    }
                }
            }
            (shape, value) => {
                let (got, wanted) = (kind_of(value), go_type(shape));
                self.wrong.get_or_insert_with(|| match (shape, at.object) {
                    (ConfigShape::Duration, _) => format!("json: cannot unmarshal {got} into Go value of type string"),
                    (_, "") => format!("json: cannot unmarshal {got} into Go value of type {wanted}"),
                    (_, object) => {
                        let fields = at.fields.join(".");
                        format!("json: cannot unmarshal {got} into Go struct field {object}.{fields} of type {wanted}")
                    }
                });
            }
        }
    }
}

fn go_type(shape: &ConfigShape) -> String {
    match shape {
        ConfigShape::Text | ConfigShape::Duration => "string".into(),
        ConfigShape::Number => "int32".into(),
        ConfigShape::List(of) => format!("[]{}", go_type(of)),
        ConfigShape::Object(name, _) => format!("v1.{name}"),
    }
}

fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_are_upstreams() {
        let rule = |rest: &str| format!(r#"{{"resources":[{{"resources":["secrets"],"providers":[{rest}]}}]}}"#);
        for (json, expected) in [
            (r#"{"resources":null}"#.to_string(), Ok(())),
            (rule(r#"{"identity":{}}"#), Ok(())),
            (rule(r#"{"kms":{"name":"a","timeout":"3s","cachesize":5}}"#), Ok(())),
            (
                r#"{"resources":5}"#.into(),
                Err("json: cannot unmarshal number into Go struct field EncryptionConfiguration.resources of type \
                     []v1.ResourceConfiguration"),
            ),
            (
                r#"{"resources":[{"resources":"secrets"}]}"#.into(),
                Err("json: cannot unmarshal string into Go struct field ResourceConfiguration.resources.resources of \
                     type []string"),
            ),
            (rule(r#"{"kms":{"timeout":"abc"}}"#), Err("time: invalid duration \"abc\"")),
            (
                rule(r#"{"rot13":{},"identity":{"x":1}}"#),
                Err("strict decoding error: unknown field \"resources[0].providers[0].identity.x\", unknown field \
                     \"resources[0].providers[0].rot13\""),
            ),
            (r#"{"foo":"bar"}"#.into(), Err("strict decoding error: unknown field \"foo\"")),
        ] {
            let mut value = serde_json::from_str(&json).unwrap();
            assert_eq!(check(&mut value), expected.map_err(str::to_string), "{json}");
        }
    }
}
