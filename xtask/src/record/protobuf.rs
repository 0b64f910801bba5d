//! Protobuf fields of every API type, from the descriptions (`generated.proto`) that are published with the types.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Map, Value, json};

use super::modules::Modules;

/// The modules with API types.
const MODULES: [&str; 6] = [
    "k8s.io/api",
    "k8s.io/apiextensions-apiserver",
    "k8s.io/apimachinery",
    "k8s.io/apiserver",
    "k8s.io/kube-aggregator",
    "k8s.io/metrics",
];

/// Fields by name, of messages by name.
pub type Messages = BTreeMap<String, Map<String, Value>>;

/// Message → field → tag and type.
pub fn fields(modules: &Modules) -> Result<Messages, String> {
    let mut messages = Messages::new();
    for module in MODULES {
        read_folder(&modules.folder_of(module)?, &mut messages)?;
    }
    if messages.is_empty() { Err("the modules describe no messages".into()) } else { Ok(messages) }
}

fn read_folder(folder: &Path, messages: &mut Messages) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("{}: {error}", folder.display());
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if path.is_dir() {
            read_folder(&path, messages)?;
        } else if path.file_name().is_some_and(|name| name == "generated.proto") {
            read(&std::fs::read_to_string(&path).map_err(failed)?, messages);
        }
    }
    Ok(())
}

/// The messages of one such file.
pub fn read_text(text: &str) -> Messages {
    let mut messages = Messages::new();
    read(text, &mut messages);
    messages
}

/// These files are written by a generator: a statement a line, messages are not nested.
fn read(text: &str, messages: &mut Messages) {
    let (mut package, mut message) = ("", None);
    for line in text.lines().map(str::trim) {
        if let Some(name) = line.strip_prefix("package ") {
            package = name.trim_end_matches(';');
        } else if let Some(name) = line.strip_prefix("message ") {
            let name = format!("{package}.{}", name.trim_end_matches('{').trim());
            message = Some(messages.entry(name).or_default());
        } else if line == "}" {
            message = None;
        } else if let (Some(message), Some((name, field))) = (message.as_mut(), field(line)) {
            message.insert(name, field);
        }
    }
}

/// `optional string name = 1;`, `repeated Item items = 2;` or `map<string, bytes> data = 3;`.
fn field(line: &str) -> Option<(String, Value)> {
    let (left, tag) = line.strip_suffix(';')?.rsplit_once(" = ")?;
    let tag: u32 = tag.parse().ok()?;
    let (left, name) = left.rsplit_once(' ')?;
    let (kind, repeated) = match left.strip_prefix("repeated ") {
        Some(kind) => (kind, true),
        None => (left.strip_prefix("optional ").unwrap_or(left), false),
    };
    let mut field = json!({"tag": tag, "type": kind});
    if repeated {
        field["repeated"] = true.into();
    }
    Some((name.to_string(), field))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "// A comment; it says = 3;\npackage k8s.io.api.core.v1;\n\nmessage Pod {\n  // Standard.\n  \
        optional .k8s.io.apimachinery.pkg.apis.meta.v1.ObjectMeta metadata = 1;\n\n  repeated string names = 2;\n  \
        map<string, bytes> data = 15;\n}\n\nmessage Empty {\n}\n";

    #[test]
    fn messages_are_read_with_their_fields() {
        let mut messages = Messages::new();
        read(TEXT, &mut messages);
        let pod = &messages["k8s.io.api.core.v1.Pod"];
        assert_eq!(pod["metadata"], json!({"tag": 1, "type": ".k8s.io.apimachinery.pkg.apis.meta.v1.ObjectMeta"}));
        assert_eq!(pod["names"], json!({"repeated": true, "tag": 2, "type": "string"}));
        assert_eq!(pod["data"], json!({"tag": 15, "type": "map<string, bytes>"}));
        assert!(messages["k8s.io.api.core.v1.Empty"].is_empty());
        assert_eq!((messages.len(), pod.len()), (2, 3));
    }
}
