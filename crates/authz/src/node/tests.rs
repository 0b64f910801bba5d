use std::sync::Arc;

use object::{Meta, Value, value};
use registry::{Catalog, Setup};
use request::Selection;
use storage::memory::MemoryStore;

use super::*;

async fn catalog() -> Catalog {
    let setup = Setup {
        store: Arc::new(MemoryStore::new()),
        prefix: "/registry".into(),
        budget: cache::Budget::new(1 << 20),
        strategies: Default::default(),
        conversions: Default::default(),
        encoding: Default::default(),
        names_unreadable: true,
        enabled: Box::new(|version, on| on || version.group.ends_with("k8s.io")),
        lifecycle: Default::default(),
    };
    setup.catalog().await.unwrap()
}

fn authorizer(catalog: &Catalog, settings: &[(&str, bool)]) -> Node {
    let find = |group: &str, resource: &str| catalog.direct(group, resource);
    let sources = Sources {
        pods: find("", "pods").unwrap(),
        persistent_volumes: find("", "persistentvolumes").unwrap(),
        volume_attachments: find("storage.k8s.io", "volumeattachments"),
        resource_slices: find("resource.k8s.io", "resourceslices"),
        pod_certificate_requests: find("certificates.k8s.io", "podcertificaterequests"),
    };
    let rule = value!({"rules": [{"verbs": ["list"], "apiGroups": [""], "resources": ["services"]}]});
    let mut features = Features::default();
    let settings: Vec<(String, bool)> = settings.iter().map(|(name, on)| (name.to_string(), *on)).collect();
    features.set(&settings).unwrap();
    Node::new(sources, crate::rbac::rules(&rule), &features, Arc::default())
}

/// Stores an object as it is, or removes it.
async fn store(catalog: &Catalog, group: &str, resource: &str, object: &Value, present: bool) {
    let storage = catalog.stored(group, resource).unwrap();
    let key = storage.key(object.namespace(), object.name());
    let old = storage.cache.get(key.as_bytes());
    let old = old.as_ref().map(|object| object.revision());
    let bytes = storage.codec.encode(object).await.unwrap();
    let done = match (old, present) {
        (None, true) => storage.store.create(key, bytes, None).await.map(drop),
        (Some(old), true) => storage.store.update(key, bytes, old, None).await.map(drop),
        (Some(old), false) => storage.store.delete(key, Some(old)).await.map(drop),
        (None, false) => Ok(()),
    };
    done.unwrap();
    storage.cache.fresh().await.unwrap();
}

fn kubelet(node: &str) -> User {
    User { name: format!("system:node:{node}"), groups: vec!["system:nodes".into()], ..User::default() }
}

/// `verb group/resource[/subresource] namespace/name [field selector]`, "-" for nothing.
async fn decide(authorizer: &Node, node: &str, question: &str) -> Result<(), String> {
    let words: Vec<&str> = question.split(' ').map(|word| if word == "-" { "" } else { word }).collect();
    let what: Vec<&str> = words[1].split('/').collect();
    let (namespace, name) = words[2].split_once('/').unwrap_or(("", words[2]));
    let user = kubelet(node);
    let access = Access {
        group: what[0],
        resource: what[1],
        subresource: what.get(2).copied().unwrap_or(""),
        namespace,
        name,
        field_selector: Selection::Text(words.get(3).copied().unwrap_or("")),
        ..Access::to_resource(&user, words[0])
    };
    let decision = authorizer.decide(&access).await;
    if decision.is_allowed() { Ok(()) } else { Err(decision.reason) }
}

fn pod() -> Value {
    value!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"namespace": "ns", "name": "p"},
        "spec": {
            "nodeName": "n1",
            "serviceAccountName": "sa",
            "imagePullSecrets": [{"name": "pull"}],
            "containers": [{
                "name": "c",
                "envFrom": [{"secretRef": {"name": "env-secret"}}, {"configMapRef": {"name": "env-map"}}],
                "env": [{"name": "x", "valueFrom": {"secretKeyRef": {"name": "key-secret", "key": "k"}}}]
            }],
            "volumes": [
                {"name": "a", "persistentVolumeClaim": {"claimName": "claim"}},
                {"name": "b", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}},
                {"name": "c", "projected": {"sources": [{"configMap": {"name": "projected-map"}}]}},
                {"name": "d", "csi": {"driver": "d", "nodePublishSecretRef": {"name": "csi-secret"}}}
            ],
            "resourceClaims": [
                {"name": "r", "resourceClaimName": "device"},
                {"name": "t", "resourceClaimTemplateName": "template"}
            ]
        },
        "status": {"resourceClaimStatuses": [{"name": "t", "resourceClaimName": "made"}]}
    })
}

#[tokio::test]
async fn kubelets_reach_what_their_pods_refer_to() {
    let catalog = catalog().await;
    let node = authorizer(&catalog, &[]);
    store(&catalog, "", "pods", &pod(), true).await;
    let volume = value!({
        "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "pv"},
        "spec": {
            "claimRef": {"namespace": "ns", "name": "claim"},
            "csi": {
                "driver": "d", "volumeHandle": "h",
                "nodeStageSecretRef": {"namespace": "other", "name": "stage"},
                "controllerPublishSecretRef": {"namespace": "other", "name": "controller"}
            }
        }
    });
    store(&catalog, "", "persistentvolumes", &volume, true).await;
    let reached = [
        "get /secrets ns/pull",
        "list /secrets ns/env-secret",
        "watch /secrets ns/key-secret",
        "get /secrets ns/csi-secret",
        "get /secrets other/stage",
        "get /configmaps ns/env-map",
        "get /configmaps ns/projected-map",
        "get /persistentvolumeclaims ns/claim",
        "patch /persistentvolumeclaims/status ns/claim",
        "get /persistentvolumeclaims ns/p-b",
        "get /persistentvolumes pv",
        "get resource.k8s.io/resourceclaims ns/device",
        "get resource.k8s.io/resourceclaims ns/made",
        "create /serviceaccounts/token ns/sa",
        "get /serviceaccounts ns/sa",
        "get /pods ns/p",
        "list /pods ns/p",
    ];
    let unrelated = |node: &str| Err(format!("no relationship found between node '{node}' and this object"));
    for question in reached {
        assert_eq!(decide(&node, "n1", question).await, Ok(()), "{question}");
        assert_eq!(decide(&node, "n2", question).await, unrelated("n2"), "{question}");
    }
    for question in
        ["get /secrets other/controller", "get /secrets other/pull", "get /configmaps ns/pull", "get /pods ns/q"]
    {
        assert_eq!(decide(&node, "n1", question).await, unrelated("n1"), "{question}");
    }
    let mut mirror = pod();
    mirror.set(&["metadata", "annotations"], value!({"kubernetes.io/config.mirror": "x"}));
    store(&catalog, "", "pods", &mirror, true).await;
    for question in &reached[..15] {
        assert!(decide(&node, "n1", question).await.is_err(), "{question}");
    }
    store(&catalog, "", "pods", &pod(), true).await;
    assert_eq!(decide(&node, "n1", "get /persistentvolumes pv").await, Ok(()));
    store(&catalog, "", "persistentvolumes", &volume, false).await;
    assert!(decide(&node, "n1", "get /secrets other/stage").await.is_err());
    store(&catalog, "", "pods", &pod(), false).await;
    for question in reached {
        assert!(decide(&node, "n1", question).await.is_err(), "{question}");
    }
}

#[tokio::test]
async fn verbs_and_selectors_are_upstreams() {
    let catalog = catalog().await;
    let node = authorizer(&catalog, &[]);
    let slice = value!({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": "s"}, "spec": {"nodeName": "n1"}});
    store(&catalog, "resource.k8s.io", "resourceslices", &slice, true).await;
    let attachment = value!({"apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttachment", "metadata": {"name": "va"}, "spec": {"nodeName": "n1"}});
    store(&catalog, "storage.k8s.io", "volumeattachments", &attachment, true).await;
    for (question, want) in [
        ("list /services ns/", ""),
        ("get /services ns/a", "no"),
        ("update /secrets ns/a", "can only read resources of this type"),
        ("get /secrets a", "can only read namespaced object of this type"),
        ("list /secrets ns/", "No Object name found"),
        ("list /persistentvolumes -", "can only get individual resources of this type"),
        ("get /persistentvolumeclaims/status ns/a", "can only get/update/patch this type"),
        ("get storage.k8s.io/volumeattachments va", ""),
        ("get storage.k8s.io/volumeattachments ns/va", "no relationship found between node 'n1' and this object"),
        ("delete /serviceaccounts ns/sa", "can only create tokens for individual service accounts"),
        ("create /serviceaccounts ns/sa", "can only create token subresource of serviceaccount"),
        ("get coordination.k8s.io/leases kube-node-lease/n1", ""),
        ("create coordination.k8s.io/leases kube-node-lease/", ""),
        (
            "get coordination.k8s.io/leases kube-node-lease/n2",
            "can only access node lease with the same name as the requesting node",
        ),
        ("get coordination.k8s.io/leases ns/n1", r#"can only access leases in the "kube-node-lease" system namespace"#),
        (
            "list coordination.k8s.io/leases kube-node-lease/",
            "can only get, create, update, patch, or delete a node lease",
        ),
        ("patch storage.k8s.io/csinodes n1", ""),
        ("patch storage.k8s.io/csinodes n2", "can only access CSINode with the same name as the requesting node"),
        ("patch storage.k8s.io/csinodes/status n1", "CSINode status access requires CSIVolumeHealth feature"),
        ("update resource.k8s.io/resourceslices s", ""),
        ("create resource.k8s.io/resourceslices -", ""),
        ("list resource.k8s.io/resourceslices - spec.nodeName=n1", ""),
        (
            "deletecollection resource.k8s.io/resourceslices - spec.nodeName!=n1",
            "can only list/watch/deletecollection resourceslices with nodeName field selector",
        ),
        ("get /nodes n1", ""),
        ("get /nodes n2", "node 'n1' cannot read 'n2', only its own Node object"),
        ("list /nodes -", "node 'n1' cannot read all nodes, only its own Node object"),
        ("list /nodes n1", ""),
        ("update /nodes/status n1", ""),
        ("delete /nodes n1", "no"),
        ("list /pods - spec.nodeName=n1,metadata.name=a", ""),
        ("watch /pods - spec.nodeName=n2", "can only list/watch pods with spec.nodeName field selector"),
        ("create /pods/eviction ns/p", ""),
        ("create /pods/binding ns/p", "no"),
        ("list certificates.k8s.io/podcertificaterequests ns/ spec.nodeName=n1", ""),
        ("delete certificates.k8s.io/podcertificaterequests ns/a", "nodes may not delete podcertificaterequests"),
    ] {
        let got = decide(&node, "n1", question).await;
        let got = match &got {
            Ok(()) => "",
            Err(reason) if reason.is_empty() => "no",
            Err(reason) => reason,
        };
        assert_eq!(got, want, "{question}");
    }
    let gated = authorizer(&catalog, &[("CSIVolumeHealth", true)]);
    assert_eq!(decide(&gated, "n1", "patch storage.k8s.io/csinodes/status n1").await, Ok(()));
    let other = User { name: "system:node:n1".into(), ..User::default() };
    let access = Access { resource: "pods", ..Access::to_resource(&other, "create") };
    assert_eq!(node.decide(&access).await, Decision::no_opinion(""));
    let nameless = kubelet("");
    let unknown = node.decide(&Access { user: &nameless, ..access }).await;
    assert_eq!(unknown, Decision::no_opinion(r#"unknown node for user "system:node:""#));
}

/// Pods and volumes come, change and go; what the graph says stays what a search of the present objects says.
#[tokio::test]
async fn the_graph_follows_changes() {
    let catalog = catalog().await;
    let node = authorizer(&catalog, &[]);
    let mut random = 7u32;
    let mut next = |below: u32| {
        random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (random >> 16) % below
    };
    let (mut pods, mut volumes): ([Option<(u32, u32, u32)>; 8], [Option<(u32, u32)>; 4]) = Default::default();
    for step in 0..400 {
        if next(3) > 0 {
            let at = next(8) as usize;
            pods[at] = (next(4) > 0).then(|| (next(3), next(3), next(4)));
            let (on, secret, claim) = pods[at].unwrap_or_default();
            let pod = value!({
                "apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": "ns", "name": (format!("p{at}"))},
                "spec": {
                    "nodeName": (format!("n{on}")), "containers": [],
                    "imagePullSecrets": [{"name": (format!("s{secret}"))}],
                    "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": (format!("c{claim}"))}}]
                }
            });
            store(&catalog, "", "pods", &pod, pods[at].is_some()).await;
        } else {
            let at = next(4) as usize;
            volumes[at] = (next(4) > 0).then(|| (next(4), next(3)));
            let (claim, secret) = volumes[at].unwrap_or_default();
            let volume = value!({
                "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": (format!("v{at}"))},
                "spec": {
                    "claimRef": {"namespace": "ns", "name": (format!("c{claim}"))},
                    "rbd": {"image": "i", "secretRef": {"name": (format!("s{secret}"))}}
                }
            });
            store(&catalog, "", "persistentvolumes", &volume, volumes[at].is_some()).await;
        }
        let uses = |on: u32, claim: u32| pods.iter().flatten().any(|pod| pod.0 == on && pod.2 == claim);
        for on in 0..3 {
            let name = format!("n{on}");
            for secret in 0..3 {
                let direct = pods.iter().flatten().any(|pod| pod.0 == on && pod.1 == secret);
                let by_volume = volumes.iter().flatten().any(|(claim, of)| *of == secret && uses(on, *claim));
                let got = decide(&node, &name, &format!("get /secrets ns/s{secret}")).await;
                assert_eq!(got.is_ok(), direct || by_volume, "step {step}, n{on} s{secret}");
            }
            for (at, volume) in volumes.iter().enumerate() {
                let got = decide(&node, &name, &format!("get /persistentvolumes v{at}")).await;
                assert_eq!(got.is_ok(), volume.is_some_and(|(claim, _)| uses(on, claim)), "step {step}, n{on} v{at}");
            }
        }
    }
    for at in 0..8 {
        let pod =
            value!({"apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": "ns", "name": (format!("p{at}"))}});
        store(&catalog, "", "pods", &pod, false).await;
    }
    for at in 0..4 {
        let volume = value!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": (format!("v{at}"))}});
        store(&catalog, "", "persistentvolumes", &volume, false).await;
    }
    assert!(node.graph.read().is_empty(), "nothing is left when every object is gone");
}
