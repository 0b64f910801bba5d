//! Address families: which ones a service gets, from what it says and what the cluster has.

use object::{Cursor, Errors, Path, Status, Value};
use registry::Context;

use super::addresses::IpFamily;
use super::{Allocation, invalid};
use crate::core::service::addresses::validate;
use crate::core::service::facts::*;

/// Fills in `ipFamilyPolicy` and `ipFamilies`; `old` is None on creation.
pub(super) fn settle(
    allocation: &Allocation,
    cx: &Context,
    service: &mut Value,
    old: Option<&Value>,
) -> Result<(), Status> {
    if !needs_cluster_ip(service) || old.is_some_and(|old| stays_preferring_dual_stack(service, old)) {
        return Ok(());
    }
    default_policy(service, old);
    let mut errors = Errors::new();
    let old_cursor = old.map(Cursor::root);
    validate(cx, &Cursor::root(service), old_cursor.as_ref(), &mut errors);
    fail_on(&errors, service)?;
    if let Some(old) = old {
        shrink(service, old, &mut errors);
    }
    refuse_single_with_two(service, &mut errors);
    infer_from_addresses(allocation, service, &mut errors);
    fail_on(&errors, service)?;
    if cluster_ip(service) == NONE && !has_selector(service) {
        // Endpoints of such a service can be of any family, so the cluster's own do not limit it.
        complete(allocation, service, true);
        return Ok(());
    }
    must_be_configured(allocation, service, &mut errors);
    fail_on(&errors, service)?;
    complete(allocation, service, allocation.families.len() == 2);
    Ok(())
}

/// A service that prefers two stacks keeps what it has until it asks for something else.
pub(super) fn stays_preferring_dual_stack(new: &Value, old: &Value) -> bool {
    let prefers = |policy: &str| policy == "PreferDualStack";
    prefers(ip_family_policy(new))
        && (ip_family_policy(old).is_empty() || prefers(ip_family_policy(old)))
        && kind(new) == kind(old)
        && matches!(kind(new), "ClusterIP" | "NodePort" | "LoadBalancer")
        && cluster_ips(new) == cluster_ips(old)
        && ip_families(new) == ip_families(old)
}

pub(super) fn set(service: &mut Value, families: &[IpFamily]) {
    let names: Vec<&str> = families.iter().map(|family| family.name()).collect();
    service.set(&["spec", "ipFamilies"], names);
}

fn default_policy(service: &mut Value, old: Option<&Value>) {
    let path = ["spec", "ipFamilyPolicy"];
    if !service.at(&path).is_null() {
        return;
    }
    match old.map(|old| old.at(&path)).filter(|policy| !policy.is_null()) {
        Some(policy) => service.set(&path, policy.clone()),
        None if cluster_ip(service) == NONE && !has_selector(service) => service.set(&path, "RequireDualStack"),
        None => service.set(&path, "SingleStack"),
    }
}

/// On an update, a single stack lets go of the second address and family; anything else must not lose them.
fn shrink(service: &mut Value, old: &Value, errors: &mut Errors) {
    if ip_family_policy(service) == "SingleStack" {
        if cluster_ips(service) == cluster_ips(old) {
            truncate(service, "clusterIPs");
        }
        if ip_families(service) == ip_families(old) {
            truncate(service, "ipFamilies");
        }
        return;
    }
    let fewer = |now: usize, before: usize| now > 0 && now < before;
    let mut refuse = |what: &str| {
        let detail = format!("must be 'SingleStack' to release the secondary {what}");
        errors.invalid(&Path::of("spec.ipFamilyPolicy"), ip_family_policy(service), detail);
    };
    if fewer(cluster_ips(service).len(), cluster_ips(old).len()) {
        refuse("cluster IP");
    }
    if fewer(ip_families(service).len(), ip_families(old).len()) {
        refuse("IP family");
    }
}

fn truncate(service: &mut Value, field: &str) {
    if let Some(list) = service.at_mut(&["spec", field]).and_then(Value::as_list_mut) {
        list.truncate(1);
    }
}

fn refuse_single_with_two(service: &Value, errors: &mut Errors) {
    if ip_family_policy(service) != "SingleStack" {
        return;
    }
    for (count, what) in [(cluster_ips(service).len(), "cluster IPs"), (ip_families(service).len(), "IP families")] {
        if count == 2 {
            let detail = format!("must be 'RequireDualStack' or 'PreferDualStack' when multiple {what} are specified");
            errors.invalid(&Path::of("spec.ipFamilyPolicy"), ip_family_policy(service), detail);
        }
    }
}

/// Addresses say what family they are of.
fn infer_from_addresses(allocation: &Allocation, service: &mut Value, errors: &mut Errors) {
    let ips: Vec<String> = cluster_ips(service).into_iter().take_while(|ip| *ip != NONE).map(str::to_string).collect();
    for (index, ip) in ips.iter().enumerate() {
        if index < ip_families(service).len() {
            continue;
        }
        let family = IpFamily::of_ip(ip);
        match family.filter(|family| allocation.families.contains(family)) {
            Some(family) => service.slot(&["spec", "ipFamilies"]).make_list().push(family.name().into()),
            None => {
                let name = family.map_or("unknown", IpFamily::name);
                let path = Path::of("spec.clusterIPs").index(index);
                errors.invalid(&path, ips.clone(), format!("{name} is not configured on this cluster"));
            }
        }
    }
}

fn must_be_configured(allocation: &Allocation, service: &Value, errors: &mut Errors) {
    if ip_family_policy(service) == "RequireDualStack" && allocation.families.len() < 2 {
        let detail = "this cluster is not configured for dual-stack services";
        errors.invalid(&Path::of("spec.ipFamilyPolicy"), ip_family_policy(service), detail);
    }
    let configured = |family: &str| allocation.families.iter().any(|known| known.name() == family);
    for (index, family) in ip_families(service).into_iter().enumerate().filter(|(_, family)| !configured(family)) {
        errors.invalid(&Path::of("spec.ipFamilies").index(index), family, "not configured on this cluster");
    }
}

/// Gives the service its first family, and its second if it wants two and may have them.
fn complete(allocation: &Allocation, service: &mut Value, may_have_two: bool) {
    if ip_families(service).is_empty() {
        set(service, &[allocation.primary()]);
    }
    let only = match ip_families(service).as_slice() {
        [only] => IpFamily::of_name(only),
        _ => None,
    };
    if let Some(only) = only
        && may_have_two
        && ip_family_policy(service) != "SingleStack"
    {
        set(service, &[only, only.other()]);
    }
}

fn fail_on(errors: &Errors, service: &Value) -> Result<(), Status> {
    if errors.is_empty() { Ok(()) } else { Err(invalid(service, errors)) }
}
