//! The loads, in the order they are put on each server.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt;
use http::Method;
use serde_json::json;

use crate::Arguments;
use crate::client::{Client, Reply};
use crate::load::{self, Extent, MakeRequest};
use crate::objects::{NAMESPACE, config_map, pod};
use crate::report::{Figure, Line};
use crate::target::{Kind, Target};
use crate::{admission, watchers};

pub const JSON: &str = "application/json";
pub const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
const APPLY: &str = "application/apply-patch+yaml";
/// Objects that updates, applies and mixed loads work on.
const WORKING_SET: u64 = 512;
/// Requests open at a time, where it is not one thing per client.
pub const AT_ONCE: usize = 64;
/// The same for lists, of which one fills the line.
pub const LISTS_AT_ONCE: usize = 4;
/// After this long, a server that has nothing to do has given back the memory that it does not need.
pub const SETTLED: Duration = Duration::from_secs(6);

/// The loads of the first section.
pub async fn all(arguments: &Arguments, kind: Kind) -> Result<Vec<Line>, String> {
    let target = Target::start(arguments, kind).await?;
    let mut lines = vec![Line::new("start to ready", Figure::Took(target.ready))];
    // What happens right after the start is not idleness yet.
    tokio::time::sleep(SETTLED).await;
    lines.push(Line::new("idle memory", Figure::Memory(target.memory())));
    lines.extend(writes(&target, arguments).await?);
    lines.extend(reads(&target, arguments).await?);
    for count in [200, 1000] {
        if arguments.wants(&watchers::name(count)) {
            lines.extend(watchers::run(&target, count, arguments.seconds).await?);
        }
    }
    tokio::time::sleep(SETTLED).await;
    lines.push(Line::new("memory after these loads", Figure::Memory(target.memory())));
    if arguments.wants("create with policies and webhooks") {
        lines.extend(admission::run(&target, arguments.seconds).await?);
    }
    target.stop().await;
    Ok(lines)
}

pub async fn create_namespace(target: &Target) -> Result<Client, String> {
    let client = Client::connect(target.port).await?;
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}});
    write(client.clone(), Method::POST, "/api/v1/namespaces".into(), JSON, namespace.to_string().into()).await?;
    Ok(client)
}

/// The path of a collection in the benchmark's namespace.
pub fn collection(resource: &str) -> String {
    format!("/api/v1/namespaces/{NAMESPACE}/{resource}")
}

pub fn create_pods() -> MakeRequest {
    request(|client, n| write(client, Method::POST, collection("pods"), JSON, pod(n)).boxed())
}

pub fn create_config_maps(prefix: &'static str) -> MakeRequest {
    request(move |client, n| {
        write(client, Method::POST, collection("configmaps"), JSON, config_map(&format!("{prefix}-{n}"), n)).boxed()
    })
}

async fn writes(target: &Target, arguments: &Arguments) -> Result<Vec<Line>, String> {
    let client = create_namespace(target).await?;
    let maps = collection("configmaps");
    let for_a_while = Extent { at_once: AT_ONCE, seconds: arguments.seconds, at_most: u64::MAX };
    let all_pods = Extent { seconds: u64::from(u16::MAX), at_most: arguments.pods as u64, ..for_a_while };
    let name = "create a pod of 4 KB";
    let mut lines = load::run(target, name, all_pods, create_pods()).await?.lines(name);
    for number in 0..WORKING_SET {
        let object = config_map(&format!("set-{number}"), number);
        write(client.clone(), Method::POST, maps.clone(), JSON, object).await?;
    }
    let name = "create a config map of 1 KB";
    if arguments.wants(name) {
        let all_maps = Extent { at_most: arguments.config_maps, ..all_pods };
        lines.extend(load::run(target, name, all_maps, create_config_maps("new")).await?.lines(name));
    }
    let update = {
        let maps = maps.clone();
        request(move |client, n| {
            let name = format!("set-{}", n % WORKING_SET);
            write(client, Method::PUT, format!("{maps}/{name}"), JSON, config_map(&name, n + 7)).boxed()
        })
    };
    let name = "update a config map";
    if arguments.wants(name) {
        lines.extend(load::run(target, name, for_a_while, update).await?.lines(name));
    }
    let apply = request(move |client, n| {
        let name = format!("applied-{}", n % WORKING_SET);
        let path = format!("{maps}/{name}?fieldManager=bench&force=true");
        write(client, Method::PATCH, path, APPLY, config_map(&name, n)).boxed()
    });
    let name = "server-side apply";
    if arguments.wants(name) {
        lines.extend(load::run(target, name, for_a_while, apply).await?.lines(name));
    }
    Ok(lines)
}

async fn reads(target: &Target, arguments: &Arguments) -> Result<Vec<Line>, String> {
    let (pods, maps) = (collection("pods"), collection("configmaps"));
    let count = arguments.pods as u64;
    let many = Extent { at_once: AT_ONCE, seconds: arguments.seconds, at_most: u64::MAX };
    let few = Extent { at_once: LISTS_AT_ONCE, ..many };
    let get = {
        let pods = pods.clone();
        request(move |client, n| read(client, format!("{pods}/pod-{:06}", n * 7919 % count), JSON).boxed())
    };
    let mut lines = Vec::new();
    let name = "get a pod";
    if arguments.wants(name) {
        lines.extend(load::run(target, name, many, get).await?.lines(name));
    }
    for (name, query, accept) in [
        (format!("list {count} pods as JSON"), "", JSON),
        (format!("list {count} pods as protobuf"), "", PROTOBUF),
        ("list with limit=500".into(), "?limit=500", JSON),
    ] {
        if arguments.wants(&name) {
            lines.extend(load::run(target, &name, few, list(query, accept)).await?.lines_by_bytes(&name));
        }
    }
    // Eight reads to one list of a label, one update and one apply, as controllers mix them.
    let mixed = request(move |client, n| {
        let name = format!("set-{}", n % WORKING_SET);
        match n % 16 {
            0 => write(client, Method::PUT, format!("{maps}/{name}"), JSON, config_map(&name, n)).boxed(),
            1 => {
                let path = format!("{maps}/applied-{}?fieldManager=bench&force=true", n % WORKING_SET);
                let object = config_map(&format!("applied-{}", n % WORKING_SET), n);
                write(client, Method::PATCH, path, APPLY, object).boxed()
            }
            2 => read(client, format!("{pods}?labelSelector=app%3Dapp-{}", n % 50), JSON).boxed(),
            _ => read(client, format!("{pods}/pod-{:06}", n * 7919 % count), JSON).boxed(),
        }
    });
    let name = "mixed";
    if arguments.wants(name) {
        lines.extend(load::run(target, name, many, mixed).await?.lines(name));
    }
    Ok(lines)
}

/// Lists of all pods.
pub fn list(query: &str, accept: &'static str) -> MakeRequest {
    let path = format!("{}{query}", collection("pods"));
    request(move |client, _| read(client, path.clone(), accept).boxed())
}

pub fn request<F>(make: F) -> MakeRequest
where
    F: Fn(Client, u64) -> futures::future::BoxFuture<'static, Result<u64, String>> + Send + Sync + 'static,
{
    Arc::new(make)
}

pub async fn write(client: Client, method: Method, path: String, content: &str, object: Bytes) -> Result<u64, String> {
    let reply = client.send(method, &path, JSON, content, object).await?;
    // Two writers may meet on one object; losing that race is an answer like any other.
    if reply.status.as_u16() == 409 { Ok(reply.bytes) } else { success(&reply) }
}

pub async fn read(client: Client, path: String, accept: &'static str) -> Result<u64, String> {
    success(&client.send(Method::GET, &path, accept, JSON, Bytes::new()).await?)
}

/// How long the body was, if the request succeeded.
fn success(reply: &Reply) -> Result<u64, String> {
    if reply.status.is_success() {
        return Ok(reply.bytes);
    }
    Err(format!("{}: {}", reply.status, String::from_utf8_lossy(&reply.head)))
}
