//! What is written: pods of about 4 KB as a controller would make them, and config maps of about 1 KB.
//!
//! The text is made once and only what differs is put in: building objects would cost the load generator, which shares
//! the machine with the server, more than all the rest it does.

use std::sync::LazyLock;

use bytes::Bytes;
use serde_json::{Value, json};

pub const NAMESPACE: &str = "bench";

/// A pod that prints as about 4 KB of JSON once it is stored.
pub fn pod(number: u64) -> Bytes {
    static TEXT: LazyLock<String> = LazyLock::new(|| pod_template().to_string());
    let text = TEXT.replace("@number", &format!("{number:06}"));
    text.replace("@app", &(number % 50).to_string()).replace("@node", &(number % 100).to_string()).into()
}

pub fn config_map(name: &str, content: u64) -> Bytes {
    static TEXT: LazyLock<String> = LazyLock::new(|| config_map_object("@name", "@content").to_string());
    TEXT.replace("@name", name).replace("@content", &format!("{content:016x}")).into()
}

/// A config map in another namespace.
pub fn config_map_in(namespace: &str, name: &str, content: u64) -> Bytes {
    let mut object = config_map_object(name, &format!("{content:016x}"));
    object["metadata"]["namespace"] = namespace.into();
    object.to_string().into()
}

fn pod_template() -> Value {
    let environment: Vec<Value> = (0..24)
        .map(|n| json!({"name": format!("SETTING_{n}"), "value": format!("value-{n}-of-a-middling-length")}))
        .collect();
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": "pod-@number", "namespace": NAMESPACE,
            "labels": {"app": "app-@app", "tier": "backend", "release": "stable"},
            "annotations": {"example.com/checksum": "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"}
        },
        "spec": {
            "nodeName": "node-@node",
            "containers": [{
                "name": "main", "image": "registry.example/team/service:v1.2.3",
                "args": ["--listen=:8080", "--log-level=info"], "env": environment,
                "ports": [{"name": "http", "containerPort": 8080}],
                "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"memory": "256Mi"}},
                "readinessProbe": {"httpGet": {"path": "/ready", "port": "http"}, "periodSeconds": 5},
                "livenessProbe": {"httpGet": {"path": "/live", "port": "http"}, "periodSeconds": 10}
            }]
        }
    })
}

pub fn config_map_object(name: &str, content: &str) -> Value {
    let data: serde_json::Map<String, Value> =
        (0..10).map(|n| (format!("key-{n}"), json!(format!("{content}-{}", "x".repeat(64))))).collect();
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": {"app": "bench"}},
        "data": data
    })
}
