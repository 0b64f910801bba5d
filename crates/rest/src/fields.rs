//! Which fields a selector may use, and how upstream says no.

use object::{Status, fields::Selector, quote};
use registry::Resource;

/// Refuses selectors on fields that cannot be selected by.
pub fn check(resource: &Resource, selector: &Selector) -> Result<(), Status> {
    let known = resource.storage.as_ref().map_or(&[][..], |storage| storage.strategy.selectable_fields());
    for requirement in selector.requirements() {
        let field = requirement.field.as_str();
        if matches!(field, "metadata.name" | "metadata.namespace") || known.contains(&field) {
            continue;
        }
        return Err(Status::bad_request(refusal(resource, field, known)));
    }
    Ok(())
}

/// Upstream words this in three ways, by how the kind's selectable fields were registered.
fn refusal(resource: &Resource, field: &str, known: &[&str]) -> String {
    let style = resource.storage.as_ref().map(|storage| storage.strategy.field_refusal());
    match style {
        Some(registry::FieldRefusal::Plain) => format!("field label not supported: {field}"),
        Some(registry::FieldRefusal::ForKind) => {
            format!("field label {} not supported for {}", quote(field), resource.kind.kind)
        }
        _ => {
            let mut all = vec!["metadata.name", "metadata.namespace"];
            all.extend(known);
            let all: Vec<String> = all.iter().map(|name| quote(name)).collect();
            format!("{} is not a known field selector: only {}", quote(field), all.join(", "))
        }
    }
}
