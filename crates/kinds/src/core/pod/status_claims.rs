//! Claims and devices in a pod's status.

use std::collections::BTreeSet;

use object::{Cursor, Errors, Value, names};

use super::status::STATUSES;
use crate::common::checks::{Checks, quantity};
use crate::common::named;
use crate::common::resources::is_huge_page;

const CLAIM_PREFIX: &str = "claim:";
const HEALTH_MESSAGE_MAX_BYTES: usize = 1024;

pub fn validate(status: &Cursor, spec: &Value, errors: &mut Errors) {
    claim_statuses(&status.field("resourceClaimStatuses"), spec, errors);
    let extended = status.field("extendedResourceClaimStatus");
    if extended.is_set() {
        extended_claim(&extended, spec, errors);
    }
    node_allocatable(status, spec, errors);
    volume_health(&status.field("volumeHealth"), spec, errors);
}

fn claim_statuses(statuses: &Cursor, spec: &Value, errors: &mut Errors) {
    let claims = named::names(spec.list_at(&["resourceClaims"]));
    let mut seen = BTreeSet::new();
    for status in statuses.each() {
        let (name, claim) = (status.field("name"), status.field("resourceClaimName"));
        if !claims.contains(name.str()) {
            name.bad(errors, "must match the name of an entry in `spec.resourceClaims`");
        }
        if !seen.insert(name.str()) {
            errors.duplicate(name.path(), name.str());
        }
        if claim.is_set() {
            claim.check_name(errors, names::name_is_dns_subdomain);
        }
    }
}

/// The claim that was made for extended resources which devices provide.
fn extended_claim(claim: &Cursor, spec: &Value, errors: &mut Errors) {
    let mappings = claim.field("requestMappings");
    if mappings.is_empty() {
        mappings.required(errors, "at least one request mapping is required");
    }
    // A regular container counts before an init container of the same name.
    let mut containers = named::first_by_name(spec.list_at(&["initContainers"]));
    containers.extend(named::first_by_name(spec.list_at(&["containers"])));
    let mut seen = BTreeSet::new();
    for mapping in mappings.each() {
        let [container, resource, request] =
            ["containerName", "resourceName", "requestName"].map(|field| mapping.field(field));
        match containers.get(container.str()) {
            None => container
                .bad(errors, "must match the name of an entry in spec.initContainers.name or spec.containers.name"),
            Some(owner) if owner.at(&["resources", "requests", resource.str()]).is_null() => resource.bad(
                errors,
                "must match the extended resource name of an entry in spec.initContainers.resources.requests or \
                 spec.containers.resources.requests",
            ),
            Some(_) => {}
        }
        // Upstream reports the request's name at the claim.
        let at = Cursor::new(request.value(), claim.path().field("requestName"));
        at.check(errors, names::dns1123_label);
        if !seen.insert((container.str(), resource.str(), request.str())) {
            for field in [container, resource, request] {
                errors.duplicate(field.path(), field.str());
            }
        }
    }
    let name = claim.field("resourceClaimName");
    if name.require(errors) {
        name.check_name(errors, names::name_is_dns_subdomain);
    }
}

/// Resources of the node that claims use up.
fn node_allocatable(status: &Cursor, spec: &Value, errors: &mut Errors) {
    let entries = status.field("nodeAllocatableResourceClaimStatuses");
    let of_spec = spec.list_at(&["resourceClaims"]).iter();
    let claims = of_spec.chain(status.value().list_at(&["resourceClaimStatuses"]));
    let claims: BTreeSet<&str> = claims.map(|claim| claim.str_at(&["resourceClaimName"])).collect();
    for entry in entries.each() {
        let name = entry.field("resourceClaimName");
        if name.str().is_empty() {
            continue;
        }
        if !claims.contains(name.str()) {
            name.bad(errors, "no mapping found in pod reference");
        }
        for item in entry.field("mapping").each() {
            node_resource(&item, &["quantity"], errors);
        }
        for item in entry.field("overhead").each() {
            if !item.field("perPod").is_set() && !item.field("perContainer").is_set() {
                node_resource(&item, &[], errors);
                item.invalid_as(errors, "", "at least one of perPod or perContainer must be set");
            } else {
                node_resource(&item, &["perPod", "perContainer"], errors);
            }
        }
    }
}

fn node_resource(item: &Cursor, amounts: &[&str], errors: &mut Errors) {
    let name = item.field("name");
    if !matches!(name.str(), "cpu" | "memory") && !is_huge_page(name.str()) {
        name.bad(errors, "must be a node allocatable resource name");
    }
    for amount in amounts.iter().map(|field| item.field(field)) {
        let quantity = amount.quantity();
        if quantity.signum() < 0 {
            amount.invalid_as(errors, quantity.to_string(), "must be non-negative");
        }
    }
}

fn volume_health(entries: &Cursor, spec: &Value, errors: &mut Errors) {
    let volumes = named::names(spec.list_at(&["volumes"]));
    for entry in entries.each() {
        let name = entry.field("name");
        if !name.str().is_empty() && !volumes.contains(name.str()) {
            name.not_found(errors);
        }
        for reason in entry.field("healthConditions").each().map(|condition| condition.field("reason")) {
            if !reason.str().is_empty() {
                reason.check(errors, crate::common::conditions::reason);
            }
        }
    }
}

/// The health of devices that containers have.
pub fn allocated(status: &Cursor, spec: &Value, errors: &mut Errors) {
    for (list, containers) in STATUSES {
        let known = named::first_by_name(spec.list_at(&[containers]));
        for entry in status.field(list).each() {
            let resources = entry.field("allocatedResourcesStatus");
            if containers == "ephemeralContainers" {
                if !resources.is_empty() {
                    resources.forbidden(errors, "must not be specified in container status");
                }
                continue;
            }
            let container = known.get(entry.field("name").str());
            let claims = container.map(|container| claims_of(container, status.value())).unwrap_or_default();
            for resource in resources.each() {
                if let Some(container) = container {
                    resource_name(&resource.field("name"), container, &claims, errors);
                }
                health(&resource.field("resources"), errors);
            }
        }
    }
}

fn resource_name(name: &Cursor, container: &Value, claims: &BTreeSet<String>, errors: &mut Errors) {
    if let Some(claim) = name.str().strip_prefix(CLAIM_PREFIX) {
        if !claims.contains(claim) {
            name.bad(
                errors,
                "must match one of the container's resource claims as 'claim:<claimName>/<requestName>' when \
                 container.resources.claims[*].request is set or 'claim:<claimName>' when it is empty",
            );
        }
    } else if container.at(&["resources", "requests", name.str()]).is_null() {
        name.bad(errors, "must match one of the container's resource requests");
    }
}

/// The container's claims, as `claim` or `claim/request`, and those that its extended resources were mapped to.
fn claims_of(container: &Value, status: &Value) -> BTreeSet<String> {
    let own = container.list_at(&["resources", "claims"]).iter().map(|own| {
        let (claim, request) = (own.str_at(&["name"]), own.str_at(&["request"]));
        if request.is_empty() { claim.to_string() } else { format!("{claim}/{request}") }
    });
    let extended = status.field("extendedResourceClaimStatus");
    let claim = extended.str_at(&["resourceClaimName"]);
    let mapped = extended.list_at(&["requestMappings"]).iter().filter(|mapping| {
        let amount = container.at(&["resources", "requests", mapping.str_at(&["resourceName"])]);
        mapping.field("containerName") == container.field("name")
            && !claim.is_empty()
            && !mapping.str_at(&["requestName"]).is_empty()
            && !quantity(amount).is_zero()
    });
    own.chain(mapped.map(|mapping| format!("{claim}/{}", mapping.str_at(&["requestName"])))).collect()
}

fn health(resources: &Cursor, errors: &mut Errors) {
    let mut seen = BTreeSet::new();
    for resource in resources.each() {
        resource.field("health").one_of(errors, &["Healthy", "Unhealthy", "Unknown"]);
        let message = resource.field("message");
        match message.opt_str() {
            Some("") => message.required(errors, "must be non-empty if specified"),
            Some(text) if text.len() > HEALTH_MESSAGE_MAX_BYTES => {
                errors.too_long(message.path(), HEALTH_MESSAGE_MAX_BYTES);
            }
            _ => {}
        }
        let id = resource.field("resourceID");
        if !seen.insert(id.str()) {
            errors.duplicate(id.path(), id.str());
        }
    }
}
