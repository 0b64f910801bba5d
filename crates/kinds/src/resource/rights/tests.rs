//! Changes of a status, who makes them with which rights, and what they are told.

use std::sync::Arc;

use async_trait::async_trait;
use futures::FutureExt;
use object::{Timestamp, value};
use registry::{Features, Lookup};

use super::*;
use crate::check::yaml;

/// Rights as `verb subresource namespace name`, with `*` for anything.
struct Rights(&'static [&'static str]);

#[async_trait]
impl Lookup for Rights {
    fn get(&self, _: &str, _: &str, _: &str, _: &str) -> Option<Arc<Value>> {
        None
    }

    fn list(&self, _: &str, _: &str, _: &str) -> Vec<Arc<Value>> {
        Vec::new()
    }

    async fn may(&self, access: &Access<'_>) -> Result<(), String> {
        let asked = [access.verb, access.subresource, access.namespace, access.name];
        let covers = |right: &&str| right.split(' ').zip(asked).all(|(given, asked)| given == "*" || given == asked);
        if self.0.iter().any(covers) { Ok(()) } else { Err(format!("no {}", asked.join(" "))) }
    }
}

const ALLOCATED: &str = "allocation: {devices: {results: [{driver: d, pool: p, device: a}]}, nodeSelector: \
    {nodeSelectorTerms: [{matchFields: [{key: metadata.name, operator: In, values: [n1]}]}]}}";

fn status(more: &str) -> Value {
    value!({"status": (yaml(&format!("{{{more}}}")))})
}

fn check(rights: &'static [&'static str], user: &User, old: &str, new: &str, want: &str) {
    let (features, lookup) = (Features::default(), Rights(rights));
    let cx = Context {
        namespace: "ns",
        group: "resource.k8s.io",
        subresource: "status",
        verb: "update",
        lookup: &lookup,
        ..Context::of_server(Timestamp::ZERO, user, &features)
    };
    let mut errors = Errors::new();
    let (new, old) = (status(new), status(old));
    authorize(&cx, &new, &old, &mut errors).now_or_never().expect("nothing to wait for");
    // Of the refusal only the reason is compared.
    let reason = |text: String| match (text.find("permission: "), text.rfind(": no ")) {
        (Some(start), Some(reason)) => format!("{}permission: {}", &text[..start], &text[reason + 2..]),
        _ => text,
    };
    let got: Vec<String> = errors.iter().map(|error| reason(error.to_string())).collect();
    assert_eq!(got.join("\n"), want, "from {old:?} to {new:?} with {rights:?}");
}

fn agent(node: &str) -> User {
    User {
        name: "system:serviceaccount:kube-system:agent".into(),
        extra: vec![(NODE_NAME.into(), vec![node.into()])],
        ..User::default()
    }
}

#[test]
fn binding_is_a_right_of_its_own() {
    let user = User { name: "someone".into(), ..User::default() };
    let refused = "status.allocation: Forbidden: changing status.allocation or status.reservedFor requires \
        resource=\"resourceclaims/binding\", verb=\"update\" permission: no update binding  ";
    for (old, new, want) in [
        ("", ALLOCATED, refused),
        (ALLOCATED, "", refused),
        (ALLOCATED, &format!("{ALLOCATED}, reservedFor: [{{resource: pods, name: p, uid: u}}]"), refused),
        (ALLOCATED, ALLOCATED, ""),
        ("", "reservedFor: []", ""),
    ] {
        check(&["* driver * *"], &user, old, new, want);
        check(&["update binding  "], &user, old, new, "");
    }
}

#[test]
fn drivers_write_about_their_own_devices() {
    let with = |devices: &str| format!("{ALLOCATED}, devices: [{devices}]");
    let (a, b) = ("{driver: d, pool: p, device: a}", "{driver: e, pool: p, device: b}");
    let refused = |driver: &str, verbs: &str, verb: &str| {
        format!(
            "status.devices: Forbidden: changing status.devices requires resource=\"resourceclaims/driver\", \
             verb=\"[{verbs}]\" permission: no {verb}:update driver ns {driver}"
        )
    };
    let (anywhere, both) = ("arbitrary-node:update", "associated-node:update arbitrary-node:update");
    let both_drivers =
        format!("{}\n{}", refused("d", anywhere, "arbitrary-node"), refused("e", anywhere, "arbitrary-node"));
    let changed = with("{driver: d, pool: p, device: a, data: {x: 1}}");
    let person = User { name: "someone".into(), ..User::default() };
    let cases: [(&'static [&'static str], User, String, String, String); 9] = [
        (&[], person.clone(), with(a), with(a), "".into()),
        (&[], person.clone(), with(a), changed.clone(), refused("d", anywhere, "arbitrary-node")),
        (&[], person.clone(), with(a), with(b), both_drivers),
        (&["arbitrary-node:update driver ns d"], person.clone(), with(a), changed.clone(), "".into()),
        (
            &["associated-node:update driver ns d"],
            person,
            with(a),
            changed.clone(),
            refused("d", anywhere, "arbitrary-node"),
        ),
        (&["associated-node:update driver ns d"], agent("n1"), with(a), changed.clone(), "".into()),
        (&["arbitrary-node:update driver ns d"], agent("n1"), with(a), changed.clone(), "".into()),
        (&[], agent("n1"), with(a), changed.clone(), refused("d", both, "associated-node")),
        (
            &["associated-node:update driver ns d"],
            agent("n2"),
            with(a),
            changed,
            refused("d", anywhere, "arbitrary-node"),
        ),
    ];
    for (rights, user, old, new, want) in cases {
        check(rights, &user, &old, &new, &want);
    }
    // The status of devices is removed with the allocation, without an authorization check.
    check(&["update binding  "], &agent("n1"), &with(a), "", "");
}
