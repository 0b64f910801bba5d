//! What is written: pods of about 4 KB as a controller would make them, and config maps of about 1 KB.

use serde_json::{Value, json};

pub const NAMESPACE: &str = "bench";

/// A pod that prints as about 4 KB of JSON once it is stored.
pub fn pod(number: u64) -> Value {
    let environment: Vec<Value> = (0..24)
        .map(|n| json!({"name": format!("SETTING_{n}"), "value": format!("value-{n}-of-a-middling-length")}))
        .collect();
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": format!("pod-{number:06}"), "namespace": NAMESPACE,
            "labels": {"app": format!("app-{}", number % 50), "tier": "backend", "release": "stable"},
            "annotations": {"example.com/checksum": "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"}
        },
        "spec": {
            "nodeName": format!("node-{}", number % 100),
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

pub fn config_map(name: &str, content: u64) -> Value {
    let data: serde_json::Map<String, Value> =
        (0..10).map(|n| (format!("key-{n}"), json!(format!("{content:016x}-{}", "x".repeat(64))))).collect();
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": {"app": "bench"}},
        "data": data
    })
}
