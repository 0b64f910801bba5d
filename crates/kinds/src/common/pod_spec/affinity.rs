//! Affinity to nodes and to other pods.

use object::{Cursor, Errors, Value, names};

use super::PodValidationOptions;
use super::topology;
use crate::common::checks::{Checks, report};
use crate::common::selector;

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

pub fn validate(affinity: &Cursor, options: &PodValidationOptions, errors: &mut Errors) {
    let node = affinity.field("nodeAffinity");
    let required = node.field(REQUIRED);
    if required.is_set() {
        node_selector(&required, options.allow_invalid_node_affinity_values, errors);
    }
    for term in node.field(PREFERRED).each() {
        weight(&term, errors);
        // A preference for a label that no node can have is pointless, not wrong.
        node_selector_term(&term.field("preference"), true, errors);
    }
    for pods in ["podAffinity", "podAntiAffinity"].map(|field| affinity.field(field)) {
        for term in pods.field(REQUIRED).each() {
            pod_term(&term, options, errors);
        }
        for term in pods.field(PREFERRED).each() {
            weight(&term, errors);
            pod_term(&term.field("podAffinityTerm"), options, errors);
        }
    }
}

fn weight(term: &Cursor, errors: &mut Errors) {
    let weight = term.field("weight");
    if !(1..=100).contains(&weight.int()) {
        weight.invalid_as(errors, weight.int(), "must be in the range 1-100");
    }
}

/// A NodeSelector, as pods and volumes have it. `any_values` lets values pass that no label can have.
pub fn node_selector(selector: &Cursor, any_values: bool, errors: &mut Errors) {
    let terms = selector.field("nodeSelectorTerms");
    if terms.is_empty() {
        return terms.required(errors, "must have at least one node selector term");
    }
    for term in terms.each() {
        node_selector_term(&term, any_values, errors);
    }
}

pub fn node_selector_term(term: &Cursor, any_values: bool, errors: &mut Errors) {
    for requirement in term.field("matchExpressions").each() {
        node_label_requirement(&requirement, any_values, errors);
    }
    for requirement in term.field("matchFields").each() {
        node_field_requirement(&requirement, errors);
    }
}

fn node_label_requirement(requirement: &Cursor, any_values: bool, errors: &mut Errors) {
    let (operator, values) = (requirement.field("operator"), requirement.field("values"));
    match operator.str() {
        "In" | "NotIn" if values.is_empty() => {
            values.required(errors, "must be specified when `operator` is 'In' or 'NotIn'");
        }
        "Exists" | "DoesNotExist" if !values.is_empty() => {
            values.forbidden(errors, "may not be specified when `operator` is 'Exists' or 'DoesNotExist'");
        }
        "Gt" | "Lt" if values.len() != 1 => {
            values.required(errors, "must be specified single value when `operator` is 'Lt' or 'Gt'");
        }
        "In" | "NotIn" | "Exists" | "DoesNotExist" | "Gt" | "Lt" => {}
        _ => operator.bad(errors, "not a valid selector operator"),
    }
    requirement.field("key").check(errors, names::label_key);
    if !any_values {
        for value in values.each() {
            value.check(errors, names::label_value);
        }
    }
}

fn node_field_requirement(requirement: &Cursor, errors: &mut Errors) {
    let (operator, values) = (requirement.field("operator"), requirement.field("values"));
    match operator.str() {
        "In" | "NotIn" if values.len() != 1 => {
            values
                .required(errors, "must be only one value when `operator` is 'In' or 'NotIn' for node field selector");
        }
        "In" | "NotIn" => {}
        _ => operator.bad(errors, "not a valid selector operator"),
    }
    let key = requirement.field("key");
    if key.str() == "metadata.name" {
        for value in values.each() {
            value.check_name(errors, names::name_is_dns_subdomain);
        }
    } else {
        key.bad(errors, "not a valid field selector key");
    }
}

fn pod_term(term: &Cursor, options: &PodValidationOptions, errors: &mut Errors) {
    pod_term_selectors(term, options.allow_invalid_selector_values, errors);
    // Upstream's path is in the singular and without an index.
    let namespace = term.path().field("namespace");
    for name in term.field("namespaces").strs() {
        report(errors, &namespace, name, names::name_is_dns_label(name, false));
    }
    topology::label_keys(term, &["matchLabelKeys", "mismatchLabelKeys"], errors);
    let key = term.field("topologyKey");
    if key.str().is_empty() {
        key.required(errors, "can not be empty");
    }
    key.check(errors, names::label_key);
}

fn pod_term_selectors(term: &Cursor, allow_invalid_values: bool, errors: &mut Errors) {
    let options = selector::LabelSelectorValidationOptions {
        allow_invalid_values,
        ..selector::LabelSelectorValidationOptions::default()
    };
    selector::validate(&term.field("labelSelector"), options, errors);
    selector::validate(&term.field("namespaceSelector"), options, errors);
}

/// Checks only the selectors of a spec's pod affinity, strictly.
pub fn check_pod_term_selectors(spec: &Cursor, errors: &mut Errors) {
    let affinity = spec.field("affinity");
    for pods in ["podAffinity", "podAntiAffinity"].map(|field| affinity.field(field)) {
        let required = pods.field(REQUIRED).each();
        let preferred = pods.field(PREFERRED).each().map(|term| term.field("podAffinityTerm"));
        for term in required.chain(preferred) {
            pod_term_selectors(&term, false, errors);
        }
    }
}

/// Whether required node affinity has a value that no label can have.
pub fn has_invalid_required_node_value(spec: &Value) -> bool {
    let terms = spec.at(&["affinity", "nodeAffinity", REQUIRED]).list_at(&["nodeSelectorTerms"]);
    terms.iter().flat_map(|term| term.list_at(&["matchExpressions"])).any(|expression| {
        let mut values = expression.list_at(&["values"]).iter();
        values.any(|value| !names::label_value(value.as_str().unwrap_or("")).is_empty())
    })
}

/// Every pod affinity term of a spec, to change.
pub fn change_pod_terms(spec: &mut Value, mut change: impl FnMut(&mut Value)) {
    for pods in ["podAffinity", "podAntiAffinity"] {
        let Some(pods) = spec.at_mut(&["affinity", pods]) else { continue };
        super::visit::change_each(pods, PREFERRED, |term| {
            if let Some(term) = term.get_mut("podAffinityTerm") {
                change(term);
            }
        });
        super::visit::change_each(pods, REQUIRED, &mut change);
    }
}
