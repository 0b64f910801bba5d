//! The node authorizer for a cluster of 1,000 nodes and 30,000 pods: how long the graph takes to build, and a decision.
//! `cargo bench -p ferrokube-authz`. A decision should stay under 5 µs, the graph under a second.

#![allow(clippy::print_stdout, clippy::unwrap_used)]

use std::sync::Arc;
use std::time::Instant;

use authz::node::{Node, Sources};
use authz::{Authorizer, rbac};
use object::{Meta, Value, value};
use registry::{Catalog, Features, Setup};
use request::{Access, Selection, User};
use storage::memory::MemoryStore;

const NODES: usize = 1_000;
const PODS: usize = 30_000;
const NAMESPACES: usize = 100;
const DECISIONS: usize = 200_000;

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(run());
}

async fn run() {
    let setup = Setup {
        store: Arc::new(MemoryStore::new()),
        prefix: "/registry".into(),
        budget: cache::Budget::new(1 << 20),
        strategies: Default::default(),
        conversions: Default::default(),
        encoding: Default::default(),
        names_unreadable: true,
        enabled: Box::new(|_, on| on),
        lifecycle: Default::default(),
    };
    let catalog = setup.catalog().await.unwrap();
    for at in 0..PODS {
        store(&catalog, "pods", &pod(at)).await;
        if at % 5 == 0 {
            store(&catalog, "persistentvolumes", &volume(at)).await;
        }
    }
    let find = |group: &str, resource: &str| catalog.direct(group, resource);
    let sources = Sources {
        pods: find("", "pods").unwrap(),
        persistent_volumes: find("", "persistentvolumes").unwrap(),
        volume_attachments: find("storage.k8s.io", "volumeattachments"),
        resource_slices: find("resource.k8s.io", "resourceslices"),
        pod_certificate_requests: find("certificates.k8s.io", "podcertificaterequests"),
    };
    let node = Node::new(sources, rbac::rules(&Value::Null), &Features::default(), Arc::default());
    let began = Instant::now();
    node.catch_up();
    println!("graph of {PODS} pods on {NODES} nodes: {:?}", began.elapsed());
    let users: Vec<User> = (0..NODES).map(kubelet).collect();
    for (what, resource, prefix) in [
        ("a secret of a pod", "secrets", "secret"),
        ("a shared config map", "configmaps", "config"),
        ("a volume's secret", "secrets", "stage"),
        ("a pod", "pods", "pod"),
        ("pods by selector", "pods", ""),
    ] {
        let (mut allowed, began) = (0, Instant::now());
        for at in 0..DECISIONS {
            let pod = (at * 7) % PODS;
            // Every other question is about a pod of the next node.
            let user = &users[(pod + at % 2) % NODES];
            let namespace = format!("ns{}", pod % NAMESPACES);
            let name = match prefix {
                "" => String::new(),
                "config" => "config".to_string(),
                prefix => format!("{prefix}{pod}"),
            };
            let selector = format!("spec.nodeName=node{}", pod % NODES);
            let (verb, selector) = if prefix.is_empty() { ("list", selector.as_str()) } else { ("get", "") };
            let access = Access {
                resource,
                namespace: if prefix == "stage" { "kube-system" } else { &namespace },
                name: &name,
                field_selector: Selection::Text(selector),
                ..Access::to_resource(user, verb)
            };
            allowed += usize::from(node.decide(&access).await.is_allowed());
        }
        println!("{what}: {:?} a decision, {allowed} of {DECISIONS} allowed", began.elapsed() / DECISIONS as u32);
    }
}

fn kubelet(at: usize) -> User {
    User { name: format!("system:node:node{at}"), groups: vec!["system:nodes".into()], ..User::default() }
}

fn pod(at: usize) -> Value {
    value!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"namespace": (format!("ns{}", at % NAMESPACES)), "name": (format!("pod{at}"))},
        "spec": {
            "nodeName": (format!("node{}", at % NODES)),
            "serviceAccountName": "default",
            "imagePullSecrets": [{"name": "registry"}],
            "containers": [{
                "name": "main", "image": "registry.example/app:1",
                "envFrom": [{"configMapRef": {"name": "config"}}, {"secretRef": {"name": (format!("secret{at}"))}}],
                "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}}
            }],
            "volumes": [
                {"name": "data", "persistentVolumeClaim": {"claimName": (format!("claim{at}"))}},
                {"name": "token", "projected": {"sources": [{"configMap": {"name": "kube-root-ca.crt"}}]}}
            ]
        },
        "status": {"phase": "Running", "podIP": "10.0.0.1"}
    })
}

fn volume(at: usize) -> Value {
    value!({
        "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": (format!("pv{at}"))},
        "spec": {
            "claimRef": {"namespace": (format!("ns{}", at % NAMESPACES)), "name": (format!("claim{at}"))},
            "csi": {
                "driver": "csi.example", "volumeHandle": (format!("h{at}")),
                "nodeStageSecretRef": {"namespace": "kube-system", "name": (format!("stage{at}"))}
            }
        }
    })
}

async fn store(catalog: &Catalog, resource: &str, object: &Value) {
    let storage = catalog.stored("", resource).unwrap();
    let bytes = storage.codec.encode(object).await.unwrap();
    storage.store.create(storage.key(object.namespace(), object.name()), bytes, None).await.unwrap();
}
