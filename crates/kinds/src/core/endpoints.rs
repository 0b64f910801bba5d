//! Endpoints: the addresses behind a Service, in the form that EndpointSlices have replaced.

use std::net::IpAddr;

use object::{Cursor, Errors, Meta, Path, Value, names};
use registry::{Context, Facts, Strategy, columns};

use super::address;
use crate::common::checks::Checks;
use crate::common::versioned;

const PROTOCOLS: [&str; 3] = ["SCTP", "TCP", "UDP"];
/// The Endpoints controller only writes addresses that need no warning.
const MANAGED_BY: &str = "endpoints.kubernetes.io/managed-by";
const CONTROLLER: &str = "endpoint-controller";
/// How many endpoints a table cell shows.
const SHOWN: usize = 3;

pub struct Endpoints;

const FACTS: Facts =
    Facts { checks_updated_generate_name: true, allows_create_on_update: true, ..Facts::WITHOUT_STATUS };

impl Strategy for Endpoints {
    fn facts(&self) -> &Facts {
        &FACTS
    }

    fn validate(&self, cx: &Context, object: &Cursor, errors: &mut Errors) {
        for subset in object.field("subsets").each() {
            validate_subset(cx, &subset, errors);
        }
    }

    fn validate_update(&self, cx: &Context, new: &Cursor, old: &Cursor, errors: &mut Errors) {
        // Values that an older server accepted stay valid until they are changed.
        let mut found = Errors::new();
        self.validate(cx, new, &mut found);
        if !found.is_empty() && !same_subsets(new, old) {
            errors.extend(found);
        }
    }

    fn warnings(&self, _cx: &Context, object: &Value, _old: Option<&Value>) -> Vec<String> {
        if object.label(MANAGED_BY) == Some(CONTROLLER) {
            return Vec::new();
        }
        let subsets = Cursor::root(object).field("subsets").each();
        let addresses = subsets.flat_map(|s| s.field("addresses").each().chain(s.field("notReadyAddresses").each()));
        addresses.map(|a| a.field("ip")).filter_map(|ip| names::ip_warnings(&ip.path().to_string(), ip.str())).collect()
    }

    fn cells(&self, cx: &Context, object: &Value) -> Vec<Value> {
        vec![object.name().into(), endpoints_cell(object).into(), columns::age(cx, object)]
    }
}

fn same_subsets(new: &Cursor, old: &Cursor) -> bool {
    versioned::same("io.k8s.api.core.v1.EndpointSubset", new.field("subsets").value(), old.field("subsets").value())
}

fn validate_subset(cx: &Context, subset: &Cursor, errors: &mut Errors) {
    let (ready, unready) = (subset.field("addresses"), subset.field("notReadyAddresses"));
    if ready.is_empty() && unready.is_empty() {
        subset.required(errors, "must specify `addresses` or `notReadyAddresses`");
    }
    for address in ready.each().chain(unready.each()) {
        validate_address(cx, &address, errors);
    }
    let ports = subset.field("ports");
    for port in ports.each() {
        validate_port(&port, ports.len() > 1, errors);
    }
}

fn validate_address(cx: &Context, endpoint: &Cursor, errors: &mut Errors) {
    let ip = endpoint.field("ip");
    address::legacy_ip(cx, &ip, &address::Known::new(), errors);
    if !endpoint.field("hostname").is_empty() {
        endpoint.field("hostname").check(errors, names::dns1123_label);
    }
    if endpoint.field("nodeName").is_set() {
        endpoint.field("nodeName").check_name(errors, names::name_is_dns_subdomain);
    }
    endpoint_ip(ip.str(), ip.path(), errors);
}

/// An address traffic can be sent to. Services check their external addresses by the same rule.
pub fn endpoint_ip(ip: &str, path: &Path, errors: &mut Errors) {
    let Some(parsed) = names::parse_ip_sloppy(ip) else {
        return errors.invalid(path, ip, "must be a valid IP address");
    };
    let parsed = parsed.to_canonical();
    if parsed.is_unspecified() {
        errors.invalid(path, ip, format!("may not be unspecified ({ip})"));
    }
    if parsed.is_loopback() {
        errors.invalid(path, ip, "may not be in the loopback range (127.0.0.0/8, ::1/128)");
    }
    let (unicast, multicast) = match parsed {
        IpAddr::V4(v4) => (v4.is_link_local(), v4.octets().starts_with(&[224, 0, 0])),
        IpAddr::V6(v6) => (v6.segments()[0] & 0xffc0 == 0xfe80, v6.segments()[0] & 0xff0f == 0xff02),
    };
    if unicast {
        errors.invalid(path, ip, "may not be in the link-local range (169.254.0.0/16, fe80::/10)");
    }
    if multicast {
        errors.invalid(path, ip, "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)");
    }
}

fn validate_port(port: &Cursor, name_required: bool, errors: &mut Errors) {
    let name = port.field("name");
    if !name.is_empty() {
        name.check(errors, names::dns1123_label);
    } else if name_required {
        name.required(errors, "");
    }
    let number = port.field("port").int();
    for message in names::port_number(number) {
        errors.invalid(port.field("port").path(), number, message);
    }
    port.field("protocol").require_one_of(errors, &PROTOCOLS);
    if port.field("appProtocol").is_set() {
        port.field("appProtocol").check(errors, names::label_key);
    }
}

fn endpoints_cell(object: &Value) -> String {
    let subsets = object.list_at(&["subsets"]);
    if subsets.is_empty() {
        return "<none>".to_string();
    }
    let all: Vec<String> = subsets.iter().flat_map(endpoints_of_subset).collect();
    let shown = all.get(..SHOWN).unwrap_or(&all).join(",");
    match all.len().checked_sub(SHOWN) {
        Some(more) if more > 0 => format!("{shown} + {more} more..."),
        _ => shown,
    }
}

/// Every address with every port; headless services may have no ports.
fn endpoints_of_subset(subset: &Value) -> Vec<String> {
    let addresses = || subset.list_at(&["addresses"]).iter().map(|address| address.str_at(&["ip"]));
    let ports = subset.list_at(&["ports"]);
    if ports.is_empty() {
        return addresses().map(str::to_string).collect();
    }
    let ports = ports.iter().map(|port| port.field("port").as_int().unwrap_or(0));
    ports.flat_map(|port| addresses().map(move |ip| join_host_port(ip, port))).collect()
}

fn join_host_port(host: &str, port: i64) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Check;

    fn check() -> Check {
        Check::new(
            Endpoints,
            "{apiVersion: v1, kind: Endpoints, metadata: {name: a}, subsets: [{addresses: [{ip: 10.0.0.1}], ports: [{port: 80, protocol: TCP}]}]}",
        )
    }

    #[test]
    fn subsets_are_checked() {
        let ip = "subsets[0].addresses[0].ip: Invalid value: ";
        check().create(&[
            ("", ""),
            ("subsets: []", ""),
            ("subsets: [{}]", "subsets[0]: Required value: must specify `addresses` or `notReadyAddresses`"),
            (
                "subsets: [{addresses: [{ip: nope}]}]",
                &format!(
                    "{ip}\"nope\": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)
                     {ip}\"nope\": must be a valid IP address"
                ),
            ),
            (
                "subsets: [{addresses: [{ip: 127.0.0.1}]}]",
                &format!("{ip}\"127.0.0.1\": may not be in the loopback range (127.0.0.0/8, ::1/128)"),
            ),
            (
                "subsets: [{addresses: [{ip: 'fe80::1'}]}]",
                &format!("{ip}\"fe80::1\": may not be in the link-local range (169.254.0.0/16, fe80::/10)"),
            ),
            (
                "subsets: [{addresses: [{ip: 224.0.0.7}]}]",
                &format!("{ip}\"224.0.0.7\": may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)"),
            ),
            (
                "subsets: [{notReadyAddresses: [{ip: 0.0.0.0}]}]",
                "subsets[0].notReadyAddresses[0].ip: Invalid value: \"0.0.0.0\": may not be unspecified (0.0.0.0)",
            ),
            (
                "subsets: [{addresses: [{ip: 10.0.0.1}], ports: [{port: 0, protocol: X}, null]}]",
                "subsets[0].ports[0].name: Required value
                 subsets[0].ports[0].port: Invalid value: 0: must be between 1 and 65535, inclusive
                 subsets[0].ports[0].protocol: Unsupported value: \"X\": supported values: \"SCTP\", \"TCP\", \"UDP\"
                 subsets[0].ports[1].name: Required value
                 subsets[0].ports[1].port: Invalid value: 0: must be between 1 and 65535, inclusive",
            ),
        ]);
    }

    #[test]
    fn old_mistakes_may_stay_untouched() {
        let bad = "subsets: [{addresses: [{ip: 010.0.0.1}]}]";
        check().update(&[
            (bad, bad, ""),
            ("", bad, "subsets[0].addresses[0].ip: Invalid value: \"010.0.0.1\": must not have leading 0s"),
        ]);
    }

    #[test]
    fn cells_show_three() {
        check().cells(&[
            ("", "a 10.0.0.1:80 <unknown>"),
            ("subsets: null", "a <none> <unknown>"),
            ("subsets: [{notReadyAddresses: [{ip: 10.0.0.1}]}]", "a  <unknown>"),
            (
                "subsets: [{addresses: [{ip: 10.0.0.1}, {ip: 'fd00::1'}], ports: [{port: 1}, {port: 2}]}]",
                "a 10.0.0.1:1,[fd00::1]:1,10.0.0.1:2 + 1 more... <unknown>",
            ),
        ]);
    }
}
