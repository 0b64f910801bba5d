//! apiextensions.k8s.io/v1 and what is stored, v1beta1: there, what all versions have alike stands once, at the top of the
//! spec, and the webhook's fields beside the strategy.

use object::Value;
use registry::Convert;

/// What a version has in v1, and what the top of the spec calls it in v1beta1.
const SHARED: [(&str, &str); 4] = [
    ("schema", "validation"),
    ("subresources", "subresources"),
    ("additionalPrinterColumns", "additionalPrinterColumns"),
    ("selectableFields", "selectableFields"),
];
/// The same for the webhook that converts.
const WEBHOOK: [(&str, &str); 2] =
    [("clientConfig", "webhookClientConfig"), ("conversionReviewVersions", "conversionReviewVersions")];

/// Between apiextensions.k8s.io/v1 and what is stored.
pub struct DefinitionsV1;

impl Convert for DefinitionsV1 {
    fn to_storage(&self, object: Value) -> Result<Value, String> {
        Ok(to_stored(object))
    }

    fn from_storage(&self, object: Value) -> Result<Value, String> {
        Ok(to_v1(object))
    }
}

/// The form that is stored, of an object in the form of v1.
pub fn to_stored(mut object: Value) -> Value {
    object.set(&["apiVersion"], "apiextensions.k8s.io/v1beta1");
    if let Some(spec) = object.get_mut("spec").filter(|spec| !spec.is_null()) {
        gather(spec);
    }
    object
}

/// The form of v1, whatever the form of the object.
pub fn to_v1(mut object: Value) -> Value {
    object.set(&["apiVersion"], "apiextensions.k8s.io/v1");
    if let Some(spec) = object.get_mut("spec").filter(|spec| !spec.is_null()) {
        spread(spec);
    }
    object
}

fn gather(spec: &mut Value) {
    let preserves = spec.field("preserveUnknownFields").as_bool().unwrap_or(false);
    spec.set(&["preserveUnknownFields"], preserves);
    gather_webhook(spec);
    let Some(first) = spec.list_at(&["versions"]).first().cloned() else { return };
    spec.set(&["version"], first.str_at(&["name"]));
    for (of_version, of_spec) in SHARED {
        let shared = first.field(of_version);
        // An empty subresource is one, so nothing that is empty is taken for absent.
        if !spec.list_at(&["versions"]).iter().all(|version| version.field(of_version) == shared) {
            continue;
        }
        for version in spec.slot(&["versions"]).as_list_mut().into_iter().flatten() {
            version.remove(&[of_version]);
        }
        if !shared.is_null() {
            spec.set(&[of_spec], shared.clone());
        }
    }
    rename_paths(spec, "jsonPath", "JSONPath");
}

fn gather_webhook(spec: &mut Value) {
    let Some(webhook) = spec.remove(&["conversion", "webhook"]).filter(|webhook| !webhook.is_null()) else { return };
    for (inside, outside) in WEBHOOK {
        if !webhook.field(inside).is_null() {
            spec.set(&["conversion", outside], webhook.field(inside).clone());
        }
    }
}

fn spread(spec: &mut Value) {
    rename_paths(spec, "JSONPath", "jsonPath");
    let mut webhook = Value::Null;
    for (inside, outside) in WEBHOOK {
        if let Some(value) = spec.remove(&["conversion", outside]).filter(|value| !value.is_null()) {
            webhook.set(&[inside], value);
        }
    }
    if !webhook.is_null() {
        spec.set(&["conversion", "webhook"], webhook);
    }
    let name = spec.remove(&["version"]).unwrap_or_default();
    if spec.list_at(&["versions"]).is_empty() && !name.is_empty() {
        spec.set(&["versions"], vec![object::value!({"name": name, "served": true, "storage": true})]);
    }
    for (of_version, of_spec) in SHARED {
        let Some(shared) = spec.remove(&[of_spec]).filter(|shared| !shared.is_null()) else { continue };
        for version in spec.slot(&["versions"]).as_list_mut().into_iter().flatten() {
            version.set(&[of_version], shared.clone());
        }
    }
    if spec.field("preserveUnknownFields").as_bool() == Some(false) {
        spec.remove(&["preserveUnknownFields"]);
    }
}

/// Columns of tables spell one field in another way.
fn rename_paths(spec: &mut Value, from: &str, to: &str) {
    let rename = |columns: &mut Value| {
        for column in columns.as_list_mut().into_iter().flatten() {
            if let Some(path) = column.remove(&[from]) {
                column.set(&[to], path);
            }
        }
    };
    if let Some(columns) = spec.get_mut("additionalPrinterColumns") {
        rename(columns);
    }
    for version in spec.get_mut("versions").and_then(Value::as_list_mut).into_iter().flatten() {
        if let Some(columns) = version.get_mut("additionalPrinterColumns") {
            rename(columns);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::yaml;

    #[test]
    fn what_versions_share_is_stored_once() {
        let cases = [
            (
                "{versions: [{name: v1, schema: {a: 1}}, {name: v2, schema: {a: 1}, subresources: {}}]}",
                "{version: v1, preserveUnknownFields: false, validation: {a: 1},
                  versions: [{name: v1}, {name: v2, subresources: {}}]}",
            ),
            (
                "{versions: [{name: v1, subresources: {}}, {name: v2, subresources: {status: {}}}]}",
                "{version: v1, preserveUnknownFields: false,
                  versions: [{name: v1, subresources: {}}, {name: v2, subresources: {status: {}}}]}",
            ),
            (
                "{versions: [{name: v1, additionalPrinterColumns: [{jsonPath: .x}]}],
                  conversion: {strategy: Webhook, webhook: {clientConfig: {url: u}, conversionReviewVersions: [v1]}}}",
                "{version: v1, preserveUnknownFields: false, versions: [{name: v1}],
                  additionalPrinterColumns: [{JSONPath: .x}],
                  conversion: {strategy: Webhook, webhookClientConfig: {url: u}, conversionReviewVersions: [v1]}}",
            ),
        ];
        for (served, stored) in cases {
            let object = |version: &str, spec: &str| {
                yaml(&format!("{{apiVersion: apiextensions.k8s.io/{version}, spec: {spec}}}"))
            };
            let (served, stored) = (object("v1", served), object("v1beta1", stored));
            assert_eq!(DefinitionsV1.to_storage(served.clone()).as_ref(), Ok(&stored));
            assert_eq!(DefinitionsV1.from_storage(stored), Ok(served));
        }
    }
}
