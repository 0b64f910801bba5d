//! The row of a node in a table.

use std::collections::BTreeSet;

use object::{Meta, Value};
use registry::{Context, columns};

const ROLE_PREFIX: &str = "node-role.kubernetes.io/";
const ROLE_LABEL: &str = "kubernetes.io/role";

pub fn cells(cx: &Context, node: &Value) -> Vec<Value> {
    let info = |field: &str| node.str_at(&["status", "nodeInfo", field]);
    let known = |text: &str| if text.is_empty() { "<unknown>".to_string() } else { text.to_string() };
    let mut kernel = known(info("kernelVersion"));
    if !info("architecture").is_empty() {
        kernel = format!("{kernel} ({})", info("architecture"));
    }
    vec![
        node.name().into(),
        status(node).into(),
        roles(node).into(),
        columns::age(cx, node),
        info("kubeletVersion").into(),
        address(node, "InternalIP").into(),
        address(node, "ExternalIP").into(),
        known(info("osImage")).into(),
        kernel.into(),
        known(info("containerRuntimeVersion")).into(),
    ]
}

fn status(node: &Value) -> String {
    let mut conditions = node.list_at(&["status", "conditions"]).iter();
    let ready = conditions.rfind(|condition| condition.str_at(&["type"]) == "Ready");
    let mut status = match ready.map(|condition| condition.str_at(&["status"])) {
        None => "Unknown".to_string(),
        Some("True") => "Ready".to_string(),
        Some(_) => "NotReady".to_string(),
    };
    if node.at(&["spec", "unschedulable"]).as_bool() == Some(true) {
        status.push_str(",SchedulingDisabled");
    }
    status
}

fn roles(node: &Value) -> String {
    let role = |(key, value): (&str, &str)| match key.strip_prefix(ROLE_PREFIX) {
        Some(role) => role.to_string(),
        None if key == ROLE_LABEL => value.to_string(),
        None => String::new(),
    };
    let roles: BTreeSet<String> = node.labels().map(role).filter(|role| !role.is_empty()).collect();
    if roles.is_empty() { "<none>".to_string() } else { roles.into_iter().collect::<Vec<_>>().join(",") }
}

fn address<'a>(node: &'a Value, kind: &str) -> &'a str {
    let mut addresses = node.list_at(&["status", "addresses"]).iter();
    let found = addresses.find(|address| address.str_at(&["type"]) == kind);
    found.map_or("<none>", |address| address.str_at(&["address"]))
}
