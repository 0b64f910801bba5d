//! Rules for cluster addresses, families and their policy, which depend on one another.

use std::net::IpAddr;

use object::{Cursor, Errors, names};
use registry::Context;

use super::facts::{NONE, cluster_ips, ip_families, ip_family_policy, is_headless, kind, needs_cluster_ip};
use crate::core::address::{Known, legacy_ip};

const FAMILIES: [&str; 2] = ["IPv4", "IPv6"];
const POLICIES: [&str; 3] = ["PreferDualStack", "RequireDualStack", "SingleStack"];
const CHANGED: &str = "may not change once set";

/// Checks the fields of one service. Also run before allocation, which relies on it.
pub fn validate(cx: &Context, service: &Cursor, old: Option<&Cursor>, errors: &mut Errors) {
    if !needs_cluster_ip(service.value()) {
        return;
    }
    let spec = service.field("spec");
    let (single, plural) = (spec.field("clusterIP"), spec.field("clusterIPs"));
    match (single.str(), cluster_ips(service.value()).first()) {
        ("", None) => {}
        ("", Some(_)) => plural.invalid(errors, "must be empty when `clusterIP` is not specified"),
        (_, None) => plural.required(errors, ""),
        (single, Some(first)) if single != *first => plural.invalid(errors, "first value must match `clusterIP`"),
        _ => {}
    }
    validate_families(&spec.field("ipFamilies"), errors);
    if spec.field("ipFamilyPolicy").is_set() {
        spec.field("ipFamilyPolicy").one_of(errors, &POLICIES);
    }
    let old_ips: Known = old.map_or_else(Known::new, |old| cluster_ips(old.value()).into_iter().collect());
    if validate_ips(cx, &plural, &old_ips, errors) {
        validate_stack(service, &plural, errors);
    }
}

fn validate_families(families: &Cursor, errors: &mut Errors) {
    let mut seen = Vec::new();
    for family in families.each() {
        family.one_of(errors, &FAMILIES);
        if seen.contains(&family.str()) {
            family.duplicate(errors);
        }
        seen.push(family.str());
    }
}

/// Each address by itself; says whether they can be looked at together.
fn validate_ips(cx: &Context, ips: &Cursor, old: &Known, errors: &mut Errors) -> bool {
    let mut fine = true;
    for (index, ip) in ips.each().enumerate() {
        if index == 0 && ip.str() == NONE {
            if ips.len() > 1 {
                ips.invalid(errors, "'None' must be the first and only value");
                fine = false;
            }
            continue;
        }
        fine &= legacy_ip(cx, &ip, old, errors);
    }
    if ips.len() > 2 {
        ips.invalid(errors, "may only hold up to 2 values");
    }
    fine
}

fn validate_stack(service: &Cursor, ips: &Cursor, errors: &mut Errors) {
    let is_v6: Vec<bool> = ips.strs().map(is_ipv6).collect();
    if ips.len() > 1 && !(is_v6.contains(&true) && is_v6.contains(&false)) {
        ips.invalid(errors, "may specify no more than one IP for each IP family");
    }
    if is_headless(service.value()) {
        return;
    }
    let families = ip_families(service.value());
    for (index, (ip, family)) in ips.each().zip(families).enumerate() {
        let expected = match (family, is_ipv6(ip.str())) {
            ("IPv4", true) => "an IPv4",
            ("IPv6", false) => "an IPv6",
            _ => continue,
        };
        ip.invalid(errors, format!("expected {expected} value as indicated by `ipFamilies[{index}]`"));
    }
}

pub fn is_ipv6(ip: &str) -> bool {
    names::parse_ip_sloppy(ip).is_some_and(|ip| matches!(ip.to_canonical(), IpAddr::V6(_)))
}

/// The first address and family stay; a second one may come, and go with the policy that says so.
pub fn validate_change(new: &Cursor, old: &Cursor, errors: &mut Errors) {
    if kind(new.value()) == "ExternalName" || kind(old.value()) == "ExternalName" {
        return;
    }
    let headless = (is_headless(new.value()), is_headless(old.value()));
    if headless != (true, true) {
        cluster_ips_change(new, old, errors);
    }
    if headless == (false, false) {
        ip_families_change(new, old, errors);
    }
}

fn cluster_ips_change(new: &Cursor, old: &Cursor, errors: &mut Errors) {
    let field = new.at(&["spec", "clusterIPs"]);
    let (now, before) = (cluster_ips(new.value()), cluster_ips(old.value()));
    let mut report = |index: usize, detail: &str| {
        errors.invalid(&field.path().index(index), field.value().clone(), detail);
    };
    if now.len() == before.len() {
        for (index, _) in now.iter().zip(&before).enumerate().filter(|(_, (now, before))| now != before) {
            report(index, CHANGED);
        }
        return;
    }
    if now.is_empty() {
        report(0, "primary clusterIP can not be unset");
    } else if !before.is_empty() && now.first() != before.first() {
        report(0, CHANGED);
    }
    if now.len() == 1 && before.len() > 1 && ip_family_policy(new.value()) != "SingleStack" {
        let detail = "must be set to 'SingleStack' when releasing the secondary clusterIP";
        new.at(&["spec", "ipFamilyPolicy"]).invalid(errors, detail);
    }
}

fn ip_families_change(new: &Cursor, old: &Cursor, errors: &mut Errors) {
    let field = new.at(&["spec", "ipFamilies"]);
    let ips = new.at(&["spec", "clusterIPs"]);
    let path = field.path().index(0);
    let (now, before) = (ip_families(new.value()), ip_families(old.value()));
    if now.len() == before.len() {
        for _ in now.iter().zip(&before).filter(|(now, before)| now != before) {
            errors.invalid(&path, field.value().clone(), CHANGED);
        }
        return;
    }
    if now.len() < before.len() && ips.is_empty() {
        errors.invalid(&path, field.value().clone(), "primary ipFamily can not be unset");
    }
    if let (Some(now), Some(before)) = (now.first(), before.first())
        && now != before
    {
        // Upstream shows the addresses here.
        errors.invalid(&path, ips.value().clone(), CHANGED);
    }
    if now.len() == 1 && before.len() > 1 && ip_family_policy(new.value()) != "SingleStack" {
        let detail = "must be set to 'SingleStack' when releasing the secondary ipFamily";
        new.at(&["spec", "ipFamilyPolicy"]).invalid(errors, detail);
    }
}
