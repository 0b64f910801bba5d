//! Ingresses: HTTP routes into the cluster.

use std::collections::BTreeSet;

use object::names::NameRule;
use object::{Cursor, Errors, Meta, Path, Value, names};
use registry::{Context, Facts, Strategy, columns};

use crate::common::checks::Checks;
use crate::common::versioned;
use crate::core::address;

/// The annotation that `ingressClassName` has replaced.
const CLASS_ANNOTATION: &str = "kubernetes.io/ingress.class";
const PATH_TYPES: [&str; 3] = ["Exact", "ImplementationSpecific", "Prefix"];
/// How many hosts a table cell shows, and how wide the cell with addresses gets.
const SHOWN_HOSTS: usize = 3;
const ADDRESS_CELL_MAX_BYTES: usize = 16;

pub struct Ingress;

const FACTS: Facts = Facts {
    checks_updated_generate_name: true,
    generation: Some(|new, old| {
        !versioned::same("io.k8s.api.networking.v1.IngressSpec", new.field("spec"), old.field("spec"))
    }),
    ..Facts::WITH_STATUS
};

/// What an update tolerates because the stored object already has it.
#[derive(Clone, Copy, Default)]
struct Tolerated {
    invalid_secret_name: bool,
    invalid_wildcard_rule: bool,
}

impl Strategy for Ingress {
    fn facts(&self) -> &Facts {
        &FACTS
    }

    fn validate(&self, cx: &Context, object: &Cursor, errors: &mut Errors) {
        validate_spec(&object.field("spec"), service_names(cx, None), Tolerated::default(), errors);
        let class = object.at(&["spec", "ingressClassName"]);
        if let (Some(annotation), Some(class)) = (object.value().annotation(CLASS_ANNOTATION), class.opt_str())
            && annotation != class
        {
            let path = Path::of("annotations").field(CLASS_ANNOTATION);
            errors.invalid(&path, annotation, "must match `ingressClassName` when both are specified");
        }
    }

    fn validate_update(&self, cx: &Context, new: &Cursor, old: &Cursor, errors: &mut Errors) {
        let old = old.field("spec");
        let services = service_names(cx, Some(&old));
        let tolerated = Tolerated {
            invalid_secret_name: old
                .field("tls")
                .each()
                .any(|tls| !secret_name(tls.field("secretName").str()).is_empty()),
            invalid_wildcard_rule: old.field("rules").each().any(|rule| has_invalid_wildcard(&rule, services)),
        };
        validate_spec(&new.field("spec"), services, tolerated, errors);
    }

    fn warnings(&self, _cx: &Context, object: &Value, old: Option<&Value>) -> Vec<String> {
        let has_class = !object.at(&["spec", "ingressClassName"]).is_null();
        if old.is_some() || has_class || object.annotation(CLASS_ANNOTATION).is_none() {
            return Vec::new();
        }
        vec![format!("annotation {CLASS_ANNOTATION:?} is deprecated, please use 'spec.ingressClassName' instead")]
    }

    fn validate_status_update(&self, cx: &Context, new: &Cursor, old: &Cursor, errors: &mut Errors) {
        let entries = |object: &Cursor| object.at(&["status", "loadBalancer", "ingress"]).value().clone();
        let old = entries(old);
        let known: address::Known = old.as_list().unwrap_or(&[]).iter().map(|entry| entry.str_at(&["ip"])).collect();
        for entry in new.at(&["status", "loadBalancer", "ingress"]).each() {
            let (ip, hostname) = (entry.field("ip"), entry.field("hostname"));
            if !ip.is_empty() {
                address::legacy_ip(cx, &ip, &known, errors);
            }
            if !hostname.is_empty() {
                hostname.check(errors, names::dns1123_subdomain);
                not_an_address(&hostname, errors);
            }
        }
    }

    fn status_warnings(&self, _cx: &Context, new: &Value, _old: &Value) -> Vec<String> {
        let entries = Cursor::root(new).at(&["status", "loadBalancer", "ingress"]);
        let with_ip = entries.each().filter(|entry| !entry.field("ip").is_empty());
        with_ip.filter_map(|entry| names::ip_warnings(&entry.path().to_string(), entry.field("ip").str())).collect()
    }

    fn cells(&self, cx: &Context, object: &Value) -> Vec<Value> {
        let class = object.at(&["spec", "ingressClassName"]).as_str().unwrap_or("<none>");
        let ports = if object.list_at(&["spec", "tls"]).is_empty() { "80" } else { "80, 443" };
        vec![
            object.name().into(),
            class.into(),
            hosts_cell(object.list_at(&["spec", "rules"])).into(),
            address_cell(object.list_at(&["status", "loadBalancer", "ingress"])).into(),
            ports.into(),
            columns::age(cx, object),
        ]
    }
}

/// The rule for names of services in backends; names that an ingress already has are tolerated.
fn service_names(cx: &Context, old: Option<&Cursor>) -> NameRule {
    let is_relaxed = |backend: Cursor| {
        let name = backend.at(&["service", "name"]);
        names::name_is_dns_label(name.str(), false).is_empty()
            && !names::name_is_dns1035_label(name.str(), false).is_empty()
    };
    let relaxed_before = |spec: &Cursor| {
        let paths = spec.field("rules").each().flat_map(|rule| rule.at(&["http", "paths"]).each());
        is_relaxed(spec.field("defaultBackend")) || paths.into_iter().any(|path| is_relaxed(path.field("backend")))
    };
    let relaxed = cx.features.enabled("RelaxedServiceNameValidation") || old.is_some_and(relaxed_before);
    if relaxed { names::name_is_dns_label } else { names::name_is_dns1035_label }
}

fn validate_spec(spec: &Cursor, services: NameRule, tolerated: Tolerated, errors: &mut Errors) {
    let (backend, rules) = (spec.field("defaultBackend"), spec.field("rules"));
    if rules.is_empty() && !backend.is_set() {
        spec.invalid_as(errors, rules.value().clone(), "either `defaultBackend` or `rules` must be specified");
    }
    if backend.is_set() {
        validate_backend(&backend, services, errors);
    }
    for rule in rules.each() {
        validate_rule(&rule, services, tolerated, errors);
    }
    for tls in spec.field("tls").each() {
        for host in tls.field("hosts").each() {
            validate_host(&host, errors);
        }
        let secret = tls.field("secretName");
        if !tolerated.invalid_secret_name {
            secret.check(errors, secret_name);
        }
    }
    if spec.field("ingressClassName").is_set() {
        spec.field("ingressClassName").check_name(errors, names::name_is_dns_subdomain);
    }
}

fn secret_name(name: &str) -> Vec<String> {
    if name.is_empty() { Vec::new() } else { names::name_is_dns_subdomain(name, false) }
}

fn validate_host(host: &Cursor, errors: &mut Errors) {
    let is_wildcard = host.str().contains('*');
    host.check(errors, if is_wildcard { names::wildcard_dns1123_subdomain } else { names::dns1123_subdomain });
}

fn not_an_address(host: &Cursor, errors: &mut Errors) {
    if names::parse_ip_sloppy(host.str()).is_some() {
        host.bad(errors, "must be a DNS name, not an IP address");
    }
}

fn validate_rule(rule: &Cursor, services: NameRule, tolerated: Tolerated, errors: &mut Errors) {
    let host = rule.field("host");
    if !host.is_empty() {
        not_an_address(&host, errors);
        validate_host(&host, errors);
    }
    if !host.str().contains('*') || !tolerated.invalid_wildcard_rule {
        validate_http(&rule.field("http"), services, errors);
    }
}

fn has_invalid_wildcard(rule: &Cursor, services: NameRule) -> bool {
    let mut errors = Errors::new();
    validate_http(&rule.field("http"), services, &mut errors);
    rule.field("host").str().contains('*') && !errors.is_empty()
}

fn validate_http(http: &Cursor, services: NameRule, errors: &mut Errors) {
    if !http.is_set() {
        return;
    }
    let paths = http.field("paths");
    paths.must_be_set(errors, "");
    for path in paths.each() {
        validate_path(&path, services, errors);
    }
}

fn validate_path(rule: &Cursor, services: NameRule, errors: &mut Errors) {
    let (path, kind) = (rule.field("path"), rule.field("pathType"));
    let absolute = path.str().starts_with('/');
    match kind.opt_str() {
        None => return kind.required(errors, "pathType must be specified"),
        Some("Exact" | "Prefix") => {
            if !absolute {
                path.bad(errors, "must be an absolute path");
            }
            for sequence in ["//", "/./", "/../", "%2f", "%2F"].iter().filter(|s| path.str().contains(**s)) {
                path.bad(errors, format!("must not contain '{sequence}'"));
            }
            for suffix in ["/..", "/."].iter().filter(|s| path.str().ends_with(**s)) {
                path.bad(errors, format!("cannot end with '{suffix}'"));
            }
        }
        Some("ImplementationSpecific") => {
            if !path.is_empty() && !absolute {
                path.bad(errors, "must be an absolute path");
            }
        }
        Some(_) => kind.not_supported(errors, &PATH_TYPES),
    }
    validate_backend(&rule.field("backend"), services, errors);
}

fn validate_backend(backend: &Cursor, services: NameRule, errors: &mut Errors) {
    let (resource, service) = (backend.field("resource"), backend.field("service"));
    match (resource.is_set(), service.is_set()) {
        (true, true) => backend.invalid_as(errors, "", "cannot set both resource and service backends"),
        (true, false) => validate_reference(&resource, errors),
        (false, true) => validate_service(&service, backend, services, errors),
        (false, false) => backend.invalid_as(errors, "", "resource or service backend is required"),
    }
}

fn validate_service(service: &Cursor, backend: &Cursor, services: NameRule, errors: &mut Errors) {
    let name = service.field("name");
    if name.require(errors) {
        name.check_name(errors, services);
    }
    let (port, number) = (service.at(&["port", "name"]), service.at(&["port", "number"]));
    match (!port.is_empty(), number.int() != 0) {
        (true, true) => backend.invalid_as(errors, "", "cannot set both port name & port number"),
        (true, false) => port.check(errors, names::port_name),
        (false, true) => number.in_range(errors, 1, 65535),
        (false, false) => backend.required(errors, "port name or number is required"),
    }
}

fn validate_reference(reference: &Cursor, errors: &mut Errors) {
    if reference.field("apiGroup").is_set() {
        reference.field("apiGroup").check(errors, names::dns1123_subdomain);
    }
    for field in ["kind", "name"] {
        let field = reference.field(field);
        if field.require(errors) {
            field.check(errors, names::path_segment_name);
        }
    }
}

fn hosts_cell(rules: &[Value]) -> String {
    let hosts: Vec<&str> = rules.iter().map(|rule| rule.str_at(&["host"])).filter(|host| !host.is_empty()).collect();
    if hosts.is_empty() {
        return "*".to_string();
    }
    let shown = hosts.get(..SHOWN_HOSTS).unwrap_or(&hosts);
    // Upstream notices that there is more at the first rule after the third host, whether or not it has one.
    let third = rules.iter().enumerate().filter(|(_, rule)| !rule.str_at(&["host"]).is_empty()).nth(SHOWN_HOSTS - 1);
    if third.is_some_and(|(index, _)| index + 1 < rules.len()) {
        return format!("{} + {} more...", shown.join(","), rules.len() - SHOWN_HOSTS);
    }
    shown.join(",")
}

fn address_cell(entries: &[Value]) -> String {
    let address = |entry: &Value| {
        let ip = entry.str_at(&["ip"]);
        if ip.is_empty() { entry.str_at(&["hostname"]).to_string() } else { ip.to_string() }
    };
    let addresses: BTreeSet<String> = entries.iter().map(address).filter(|address| !address.is_empty()).collect();
    let all = addresses.into_iter().collect::<Vec<_>>().join(",");
    if all.len() > ADDRESS_CELL_MAX_BYTES {
        let kept = all.get(..ADDRESS_CELL_MAX_BYTES - 3).unwrap_or("");
        return format!("{kept}...");
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Check;

    fn check() -> Check {
        Check::new(Ingress, "{metadata: {name: a}, spec: {defaultBackend: {service: {name: web, port: {number: 80}}}}}")
    }

    #[test]
    fn routes_are_checked() {
        check().create(&[
            ("", ""),
            (
                "spec: {defaultBackend: null}",
                "spec: Invalid value: null: either `defaultBackend` or `rules` must be specified",
            ),
            (
                "spec: {defaultBackend: {service: {name: web, port: {number: null}}}}",
                "spec.defaultBackend: Required value: port name or number is required",
            ),
            (
                "spec: {rules: [{host: 1.2.3.4, http: {paths: [{path: a//b, pathType: Exact, backend: {}}, {}]}}]}",
                "spec.rules[0].host: Invalid value: \"1.2.3.4\": must be a DNS name, not an IP address
                 spec.rules[0].http.paths[0].path: Invalid value: \"a//b\": must be an absolute path
                 spec.rules[0].http.paths[0].path: Invalid value: \"a//b\": must not contain '//'
                 spec.rules[0].http.paths[0].backend: Invalid value: \"\": resource or service backend is required
                 spec.rules[0].http.paths[1].pathType: Required value: pathType must be specified",
            ),
            (
                "{metadata: {annotations: {kubernetes.io/ingress.class: x}}, spec: {ingressClassName: z}}",
                "annotations.kubernetes.io/ingress.class: Invalid value: \"x\": must match `ingressClassName` when both \
                 are specified",
            ),
        ]);
    }

    #[test]
    fn cells_are_short() {
        check().cells(&[
            ("", "a <none> *  80 <unknown>"),
            (
                "{spec: {tls: [{}], rules: [{host: a}, {host: b}, {host: c}, {host: d}]}, \
                 status: {loadBalancer: {ingress: [{ip: 10.10.10.10}, {hostname: example.com}]}}}",
                "a <none> a,b,c + 1 more... 10.10.10.10,e... 80, 443 <unknown>",
            ),
        ]);
    }
}
