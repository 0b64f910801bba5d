//! What a claim asks for, in claims and in templates of claims.

use std::collections::{BTreeMap, BTreeSet};

use object::{Cursor, Errors, Value, names};

use super::devices::{self, CONFIG_MAX, EFFECTS, SELECTORS_MAX};
use crate::common::checks::Checks;
use crate::common::problems;

const REQUESTS_MAX: usize = 32;
const CONSTRAINTS_MAX: usize = 32;
const FIRST_AVAILABLE_MAX: usize = 8;
const TOLERATIONS_MAX: usize = 16;

/// Defaults of a ResourceClaimSpec: as many devices as it says, else one.
pub fn default(spec: &mut Value) {
    let requests = spec.at_mut(&["devices", "requests"]).and_then(Value::as_list_mut);
    for request in requests.into_iter().flatten() {
        if let Some(exactly) = request.get_mut("exactly").filter(|exactly| !exactly.is_null()) {
            default_request(exactly);
        }
        for request in request.get_mut("firstAvailable").and_then(Value::as_list_mut).into_iter().flatten() {
            default_request(request);
        }
    }
}

fn default_request(request: &mut Value) {
    if request.str_at(&["allocationMode"]).is_empty() {
        request.set(&["allocationMode"], "ExactCount");
    }
    let is_exact = request.str_at(&["allocationMode"]) == "ExactCount";
    if is_exact && request.field("count").as_int().unwrap_or(0) == 0 {
        request.set(&["count"], 1);
    }
}

/// Checks a ResourceClaimSpec.
pub fn validate(spec: &Cursor, errors: &mut Errors) {
    let claim = spec.field("devices");
    let known = Names::of(&claim);
    for request in claim.field("requests").each() {
        validate_request(&request, errors);
    }
    for constraint in claim.field("constraints").each() {
        for name in constraint.field("requests").each() {
            known.check(&name, errors);
        }
        if !constraint.field("matchAttribute").is_set() && !constraint.field("distinctAttribute").is_set() {
            let detail =
                r#"exactly one of "matchAttribute" or "distinctAttribute" is required, but multiple fields are set"#;
            constraint.required(errors, detail);
        }
    }
    for config in claim.field("config").each() {
        for name in config.field("requests").each() {
            known.check(&name, errors);
        }
        devices::configuration(&config, errors);
    }
    validate_declared(&claim, errors);
}

/// The names of requests, and of what they consist of.
struct Names<'a>(BTreeMap<&'a str, BTreeSet<&'a str>>);

impl<'a> Names<'a> {
    fn of(claim: &Cursor<'a>) -> Names<'a> {
        let parts = |request: &Cursor<'a>| request.field("firstAvailable").each().map(|sub| sub.field("name").str());
        let requests = claim.field("requests").each();
        Names(requests.map(|request| (request.field("name").str(), parts(&request).collect())).collect())
    }

    fn check(&self, name: &Cursor, errors: &mut Errors) {
        let segments: Vec<&str> = name.str().split('/').collect();
        for segment in &segments {
            name.invalid_each(errors, names::dns1123_label(segment));
        }
        let known = match segments.as_slice() {
            [request] => self.0.contains_key(request),
            [request, part] => self.0.get(request).is_some_and(|parts| parts.contains(part)),
            _ => false,
        };
        if !known {
            name.bad(
                errors,
                "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'",
            );
        }
    }
}

fn validate_request(request: &Cursor, errors: &mut Errors) {
    request.field("name").check(errors, names::dns1123_label);
    let (exactly, first) = (request.field("exactly"), request.field("firstAvailable"));
    match (exactly.is_set(), !first.is_empty()) {
        (false, false) => request.required(errors, "exactly one of `exactly` or `firstAvailable` is required"),
        (true, true) => {
            let detail = "exactly one of `exactly` or `firstAvailable` is required, but multiple fields are set";
            request.invalid_as(errors, Value::Null, detail);
        }
        (true, false) => {
            let class = exactly.field("deviceClassName");
            if class.require(errors) {
                class.check(errors, names::dns1123_subdomain);
            }
            validate_devices(&exactly, errors);
        }
        (false, true) => {
            for part in first.each() {
                part.field("name").check(errors, names::dns1123_label);
                validate_devices(&part, errors);
            }
        }
    }
}

fn validate_devices(request: &Cursor, errors: &mut Errors) {
    devices::selectors(&request.field("selectors"), errors);
    let (mode, count) = (request.field("allocationMode").str(), request.field("count"));
    match mode {
        "All" if count.int() != 0 => {
            count.invalid(errors, format!("must not be specified when allocationMode is '{mode}'"));
        }
        "ExactCount" if count.int() <= 0 => count.invalid_as(errors, count.int(), "must be greater than zero"),
        _ => {}
    }
    for toleration in request.field("tolerations").each() {
        let value = toleration.field("value");
        match toleration.field("operator").str() {
            "Exists" if !value.is_empty() => value.bad(errors, "must be empty for operator `Exists`"),
            "Equal" => value.check(errors, names::label_value),
            _ => {}
        }
    }
}

/// Rules upstream declares on the types; it runs them after all others.
fn validate_declared(claim: &Cursor, errors: &mut Errors) {
    let name = |item: &Cursor| item.field("name").str().to_string();
    let requests = claim.field("requests");
    devices::set(&requests, REQUESTS_MAX, "DeviceRequest", name, errors);
    for request in requests.each() {
        if request.field("exactly").is_set() {
            validate_devices_declared(&request.field("exactly"), errors);
        }
        let first = request.field("firstAvailable");
        devices::set(&first, FIRST_AVAILABLE_MAX, "DeviceSubRequest", name, errors);
        for part in first.each() {
            let class = part.field("deviceClassName");
            if class.require(errors) {
                class.check(errors, names::long_name);
            }
            validate_devices_declared(&part, errors);
        }
    }
    let text = |item: &Cursor| item.str().to_string();
    let constraints = claim.field("constraints");
    too_many(&constraints, CONSTRAINTS_MAX, errors);
    for constraint in constraints.each() {
        devices::set(&constraint.field("requests"), REQUESTS_MAX, "", text, errors);
        for field in ["matchAttribute", "distinctAttribute"] {
            let field = constraint.field(field);
            if field.is_set() {
                problems::report(&field, names::resource_fully_qualified_name(field.str()), errors);
            }
        }
    }
    let config = claim.field("config");
    too_many(&config, CONFIG_MAX, errors);
    for config in config.each() {
        devices::set(&config.field("requests"), REQUESTS_MAX, "", text, errors);
        devices::configuration_declared(&config, errors);
    }
}

fn validate_devices_declared(request: &Cursor, errors: &mut Errors) {
    too_many(&request.field("selectors"), SELECTORS_MAX, errors);
    request.field("allocationMode").one_of(errors, &["All", "ExactCount"]);
    let tolerations = request.field("tolerations");
    too_many(&tolerations, TOLERATIONS_MAX, errors);
    for toleration in tolerations.each() {
        if !toleration.field("key").is_empty() {
            toleration.field("key").check(errors, names::label_key);
        }
        toleration.field("operator").require_one_of(errors, &["Equal", "Exists"]);
        if !toleration.field("effect").is_empty() {
            toleration.field("effect").one_of(errors, &EFFECTS);
        }
    }
}

pub fn too_many(list: &Cursor, max: usize, errors: &mut Errors) {
    if list.len() > max {
        errors.too_many(list.path(), list.len(), max);
    }
}
