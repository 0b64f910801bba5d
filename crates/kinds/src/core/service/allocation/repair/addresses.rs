//! Cluster addresses: each address of a Service has an IPAddress that names the Service, and no others are managed by servers.

use std::sync::Arc;
use std::time::Duration;

use object::timestamp::Time;
use object::{Meta, Status, Timestamp, Value, names};
use registry::{Lookup, OwnClient};

use super::{Finding, id};
use crate::core::service::allocation::Allocation;
use crate::core::service::allocation::addresses::{
    CONTROLLER, FAMILY_LABEL, GROUP, IpFamily, MANAGED_BY_LABEL, RESOURCE, address_object, give_back, object_name,
};
use crate::core::service::facts::*;

/// The longest a request takes: a write may be under way that has taken an address and not stored its service yet.
const REQUEST: Duration = Duration::from_secs(60);
/// How long a write that failed takes to give an address back.
const ROLLBACK: Duration = Duration::from_secs(5);

/// The outcome of a look at one object.
#[derive(Debug, Default, PartialEq)]
pub struct Checked {
    pub finding: Option<Finding>,
    /// When to look again: it may be that a write is under way.
    pub again: Option<Duration>,
}

impl Allocation {
    /// Makes sure that every address of a Service has an IPAddress that says so.
    pub async fn check_service(&self, lookup: &dyn Lookup, service: &Value) -> Result<Vec<Finding>, Status> {
        let mut findings = Vec::new();
        for address in addresses_of(service) {
            findings.extend(check_pair(&self.client, lookup, service, address).await?);
        }
        Ok(findings)
    }

    /// Removes an IPAddress that was made for a Service which does not have the address.
    pub async fn check_address(
        &self,
        lookup: &dyn Lookup,
        address: &Arc<Value>,
        now: Timestamp,
    ) -> Result<Checked, Status> {
        if address.label(MANAGED_BY_LABEL) != Some(CONTROLLER) {
            return Ok(Checked::default());
        }
        let object = address.clone();
        let finding = match judge(lookup, address, now) {
            Verdict::Right => return Ok(Checked::default()),
            Verdict::Later(again) => return Ok(Checked { finding: None, again: Some(again) }),
            Verdict::Leaked => Finding::AddressLeaked { object },
            Verdict::OfAnother => Finding::AddressOfAnother { object },
            Verdict::OfNoService => Finding::AddressOfNoService { object },
        };
        give_back(&self.client, address.name()).await?;
        Ok(Checked { finding: Some(finding), again: None })
    }
}

async fn check_pair(
    client: &Arc<dyn OwnClient>,
    lookup: &dyn Lookup,
    service: &Value,
    address: String,
) -> Result<Option<Finding>, Status> {
    if !in_some_range(lookup, &address) {
        return Ok(Some(Finding::AddressOutOfRange { address, service: id(service) }));
    }
    let object = lookup.get(GROUP, "ipaddresses", "", &address);
    let owner = object.as_ref().and_then(|object| owner_of(lookup, object));
    match (&object, owner) {
        (Some(_), Some(owner)) if id(&owner) != id(service) && has_address(&owner, &address) => {
            return Ok(Some(Finding::AddressOfManyServices { address, service: id(service) }));
        }
        (Some(object), Some(owner)) if id(&owner) == id(service) && has_labels(object) => return Ok(None),
        _ => {}
    }
    let (namespace, name) = id(service);
    let has_it = |service: Arc<Value>| has_address(&service, &address);
    let still_has_it = || lookup.get("", "services", &namespace, &name).is_some_and(has_it);
    // A Service that is deleted or gives an address up does so before the IPAddress goes: where that is missing because of it,
    // the Service as it is now says so.
    if !still_has_it() {
        return Ok(None);
    }
    let was_misnamed = object.is_some();
    if was_misnamed {
        give_back(client, &address).await?;
    }
    // Another server may have created it meanwhile; if it is wrong, it is looked at again when it arrives.
    let created = client.create(GROUP, RESOURCE, address_object(&address, &namespace, &name)).await?;
    if created && !still_has_it() {
        // The Service has gone meanwhile, or gave the address up, which may have been before there was one to delete.
        give_back(client, &address).await?;
        return Ok(None);
    }
    let service = (namespace, name);
    Ok(match was_misnamed {
        _ if !created => None,
        true => Some(Finding::AddressMisnamed { address, service }),
        false => Some(Finding::AddressNotAllocated { address, service }),
    })
}

enum Verdict {
    Right,
    Later(Duration),
    Leaked,
    OfAnother,
    OfNoService,
}

fn judge(lookup: &dyn Lookup, address: &Value, now: Timestamp) -> Verdict {
    if !refers_to_service(address) {
        return Verdict::OfNoService;
    }
    let created = Time::parse(address.meta_str("creationTimestamp")).map(|Time(created)| created);
    let age = created.as_ref().map_or(Duration::MAX, |created| {
        Duration::from_secs(u64::try_from(now.since(*created).whole_seconds()).unwrap_or(0))
    });
    let Some(service) = owner_of(lookup, address) else {
        return if age > REQUEST { Verdict::Leaked } else { Verdict::Later(REQUEST - age + Duration::from_secs(1)) };
    };
    if has_address(&service, address.name()) {
        return Verdict::Right;
    }
    if kind(&service) == "ExternalName" && age < REQUEST {
        return Verdict::Later(REQUEST - age);
    }
    let is_newer = address.meta_str("creationTimestamp") > service.meta_str("creationTimestamp");
    if is_newer && age < ROLLBACK { Verdict::Later(ROLLBACK) } else { Verdict::OfAnother }
}

/// The names of the IPAddresses that a Service should have.
fn addresses_of(service: &Value) -> Vec<String> {
    if matches!(cluster_ip(service), "" | NONE) {
        return Vec::new();
    }
    let mut ips = cluster_ips(service);
    if ips.is_empty() {
        ips.push(cluster_ip(service));
    }
    ips.into_iter().filter_map(object_name).collect()
}

fn has_address(service: &Value, address: &str) -> bool {
    addresses_of(service).iter().any(|own| own == address)
}

fn refers_to_service(address: &Value) -> bool {
    let parent = address.at(&["spec", "parentRef"]);
    parent.str_at(&["group"]).is_empty() && parent.str_at(&["resource"]) == "services"
}

/// The Service that an IPAddress names, if it exists.
fn owner_of(lookup: &dyn Lookup, address: &Value) -> Option<Arc<Value>> {
    let parent = address.at(&["spec", "parentRef"]);
    let found = || lookup.get("", "services", parent.str_at(&["namespace"]), parent.str_at(&["name"]));
    refers_to_service(address).then(found).flatten()
}

fn has_labels(address: &Value) -> bool {
    let family = IpFamily::of_ip(address.name()).map_or("", IpFamily::name);
    address.label(FAMILY_LABEL) == Some(family) && address.label(MANAGED_BY_LABEL) == Some(CONTROLLER)
}

fn in_some_range(lookup: &dyn Lookup, address: &str) -> bool {
    let Some(address) = names::parse_ip_sloppy(address).map(|address| address.to_canonical()) else { return false };
    let ranges = lookup.list(GROUP, "servicecidrs", "");
    let mut cidrs = ranges.iter().flat_map(|range| range.list_at(&["spec", "cidrs"])).filter_map(Value::as_str);
    cidrs.any(|cidr| names::parse_cidr_sloppy(cidr).is_some_and(|cidr| cidr.contains(address)))
}
