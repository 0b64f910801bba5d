//! What the node `n` may do and what not.

use object::value;

use super::*;
use crate::plugins::testing::{As, Closed, World};

fn world() -> World {
    World::default()
        .with("", "nodes", value!({"metadata": {"name": "n", "uid": "nu"}}))
        .with(
            "",
            "pods",
            value!({"metadata": {"name": "mine", "namespace": "ns", "uid": "pu"}, "spec": {"nodeName": "n", "volumes": [
                {"projected": {"sources": [{"serviceAccountToken": {"audience": "vault"}}]}}
            ]}}),
        )
        .with(
            "",
            "pods",
            value!({"metadata": {"name": "theirs", "namespace": "ns", "uid": "tu"}, "spec": {"nodeName": "m"}}),
        )
}

/// Plays a request by the node; "" is allowed, everything else must be in the refusal.
fn check(allowed: &'static str, resource: &str, object: Value, old: Option<Value>, want: &str) {
    let plugin = NodeRestriction { server: Arc::new(Closed { allowed }) };
    let user = User { name: "system:node:n".into(), groups: vec!["system:nodes".into()], ..User::default() };
    let answer = As(user).play(&plugin, &world(), resource, object, old).map(|_| ());
    match want {
        "" => assert_eq!(answer, Ok(()), "{resource}"),
        want => {
            let refused = answer.expect_err(resource);
            assert!(refused.contains(want), "{refused}");
        }
    }
}

#[test]
fn nodes_keep_to_themselves() {
    let node = |name: &str, label: &str| {
        let mut node = value!({"metadata": {"name": name}});
        node.set(&["metadata", "labels", label], "x");
        node
    };
    check("", "nodes", node("n", "kubernetes.io/hostname"), None, "");
    check("", "nodes", node("n", "example.com/x"), None, "");
    check("", "nodes", node("m", "a"), None, "node \"n\" is not allowed to modify node \"m\"");
    check(
        "",
        "nodes",
        node("n", "node-role.kubernetes.io/x"),
        None,
        "set the following labels: node-role.kubernetes.io/x",
    );
    let old = value!({"metadata": {"name": "n"}});
    let restricted = node("n", "node-restriction.kubernetes.io/x");
    check(
        "",
        "nodes",
        restricted,
        Some(old.clone()),
        "is not allowed to modify labels: node-restriction.kubernetes.io/x",
    );
    let tainted = value!({"metadata": {"name": "n"}, "spec": {"taints": [{"key": "a"}]}});
    check("", "nodes", tainted, Some(old), "is not allowed to modify taints");
}

#[test]
fn nodes_create_mirrors_only() {
    let mirror = |spec: Value, owner: Value| value!({"metadata": {"name": "p", "annotations": {"kubernetes.io/config.mirror": "x"}, "ownerReferences": [owner]}, "spec": spec});
    let owner = value!({"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "nu", "controller": true});
    let spec = value!({"nodeName": "n"});
    check("", "pods", mirror(spec.clone(), owner.clone()), None, "");
    check("", "pods", value!({"metadata": {"name": "p"}}), None, "can only create mirror pods");
    check("", "pods", mirror(value!({"nodeName": "m"}), owner.clone()), None, "with spec.nodeName set to itself");
    let mut stranger = owner.clone();
    stranger.set(&["uid"], "x");
    check("", "pods", mirror(spec, stranger), None, "node n UID mismatch: expected x got nu");
    let secret = value!({"nodeName": "n", "volumes": [{"secret": {"secretName": "s"}}]});
    check("", "pods", mirror(secret, owner), None, "can not create pods that reference secrets");
}

#[test]
fn nodes_ask_for_their_pods() {
    let token = |name: &str, uid: &str, audience: &str| {
        value!({"metadata": {"name": "sa"}, "spec": {
            "audiences": [audience], "boundObjectRef": {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": uid}
        }})
    };
    let path = "serviceaccounts/token";
    check("", path, token("mine", "pu", "vault"), None, "");
    check("", path, token("mine", "pu", "other"), None, "not authorized to request tokens for audience \"other\"");
    check("request-serviceaccounts-token-audience sa", path, token("mine", "pu", "other"), None, "");
    check("", path, token("mine", "x", "vault"), None, "does not match the UID in record");
    check("", path, token("theirs", "tu", "vault"), None, "scheduled on a different node");
    check("", path, value!({"metadata": {"name": "sa"}, "spec": {}}), None, "node requested token not bound to a pod");
}
