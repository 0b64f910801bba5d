//! What others need to know to authenticate as this server does, and since when it watches over old tokens.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use object::timestamp::Timestamp;
use object::{Status, Value, value};
use registry::{AdmitAll, Change, UpdateOptions};
use request::User;
use rest::Api;

const NAMESPACE: &str = "kube-system";
const AUTHENTICATION: &str = "extension-apiserver-authentication";
const TRACKING: &str = "kube-apiserver-legacy-service-account-token-tracking";

/// Writes how requests are authenticated here: extension servers read it and do likewise.
pub async fn publish(api: &Arc<Api>, how: &BTreeMap<String, String>) -> Result<(), Status> {
    let mut data = Value::map();
    for (key, value) in how {
        data.set(&[key], value.clone());
    }
    let config_map = value!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": AUTHENTICATION, "namespace": NAMESPACE}, "data": (data.clone())
    });
    crate::reconcile::ensure(api, "configmaps", config_map).await?;
    let api = api.snapshot();
    let Some(storage) = api.catalog.stored("", "configmaps") else { return Ok(()) };
    let user = User::loopback();
    let cx = api.context(&user, NAMESPACE, "v1", "", false);
    storage.update(&cx, AUTHENTICATION, &mut Publish(data), &AdmitAll, &UpdateOptions::default()).await.map(|_| ())
}

/// Keeps what other servers wrote and we know nothing about.
struct Publish(Value);

#[async_trait]
impl Change for Publish {
    async fn wanted(&mut self, existing: Option<&Value>) -> Result<Value, Status> {
        let mut object = existing.cloned().unwrap_or_default();
        for (key, value) in self.0.as_map().into_iter().flat_map(|map| map.iter()) {
            object.set(&["data", key], value.clone());
        }
        Ok(object)
    }
}

/// The day from which on tokens of the old kind are known to have been used or not.
pub fn tracking(now: Timestamp) -> (&'static str, Value) {
    let day: String = object::timestamp::Time(now).to_string().chars().take("2006-01-02".len()).collect();
    let object = value!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": TRACKING, "namespace": NAMESPACE}, "data": {"since": day}
    });
    ("configmaps", object)
}
