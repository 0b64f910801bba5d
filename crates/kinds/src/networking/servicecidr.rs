//! ServiceCIDRs: the networks that cluster addresses come from.

use object::{Cursor, Errors, Meta, Value, names};
use registry::{Context, Facts, Strategy, columns};

use crate::common::checks::{Checks, IMMUTABLE};
use crate::common::{internal, metadata};

pub struct ServiceCidr;

const FACTS: Facts = Facts { status_resets: Facts::METADATA_AND_SPEC, ..Facts::WITH_STATUS };

impl Strategy for ServiceCidr {
    fn facts(&self) -> &Facts {
        &FACTS
    }

    fn validate(&self, _cx: &Context, object: &Cursor, errors: &mut Errors) {
        validate_networks(&object.field("spec"), errors);
    }

    fn validate_update(&self, _cx: &Context, new: &Cursor, old: &Cursor, errors: &mut Errors) {
        let (spec, old) = (new.field("spec"), old.at(&["spec", "cidrs"]));
        let cidrs = spec.field("cidrs");
        // A single-stack range may become dual-stack; nothing else changes.
        if cidrs.len() != old.len() && !(old.len() == 1 && cidrs.len() == 2) {
            return cidrs.invalid(errors, IMMUTABLE);
        }
        for (cidr, _) in cidrs.each().zip(old.each()).filter(|(new, old)| new.str() != old.str()) {
            cidr.bad(errors, IMMUTABLE);
        }
        if cidrs.len() != old.len() {
            validate_networks(&spec, errors);
        }
    }

    fn prepare_status_update(&self, _cx: &Context, new: &mut Value, old: &Value) {
        metadata::keep_for_status(new, old);
    }

    fn cells(&self, cx: &Context, object: &Value) -> Vec<Value> {
        let cidrs: Vec<&str> = object.list_at(&["spec", "cidrs"]).iter().filter_map(Value::as_str).collect();
        vec![object.name().into(), cidrs.join(",").into(), columns::age(cx, object)]
    }
}

fn validate_networks(spec: &Cursor, errors: &mut Errors) {
    let cidrs = spec.field("cidrs");
    if cidrs.is_empty() {
        return cidrs.required(errors, "at least one CIDR required");
    }
    if cidrs.len() > 2 {
        let shown = internal::shown("ServiceCIDRSpec", spec.value());
        return cidrs.invalid_as(errors, shown, "may only hold up to 2 values");
    }
    for cidr in cidrs.each() {
        cidr.check(errors, names::cidr);
    }
    let families: Vec<bool> =
        cidrs.strs().filter_map(names::parse_cidr_sloppy).map(|cidr| cidr.network().is_ipv6()).collect();
    if families.len() == 2 && families.first() == families.last() {
        let detail = "may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64";
        cidrs.invalid(errors, detail);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Check;

    #[test]
    fn networks_are_checked() {
        let check = Check::new(ServiceCidr, "{metadata: {name: a}, spec: {cidrs: [10.0.0.0/24]}}");
        let families = "may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64";
        check.create(&[
            ("", ""),
            ("spec: {cidrs: []}", "spec.cidrs: Required value: at least one CIDR required"),
            (
                "spec: {cidrs: [10.0.0.0/24, 10.0.1.0/24]}",
                &format!("spec.cidrs: Invalid value: [\"10.0.0.0/24\",\"10.0.1.0/24\"]: {families}"),
            ),
            (
                "spec: {cidrs: [a, b, c]}",
                "spec.cidrs: Invalid value: {\"CIDRs\":[\"a\",\"b\",\"c\"]}: may only hold up to 2 values",
            ),
        ]);
        check.update(&[
            ("", "spec: {cidrs: [10.0.0.0/24, 'fd00::/112']}", ""),
            ("", "spec: {cidrs: [10.0.1.0/24]}", "spec.cidrs[0]: Invalid value: \"10.0.1.0/24\": field is immutable"),
        ]);
    }
}
