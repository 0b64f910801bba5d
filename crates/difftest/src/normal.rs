//! Making two answers comparable: what may differ from run to run becomes a placeholder.

use std::sync::OnceLock;

use regex_lite::Regex;
use serde_json::{Map, Value};

const TIME_KEYS: &[&str] = &[
    "creationTimestamp",
    "deletionTimestamp",
    "time",
    "lastTransitionTime",
    "lastUpdateTime",
    "startTime",
    "renewTime",
    "acquireTime",
    "lastTimestamp",
    "firstTimestamp",
    "eventTime",
    "beginRefreshAt",
    "notAfter",
    "notBefore",
];

struct Patterns {
    uuid: Regex,
    whole_time: Regex,
    time: Regex,
    age: Regex,
    version: Regex,
    namespace: Regex,
    yaml: Regex,
}

fn patterns() -> &'static Patterns {
    static PATTERNS: OnceLock<Patterns> = OnceLock::new();
    let regex = |text: &str| Regex::new(text).expect("the pattern is fixed and tested");
    PATTERNS.get_or_init(|| Patterns {
        uuid: regex(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"),
        whole_time: regex(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$"),
        time: regex(r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z\b"),
        age: regex(r"^(\d+[smhdy])+$|^<unknown>$|^<invalid>$"),
        version: regex(r"(resource ?[vV]ersion[^0-9]{1,20})\d+"),
        namespace: regex(r"dt-[a-z0-9-]+-ns"),
        yaml: regex(r"(?m)^(\s*(?:creationTimestamp|time|resourceVersion|uid): ).*$"),
    })
}

/// A JSON answer.
pub fn value(value: &Value, key: Option<&str>) -> Value {
    match value {
        Value::Object(map) => object(map),
        Value::Array(items) => match key {
            Some("managedFields") => {
                let mut entries: Vec<Value> = items.iter().map(|item| self::value(item, None)).collect();
                entries.sort_by_key(ToString::to_string);
                Value::Array(entries)
            }
            Some("cells") => Value::Array(items.iter().map(cell).collect()),
            key => Value::Array(items.iter().map(|item| self::value(item, key)).collect()),
        },
        scalar => self::scalar(scalar, key),
    }
}

fn object(map: &Map<String, Value>) -> Value {
    let mut out: Map<String, Value> = map.iter().map(|(key, child)| (key.clone(), value(child, Some(key)))).collect();
    let generated =
        |map: &Map<String, Value>| map.get("generateName").and_then(Value::as_str).is_some_and(|name| !name.is_empty());
    if map.get("metadata").and_then(Value::as_object).is_some_and(generated)
        && let Some(metadata) = out.get_mut("metadata").and_then(Value::as_object_mut)
    {
        metadata.insert("name".into(), "<generated>".into());
    }
    if map.contains_key("generateName") && map.contains_key("name") {
        out.insert("name".into(), "<generated>".into());
    }
    Value::Object(out)
}

fn cell(item: &Value) -> Value {
    match item.as_str() {
        Some(text) if patterns().age.is_match(text) => "<age>".into(),
        _ => value(item, None),
    }
}

fn scalar(scalar: &Value, key: Option<&str>) -> Value {
    let empty = scalar.is_null() || scalar.as_str() == Some("");
    match key {
        Some("resourceVersion") if !empty => return "<rv>".into(),
        Some("serverAddress") if !empty => return "<address>".into(),
        Some("continue") if !empty => return "<continue>".into(),
        Some("clusterIP" | "clusterIPs") if !empty && scalar.as_str() != Some("None") => return "<ip>".into(),
        Some("nodePort" | "healthCheckNodePort") if !empty && scalar.as_i64() != Some(0) => return "<port>".into(),
        _ => {}
    }
    let Some(text) = scalar.as_str() else { return scalar.clone() };
    if key.is_some_and(|key| TIME_KEYS.contains(&key)) && patterns().whole_time.is_match(text) {
        return "<time>".into();
    }
    self::text(text).into()
}

/// Text inside an answer.
pub fn text(text: &str) -> String {
    let patterns = patterns();
    let text = patterns.uuid.replace_all(text, "<uid>");
    let text = patterns.time.replace_all(&text, "<time>");
    let text = patterns.version.replace_all(&text, "${1}<rv>");
    patterns.namespace.replace_all(&text, "<ns>").into_owned()
}

/// An answer that is not JSON.
pub fn plain(text: &str) -> String {
    self::text(&patterns().yaml.replace_all(text, "${1}<x>"))
}
