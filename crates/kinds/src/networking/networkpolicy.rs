//! NetworkPolicies: who may talk to which pods.

use object::{Cursor, Errors, Meta, Value, labels, names};
use registry::{Context, Facts, Strategy, columns};

use crate::common::checks::Checks;
use crate::common::selector;
use crate::core::address;

const DIRECTIONS: [(&str, &str); 2] = [("ingress", "from"), ("egress", "to")];
const POLICY_TYPES: [&str; 2] = ["Ingress", "Egress"];

pub struct NetworkPolicy;

const FACTS: Facts = Facts { generation: Some(registry::is_changed), ..Facts::WITHOUT_STATUS };

impl Strategy for NetworkPolicy {
    fn facts(&self) -> &Facts {
        &FACTS
    }

    fn default(&self, object: &mut Value) {
        if object.list_at(&["spec", "policyTypes"]).is_empty() {
            let has_egress = !object.list_at(&["spec", "egress"]).is_empty();
            let types = if has_egress { vec!["Ingress", "Egress"] } else { vec!["Ingress"] };
            object.set(&["spec", "policyTypes"], types);
        }
    }

    fn validate(&self, cx: &Context, object: &Cursor, errors: &mut Errors) {
        validate_spec(
            cx,
            &object.field("spec"),
            selector::LabelSelectorValidationOptions::default(),
            &address::Known::new(),
            errors,
        );
    }

    fn validate_update(&self, cx: &Context, new: &Cursor, old: &Cursor, errors: &mut Errors) {
        let old = old.field("spec");
        let mut found = Errors::new();
        selector::validate(&old.field("podSelector"), selector::LabelSelectorValidationOptions::default(), &mut found);
        let options = selector::LabelSelectorValidationOptions {
            allow_invalid_values: !found.is_empty(),
            ..selector::LabelSelectorValidationOptions::default()
        };
        let blocks = blocks(&old);
        let known: address::Known =
            blocks.iter().flat_map(|block| networks(block)).map(|network| network.str()).collect();
        validate_spec(cx, &new.field("spec"), options, &known, errors);
    }

    fn warnings(&self, _cx: &Context, object: &Value, _old: Option<&Value>) -> Vec<String> {
        let spec = Cursor::root(object).field("spec");
        let networks: Vec<Cursor> = blocks(&spec).iter().flat_map(|block| networks(block)).collect();
        networks.iter().flat_map(|cidr| names::cidr_warnings(&cidr.path().to_string(), cidr.str())).collect()
    }

    fn cells(&self, cx: &Context, object: &Value) -> Vec<Value> {
        let pods = selector_cell(object.at(&["spec", "podSelector"]));
        vec![object.name().into(), pods.into(), columns::age(cx, object)]
    }
}

fn validate_spec(
    cx: &Context,
    spec: &Cursor,
    options: selector::LabelSelectorValidationOptions,
    known: &address::Known,
    errors: &mut Errors,
) {
    selector::validate(&spec.field("podSelector"), options, errors);
    let mut missing = Errors::new();
    for (direction, peers) in DIRECTIONS {
        for rule in spec.field(direction).each() {
            for port in rule.field("ports").each() {
                validate_port(&port, errors);
            }
            for peer in rule.field(peers).each() {
                validate_peer(cx, &peer, options, known, errors);
                let block = peer.field("ipBlock");
                if block.is_set() {
                    block.field("cidr").require(&mut missing);
                }
            }
        }
    }
    let types = spec.field("policyTypes");
    if types.len() > POLICY_TYPES.len() {
        types.invalid(errors, "may not specify more than two policyTypes");
    } else {
        types.each().for_each(|kind| {
            kind.one_of(errors, &POLICY_TYPES);
        });
    }
    errors.extend(missing);
}

fn validate_port(port: &Cursor, errors: &mut Errors) {
    port.field("protocol").optional_one_of(errors, &["TCP", "UDP", "SCTP"]);
    let (number, end) = (port.field("port"), port.field("endPort"));
    match number.value() {
        Value::String(name) => {
            if end.is_set() {
                end.invalid(errors, "may not be specified when `port` is non-numeric");
            }
            number.invalid_each(errors, names::port_name(name));
        }
        Value::Int(start) => {
            number.in_range(errors, 1, 65535);
            if end.opt_int().is_some_and(|end| end < *start) {
                end.invalid(errors, "must be greater than or equal to `port`");
            }
            end.in_range(errors, 1, 65535);
        }
        _ if end.is_set() => end.invalid(errors, "may not be specified when `port` is not specified"),
        _ => {}
    }
}

fn validate_peer(
    cx: &Context,
    peer: &Cursor,
    options: selector::LabelSelectorValidationOptions,
    known: &address::Known,
    errors: &mut Errors,
) {
    let selectors = ["podSelector", "namespaceSelector"].map(|field| peer.field(field));
    for selector in &selectors {
        selector::validate(selector, options, errors);
    }
    let block = peer.field("ipBlock");
    let is_selected = selectors.iter().any(Cursor::is_set);
    if block.is_set() {
        validate_block(cx, &block, known, errors);
    }
    match (is_selected, block.is_set()) {
        (false, false) => peer.required(errors, "must specify a peer"),
        (true, true) => peer.forbidden(errors, "may not specify both ipBlock and another peer"),
        _ => {}
    }
}

fn validate_block(cx: &Context, block: &Cursor, known: &address::Known, errors: &mut Errors) {
    let cidr = block.field("cidr");
    if cidr.is_empty() {
        return;
    }
    address::legacy_cidr(cx, &cidr, cidr.str(), known, errors);
    let Some(whole) = names::parse_cidr_sloppy(cidr.str()) else { return };
    for except in block.field("except").each() {
        address::legacy_cidr(cx, &except, except.str(), known, errors);
        let Some(part) = names::parse_cidr_sloppy(except.str()) else { continue };
        let inside = names::Cidr { address: part.network(), ..whole }.network() == whole.network();
        if part.address.is_ipv4() != whole.address.is_ipv4() || !inside || whole.prefix_length >= part.prefix_length {
            except.bad(errors, "must be a strict subset of `cidr`");
        }
    }
}

fn selector_cell(selector: &Value) -> String {
    match selector::compile(selector) {
        Ok(selector) => labels::cell(selector.to_string()),
        Err(_) => "<error>".to_string(),
    }
}

/// Every ipBlock, those of ingress first.
fn blocks<'a>(spec: &Cursor<'a>) -> Vec<Cursor<'a>> {
    let mut blocks = Vec::new();
    for (direction, peers) in DIRECTIONS {
        for rule in spec.field(direction).each() {
            blocks.extend(rule.field(peers).each().map(|peer| peer.field("ipBlock")).filter(Cursor::is_set));
        }
    }
    blocks
}

fn networks<'a>(block: &Cursor<'a>) -> Vec<Cursor<'a>> {
    std::iter::once(block.field("cidr")).chain(block.field("except").each()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Check;

    fn check() -> Check {
        Check::new(NetworkPolicy, "{metadata: {name: a}, spec: {podSelector: {}}}")
    }

    #[test]
    fn policy_types_follow_the_rules() {
        check().stored(&[
            ("", "spec: {policyTypes: [Ingress]}"),
            ("spec: {egress: [{}]}", "spec: {policyTypes: [Ingress, Egress]}"),
        ]);
    }

    #[test]
    fn peers_and_ports_are_checked() {
        check().create(&[
            (
                "spec: {ingress: [{from: [{}, {ipBlock: {cidr: 10.0.0.0/8, except: [11.0.0.0/9, 10.0.0.0/8]}}]}]}",
                "spec.ingress[0].from[0]: Required value: must specify a peer
                 spec.ingress[0].from[1].ipBlock.except[0]: Invalid value: \"11.0.0.0/9\": must be a strict subset of `cidr`
                 spec.ingress[0].from[1].ipBlock.except[1]: Invalid value: \"10.0.0.0/8\": must be a strict subset of `cidr`",
            ),
            (
                "spec: {egress: [{to: [{ipBlock: {}}], ports: [{port: 9, endPort: 8}, {endPort: 1}]}]}",
                "spec.egress[0].ports[0].endPort: Invalid value: 8: must be greater than or equal to `port`
                 spec.egress[0].ports[1].endPort: Invalid value: 1: may not be specified when `port` is not specified
                 spec.egress[0].to[0].ipBlock.cidr: Required value",
            ),
        ]);
    }
}
