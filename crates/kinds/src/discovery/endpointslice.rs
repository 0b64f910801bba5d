//! EndpointSlices: some of the addresses behind a Service.

use std::collections::BTreeSet;

use object::{Cursor, Errors, Meta, Value, names};
use registry::{Context, Facts, Strategy, columns};

use crate::common::checks::{Checks, IMMUTABLE, same_map};
use crate::common::versioned;
use crate::common::{problems, selector};
use crate::core::{address, endpoints};

const ENDPOINT: &str = "io.k8s.api.discovery.v1.Endpoint";
const PORT: &str = "io.k8s.api.discovery.v1.EndpointPort";
const ADDRESS_TYPES: [&str; 3] = ["FQDN", "IPv4", "IPv6"];
const PROTOCOLS: [&str; 3] = ["SCTP", "TCP", "UDP"];
const ENDPOINTS_MAX: usize = 1000;
const ADDRESSES_MAX: usize = 100;
const PORTS_MAX: usize = 20_000;
const TOPOLOGY_LABELS_MAX: usize = 16;
const HINTS_MAX: usize = 8;
/// How many ports or addresses a table cell shows.
const SHOWN: usize = 3;
const MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";
/// The controllers that only write addresses that need no warning.
const CONTROLLERS: [&str; 2] = ["endpointslice-controller.k8s.io", "endpointslicemirroring-controller.k8s.io"];
const HOSTNAME_LABEL: &str = "kubernetes.io/hostname";

pub struct EndpointSlice;

const FACTS: Facts =
    Facts { checks_updated_generate_name: true, generation: Some(|_, _| false), ..Facts::WITHOUT_STATUS };

impl Strategy for EndpointSlice {
    fn facts(&self) -> &Facts {
        &FACTS
    }

    fn prepare_create(&self, cx: &Context, object: &mut Value) {
        drop_topology(cx, object, &Value::Null);
    }

    fn prepare_update(&self, cx: &Context, new: &mut Value, old: &Value) {
        // What is dropped below counts as a change all the same.
        if is_changed(new, old) {
            new.set_generation(old.generation() + 1);
        }
        if !versioned::same(ENDPOINT, new.field("endpoints"), old.field("endpoints")) {
            drop_topology(cx, new, old);
        }
    }

    fn validate(&self, cx: &Context, object: &Cursor, errors: &mut Errors) {
        validate_ports(&object.field("ports"), errors);
        validate_endpoints(cx, object, errors);
        validate_declared(object, true, errors);
    }

    fn validate_update(&self, cx: &Context, new: &Cursor, old: &Cursor, errors: &mut Errors) {
        validate_ports(&new.field("ports"), errors);
        // Values that an older server accepted stay valid until they are changed.
        let touched = !versioned::same(ENDPOINT, new.field("endpoints").value(), old.field("endpoints").value());
        if touched {
            validate_endpoints(cx, new, errors);
        }
        validate_declared(new, touched, errors);
        if new.field("addressType").str() != old.field("addressType").str() {
            new.field("addressType").invalid_as(errors, Value::Null, IMMUTABLE);
        }
    }

    fn warnings(&self, _cx: &Context, object: &Value, old: Option<&Value>) -> Vec<String> {
        let mut warnings = Vec::new();
        if old.is_none() && object.str_at(&["addressType"]) == "FQDN" {
            warnings.push("spec.addressType: FQDN endpoints are deprecated".to_string());
        }
        if !object.label(MANAGED_BY).is_some_and(|manager| CONTROLLERS.contains(&manager)) {
            let addresses = Cursor::root(object).field("endpoints").each().flat_map(|e| e.field("addresses").each());
            warnings.extend(addresses.filter_map(|ip| names::ip_warnings(&ip.path().to_string(), ip.str())));
        }
        warnings
    }

    fn cells(&self, cx: &Context, object: &Value) -> Vec<Value> {
        let port = |port: &Value| match port.field("port").as_int() {
            Some(number) => number.to_string(),
            None => port.field("name").as_str().unwrap_or("*").to_string(),
        };
        let ports = object.list_at(&["ports"]).iter().map(port).collect();
        let addresses = object.list_at(&["endpoints"]).iter().flat_map(|endpoint| endpoint.list_at(&["addresses"]));
        let addresses = addresses.map(|address| address.as_str().unwrap_or("").to_string()).collect();
        vec![
            object.name().into(),
            object.str_at(&["addressType"]).into(),
            some(ports).into(),
            some(addresses).into(),
            columns::age(cx, object),
        ]
    }
}

/// Whether an update changes more than what it says about itself.
fn is_changed(new: &Value, old: &Value) -> bool {
    let labels = ["metadata", "labels"];
    !versioned::same(ENDPOINT, new.field("endpoints"), old.field("endpoints"))
        || new.str_at(&["addressType"]) != old.str_at(&["addressType"])
        || !versioned::same(PORT, new.field("ports"), old.field("ports"))
        || !same_map(new.at(&labels), old.at(&labels))
}

/// The first few of a list.
fn some(all: Vec<String>) -> String {
    let shown = all.get(..SHOWN).unwrap_or(&all).join(",");
    match all.len().checked_sub(SHOWN) {
        Some(more) if more > 0 => format!("{shown} + {more} more..."),
        _ if shown.is_empty() => "<unset>".to_string(),
        _ => shown,
    }
}

/// v1 has no topology: what an old object says about the node is all that is kept of it.
fn drop_topology(cx: &Context, new: &mut Value, old: &Value) {
    if cx.version == "v1beta1" {
        return;
    }
    let node = |endpoint: &Value| endpoint.at(&["deprecatedTopology", HOSTNAME_LABEL]).as_str().map(str::to_string);
    let known: BTreeSet<String> = old.list_at(&["endpoints"]).iter().filter_map(node).collect();
    for endpoint in new.get_mut("endpoints").and_then(Value::as_list_mut).into_iter().flatten() {
        if endpoint.field("nodeName").is_null()
            && let Some(name) = node(endpoint).filter(|name| known.contains(name))
            && names::name_is_dns_subdomain(&name, false).is_empty()
        {
            endpoint.set(&["nodeName"], name);
        }
        endpoint.remove(&["deprecatedTopology"]);
    }
}

/// Rules upstream declares on the types; it runs them after all others.
fn validate_declared(object: &Cursor, endpoints_too: bool, errors: &mut Errors) {
    object.field("addressType").require_one_of(errors, &ADDRESS_TYPES);
    if !endpoints_too || object.field("endpoints").len() > ENDPOINTS_MAX {
        return;
    }
    for addresses in object.field("endpoints").each().map(|endpoint| endpoint.field("addresses")) {
        addresses.must_be_set(errors, "");
        if addresses.len() > ADDRESSES_MAX {
            errors.too_many(addresses.path(), addresses.len(), ADDRESSES_MAX);
        }
    }
}

fn validate_endpoints(cx: &Context, object: &Cursor, errors: &mut Errors) {
    let endpoints = object.field("endpoints");
    if endpoints.len() > ENDPOINTS_MAX {
        return errors.too_many(endpoints.path(), endpoints.len(), ENDPOINTS_MAX);
    }
    for endpoint in endpoints.each() {
        let addresses = endpoint.field("addresses");
        for address in addresses.each() {
            validate_address(cx, object.field("addressType").str(), &address, &addresses, errors);
        }
        if endpoint.field("nodeName").is_set() {
            endpoint.field("nodeName").check_name(errors, names::name_is_dns_subdomain);
        }
        let topology = endpoint.field("deprecatedTopology");
        if topology.len() > TOPOLOGY_LABELS_MAX {
            errors.too_many(topology.path(), topology.len(), TOPOLOGY_LABELS_MAX);
        }
        selector::labels(&topology, errors);
        if endpoint.field("hostname").is_set() {
            endpoint.field("hostname").check(errors, names::dns1123_label);
        }
        validate_hints(&endpoint.field("hints"), errors);
    }
}

fn validate_address(cx: &Context, kind: &str, address: &Cursor, all: &Cursor, errors: &mut Errors) {
    let is_v6 = || names::parse_ip_sloppy(address.str()).is_some_and(|ip| ip.is_ipv6());
    match kind {
        "IPv4" if address::legacy_ip(cx, address, &address::Known::new(), errors) => {
            if is_v6() {
                all.invalid_as(errors, address.str(), "must be an IPv4 address");
            }
            endpoints::endpoint_ip(address.str(), address.path(), errors);
        }
        "IPv6" => {
            let messages = names::ip(address.str());
            if messages.is_empty() {
                if !is_v6() {
                    all.invalid_as(errors, address.str(), "must be an IPv6 address");
                }
                endpoints::endpoint_ip(address.str(), address.path(), errors);
            }
            address.invalid_each(errors, messages);
        }
        "FQDN" => problems::report(address, names::fully_qualified_domain_name(address.str()), errors),
        _ => {}
    }
}

fn validate_hints(hints: &Cursor, errors: &mut Errors) {
    let rules: [(&str, fn(&str) -> Vec<String>); 2] =
        [("forZones", names::label_value), ("forNodes", |name| names::name_is_dns_subdomain(name, false))];
    for (field, rule) in rules {
        let hints = hints.field(field);
        if hints.len() > HINTS_MAX {
            return errors.too_many(hints.path(), hints.len(), HINTS_MAX);
        }
        let mut seen = BTreeSet::new();
        for name in hints.each().map(|hint| hint.field("name")) {
            if !seen.insert(name.str()) {
                errors.duplicate(name.path(), name.str());
            }
            name.check(errors, rule);
        }
    }
}

fn validate_ports(ports: &Cursor, errors: &mut Errors) {
    if ports.len() > PORTS_MAX {
        return errors.too_many(ports.path(), ports.len(), PORTS_MAX);
    }
    let mut seen = BTreeSet::new();
    for port in ports.each() {
        let name = port.field("name");
        if !name.is_empty() {
            name.check(errors, names::dns1123_label);
        }
        if !seen.insert(name.str()) {
            errors.duplicate(name.path(), name.str());
        }
        let protocol = port.field("protocol");
        if protocol.is_set() {
            protocol.one_of(errors, &PROTOCOLS);
        } else {
            protocol.required(errors, "");
        }
        if port.field("appProtocol").is_set() {
            port.field("appProtocol").check(errors, names::label_key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Check;

    #[test]
    fn slices_are_checked() {
        let check = Check::new(
            EndpointSlice,
            "{metadata: {name: a}, addressType: IPv4, endpoints: [{addresses: [10.0.0.1]}], \
             ports: [{name: '', protocol: TCP, port: 80}]}",
        );
        check.create(&[
            ("", ""),
            ("addressType: null", "addressType: Required value"),
            ("endpoints: [{}]", "endpoints[0].addresses: Required value"),
            (
                "{endpoints: [{addresses: ['fd00::1'], hints: {forZones: [{name: a}, {name: a}]}}]}",
                "endpoints[0].addresses: Invalid value: \"fd00::1\": must be an IPv4 address
                 endpoints[0].hints.forZones[1].name: Duplicate value: \"a\"",
            ),
            (
                "ports: [{name: a, protocol: TCP}, {name: a, protocol: X}]",
                "ports[1].name: Duplicate value: \"a\"
                 ports[1].protocol: Unsupported value: \"X\": supported values: \"SCTP\", \"TCP\", \"UDP\"",
            ),
        ]);
        check.update(&[("", "addressType: IPv6", "addressType: Invalid value: null: field is immutable")]);
        check.cells(&[
            ("", "a IPv4 80 10.0.0.1 <unknown>"),
            ("{ports: null, endpoints: null}", "a IPv4 <unset> <unset> <unknown>"),
        ]);
    }
}
