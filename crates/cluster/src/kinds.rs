//! The kinds of objects that clients write: each is a register with a number in one field.

use std::time::{Duration, Instant};

use http::Method;
use serde_json::{Value, json};

use crate::client::{Client, Outcome};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const GROUP: &str = "cluster.example.com";
/// How long servers may take to serve the custom resource.
const PATIENCE: Duration = Duration::from_secs(60);
const TIMEOUT: Duration = Duration::from_secs(8);

pub struct Kind {
    /// Keys begin with it.
    pub prefix: &'static str,
    pub path: &'static str,
    api_version: &'static str,
    name: &'static str,
    /// Where the number is, as text.
    field: [&'static str; 2],
    /// Whether clients delete objects of this kind too.
    pub is_deleted: bool,
}

pub static CONFIG_MAP: Kind = Kind {
    prefix: "cm",
    path: "/api/v1/namespaces/default/configmaps",
    api_version: "v1",
    name: "ConfigMap",
    field: ["data", "value"],
    is_deleted: true,
};

static LEASE: Kind = Kind {
    prefix: "lease",
    path: "/apis/coordination.k8s.io/v1/namespaces/default/leases",
    api_version: "coordination.k8s.io/v1",
    name: "Lease",
    field: ["spec", "holderIdentity"],
    is_deleted: false,
};

static CUSTOM: Kind = Kind {
    prefix: "register",
    path: "/apis/cluster.example.com/v1/namespaces/default/registers",
    api_version: "cluster.example.com/v1",
    name: "Register",
    field: ["spec", "value"],
    is_deleted: true,
};

pub static KINDS: [&Kind; 3] = [&CONFIG_MAP, &LEASE, &CUSTOM];

impl Kind {
    /// The kind of a key's object.
    pub fn of(key: &str) -> &'static Kind {
        KINDS.into_iter().find(|kind| kind.has(key)).unwrap_or(&CONFIG_MAP)
    }

    pub fn has(&self, key: &str) -> bool {
        key.split('-').next() == Some(self.prefix)
    }

    pub fn object(&self, name: &str, value: u64, at: Option<i64>) -> Value {
        let [outer, inner] = self.field;
        // Lists select by the part of the name that says when clients use it.
        let epoch = name.split('-').nth(1).unwrap_or_default();
        let mut object = json!({
            "apiVersion": self.api_version, "kind": self.name, "metadata": {"name": name, "labels": {"epoch": epoch}},
            outer: {inner: value.to_string()}
        });
        if let Some(at) = at {
            object["metadata"]["resourceVersion"] = at.to_string().into();
        }
        object
    }

    /// Value and revision of an object.
    pub fn read(&self, object: &Value) -> Option<(u64, i64)> {
        let value = object[self.field[0]][self.field[1]].as_str()?.parse().ok()?;
        Some((value, object["metadata"]["resourceVersion"].as_str()?.parse().ok()?))
    }
}

/// Defines the custom resource and waits until every server serves it.
pub async fn define(servers: &[u16]) -> Result<(), String> {
    let text = json!({"type": "object", "properties": {"value": {"type": "string"}}});
    let schema = json!({"type": "object", "properties": {"spec": text}});
    let version = json!({"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}});
    let names = json!({"plural": "registers", "singular": "register", "kind": "Register", "listKind": "RegisterList"});
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("registers.{GROUP}")},
        "spec": {"group": GROUP, "scope": "Namespaced", "names": names, "versions": [version]}
    });
    until(servers[0], Method::POST, DEFINITIONS, Some(&definition), &[201, 409]).await?;
    for port in servers {
        until(*port, Method::GET, CUSTOM.path, None, &[200]).await?;
    }
    Ok(())
}

async fn until(port: u16, method: Method, path: &str, body: Option<&Value>, wanted: &[u16]) -> Result<(), String> {
    let (mut client, began) = (Client::new(port, TIMEOUT), Instant::now());
    loop {
        match client.send(method.clone(), path, body).await {
            Outcome::Answered { status, .. } if wanted.contains(&status) => return Ok(()),
            other if began.elapsed() > PATIENCE => return Err(format!("{method} {path} answers {other:?}")),
            _ => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    }
}
