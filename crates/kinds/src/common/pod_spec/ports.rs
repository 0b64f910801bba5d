//! Ports of containers.

use std::collections::BTreeSet;

use object::{Cursor, Errors, Value, names};

use super::PodValidationOptions;
use crate::common::checks::{Checks, report};

pub const PROTOCOLS: [&str; 3] = ["SCTP", "TCP", "UDP"];

pub fn validate(ports: &Cursor, errors: &mut Errors) {
    let mut seen = BTreeSet::new();
    for port in ports.each() {
        let name = port.field("name");
        if !name.str().is_empty() {
            let messages = names::port_name(name.str());
            if !messages.is_empty() {
                report(errors, name.path(), name.str(), messages);
            } else if !seen.insert(name.str()) {
                name.duplicate(errors);
            }
        }
        let number = port.field("containerPort");
        if number.int() == 0 {
            number.required(errors, "");
        } else {
            number.invalid_each(errors, names::port_number(number.int()));
        }
        let host = port.field("hostPort");
        if host.int() != 0 {
            host.invalid_each(errors, names::port_number(host.int()));
        }
        port.field("protocol").require_one_of(errors, &PROTOCOLS);
    }
}

/// No two containers of the list may use the same port of the host. The path of each error is `lists`' own.
pub fn host_conflicts<'a>(containers: impl Iterator<Item = Cursor<'a>>, errors: &mut Errors) {
    let mut taken = BTreeSet::new();
    for port in containers.flat_map(|container| container.field("ports").each()) {
        let host = port.field("hostPort");
        if host.int() == 0 {
            continue;
        }
        let key = format!("{}/{}/{}", port.field("protocol").str(), port.field("hostIP").str(), host.int());
        if taken.contains(&key) {
            errors.duplicate(host.path(), key);
        } else {
            taken.insert(key);
        }
    }
}

/// On the host's network a container's port is the host's port. A template may leave that to the pod's defaults.
pub fn host_network(spec: &Cursor, options: &PodValidationOptions, errors: &mut Errors) {
    if !spec.field("hostNetwork").bool() {
        return;
    }
    for port in spec.field("containers").each().flat_map(|container| container.field("ports").each()) {
        let (host, container) = (port.field("hostPort"), port.field("containerPort"));
        if (options.is_pod || host.int() != 0) && host.int() != container.int() {
            host.invalid_as(errors, host.int(), "must match `containerPort` when `hostNetwork` is true");
        }
    }
}

/// A port by number or by name, as probes and services refer to it.
pub fn number_or_name(port: &Cursor, errors: &mut Errors) {
    match port.value() {
        Value::String(name) => report(errors, port.path(), name, names::port_name(name)),
        value => {
            let number = value.as_int().unwrap_or(0);
            for message in names::port_number(number) {
                port.invalid_as(errors, number, message);
            }
        }
    }
}
