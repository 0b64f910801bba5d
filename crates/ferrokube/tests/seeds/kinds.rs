//! The kinds of objects that clients write: each holds a value.

use serde_json::{Value, json};

/// A built-in or custom resource.
#[derive(Debug)]
pub struct Kind {
    pub path: &'static str,
    api_version: &'static str,
    name: &'static str,
    /// The value is below this field.
    pub field: &'static str,
    keys: &'static str,
    /// Whether PUT needs no resourceVersion.
    pub is_replaced_blindly: bool,
}

pub static KINDS: [Kind; 2] = [
    Kind {
        path: "/api/v1/namespaces/default/configmaps",
        api_version: "v1",
        name: "ConfigMap",
        field: "data",
        keys: "/registry/configmaps/default/",
        is_replaced_blindly: true,
    },
    Kind {
        path: "/apis/seeds.example.com/v1/namespaces/default/registers",
        api_version: "seeds.example.com/v1",
        name: "Register",
        field: "spec",
        keys: "/registry/seeds.example.com/registers/default/",
        is_replaced_blindly: false,
    },
];

pub const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// What makes the second kind.
pub fn definition() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "registers.seeds.example.com"},
        "spec": {
            "group": "seeds.example.com", "scope": "Namespaced",
            "names": {"plural": "registers", "singular": "register", "kind": "Register", "listKind": "RegisterList"},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                    "spec": {"type": "object", "properties": {"value": {"type": "string"}}}
                }}}
            }]
        }
    })
}

impl Kind {
    /// The store's key of a name.
    pub fn key(&self, name: &str) -> String {
        [self.keys, name].concat()
    }

    pub fn has(&self, key: &str) -> bool {
        key.starts_with(self.keys)
    }

    pub fn path_of(&self, name: &str) -> String {
        [self.path, "/", name].concat()
    }

    /// An object with a write's number. Its value says on which side it is, and so does its label.
    pub fn object(&self, metadata: Value, number: u64, side: &str) -> Value {
        let mut object = json!({"apiVersion": self.api_version, "kind": self.name, "metadata": metadata});
        object["metadata"]["labels"] = json!({"side": side});
        object[self.field] = json!({"value": format!("value-{number}-{side}")});
        object
    }
}
