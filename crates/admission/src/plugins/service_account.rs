//! ServiceAccount: every pod runs as an account of its namespace, with a token to speak to the API mounted unless it says no.

mod secrets;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use object::{Meta, Randomness, Status, Value, value};

use super::forbidden;
use crate::{Attributes, Operation, Plugin};

pub struct ServiceAccount;

const DEFAULT: &str = "default";
const MIRROR: &str = "kubernetes.io/config.mirror";
const VOLUME: &str = "kube-api-access-";
const MOUNT_PATH: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
/// An hour and a bit: an odd value marks tokens that were mounted by default.
const TOKEN_SECONDS: i64 = 3607;
/// How often a new namespace's default account is looked for before the pod is refused.
const ATTEMPTS: usize = 10;

#[async_trait]
impl Plugin for ServiceAccount {
    fn name(&self) -> &'static str {
        "ServiceAccount"
    }

    async fn mutate(&self, attributes: &Attributes<'_>, pod: &mut Value, _: Option<&Value>) -> Result<(), Status> {
        if !attributes.is("", "pods") || attributes.operation != Operation::Create {
            return Ok(());
        }
        if pod.annotation(MIRROR).is_some() {
            return mirror_pod(attributes, pod);
        }
        if pod.str_at(&["spec", "serviceAccountName"]).is_empty() {
            pod.set(&["spec", "serviceAccountName"], DEFAULT);
            pod.set(&["spec", "serviceAccount"], DEFAULT);
        }
        let account = account(attributes, pod).await?;
        if wants_token(pod, &account) {
            mount_token(pod, attributes.cx.randomness);
        }
        if pod.list_at(&["spec", "imagePullSecrets"]).is_empty() {
            let secrets = account.list_at(&["imagePullSecrets"]);
            let names: Vec<Value> = secrets.iter().map(|s| value!({ "name": (s.str_at(&["name"])) })).collect();
            if !names.is_empty() {
                pod.set(&["spec", "imagePullSecrets"], names);
            }
        }
        Ok(())
    }

    async fn validate(
        &self,
        attributes: &Attributes<'_>,
        object: Option<&Value>,
        _: Option<&Value>,
    ) -> Result<(), Status> {
        let about_pods = attributes.resource.group.is_empty() && attributes.resource.resource == "pods";
        let Some(pod) = object.filter(|_| about_pods) else { return Ok(()) };
        match (attributes.operation, attributes.subresource) {
            (Operation::Create, "") if pod.annotation(MIRROR).is_some() => mirror_pod(attributes, pod),
            (Operation::Create, "") => {
                let account = account(attributes, pod).await?;
                secrets::check(pod, &account).map_err(|why| forbidden(attributes, why))
            }
            (Operation::Update, "ephemeralcontainers") => {
                let account = account(attributes, pod).await?;
                secrets::check_ephemeral(pod, &account)
            }
            _ => Ok(()),
        }
    }
}

/// The pod's account. The default one of a namespace is made by a controller a moment after the namespace, so it is waited for.
async fn account(attributes: &Attributes<'_>, pod: &Value) -> Result<Arc<Value>, Status> {
    let (namespace, name) = (attributes.cx.namespace, pod.str_at(&["spec", "serviceAccountName"]));
    if name.is_empty() {
        let why = format!("no service account specified for pod {namespace}/{}", pod.name());
        return Err(forbidden(attributes, why));
    }
    let pause = Duration::from_millis(100 + attributes.cx.randomness.below(100) as u64);
    let attempts = if name == DEFAULT { ATTEMPTS } else { 1 };
    for attempt in 0..attempts {
        if attempt > 0 {
            tokio::time::sleep(pause).await;
        }
        if let Some(account) = attributes.cx.lookup.get("", "serviceaccounts", namespace, name) {
            return Ok(account);
        }
    }
    let why = format!("error looking up service account {namespace}/{name}: serviceaccount \"{name}\" not found");
    Err(forbidden(attributes, why))
}

/// Whether a pod uses any secret.
pub(super) fn uses_secrets(pod: &Value) -> bool {
    secrets::uses_any(pod)
}

/// Pods that a kubelet read from a file show what already runs; they have no part in accounts or secrets.
fn mirror_pod(attributes: &Attributes<'_>, pod: &Value) -> Result<(), Status> {
    let projected =
        pod.list_at(&["spec", "volumes"]).iter().flat_map(|volume| volume.list_at(&["projected", "sources"]));
    let has_token = projected.into_iter().any(|source| !source.field("serviceAccountToken").is_null());
    let why = if !pod.str_at(&["spec", "serviceAccountName"]).is_empty() {
        "a mirror pod may not reference service accounts"
    } else if secrets::uses_any(pod) {
        "a mirror pod may not reference secrets"
    } else if has_token {
        "a mirror pod may not use ServiceAccountToken volume projections"
    } else {
        return Ok(());
    };
    Err(forbidden(attributes, why))
}

fn wants_token(pod: &Value, account: &Value) -> bool {
    let pod = pod.at(&["spec", "automountServiceAccountToken"]).as_bool();
    pod.or_else(|| account.field("automountServiceAccountToken").as_bool()).unwrap_or(true)
}

/// Mounts a token in every container that has nothing at its path, from a volume that is made if there is none.
fn mount_token(pod: &mut Value, randomness: &dyn Randomness) {
    let volumes = pod.list_at(&["spec", "volumes"]).iter().map(|volume| volume.str_at(&["name"]));
    let existing = volumes.into_iter().find(|name| name.starts_with(VOLUME)).map(str::to_string);
    let has_volume = existing.is_some();
    let name = existing.unwrap_or_else(|| format!("{VOLUME}{}", randomness.name_suffix()));
    let mut mounted = false;
    for field in ["initContainers", "containers"] {
        let Some(containers) = pod.at_mut(&["spec", field]).and_then(Value::as_list_mut) else { continue };
        for container in containers {
            let mounts = container.list_at(&["volumeMounts"]);
            if mounts.iter().any(|mount| mount.str_at(&["mountPath"]) == MOUNT_PATH) {
                continue;
            }
            let mount = value!({ "name": (name.as_str()), "readOnly": true, "mountPath": MOUNT_PATH });
            container.slot(&["volumeMounts"]).make_list().push(mount);
            mounted = true;
        }
    }
    if mounted && !has_volume {
        pod.slot(&["spec", "volumes"]).make_list().push(token_volume(&name));
    }
}

fn token_volume(name: &str) -> Value {
    value!({
        "name": name,
        "projected": {
            "defaultMode": 420,
            "sources": [
                { "serviceAccountToken": { "path": "token", "expirationSeconds": TOKEN_SECONDS } },
                { "configMap": {
                    "name": "kube-root-ca.crt",
                    "items": [{ "key": "ca.crt", "path": "ca.crt" }],
                } },
                { "downwardAPI": { "items": [{
                    "path": "namespace",
                    "fieldRef": { "apiVersion": "v1", "fieldPath": "metadata.namespace" },
                }] } },
            ],
        },
    })
}
