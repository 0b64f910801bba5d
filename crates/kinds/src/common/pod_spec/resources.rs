//! Resource requirements of containers and of whole pods.

use std::collections::{BTreeSet, HashMap};

use object::quantity::Quantity;
use object::{Cursor, Errors, FieldError, Map, Value, names};

use super::{PodValidationOptions, Scope, usage};
use crate::common::checks::{Checks, quantity};
use crate::common::resources::{
    self, ResourceNameRule, container_resource_name, is_huge_page, is_overcommit_allowed, pod_resource_name,
};

/// The requirements of a container.
pub fn of_container(container: &Cursor, scope: &Scope, errors: &mut Errors) {
    requirements(&container.field("resources"), container_resource_name, &scope.claims, scope.options, errors);
}

/// What running a pod costs besides its containers. Upstream checks it as the limits of a container.
pub fn overhead(overhead: &Cursor, options: &PodValidationOptions, errors: &mut Errors) {
    let limits = Cursor::new(overhead.value(), overhead.path().field("limits"));
    let nothing = Cursor::new(&Value::Null, overhead.path().field("requests"));
    amounts(&limits, &nothing, container_resource_name, options, overhead, errors);
}

fn requirements(
    requirements: &Cursor,
    name_rule: ResourceNameRule,
    claims: &BTreeSet<&str>,
    options: &PodValidationOptions,
    errors: &mut Errors,
) {
    let (limits, requests) = (requirements.field("limits"), requirements.field("requests"));
    amounts(&limits, &requests, name_rule, options, requirements, errors);
    claim_names(&requirements.field("claims"), claims, errors);
}

fn amounts(
    limits: &Cursor,
    requests: &Cursor,
    name_rule: ResourceNameRule,
    options: &PodValidationOptions,
    owner: &Cursor,
    errors: &mut Errors,
) {
    for (resource, limit) in limits.entries() {
        name_rule(resource, limit.path(), errors);
        resources::amount(resource, &limit, errors);
        whole_pages(resource, &limit, options, errors);
    }
    for (resource, request) in requests.entries() {
        name_rule(resource, request.path(), errors);
        resources::amount(resource, &request, errors);
        within_limit(resource, &request, limits, requests, errors);
        whole_pages(resource, &request, options, errors);
    }
    let any = |test: fn(&str) -> bool| limits.entries().chain(requests.entries()).any(|(name, _)| test(name));
    if any(is_huge_page) && !any(|name| matches!(name, "cpu" | "memory")) {
        owner.forbidden(errors, "HugePages require cpu or memory");
    }
}

/// A request may not exceed its limit, and must equal it where there is nothing to overcommit.
fn within_limit(resource: &str, request: &Cursor, limits: &Cursor, requests: &Cursor, errors: &mut Errors) {
    let limit = limits.key(resource);
    let (asked, most) = (request.quantity(), limit.quantity());
    if !limit.is_set() {
        if !is_overcommit_allowed(resource) {
            limits.required(errors, "Limit must be set for non overcommitable resources");
        }
    } else if asked != most && !is_overcommit_allowed(resource) {
        let detail = format!("must be equal to {resource} limit of {most}");
        requests.invalid_as(errors, asked.to_string(), detail);
    } else if asked > most {
        let detail = format!("must be less than or equal to {resource} limit of {most}");
        requests.invalid_as(errors, asked.to_string(), detail);
    }
}

fn whole_pages(resource: &str, amount: &Cursor, options: &PodValidationOptions, errors: &mut Errors) {
    let pages = amount.quantity();
    if is_huge_page(resource) && !options.allow_partial_huge_pages && !resources::is_whole_pages(resource, &pages) {
        let detail = format!("{pages} is not positive integer multiple of {resource}");
        amount.invalid_as(errors, pages.to_string(), detail);
    }
}

/// Claims that a container uses, whole or a request of them, must be the pod's and overlap nowhere.
fn claim_names(claims: &Cursor, known: &BTreeSet<&str>, errors: &mut Errors) {
    let mut seen: BTreeSet<String> = BTreeSet::new();
    // How many requests of each claim there are.
    let mut requests: HashMap<&str, usize> = HashMap::new();
    for claim in claims.each() {
        let (name, request) = (claim.field("name").str(), claim.field("request"));
        if name.is_empty() {
            claim.required(errors, "");
            continue;
        }
        if seen.contains(name) {
            errors.duplicate(claim.path(), name);
        } else {
            let mut key = name.to_string();
            if !request.str().is_empty() {
                request.check(errors, names::dns1123_label);
                key = format!("{name}/{}", request.str());
            }
            if seen.contains(&key) {
                errors.duplicate(claim.path(), key.as_str());
            } else if request.str().is_empty() {
                for _ in 0..requests.get(name).copied().unwrap_or_default() {
                    if errors.is_full() {
                        break;
                    }
                    errors.duplicate(claim.path(), name);
                }
            }
            // As upstream, what stands before the first slash is the claim's name.
            let named = key.find('/').and_then(|slash| name.get(..slash));
            if seen.insert(key)
                && let Some(named) = named
            {
                *requests.entry(named).or_default() += 1;
            }
        }
        if !known.contains(name) && !errors.is_full() {
            let mut detail = "must be one of the names in pod.spec.resourceClaims".to_string();
            if known.is_empty() {
                detail.push_str(" which is empty");
            } else {
                detail.push_str(": ");
                detail.push_str(&known.iter().copied().collect::<Vec<_>>().join(", "));
            }
            errors.push(FieldError::new(object::ErrorType::NotFound, claim.path(), name, detail));
        }
    }
}

/// The requirements of a pod as a whole, which its containers must fit into.
pub fn pod_level(spec: &Cursor, scope: &Scope, errors: &mut Errors) {
    let resources = spec.field("resources");
    if !resources.is_set() {
        return;
    }
    if scope.os == Some("windows") {
        return resources.forbidden(errors, "may not be set for a windows pod");
    }
    let claims = resources.field("claims");
    if claims.is_set() {
        claims.forbidden(errors, "claims may not be set for Resources at pod-level");
    }
    requirements(&resources, pod_resource_name, &scope.claims, scope.options, errors);
    consistency(spec, &resources, errors);
}

fn consistency(spec: &Cursor, resources: &Cursor, errors: &mut Errors) {
    let (requests, limits) = (resources.field("requests"), resources.field("limits"));
    for (resource, sum) in usage::of_containers(spec.value(), "requests") {
        let request = requests.key(&resource);
        if request.is_set() && sum > request.quantity() {
            let detail = format!("must be greater than or equal to aggregate container requests of {sum}");
            request.invalid_as(errors, request.quantity().to_string(), detail);
        }
    }
    for (resource, sum) in usage::of_containers(spec.value(), "limits") {
        let limit = limits.key(&resource);
        if is_huge_page(&resource) && limit.is_set() && sum > limit.quantity() {
            let detail = format!("must be greater than or equal to aggregate container limits of {sum}");
            limit.invalid_as(errors, limit.quantity().to_string(), detail);
        }
    }
    for (i, container) in spec.field("containers").each().enumerate() {
        for (resource, own) in container.at(&["resources", "limits"]).entries() {
            let limit = limits.key(resource);
            let (own, most) = (own.quantity(), limit.quantity());
            if limit.is_set() && own > most {
                // Upstream puts the container below the pod's resources.
                let path = resources.path().field("containers").index(i).key(resource).field("limits");
                errors.invalid(&path, own.to_string(), format!("must be less than or equal to pod limits of {most}"));
            }
        }
    }
}

/// Rounds amounts up to thousandths, as upstream does when it reads a resource list.
pub fn round_up(list: &mut Value) {
    let Some(map) = list.as_map_mut() else { return };
    for (_, value) in map.iter_mut() {
        if let Some(rounded) = rounded(value) {
            *value = Value::from(rounded);
        }
    }
}

/// The amount in thousandths, if it has a finer fraction.
fn rounded(value: &Value) -> Option<String> {
    let text = value.as_str()?;
    // Only these can be finer: everything else is whole in thousandths by how it is written.
    if !text.contains(['n', 'u', '.', 'e', 'E']) {
        return None;
    }
    quantity(value).rounded_to_milli().map(|rounded| rounded.to_string())
}

/// A resource list with these amounts.
pub fn list(amounts: impl IntoIterator<Item = (String, Quantity)>) -> Value {
    Value::Map(amounts.into_iter().map(|(name, amount)| (name, Value::from(amount.to_string()))).collect::<Map>())
}
