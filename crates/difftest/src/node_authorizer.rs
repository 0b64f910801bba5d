//! A generated cluster, and the same SubjectAccessReviews of its kubelets asked of two servers that share its store.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::client::{Client, Connection};

/// How large the cluster is.
#[derive(Clone, Copy)]
pub struct Size {
    pub nodes: u64,
    pub pods: u64,
    pub reviews: u64,
}

const NAMESPACES: u64 = 20;
const AT_ONCE: usize = 64;
/// How long the servers may take to have seen every object.
const PATIENCE: Duration = Duration::from_secs(120);

/// What was compared.
#[derive(Default)]
pub struct Compared {
    pub objects: usize,
    pub reviews: u64,
    pub allowed: u64,
    pub complaints: Vec<String>,
}

/// Creates the cluster with one server and asks both. Servers close connections without requests, so each step has its own.
pub async fn compare(theirs: &Client, ours: &Client, size: Size) -> Result<Compared, String> {
    let objects = objects(size);
    let mut compared = Compared { objects: objects.len(), reviews: size.reviews, ..Compared::default() };
    create(&theirs.keep().await?, objects).await?;
    for server in [theirs, ours] {
        wait_until_seen(&server.keep().await?, size).await?;
    }
    let reviews: Vec<Value> = (0..size.reviews).map(|at| review(&mut Random(at), size)).collect();
    let their_answers = ask(&theirs.keep().await?, &reviews).await?;
    let our_answers = ask(&ours.keep().await?, &reviews).await?;
    for ((review, theirs), ours) in reviews.iter().zip(&their_answers).zip(&our_answers) {
        compared.allowed += u64::from(theirs["allowed"] == true);
        if theirs != ours {
            compared.complaints.push(format!("{}: {ours} instead of {theirs}", review["spec"]));
        }
    }
    Ok(compared)
}

/// Creates objects with many requests at a time; where they are nested in others, those come first.
async fn create(server: &Connection, objects: Vec<(String, Value)>) -> Result<(), String> {
    let mut running = JoinSet::new();
    for (path, object) in objects {
        let is_first = path == "/api/v1/namespaces";
        if running.len() >= AT_ONCE {
            running.join_next().await.ok_or("no task")?.map_err(|error| error.to_string())??;
        }
        let server = server.clone();
        running.spawn(async move {
            let (code, answer) = server.post(&path, &object).await?;
            if code == 201 { Ok(()) } else { Err(format!("{path}: {code}: {answer}")) }
        });
        if is_first {
            running.join_next().await.ok_or("no task")?.map_err(|error| error.to_string())??;
        }
    }
    while let Some(done) = running.join_next().await {
        done.map_err(|error| error.to_string())??;
    }
    Ok(())
}

/// Waits until a server allows what follows from the objects that were created last.
async fn wait_until_seen(server: &Connection, size: Size) -> Result<(), String> {
    let began = Instant::now();
    let last = size.pods - 1;
    let node = last % size.nodes;
    let questions = [
        ("secrets", namespace(last), format!("own-{last}"), ""),
        ("persistentvolumes", String::new(), format!("pv-{}", (last / 10) * 10), "volumes"),
    ];
    for (resource, namespace, name, about) in questions {
        let node = if about.is_empty() { node } else { ((last / 10) * 10) % size.nodes };
        let review = about_resource(node, "get", "", resource, &namespace, &name);
        while server.review(&review).await?["allowed"] != true {
            if began.elapsed() > PATIENCE {
                return Err(format!("{}: still not allowed", review["spec"]));
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }
    Ok(())
}

async fn ask(server: &Connection, reviews: &[Value]) -> Result<Vec<Value>, String> {
    let mut answers = Vec::new();
    for chunk in reviews.chunks(AT_ONCE) {
        let asked = chunk.iter().map(|review| {
            let (server, review) = (server.clone(), Arc::new(review.clone()));
            tokio::spawn(async move { server.review(&review).await })
        });
        for answer in asked.collect::<Vec<_>>() {
            answers.push(answer.await.map_err(|error| error.to_string())??);
        }
    }
    Ok(answers)
}

fn namespace(pod: u64) -> String {
    format!("ns-{}", pod % NAMESPACES)
}

/// Everything in the cluster, with the collection it belongs to.
fn objects(size: Size) -> Vec<(String, Value)> {
    let mut all = Vec::new();
    let mut add = |path: &str, object: Value| all.push((path.to_string(), object));
    for at in 0..NAMESPACES {
        add("/api/v1/namespaces", json!({"metadata": {"name": format!("ns-{at}")}}));
    }
    for at in 0..size.nodes {
        add("/api/v1/nodes", json!({"metadata": {"name": format!("node-{at}")}}));
        add(
            "/apis/storage.k8s.io/v1/volumeattachments",
            json!({
                "metadata": {"name": format!("attached-{at}")},
                "spec": {
                    "attacher": "csi.example", "nodeName": format!("node-{at}"),
                    "source": {"persistentVolumeName": format!("pv-{}", at * 10)},
                },
            }),
        );
        add(
            "/apis/resource.k8s.io/v1/resourceslices",
            json!({
                "metadata": {"name": format!("slice-{at}")},
                "spec": {
                    "driver": "dra.example", "nodeName": format!("node-{at}"), "devices": [],
                    "pool": {"name": format!("node-{at}"), "generation": 1, "resourceSliceCount": 1},
                },
            }),
        );
    }
    for at in (0..size.pods).step_by(10) {
        add(
            "/api/v1/persistentvolumes",
            json!({
                "metadata": {"name": format!("pv-{at}")},
                "spec": {
                    "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"],
                    "claimRef": {"namespace": namespace(at), "name": format!("claim-{at}")},
                    "csi": {
                        "driver": "csi.example", "volumeHandle": format!("h{at}"),
                        "nodeStageSecretRef": {"namespace": "ns-0", "name": format!("stage-{at}")},
                        "nodePublishSecretRef": {"namespace": "ns-1", "name": format!("publish-{at}")},
                    },
                },
            }),
        );
    }
    for at in 0..size.pods {
        add(&format!("/api/v1/namespaces/{}/pods", namespace(at)), pod(at, size));
    }
    all
}

/// A pod whose references depend on its number.
fn pod(at: u64, size: Size) -> Value {
    let mut volumes = vec![json!({"name": "own", "secret": {"secretName": format!("own-{at}")}})];
    let mut env_from = vec![json!({"configMapRef": {"name": format!("shared-{}", at % 7)}})];
    match at % 10 {
        0 => volumes.push(json!({"name": "v", "persistentVolumeClaim": {"claimName": format!("claim-{at}")}})),
        1 => volumes.push(json!({"name": "v", "projected": {"sources": [
            {"secret": {"name": format!("projected-{at}")}}, {"configMap": {"name": format!("projected-{at}")}},
        ]}})),
        2 => env_from.push(json!({"secretRef": {"name": format!("env-{at}")}})),
        3 => volumes.push(json!({"name": "v", "ephemeral": {"volumeClaimTemplate": {"spec": {
            "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}},
        }}}})),
        4 => volumes
            .push(json!({"name": "v", "csi": {"driver": "d", "nodePublishSecretRef": {"name": format!("csi-{at}")}}})),
        _ => {}
    }
    let mut spec = json!({
        "nodeName": format!("node-{}", at % size.nodes),
        "serviceAccountName": format!("sa-{}", at % 5),
        "imagePullSecrets": [{"name": format!("pull-{}", at % 3)}],
        "containers": [{"name": "c", "image": "i", "envFrom": env_from, "env": [
            {"name": "K", "valueFrom": {"configMapKeyRef": {"name": format!("key-{at}"), "key": "k"}}},
        ]}],
        "volumes": volumes,
    });
    if at % 10 == 5 {
        spec["resourceClaims"] = json!([{"name": "r", "resourceClaimName": format!("device-{at}")}]);
    }
    json!({"metadata": {"name": format!("pod-{at}")}, "spec": spec})
}

/// A question of a kubelet: about something of a pod, which is on its node or not.
fn review(random: &mut Random, size: Size) -> Value {
    let pod = random.below(size.pods);
    let node = if random.below(2) == 0 { pod % size.nodes } else { random.below(size.nodes) };
    let namespace = namespace(if random.below(10) == 0 { pod + 1 } else { pod });
    let verb = random.pick(&["get", "get", "get", "list", "watch", "create", "update", "patch", "delete"]);
    let (resource, name) = random.pick(&[
        ("secrets", format!("own-{pod}")),
        ("secrets", format!("projected-{pod}")),
        ("secrets", format!("env-{pod}")),
        ("secrets", format!("csi-{pod}")),
        ("secrets", format!("pull-{}", pod % 3)),
        ("secrets", String::new()),
        ("configmaps", format!("shared-{}", pod % 7)),
        ("configmaps", format!("key-{pod}")),
        ("configmaps", format!("projected-{pod}")),
        ("persistentvolumeclaims", format!("claim-{pod}")),
        ("persistentvolumeclaims", format!("pod-{pod}-v")),
        ("serviceaccounts", format!("sa-{}", pod % 5)),
        ("pods", format!("pod-{pod}")),
        ("pods", String::new()),
        ("services", String::new()),
        ("events", String::new()),
        ("endpoints", format!("e-{pod}")),
    ]);
    let mut review = match random.below(8) {
        0..5 => about_resource(node, verb, "", resource, &namespace, &name),
        5 => {
            let (group, resource, name) = random.pick(&[
                ("", "nodes", format!("node-{}", pod % size.nodes)),
                ("", "nodes", String::new()),
                ("", "persistentvolumes", format!("pv-{}", pod / 10 * 10)),
                ("storage.k8s.io", "volumeattachments", format!("attached-{}", pod % size.nodes)),
                ("storage.k8s.io", "csinodes", format!("node-{}", pod % size.nodes)),
                ("storage.k8s.io", "storageclasses", "fast".to_string()),
                ("resource.k8s.io", "resourceslices", format!("slice-{}", pod % size.nodes)),
                ("resource.k8s.io", "resourceslices", String::new()),
                ("certificates.k8s.io", "certificatesigningrequests", "c".to_string()),
                ("node.k8s.io", "runtimeclasses", "r".to_string()),
                ("certificates.k8s.io", "clustertrustbundles", "b".to_string()),
            ]);
            about_resource(node, verb, group, resource, "", &name)
        }
        6 => {
            let (group, resource, namespace, name) = random.pick(&[
                ("coordination.k8s.io", "leases", "kube-node-lease".into(), format!("node-{}", pod % size.nodes)),
                ("coordination.k8s.io", "leases", namespace.clone(), format!("node-{}", pod % size.nodes)),
                ("resource.k8s.io", "resourceclaims", namespace.clone(), format!("device-{pod}")),
                ("certificates.k8s.io", "podcertificaterequests", namespace.clone(), format!("r-{pod}")),
                ("apps", "daemonsets", namespace.clone(), String::new()),
            ]);
            about_resource(node, verb, group, resource, &namespace, &name)
        }
        _ => {
            // The secrets that a bound volume names.
            let (namespace, name) = random
                .pick(&[("ns-0", format!("stage-{}", pod / 10 * 10)), ("ns-1", format!("publish-{}", pod / 10 * 10))]);
            let owner = if random.below(2) == 0 { pod / 10 * 10 % size.nodes } else { node };
            about_resource(owner, "get", "", "secrets", namespace, &name)
        }
    };
    let attributes = &mut review["spec"]["resourceAttributes"];
    match random.below(12) {
        0 => attributes["subresource"] = random.pick(&["status", "token", "eviction", "log", "proxy"]).into(),
        1 | 2 => {
            let (key, value) = random.pick(&[
                ("spec.nodeName", format!("node-{}", pod % size.nodes)),
                ("metadata.name", format!("node-{}", pod % size.nodes)),
                ("metadata.name", name.clone()),
                ("nodeName", format!("node-{}", pod % size.nodes)),
            ]);
            attributes["fieldSelector"] = json!({"requirements": [{"key": key, "operator": "In", "values": [value]}]});
        }
        _ => {}
    }
    if random.below(50) == 0 {
        review["spec"]["groups"] = json!(["system:authenticated"]);
    }
    review
}

fn about_resource(node: u64, verb: &str, group: &str, resource: &str, namespace: &str, name: &str) -> Value {
    json!({
        "apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
        "spec": {
            "user": format!("system:node:node-{node}"), "groups": ["system:nodes", "system:authenticated"],
            "resourceAttributes": {
                "verb": verb, "group": group, "version": "*", "resource": resource, "namespace": namespace, "name": name,
            },
        },
    })
}

/// The same numbers in every run (splitmix64).
struct Random(u64);

impl Random {
    fn below(&mut self, most: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % most.max(1)
    }

    fn pick<T: Clone>(&mut self, from: &[T]) -> T {
        from[self.below(from.len() as u64) as usize].clone()
    }
}
