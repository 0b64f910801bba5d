//! The rules of a service.

use std::collections::BTreeSet;

use object::{Cursor, Errors, Meta, Path, Value, names, value};
use registry::Context;

use super::addresses;
use super::facts::*;
use crate::common::checks::{Checks, report};
use crate::common::pod_spec::ports::number_or_name;
use crate::common::{internal, selector};
use crate::core::address::{Known, legacy_cidr, legacy_ip};
use crate::core::endpoints::endpoint_ip;

const TOPOLOGY_HINTS: &str = "service.kubernetes.io/topology-aware-hints";
const TOPOLOGY_MODE: &str = "service.kubernetes.io/topology-mode";
const SOURCE_RANGES: &str = "service.beta.kubernetes.io/load-balancer-source-ranges";
const LOAD_BALANCER_ONLY: &str = "may only be used when `type` is 'LoadBalancer'";
const AFFINITY_SECONDS_MAX: i64 = 24 * 60 * 60;

/// Checks a service; `old` is None on creation.
pub fn service(cx: &Context, service: &Cursor, old: Option<&Cursor>, errors: &mut Errors) {
    let (object, spec) = (service.value(), service.field("spec"));
    topology_annotations(object, errors);
    if ports(object).is_empty() && !is_headless(object) && kind(object) != "ExternalName" {
        spec.field("ports").required(errors, "");
    }
    by_type(&spec, object, errors);
    let mut names = BTreeSet::new();
    for port in spec.field("ports").each() {
        service_port(&port, ports(object).len() > 1, &mut names, errors);
    }
    selector::labels(&spec.field("selector"), errors);
    session_affinity(&spec, errors);
    addresses::validate(cx, service, old, errors);
    external_ips(cx, &spec, old, errors);
    spec.field("type").require_one_of(errors, &["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"]);
    port_conflicts(&spec, object, errors);
    source_ranges(cx, service, old, errors);
    load_balancer_fields(&spec, object, errors);
    load_balancer_class(&spec.field("loadBalancerClass"), object, errors);
    external_traffic(&spec, object, errors);
    internal_traffic(&spec, object, errors);
    let distribution = spec.field("trafficDistribution");
    let supported: &[&str] = match cx.features.enabled("PreferSameTrafficDistribution") {
        true => &["PreferClose", "PreferSameZone", "PreferSameNode"],
        false => &["PreferClose"],
    };
    distribution.optional_one_of(errors, supported);
}

/// What an update may not do.
pub fn change(new: &Cursor, old: &Cursor, errors: &mut Errors) {
    addresses::validate_change(new, old, errors);
    let class = new.at(&["spec", "loadBalancerClass"]);
    let both = |kind_of: &str| kind(new.value()) == kind_of && kind(old.value()) == kind_of;
    if both("LoadBalancer") && class.value() != old.at(&["spec", "loadBalancerClass"]).value() {
        class.invalid(errors, "may not change once set");
    }
    load_balancer_class(&class, new.value(), errors);
    if needs_health_check(new.value())
        && needs_health_check(old.value())
        && health_check_port(new.value()) != health_check_port(old.value())
    {
        new.at(&["spec", "healthCheckNodePort"]).forbidden(errors, "field is immutable");
    }
}

fn topology_annotations(object: &Value, errors: &mut Errors) {
    if let (Some(hints), Some(mode)) = (object.annotation(TOPOLOGY_HINTS), object.annotation(TOPOLOGY_MODE))
        && hints != mode
    {
        let path = Path::of("metadata.annotations").key(TOPOLOGY_MODE);
        errors.invalid(&path, mode, format!("must match annotations[{TOPOLOGY_HINTS}] when both are specified"));
    }
}

fn by_type(spec: &Cursor, object: &Value, errors: &mut Errors) {
    match kind(object) {
        kind @ ("LoadBalancer" | "NodePort") if is_headless(object) => {
            let first = spec.field("clusterIPs").index(0);
            first.invalid(errors, format!("may not be set to 'None' for {kind} services"));
        }
        "ExternalName" => {
            for field in ["clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
                let field = spec.field(field);
                let set = if field.value().as_list().is_some() { !field.is_empty() } else { field.is_set() };
                if set {
                    field.forbidden(errors, "may not be set for ExternalName services");
                }
            }
            let name = spec.field("externalName");
            match name.str().strip_suffix('.').unwrap_or(name.str()) {
                "" => name.required(errors, ""),
                cname => report(errors, name.path(), cname, names::dns1123_subdomain(cname)),
            }
        }
        _ => {}
    }
}

fn service_port<'a>(port: &Cursor<'a>, name_required: bool, names_seen: &mut BTreeSet<&'a str>, errors: &mut Errors) {
    let name = port.field("name");
    if !name.str().is_empty() {
        name.check(errors, names::dns1123_label);
        if !names_seen.insert(name.str()) {
            name.duplicate(errors);
        }
    } else if name_required {
        name.required(errors, "");
    }
    let number = port.field("port").int();
    for message in names::port_number(number) {
        errors.invalid(port.field("port").path(), number, message);
    }
    port.field("protocol").require_one_of(errors, &["SCTP", "TCP", "UDP"]);
    number_or_name(&port.field("targetPort"), errors);
    if port.field("appProtocol").is_set() {
        port.field("appProtocol").check(errors, names::label_key);
    }
}

fn session_affinity(spec: &Cursor, errors: &mut Errors) {
    let (affinity, config) = (spec.field("sessionAffinity"), spec.field("sessionAffinityConfig"));
    affinity.require_one_of(errors, &["ClientIP", "None"]);
    match affinity.str() {
        "None" if config.is_set() => config.forbidden(errors, "must not be set when session affinity is None"),
        "ClientIP" => {
            let timeout = config.at(&["clientIP", "timeoutSeconds"]);
            let missing = [config.clone(), config.field("clientIP"), timeout.clone()].into_iter().find(|c| !c.is_set());
            if let Some(missing) = missing {
                missing.required(errors, "when session affinity type is ClientIP");
            } else if !(1..=AFFINITY_SECONDS_MAX).contains(&timeout.int()) {
                timeout.invalid(errors, format!("must be greater than 0 and less than {AFFINITY_SECONDS_MAX}"));
            }
        }
        _ => {}
    }
}

fn external_ips(cx: &Context, spec: &Cursor, old: Option<&Cursor>, errors: &mut Errors) {
    let before: Known = old.map_or_else(Known::new, |old| old.at(&["spec", "externalIPs"]).strs().collect());
    for ip in spec.field("externalIPs").each() {
        if legacy_ip(cx, &ip, &before, errors) {
            endpoint_ip(ip.str(), ip.path(), errors);
        }
    }
}

fn port_conflicts(spec: &Cursor, object: &Value, errors: &mut Errors) {
    let all = || spec.field("ports").each();
    if kind(object) == "ClusterIP" {
        for port in all().filter(|port| node_port(port.value()) != 0) {
            port.field("nodePort").forbidden(errors, "may not be used when `type` is 'ClusterIP'");
        }
    }
    let mut seen = BTreeSet::new();
    for port in all().filter(|port| node_port(port.value()) != 0) {
        if !seen.insert((port.field("protocol").str(), node_port(port.value()))) {
            port.field("nodePort").duplicate(errors);
        }
    }
    let mut seen = BTreeSet::new();
    for port in all() {
        let (protocol, number) = (port.field("protocol").str(), port_number(port.value()));
        if !seen.insert((protocol, number)) {
            let shown = internal::shown("ServicePort", &value!({"protocol": protocol, "port": number}));
            errors.duplicate(port.path(), shown);
        }
    }
}

/// Networks that may use the load balancer, in the field or in the annotation before it.
fn source_ranges(cx: &Context, service: &Cursor, old: Option<&Cursor>, errors: &mut Errors) {
    let object = service.value();
    let only_for_load_balancers = |path: &Path, errors: &mut Errors| {
        if kind(object) != "LoadBalancer" {
            errors.forbidden(path, LOAD_BALANCER_ONLY);
        }
    };
    let ranges = service.at(&["spec", "loadBalancerSourceRanges"]);
    if !ranges.is_empty() {
        // Upstream spells the field as its Go struct does.
        let path = service.field("spec").path().field("LoadBalancerSourceRanges");
        only_for_load_balancers(&path, errors);
        let before = old.map(|old| old.at(&["spec", "loadBalancerSourceRanges"]));
        let before: Known = before.iter().flat_map(Cursor::strs).map(str::trim).collect();
        for (index, range) in ranges.each().enumerate() {
            let at = Cursor::new(range.value(), path.index(index));
            legacy_cidr(cx, &at, range.str().trim(), &before, errors);
        }
    } else if let Some(text) = object.annotation(SOURCE_RANGES) {
        let path = Path::of("metadata.annotations").key(SOURCE_RANGES);
        only_for_load_balancers(&path, errors);
        let unchanged = old.is_some_and(|old| old.value().annotation(SOURCE_RANGES).unwrap_or("") == text);
        if !unchanged && !text.trim().is_empty() {
            let at = Cursor::new(object, path);
            text.trim().split(',').for_each(|range| legacy_cidr(cx, &at, range.trim(), &Known::new(), errors));
        }
    }
}

fn load_balancer_fields(spec: &Cursor, object: &Value, errors: &mut Errors) {
    let allocate = spec.field("allocateLoadBalancerNodePorts");
    match (kind(object), allocate.is_set()) {
        ("LoadBalancer", false) => errors.required(&Path::of("allocateLoadBalancerNodePorts"), ""),
        ("LoadBalancer", true) | (_, false) => {}
        (_, true) => allocate.forbidden(errors, LOAD_BALANCER_ONLY),
    }
}

fn load_balancer_class(class: &Cursor, object: &Value, errors: &mut Errors) {
    if !class.is_set() {
        return;
    }
    if kind(object) == "LoadBalancer" {
        class.check(errors, names::label_key);
    } else {
        class.forbidden(errors, LOAD_BALANCER_ONLY);
    }
}

fn external_traffic(spec: &Cursor, object: &Value, errors: &mut Errors) {
    let (policy, health) = (spec.field("externalTrafficPolicy"), spec.field("healthCheckNodePort"));
    if is_externally_accessible(object) {
        policy.require_one_of(errors, &["Cluster", "Local"]);
    } else if !policy.str().is_empty() {
        policy.invalid(errors, "may only be set for externally-accessible services");
    }
    if !needs_health_check(object) {
        if health.int() != 0 {
            let detail = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'";
            health.invalid(errors, detail);
        }
    } else if health.int() == 0 {
        health.required(errors, "");
    } else {
        health.invalid_each(errors, names::port_number(health.int()));
    }
}

fn internal_traffic(spec: &Cursor, object: &Value, errors: &mut Errors) {
    let policy = spec.field("internalTrafficPolicy");
    if policy.is_set() {
        policy.one_of(errors, &["Cluster", "Local"]);
    } else if matches!(kind(object), "ClusterIP" | "NodePort" | "LoadBalancer") {
        policy.required(errors, "");
    }
}

/// Where a load balancer can be reached; `spec` is the service's.
pub fn load_balancer_status(cx: &Context, status: &Cursor, old: &Cursor, spec: &Value, errors: &mut Errors) {
    let ingresses = status.field("ingress");
    if spec.str_at(&["type"]) != "LoadBalancer" && !ingresses.is_empty() {
        return ingresses.forbidden(errors, "may only be used when `spec.type` is 'LoadBalancer'");
    }
    let before: Known = old.field("ingress").each().map(|i| i.field("ip").str()).filter(|ip| !ip.is_empty()).collect();
    for ingress in ingresses.each() {
        let (ip, mode, host) = (ingress.field("ip"), ingress.field("ipMode"), ingress.field("hostname"));
        if !ip.str().is_empty() {
            legacy_ip(cx, &ip, &before, errors);
        }
        match (mode.is_set(), ip.str().is_empty()) {
            (false, false) => mode.required(errors, "must be specified when `ip` is set"),
            (true, true) => mode.forbidden(errors, "may not be specified when `ip` is not set"),
            (true, false) => {
                mode.one_of(errors, &["Proxy", "VIP"]);
            }
            (false, true) => {}
        }
        if !host.str().is_empty() {
            host.check(errors, names::dns1123_subdomain);
            if names::parse_ip_sloppy(host.str()).is_some() {
                host.bad(errors, "must be a DNS name, not an IP address");
            }
        }
    }
}
