//! apiextensions.k8s.io/v1beta1, which is also what is stored: what all versions share stands at the top of the spec.

use object::Value;
use registry::Convert;

/// Between what clients of v1beta1 write and what is stored.
pub struct DefinitionsV1beta1;

impl Convert for DefinitionsV1beta1 {
    /// Fills in what v1beta1 lets clients leave out.
    fn to_storage(&self, mut object: Value) -> Result<Value, String> {
        let Some(spec) = object.get_mut("spec").filter(|spec| !spec.is_null()) else { return Ok(object) };
        let version = spec.str_at(&["version"]).to_string();
        let first = spec.list_at(&["versions"]).first().map(|version| version.str_at(&["name"]).to_string());
        match first {
            None if !version.is_empty() => {
                let only = object::value!({"name": (version.as_str()), "served": true, "storage": true});
                spec.set(&["versions"], vec![only]);
            }
            Some(first) if version.is_empty() => spec.set(&["version"], first),
            _ => {}
        }
        let conversion = spec.field("conversion");
        if conversion.str_at(&["strategy"]) == "Webhook" && conversion.field("conversionReviewVersions").is_empty() {
            spec.set(&["conversion", "conversionReviewVersions"], vec![Value::from("v1beta1")]);
        }
        Ok(object)
    }

    fn from_storage(&self, object: Value) -> Result<Value, String> {
        Ok(object)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::yaml;

    #[test]
    fn what_clients_leave_out_is_filled_in() {
        let cases = [
            ("{version: v1}", "{version: v1, versions: [{name: v1, served: true, storage: true}]}"),
            ("{versions: [{name: v2}, {name: v1}]}", "{version: v2, versions: [{name: v2}, {name: v1}]}"),
            (
                "{conversion: {strategy: Webhook}}",
                "{conversion: {strategy: Webhook, conversionReviewVersions: [v1beta1]}}",
            ),
            ("{version: v1, versions: [{name: v2}]}", "{version: v1, versions: [{name: v2}]}"),
        ];
        for (sent, stored) in cases {
            let object = |spec: &str| yaml(&format!("{{spec: {spec}}}"));
            assert_eq!(DefinitionsV1beta1.to_storage(object(sent)), Ok(object(stored)), "{sent}");
        }
    }
}
