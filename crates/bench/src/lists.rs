//! The parameters of lists (docs/lists.md) beside the plain request, and beside what a client of kube-apiserver must do for the same answer:
//! list everything, and look through it itself.

use bytes::Bytes;
use futures::FutureExt;
use http::{Method, StatusCode};
use serde_json::json;

use crate::Arguments;
use crate::client::Client;
use crate::load::{self, Extent, MakeRequest};
use crate::report::{Figure, Line};
use crate::scenarios::{AT_ONCE, JSON, LISTS_AT_ONCE, read, request, write};
use crate::target::{GREEDY_TOKEN, Kind, Target};

const METADATA: &str = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
/// How many nodes the pods are on.
const NODES: u64 = 100;
/// The namespaces of the objects that a user may see some of, how many of them, and how many objects there are in all.
const NAMESPACES: u64 = 500;
const VISIBLE: u64 = 50;
const SHARED: u64 = 10_000;
/// The user of [`GREEDY_TOKEN`], as whom the visible objects are listed.
const USER: &str = "greedy";
const PODS: &str = "/api/v1/pods";
const MAPS: &str = "/api/v1/configmaps";

/// A request that gives an answer, and one that a client of any other server sends for the same.
struct Question {
    name: &'static str,
    path: &'static str,
    /// The requests without parameters, and what they accept.
    plain: &'static [&'static str],
    accept: &'static str,
}

const QUESTIONS: [Question; 8] = [
    Question { name: "count", path: "/api/v1/pods?count=true", plain: &[PODS], accept: METADATA },
    Question {
        name: "count by spec.nodeName",
        path: "/api/v1/pods?count=true&groupBy=spec.nodeName",
        plain: &[PODS],
        accept: JSON,
    },
    Question {
        name: "count by a field without an index",
        path: "/api/v1/pods?count=true&groupBy=status.phase",
        plain: &[PODS],
        accept: JSON,
    },
    Question {
        name: "filter by metadata",
        path: "/api/v1/pods?filter=object.metadata.name.endsWith('77777')",
        plain: &[PODS],
        accept: METADATA,
    },
    Question {
        name: "the 20 first by creation",
        path: "/api/v1/pods?sortBy=-metadata.creationTimestamp&limit=20",
        plain: &[PODS],
        accept: METADATA,
    },
    Question { name: "names and nodes", path: "/api/v1/pods?fields=spec.nodeName", plain: &[PODS], accept: JSON },
    Question {
        name: "find by name",
        path: "/apis/lists.ferrokube.io/v1alpha1/find?q=pod-077777",
        plain: &[PODS, MAPS, "/api/v1/secrets", "/api/v1/services", "/apis/apps/v1/deployments"],
        accept: METADATA,
    },
    Question {
        name: "find by label",
        path: "/apis/lists.ferrokube.io/v1alpha1/find?q=label:only%3Dpod-077777",
        plain: &[
            "/api/v1/pods?labelSelector=only%3Dpod-077777",
            "/api/v1/configmaps?labelSelector=only%3Dpod-077777",
            "/api/v1/secrets?labelSelector=only%3Dpod-077777",
            "/api/v1/services?labelSelector=only%3Dpod-077777",
            "/apis/apps/v1/deployments?labelSelector=only%3Dpod-077777",
        ],
        accept: METADATA,
    },
];

pub async fn run(arguments: &Arguments, kind: Kind) -> Result<Vec<Line>, String> {
    let target = Target::start(arguments, kind).await?;
    let client = Client::connect(target.port).await?;
    let pods = arguments.listed_pods;
    for number in 0..NAMESPACES {
        create(
            &client,
            "/api/v1/namespaces",
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace(number)}}),
        )
        .await?;
    }
    let fill = |at_most| Extent { at_once: AT_ONCE, seconds: u64::from(u16::MAX), at_most };
    load::run(&target, "fill", fill(pods), create_small_pods()).await?;
    load::run(&target, "fill", fill(SHARED), create_shared()).await?;
    allow_some(&client).await?;
    let extent = Extent { at_once: 1, seconds: arguments.seconds, at_most: u64::MAX };
    let mut lines = Vec::new();
    for question in &QUESTIONS {
        let name = format!("{} of {pods} pods", question.name);
        if !arguments.wants(&name) {
            continue;
        }
        let (plain, accept) = (question.plain, question.accept);
        let asks = kind.is_ferrokube();
        let make = request(move |client: Client, _| match asks {
            true => read(client, question.path.to_string(), JSON).boxed(),
            false => read_all(client, plain, accept).boxed(),
        });
        lines.extend(lines_of(&name, &load::run(&target, &name, extent, make).await?));
        if asks && question.name == "count" {
            let make = request(move |client, _| read(client, PODS.to_string(), JSON).boxed());
            let name = format!("list {pods} small pods");
            lines.extend(lines_of(&name, &load::run(&target, &name, extent, make).await?));
        }
    }
    lines.extend(visible(&target, kind, Extent { at_once: LISTS_AT_ONCE, ..extent }).await?);
    target.stop().await;
    Ok(lines)
}

fn lines_of(name: &str, cost: &load::Cost) -> Vec<Line> {
    vec![
        Line::new(format!("{name}: CPU"), Figure::Cpu(cost.cpu)),
        Line::new(format!("{name}: p50, p99"), Figure::Latency(vec![cost.p50, cost.p99])),
    ]
}

fn namespace(number: u64) -> String {
    format!("shared-{:03}", number % NAMESPACES)
}

async fn create(client: &Client, path: &str, object: serde_json::Value) -> Result<(), String> {
    write(client.clone(), Method::POST, path.to_string(), JSON, object.to_string().into()).await.map(drop)
}

/// Pods of half a kilobyte: there are many of them.
fn create_small_pods() -> MakeRequest {
    request(|client, n| {
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": format!("pod-{n:06}"), "labels": {"app": format!("app-{}", n % 50), "only": format!("pod-{n:06}")}},
            "spec": {
                "nodeName": format!("node-{}", n % NODES),
                "containers": [{"name": "main", "image": "registry.example/team/service:v1.2.3"}]
            }
        });
        write(client, Method::POST, "/api/v1/namespaces/default/pods".into(), JSON, pod.to_string().into()).boxed()
    })
}

/// Config maps of about 1 KB in many namespaces.
fn create_shared() -> MakeRequest {
    request(|client, n| {
        let map = crate::objects::config_map_in(&namespace(n), &format!("map-{n:05}"), n);
        let path = ["/api/v1/namespaces/", &namespace(n), "/configmaps"].concat();
        write(client, Method::POST, path, JSON, map).boxed()
    })
}

/// Lets the user list config maps in some of the namespaces, and in one that has as many objects as these.
async fn allow_some(client: &Client) -> Result<(), String> {
    let rule = json!({"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list"]});
    let group = "rbac.authorization.k8s.io";
    let role = json!({"apiVersion": format!("{group}/v1"), "kind": "ClusterRole", "metadata": {"name": "maps"}, "rules": [rule]});
    create(client, "/apis/rbac.authorization.k8s.io/v1/clusterroles", role).await?;
    for number in 0..VISIBLE {
        let binding = json!({
            "apiVersion": format!("{group}/v1"), "kind": "RoleBinding", "metadata": {"name": "maps"},
            "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "maps"},
            "subjects": [{"kind": "User", "apiGroup": group, "name": USER}]
        });
        let path = [
            "/apis/rbac.authorization.k8s.io/v1/namespaces/",
            &namespace(number * (NAMESPACES / VISIBLE)),
            "/rolebindings",
        ]
        .concat();
        create(client, &path, binding).await?;
    }
    Ok(())
}

/// The list of config maps that a user may see, beside a list that has as many, and beside one list for each namespace.
async fn visible(target: &Target, kind: Kind, extent: Extent) -> Result<Vec<Line>, String> {
    let name = format!("what a user may see of {SHARED} config maps");
    let client = Client::connect(target.port).await?;
    // As many objects as the user may see, in one namespace.
    for number in 0..SHARED / NAMESPACES * VISIBLE {
        let map = crate::objects::config_map_in("default", &format!("plain-{number:05}"), number);
        write(client.clone(), Method::POST, "/api/v1/namespaces/default/configmaps".into(), JSON, map).await?;
    }
    let asks = kind.is_ferrokube();
    let limited = Client::connect_as(target.port, GREEDY_TOKEN).await?;
    let make = request(move |_, _| {
        let client = limited.clone();
        async move {
            if asks {
                return read(client, [MAPS, "?authorized=true"].concat(), JSON).await;
            }
            let mut bytes = 0;
            for number in 0..VISIBLE {
                let path = ["/api/v1/namespaces/", &namespace(number * (NAMESPACES / VISIBLE)), "/configmaps"].concat();
                bytes += read(client.clone(), path, JSON).await?;
            }
            Ok(bytes)
        }
        .boxed()
    });
    let mut lines = lines_of(&name, &load::run(target, &name, extent, make).await?);
    let name = "a plain list of as many config maps";
    let make = request(|client, _| read(client, "/api/v1/namespaces/default/configmaps".into(), JSON).boxed());
    lines.extend(lines_of(name, &load::run(target, name, extent, make).await?));
    Ok(lines)
}

/// Lists, one after the other.
async fn read_all(client: Client, paths: &[&str], accept: &'static str) -> Result<u64, String> {
    let mut bytes = 0;
    for path in paths {
        let reply = client.send(Method::GET, path, accept, JSON, Bytes::new()).await?;
        if reply.status != StatusCode::OK {
            return Err(format!("{path}: {}", reply.status));
        }
        bytes += reply.bytes;
    }
    Ok(bytes)
}
