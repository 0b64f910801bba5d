//! Which fields a selector may use, and how upstream says no.

use object::{Status, Str, fields::Selector, quote};
use registry::Resource;

/// The selector as the stored version names fields; refused if it uses fields that cannot be selected by.
pub fn check(resource: &Resource, selector: &Selector) -> Result<Selector, Status> {
    let strategy = resource.strategy();
    let known = strategy.map_or(&[][..], |strategy| strategy.selectable_fields());
    selector.transform(|field, value| {
        let found = match field {
            "metadata.name" => Some(field),
            "metadata.namespace" if has_namespace(resource) => Some(field),
            _ => {
                strategy.and_then(|strategy| strategy.selected_field(&resource.resource.group, field)).map(Str::as_str)
            }
        };
        match found {
            Some(field) => Ok((field.to_string(), value.to_string())),
            None => Err(Status::bad_request(refusal(resource, field, known))),
        }
    })
}

/// Cluster-wide kinds that list their fields themselves leave the namespace out.
fn has_namespace(resource: &Resource) -> bool {
    let strategy = resource.strategy();
    let plain = strategy.is_some_and(|strategy| strategy.facts().field_refusal == registry::FieldRefusal::Plain);
    strategy.is_none_or(|strategy| strategy.facts().selects_by_namespace) && (resource.namespaced || !plain)
}

/// Upstream words this in several ways, by how the kind's selectable fields were registered.
fn refusal(resource: &Resource, field: &str, known: &[Str]) -> String {
    let style = resource.strategy().map(|strategy| strategy.facts().field_refusal);
    match style {
        Some(registry::FieldRefusal::Plain) => format!("field label not supported: {field}"),
        Some(registry::FieldRefusal::ForKind) => {
            format!("field label {} not supported for {}", quote(field), resource.kind.kind)
        }
        Some(registry::FieldRefusal::ForVersion) => {
            let kind = &resource.kind;
            format!("field label not supported for {}, Kind={}: {field}", kind.group_version(), kind.kind)
        }
        _ => {
            let mut all = vec!["metadata.name", "metadata.namespace"];
            all.extend(known.iter().map(Str::as_str));
            let all: Vec<String> = all.iter().map(|name| quote(name)).collect();
            format!("{} is not a known field selector: only {}", quote(field), all.join(", "))
        }
    }
}
