//! MatchResources and ParamRef, which policies and their bindings share.

use std::collections::BTreeSet;

use object::{Cursor, Errors, names};

use super::rules;
use crate::common::checks::Checks;
use crate::common::selector;

const MATCH_POLICIES: [&str; 2] = ["Equivalent", "Exact"];
const MUTABLE_OPERATIONS: [&str; 4] = ["*", "CONNECT", "CREATE", "UPDATE"];

/// Checks MatchResources that are there.
pub fn validate_resources(resources: &Cursor, errors: &mut Errors) {
    if !resources.is_set() {
        return;
    }
    let policy = resources.field("matchPolicy");
    if policy.is_set() {
        policy.one_of(errors, &MATCH_POLICIES);
    } else {
        policy.required(errors, "");
    }
    for field in ["namespaceSelector", "objectSelector"] {
        let field = resources.field(field);
        if field.is_set() {
            selector::validate(&field, selector::LabelSelectorValidationOptions::default(), errors);
        } else {
            field.required(errors, "");
        }
    }
    for field in ["resourceRules", "excludeResourceRules"] {
        for rule in resources.field(field).each() {
            validate_names(&rule.field("resourceNames"), errors);
            rules::validate(&rule, errors);
        }
    }
}

fn validate_names(resource_names: &Cursor, errors: &mut Errors) {
    let mut seen = BTreeSet::new();
    for name in resource_names.each() {
        name.check(errors, names::path_segment_name);
        if !seen.insert(name.str()) {
            name.duplicate(errors);
        }
    }
}

/// Deletions cannot be mutated.
pub fn validate_mutable(resources: &Cursor, errors: &mut Errors) {
    let rules = resources.field("resourceRules");
    let path = rules.path().field("operations");
    for operation in rules.each().flat_map(|rule| rule.field("operations").each()) {
        if !MUTABLE_OPERATIONS.contains(&operation.str()) {
            errors.not_supported(&path, operation.str(), &MUTABLE_OPERATIONS);
        }
    }
}

/// Checks a ParamRef that is there.
pub fn validate_param_ref(param: &Cursor, errors: &mut Errors) {
    if !param.is_set() {
        return;
    }
    let (name, selector, action) =
        (param.field("name"), param.field("selector"), param.field("parameterNotFoundAction"));
    let both = !name.is_empty() && selector.is_set();
    name.check(errors, names::path_segment_name);
    if both {
        name.forbidden(errors, "name and selector are mutually exclusive");
    }
    selector::validate(&selector, selector::LabelSelectorValidationOptions::default(), errors);
    if both {
        selector.forbidden(errors, "name and selector are mutually exclusive");
    }
    if name.is_empty() && !selector.is_set() {
        param.required(errors, "one of name or selector must be specified");
    }
    action.require_one_of(errors, &["Deny", "Allow"]);
}

/// Checks a ParamKind that is there.
pub fn validate_param_kind(kind: &Cursor, errors: &mut Errors) {
    if !kind.is_set() {
        return;
    }
    let (version, kind) = (kind.field("apiVersion"), kind.field("kind"));
    if version.require(errors) {
        validate_group_version(&version, errors);
    }
    if kind.require(errors) {
        let messages = names::dns1035_label(&kind.str().to_lowercase());
        if !messages.is_empty() {
            let messages = messages.join(",");
            kind.bad(errors, format!("may have mixed case, but should otherwise match: {messages}"));
        }
    }
}

fn validate_group_version(field: &Cursor, errors: &mut Errors) {
    let text = field.str();
    let (group, version) = match text.split('/').collect::<Vec<_>>().as_slice() {
        _ if text == "/" => ("", ""),
        [version] => ("", *version),
        [group, version] => (*group, *version),
        _ => return field.bad(errors, format!("unexpected GroupVersion string: {text}")),
    };
    let mut check = |part: &str, messages: Vec<String>| {
        if !messages.is_empty() {
            field.invalid_as(errors, part, messages.join(","));
        }
    };
    if !group.is_empty() {
        check(group, names::dns1123_subdomain(group));
    }
    if version.is_empty() {
        field.bad(errors, "version must be specified");
    } else {
        check(version, names::dns1035_label(version));
    }
}
