//! Which secrets a pod uses, and which of them its account lets it use.

use object::{Meta, Status, Value};

use crate::plugins::plain_failure;

const ENFORCE: &str = "kubernetes.io/enforce-mountable-secrets";

/// Secrets that the account does not name, if the account asks for that check.
pub fn check(pod: &Value, account: &Value) -> Result<(), String> {
    if !is_enforced(account) {
        return Ok(());
    }
    let end = format!("is not allowed because service account {} does not reference that", account.name());
    for volume in pod.list_at(&["spec", "volumes"]).iter().filter(|volume| !volume.field("secret").is_null()) {
        let secret = volume.str_at(&["secret", "secretName"]);
        if !names(account, "secrets", secret) {
            return Err(format!("volume with secret.secretName=\"{secret}\" {end} secret"));
        }
    }
    containers(pod, account, "initContainers", "init container")?;
    containers(pod, account, "containers", "container")?;
    for (i, reference) in pod.list_at(&["spec", "imagePullSecrets"]).iter().enumerate() {
        let secret = reference.str_at(&["name"]);
        if !names(account, "imagePullSecrets", secret) {
            return Err(format!("imagePullSecrets[{i}].name=\"{secret}\" {end} imagePullSecret"));
        }
    }
    Ok(())
}

/// The same for containers that are added to a running pod. Upstream answers with a plain error here, which clients see as a 500.
pub fn check_ephemeral(pod: &Value, account: &Value) -> Result<(), Status> {
    if !is_enforced(account) {
        return Ok(());
    }
    let checked = containers(pod, account, "ephemeralContainers", "ephemeral container");
    checked.map_err(plain_failure)
}

fn containers(pod: &Value, account: &Value, field: &str, what: &str) -> Result<(), String> {
    let end = format!("is not allowed because service account {} does not reference that secret", account.name());
    for container in pod.list_at(&["spec", field]) {
        let name = container.str_at(&["name"]);
        for env in container.list_at(&["env"]) {
            let reference = env.at(&["valueFrom", "secretKeyRef"]);
            let secret = reference.str_at(&["name"]);
            if !reference.is_null() && !names(account, "secrets", secret) {
                let variable = env.str_at(&["name"]);
                return Err(format!(
                    "{what} {name} with envVar {variable} referencing secret.secretName=\"{secret}\" {end}"
                ));
            }
        }
        for env in container.list_at(&["envFrom"]) {
            let reference = env.field("secretRef");
            let secret = reference.str_at(&["name"]);
            if !reference.is_null() && !names(account, "secrets", secret) {
                return Err(format!("{what} {name} with envFrom referencing secret.secretName=\"{secret}\" {end}"));
            }
        }
    }
    Ok(())
}

fn names(account: &Value, field: &str, secret: &str) -> bool {
    account.list_at(&[field]).iter().any(|reference| reference.str_at(&["name"]) == secret)
}

fn is_enforced(account: &Value) -> bool {
    matches!(account.annotation(ENFORCE), Some("1" | "t" | "T" | "true" | "TRUE" | "True"))
}

/// Whether a pod uses any secret anywhere.
pub fn uses_any(pod: &Value) -> bool {
    let named = |reference: &Value| !reference.str_at(&["name"]).is_empty();
    let container = |container: &Value| {
        container.list_at(&["env"]).iter().any(|env| named(env.at(&["valueFrom", "secretKeyRef"])))
            || container.list_at(&["envFrom"]).iter().any(|env| named(env.field("secretRef")))
    };
    let volume = |volume: &Value| {
        let projected = volume.list_at(&["projected", "sources"]).iter().any(|source| named(source.field("secret")));
        // The other sources all name their secret in the same places.
        let sources = volume.as_map().into_iter().flat_map(|map| map.values());
        let named_inside = |source: &Value| {
            named(source.field("secretRef"))
                || named(source.field("nodePublishSecretRef"))
                || !source.str_at(&["secretName"]).is_empty()
        };
        projected || sources.into_iter().any(named_inside)
    };
    let lists = ["initContainers", "containers", "ephemeralContainers"];
    pod.list_at(&["spec", "imagePullSecrets"]).iter().any(named)
        || lists.iter().flat_map(|field| pod.list_at(&["spec", field])).any(container)
        || pod.list_at(&["spec", "volumes"]).iter().any(volume)
}
