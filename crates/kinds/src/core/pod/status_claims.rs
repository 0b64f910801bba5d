//! Claims and devices in a pod's status.

use std::collections::BTreeSet;

use object::{Cursor, Errors, Value, names};

use super::status::STATUSES;
use crate::common::checks::{Checks, quantity};
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
    let mut seen = BTreeSet::new();
    for status in statuses.each() {
        let (name, claim) = (status.field("name"), status.field("resourceClaimName"));
        let known = spec.list_at(&["resourceClaims"]).iter().any(|claim| claim.str_at(&["name"]) == name.str());
        if !known {
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
    let mut seen = BTreeSet::new();
    for mapping in mappings.each() {
        let [container, resource, request] =
            ["containerName", "resourceName", "requestName"].map(|field| mapping.field(field));
        // A regular container counts before an init container of the same name.
        let mut containers = ["containers", "initContainers"].iter().flat_map(|list| spec.list_at(&[list]));
        match containers.find(|owner| owner.str_at(&["name"]) == container.str()) {
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
    for entry in entries.each() {
        let name = entry.field("resourceClaimName");
        if name.str().is_empty() {
            continue;
        }
        let names_it = |claim: &Value| claim.str_at(&["resourceClaimName"]) == name.str();
        let claimed = spec.list_at(&["resourceClaims"]).iter().any(names_it)
            || status.value().list_at(&["resourceClaimStatuses"]).iter().any(names_it);
        if !claimed {
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
    for entry in entries.each() {
        let name = entry.field("name");
        let known = spec.list_at(&["volumes"]).iter().any(|volume| volume.str_at(&["name"]) == name.str());
        if !name.str().is_empty() && !known {
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
        for entry in status.field(list).each() {
            let resources = entry.field("allocatedResourcesStatus");
            if containers == "ephemeralContainers" {
                if !resources.is_empty() {
                    resources.forbidden(errors, "must not be specified in container status");
                }
                continue;
            }
            let name = entry.field("name").str();
            let container = spec.list_at(&[containers]).iter().find(|c| c.str_at(&["name"]) == name);
            for resource in resources.each() {
                if let Some(container) = container {
                    resource_name(&resource.field("name"), container, status.value(), errors);
                }
                health(&resource.field("resources"), errors);
            }
        }
    }
}

fn resource_name(name: &Cursor, container: &Value, status: &Value, errors: &mut Errors) {
    if let Some(claim) = name.str().strip_prefix(CLAIM_PREFIX) {
        let known = container.list_at(&["resources", "claims"]).iter().any(|own| {
            let request = own.str_at(&["request"]);
            let own = own.str_at(&["name"]);
            if request.is_empty() { claim == own } else { claim == format!("{own}/{request}") }
        });
        if !known && !is_extended_claim(claim, container, status) {
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

/// Whether `claim/request` is what the container's extended resources were mapped to.
fn is_extended_claim(reference: &str, container: &Value, status: &Value) -> bool {
    let extended = status.field("extendedResourceClaimStatus");
    let Some((claim, request)) = reference.split_once('/') else { return false };
    if claim.is_empty() || request.is_empty() || claim != extended.str_at(&["resourceClaimName"]) {
        return false;
    }
    extended.list_at(&["requestMappings"]).iter().any(|mapping| {
        mapping.field("containerName") == container.field("name")
            && mapping.str_at(&["requestName"]) == request
            && !quantity(container.at(&["resources", "requests", mapping.str_at(&["resourceName"])])).is_zero()
    })
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
