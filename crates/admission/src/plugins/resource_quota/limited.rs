//! [`Limited`]: what may only be used where a quota covers it, from the plugin's configuration.

use object::{Status, Value};

use super::check::Request;
use crate::Configuration;
use crate::plugins::plain_failure;
use crate::plugins::resources::ResourceList;

/// One entry of `limitedResources`.
pub struct Limited {
    group: String,
    resource: String,
    /// Resources of quotas whose names have one of these in them.
    contains: Vec<String>,
    scopes: Vec<Value>,
}

impl Limited {
    pub fn configured(config: &Configuration) -> Result<Vec<Limited>, String> {
        const NAME: &str = "ResourceQuota";
        let old = config.of_kind(NAME, "resourcequota.admission.k8s.io", "Configuration");
        let own = match old {
            Ok(found) => found,
            Err(_) => config.of_kind(NAME, "apiserver.config.k8s.io", "ResourceQuotaConfiguration")?,
        };
        let entries = own.map(|own| own.list_at(&["limitedResources"])).unwrap_or(&[]);
        let strings =
            |value: &Value| value.as_list().unwrap_or(&[]).iter().filter_map(Value::as_str).map(Into::into).collect();
        let limited = |entry: &Value| Limited {
            group: entry.str_at(&["apiGroup"]).to_string(),
            resource: entry.str_at(&["resource"]).to_string(),
            contains: strings(entry.field("matchContains")),
            scopes: entry.list_at(&["matchScopes"]).to_vec(),
        };
        if let Some(place) = entries.iter().position(|entry| entry.str_at(&["resource"]).is_empty()) {
            return Err(format!("limitedResources[{place}].resource: Required value"));
        }
        Ok(entries.iter().map(limited).collect())
    }
}

/// Refuses what is limited and not covered. `covered` are the resources and `scopes` the names of scopes of all quotas that
/// are about the object.
pub fn check(request: &Request<'_>, usage: &ResourceList, covered: &[String], scopes: &[String]) -> Result<(), Status> {
    let about = request.attributes.resource;
    let mut missing: Vec<&str> = Vec::new();
    for entry in request.limited.iter().filter(|entry| entry.group == about.group && entry.resource == about.resource) {
        let matched = usage.keys().filter(|name| entry.contains.iter().any(|part| name.contains(part.as_str())));
        missing.extend(matched.map(String::as_str).filter(|name| !covered.iter().any(|known| known == name)));
    }
    if !missing.is_empty() {
        missing.sort_unstable();
        missing.dedup();
        return Err(request.forbidden(format!("insufficient quota to consume: {}", missing.join(","))));
    }
    let wanted = request.limited.iter().flat_map(|entry| &entry.scopes);
    let wanted = wanted.filter(|scope| request.evaluator.in_scope(&request.attributes.cx, scope, request.object));
    let uncovered: Vec<String> =
        wanted.filter(|scope| !scopes.iter().any(|name| name == scope.str_at(&["scopeName"]))).map(shown).collect();
    if uncovered.is_empty() {
        return Ok(());
    }
    Err(plain_failure(format!("insufficient quota to match these scopes: [{}]", uncovered.join(" "))))
}

/// A scope selector as Go prints the struct.
fn shown(scope: &Value) -> String {
    let values: Vec<&str> = scope.list_at(&["values"]).iter().filter_map(Value::as_str).collect();
    format!("{{{} {} [{}]}}", scope.str_at(&["scopeName"]), scope.str_at(&["operator"]), values.join(" "))
}
