//! What a claim asks for, in claims and in templates of claims.

use std::collections::{BTreeMap, BTreeSet};

use object::{Cursor, Errors, Path, Value, names};
use registry::Context;

use super::devices;
use crate::common::checks::Checks;
use crate::common::declared::RESOURCE;

const REQUESTS_MAX: usize = 32;
const CONSTRAINTS_MAX: usize = 32;
const FIRST_AVAILABLE_MAX: usize = 8;
const ADMIN_LABEL: &str = "resource.kubernetes.io/admin-access";

/// Defaults of a ResourceClaimSpec: as many devices as it says, else one.
pub fn default(spec: &mut Value) {
    for_each_request(spec, |request| {
        if request.str_at(&["allocationMode"]).is_empty() {
            request.set(&["allocationMode"], "ExactCount");
        }
        let is_exact = request.str_at(&["allocationMode"]) == "ExactCount";
        if is_exact && request.field("count").as_int().unwrap_or(0) == 0 {
            request.set(&["count"], 1);
        }
    });
}

/// Drops what belongs to features that are off, unless the claim has it already.
pub fn drop_disabled(cx: &Context, spec: &mut Value, old: Option<&Value>) {
    let uses = |field: &str| {
        let requests = old.map(|old| old.list_at(&["devices", "requests"])).unwrap_or(&[]);
        let parts = |request: &Value| {
            !request.at(&["exactly", field]).is_null()
                || request.list_at(&["firstAvailable"]).iter().any(|part| !part.field(field).is_null())
        };
        requests.iter().any(parts)
    };
    let mut off = Vec::new();
    if !cx.features.enabled("DRADerivedAttributes") && !uses("derivedAttributes") {
        off.push("derivedAttributes");
    }
    let distinct = |old: &Value| {
        let constraints = old.list_at(&["devices", "constraints"]);
        constraints.iter().any(|constraint| !constraint.field("distinctAttribute").is_null())
    };
    let no_capacity = !cx.features.enabled("DRAConsumableCapacity") && !uses("capacity") && !old.is_some_and(distinct);
    if no_capacity {
        off.push("capacity");
        for constraint in spec.at_mut(&["devices", "constraints"]).and_then(Value::as_list_mut).into_iter().flatten() {
            constraint.remove(&["distinctAttribute"]);
        }
    }
    for_each_request(spec, |request| {
        for field in &off {
            request.remove(&[field]);
        }
    });
}

fn for_each_request(spec: &mut Value, mut change: impl FnMut(&mut Value)) {
    let requests = spec.at_mut(&["devices", "requests"]).and_then(Value::as_list_mut);
    for request in requests.into_iter().flatten() {
        if let Some(exactly) = request.get_mut("exactly").filter(|exactly| !exactly.is_null()) {
            change(exactly);
        }
        request.get_mut("firstAvailable").and_then(Value::as_list_mut).into_iter().flatten().for_each(&mut change);
    }
}

/// Claims with adminAccess are allowed only in namespaces that are labelled for it.
pub fn admin_access(cx: &Context, spec: &Cursor, errors: &mut Errors) {
    let mut requests = spec.at(&["devices", "requests"]).each();
    if let Some(asking) = requests.find(|request| request.at(&["exactly", "adminAccess"]).bool()) {
        // Upstream names the field where older versions have it, and the claim even in a template.
        let index = asking.path().to_string().rsplit('[').next().and_then(|end| end.trim_end_matches(']').parse().ok());
        let path = Path::of("spec.devices.requests").index(index.unwrap_or(0)).field("adminAccess");
        require_admin_namespace(cx, &path, errors);
    }
}

pub fn require_admin_namespace(cx: &Context, path: &Path, errors: &mut Errors) {
    let namespace = cx.lookup.get("", "namespaces", "", cx.namespace);
    if namespace.is_none_or(|namespace| namespace.str_at(&["metadata", "labels", ADMIN_LABEL]) != "true") {
        let detail =
            format!("admin access to devices requires the `{ADMIN_LABEL}: true` label on the containing namespace");
        errors.forbidden(path, detail);
    }
}

/// Checks a new ResourceClaimSpec.
pub fn validate(cx: &Context, spec: &Cursor, errors: &mut Errors) {
    validate_written(cx, spec, errors);
    RESOURCE.validate(cx, "ResourceClaimSpec", spec, None, errors);
}

/// The rules that upstream does not declare.
pub fn validate_written(cx: &Context, spec: &Cursor, errors: &mut Errors) {
    let claim = spec.field("devices");
    let known = Names::of(spec.value());
    let targets = Targets::of(&claim);
    for request in up_to(&claim.field("requests"), REQUESTS_MAX) {
        validate_request(cx, &request, &targets, errors);
    }
    for constraint in up_to(&claim.field("constraints"), CONSTRAINTS_MAX) {
        for name in up_to(&constraint.field("requests"), REQUESTS_MAX) {
            known.check(&name, errors);
        }
        if !constraint.field("matchAttribute").is_set() && !constraint.field("distinctAttribute").is_set() {
            if cx.features.enabled("DRAConsumableCapacity") {
                let both = r#"exactly one of "matchAttribute" or "distinctAttribute" is required"#;
                constraint.required(errors, format!("{both}, but multiple fields are set"));
            } else {
                constraint.field("matchAttribute").required(errors, "");
            }
        }
    }
    for config in up_to(&claim.field("config"), devices::CONFIG_MAX) {
        known.check_all(&config.field("requests"), errors);
        devices::configuration(&config, errors);
    }
}

/// The items of a list that is not too long; upstream looks at no item of one that is.
pub fn up_to<'a>(list: &Cursor<'a>, max: usize) -> impl Iterator<Item = Cursor<'a>> + use<'a> {
    let fits = list.len() <= max;
    list.each().filter(move |_| fits)
}

/// The names of requests, and of what they consist of.
pub struct Names<'a>(BTreeMap<&'a str, BTreeSet<&'a str>>);

impl<'a> Names<'a> {
    pub fn of(spec: &'a Value) -> Names<'a> {
        let name = |item: &'a Value| item.str_at(&["name"]);
        let requests = spec.list_at(&["devices", "requests"]).iter();
        Names(requests.map(|r| (name(r), r.list_at(&["firstAvailable"]).iter().map(name).collect())).collect())
    }

    pub fn check_all(&self, names: &Cursor, errors: &mut Errors) {
        up_to(names, REQUESTS_MAX).for_each(|name| self.check(&name, errors));
    }

    pub fn check(&self, name: &Cursor, errors: &mut Errors) {
        let segments: Vec<&str> = name.str().split('/').collect();
        let known = match segments.as_slice() {
            [request] => self.0.contains_key(request),
            [request, part] => self.0.get(request).is_some_and(|parts| parts.contains(part)),
            _ => false,
        };
        for segment in segments.iter().filter(|_| segments.len() <= 2) {
            for message in names::dns1123_label(segment) {
                name.invalid_as(errors, *segment, message);
            }
        }
        if !known {
            name.bad(
                errors,
                "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'",
            );
        }
    }
}

/// Which attributes constraints look at, by the request they are about; "" is for all of them.
struct Targets<'a>(BTreeSet<(&'a str, &'a str)>);

impl<'a> Targets<'a> {
    fn of(claim: &Cursor<'a>) -> Targets<'a> {
        let mut all = BTreeSet::new();
        for constraint in claim.field("constraints").each() {
            let by = ["matchAttribute", "distinctAttribute"].into_iter().find_map(|by| constraint.field(by).opt_str());
            let Some(attribute) = by else { continue };
            let requests = constraint.field("requests");
            if requests.is_empty() {
                all.insert(("", attribute));
            }
            all.extend(requests.strs().map(|request| (request, attribute)));
        }
        Targets(all)
    }

    fn has(&self, request: &str, attribute: &str) -> bool {
        let parent = request.split('/').next().unwrap_or("");
        ["", request, parent].iter().any(|request| self.0.contains(&(*request, attribute)))
    }
}

fn validate_request(cx: &Context, request: &Cursor, targets: &Targets, errors: &mut Errors) {
    let name = request.field("name");
    name.check(errors, names::dns1123_label);
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
            validate_devices(cx, &exactly, name.str(), targets, errors);
        }
        (false, true) => {
            for part in up_to(&first, FIRST_AVAILABLE_MAX) {
                part.field("name").check(errors, names::dns1123_label);
                let name = format!("{}/{}", name.str(), part.field("name").str());
                validate_devices(cx, &part, &name, targets, errors);
            }
        }
    }
}

fn validate_devices(cx: &Context, request: &Cursor, name: &str, targets: &Targets, errors: &mut Errors) {
    devices::selectors(cx, &request.field("selectors"), false, errors);
    let mut seen = BTreeSet::new();
    let attributes = request.field("derivedAttributes");
    for attribute in attributes.each().map(|attribute| attribute.field("name")) {
        if !attribute.is_empty() && !targets.has(name, attribute.str()) {
            attribute.bad(
                errors,
                "must be referenced by at least one matchAttribute or distinctAttribute constraint targeting this request",
            );
        }
    }
    for attribute in attributes.each().filter(|attribute| !seen.insert(attribute.field("name").str())) {
        errors.duplicate(attribute.path(), attribute.field("name").str());
    }
    let (mode, count) = (request.field("allocationMode").str(), request.field("count"));
    match mode {
        "All" if count.int() != 0 => {
            count.invalid(errors, format!("must not be specified when allocationMode is '{mode}'"));
        }
        "ExactCount" if count.int() <= 0 => count.invalid_as(errors, count.int(), "must be greater than zero"),
        _ => {}
    }
    request.field("tolerations").each().for_each(|toleration| devices::toleration(&toleration, errors));
}
