//! Cases for accounts, tokens and secrets.

use object::{Value, value};

use super::{MIRROR, MOUNT_PATH, ServiceAccount, token_volume};
use crate::plugins::testing::{World, create};

fn world() -> World {
    let pull = value!([{ "name": "pull" }]);
    World::default()
        .with(
            "",
            "serviceaccounts",
            value!({ "metadata": { "name": "default", "namespace": "ns" }, "imagePullSecrets": pull }),
        )
        .with(
            "",
            "serviceaccounts",
            value!({
                "metadata": {
                    "name": "strict",
                    "namespace": "ns",
                    "annotations": { "kubernetes.io/enforce-mountable-secrets": "true" },
                },
                "automountServiceAccountToken": false,
                "secrets": [{ "name": "known" }],
            }),
        )
}

fn pod(spec: Value) -> Value {
    value!({ "metadata": { "name": "p" }, "spec": spec })
}

#[test]
fn pods_run_as_the_default_account_with_a_token() {
    let spec = value!({
        "containers": [
            { "name": "a" },
            { "name": "b", "volumeMounts": [{ "name": "own", "mountPath": MOUNT_PATH }] },
        ],
    });
    let made = create(&ServiceAccount, &world(), "pods", pod(spec)).expect("the account is there").object;
    let spec = made.field("spec");
    assert_eq!(spec.str_at(&["serviceAccountName"]), "default");
    assert_eq!(spec.str_at(&["serviceAccount"]), "default");
    assert_eq!(spec.field("imagePullSecrets"), &value!([{ "name": "pull" }]));
    let [volume] = spec.list_at(&["volumes"]) else { unreachable!("one volume is added") };
    let name = volume.str_at(&["name"]);
    assert_eq!((name.len(), name.starts_with("kube-api-access-")), (21, true));
    assert_eq!(volume, &token_volume(name));
    let containers = spec.list_at(&["containers"]);
    let mount = value!({ "name": name, "readOnly": true, "mountPath": MOUNT_PATH });
    assert_eq!(containers[0].list_at(&["volumeMounts"]), [mount]);
    assert_eq!(containers[1].list_at(&["volumeMounts"]).len(), 1);
}

#[test]
fn pods_that_want_no_token_get_none() {
    for spec in [value!({ "automountServiceAccountToken": false }), value!({ "serviceAccountName": "strict" })] {
        let made = create(&ServiceAccount, &world(), "pods", pod(spec)).expect("the account is there");
        assert!(made.object.at(&["spec", "volumes"]).is_null());
    }
}

#[test]
fn pods_are_refused() {
    let env = value!([{ "name": "e", "valueFrom": { "secretKeyRef": { "name": "other" } } }]);
    let mut mirror = pod(value!({ "serviceAccountName": "default" }));
    mirror.set(&["metadata", "annotations", MIRROR], "x");
    let mut secret = pod(value!({ "volumes": [{ "name": "v", "secret": { "secretName": "s" } }] }));
    secret.set(&["metadata", "annotations", MIRROR], "x");
    let cases = [
        (
            pod(value!({ "serviceAccountName": "no" })),
            "error looking up service account ns/no: serviceaccount \"no\" not found",
        ),
        (
            pod(value!({ "serviceAccountName": "strict", "containers": [{ "name": "c", "env": env }] })),
            "container c with envVar e referencing secret.secretName=\"other\" is not allowed because service account strict does not reference that secret",
        ),
        (
            pod(value!({ "serviceAccountName": "strict", "imagePullSecrets": [{ "name": "x" }] })),
            "imagePullSecrets[0].name=\"x\" is not allowed because service account strict does not reference that imagePullSecret",
        ),
        (mirror, "a mirror pod may not reference service accounts"),
        (secret, "a mirror pod may not reference secrets"),
    ];
    for (pod, why) in cases {
        let got = create(&ServiceAccount, &world(), "pods", pod);
        assert_eq!(got.err(), Some(format!("pods \"p\" is forbidden: {why}")));
    }
}
