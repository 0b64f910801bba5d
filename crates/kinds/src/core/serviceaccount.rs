//! ServiceAccounts: identities of pods. Tokens are made elsewhere; the object itself has few rules.

use object::{Map, Meta, Value};
use registry::{Context, Facts, Strategy};

/// Asks that pods may only mount the secrets the account lists.
const ENFORCE_MOUNTABLE_SECRETS: &str = "kubernetes.io/enforce-mountable-secrets";

pub struct ServiceAccount;

const FACTS: Facts =
    Facts { checks_updated_generate_name: true, returns_deleted_object: true, ..Facts::WITHOUT_STATUS };

impl Strategy for ServiceAccount {
    fn facts(&self) -> &Facts {
        &FACTS
    }

    fn prepare_create(&self, _cx: &Context, object: &mut Value) {
        keep_only_names_of_secrets(object);
    }

    fn prepare_update(&self, _cx: &Context, new: &mut Value, _old: &Value) {
        keep_only_names_of_secrets(new);
    }

    fn warnings(&self, _cx: &Context, object: &Value, old: Option<&Value>) -> Vec<String> {
        let enforces = |account: &Value| account.annotation(ENFORCE_MOUNTABLE_SECRETS).is_some();
        if !enforces(object) || old.is_some_and(enforces) {
            return Vec::new();
        }
        vec![format!(
            "metadata.annotations[{ENFORCE_MOUNTABLE_SECRETS}]: deprecated in v1.32+; prefer separate namespaces to \
             isolate access to mounted secrets"
        )]
    }
}

fn keep_only_names_of_secrets(object: &mut Value) {
    let Some(secrets) = object.get_mut("secrets").and_then(Value::as_list_mut) else { return };
    for secret in secrets {
        let name = secret.get_mut("name").map(Value::take).unwrap_or_default();
        let mut reference = Map::new();
        if !name.is_empty() {
            reference.insert("name", name);
        }
        *secret = Value::Map(reference);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::{Check, yaml};

    #[test]
    fn secrets_are_names() {
        Check::new(ServiceAccount, "{apiVersion: v1, kind: ServiceAccount, metadata: {name: a}}")
            .stored(&[("secrets: [{name: s, namespace: other, kind: Secret}, {uid: x}]", "secrets: [{name: s}, {}]")]);
    }

    #[test]
    fn the_annotation_is_warned_about_once() {
        let check = Check::new(ServiceAccount, "{apiVersion: v1, kind: ServiceAccount, metadata: {name: a}}");
        let warning = "metadata.annotations[kubernetes.io/enforce-mountable-secrets]: deprecated in v1.32+; prefer \
                       separate namespaces to isolate access to mounted secrets";
        let annotated = "metadata: {annotations: {kubernetes.io/enforce-mountable-secrets: 'true'}}";
        check.warnings(&[("", &[]), (annotated, &[warning])]);
        let old = yaml(annotated);
        assert!(ServiceAccount.warnings(&check.context(""), &check.object(annotated), Some(&old)).is_empty());
    }
}
