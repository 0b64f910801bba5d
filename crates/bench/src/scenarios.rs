//! The loads, in the order they are put on each server.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt;
use http::Method;
use serde_json::json;

use crate::Arguments;
use crate::client::{Client, Reply};
use crate::load::{self, Cost, MakeRequest};
use crate::objects::{NAMESPACE, config_map, pod};
use crate::target::{Kind, Target};
use crate::{admission, streams, watchers};

pub const JSON: &str = "application/json";
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
const APPLY: &str = "application/apply-patch+yaml";
/// Objects that updates, applies and mixed loads work on.
const WORKING_SET: u64 = 512;
/// Requests open at a time, where it is not one thing per client.
pub const AT_ONCE: usize = 64;

/// Everything measured on one server.
pub struct Measured {
    pub ready: Duration,
    pub idle_memory: u64,
    pub loads: Vec<Cost>,
}

impl Measured {
    /// Takes over what another run did better.
    pub fn keep_best(&mut self, other: Measured) {
        self.ready = self.ready.min(other.ready);
        self.idle_memory = self.idle_memory.min(other.idle_memory);
        for (mine, other) in self.loads.iter_mut().zip(other.loads) {
            if other.cpu.total() < mine.cpu.total() {
                *mine = other;
            }
        }
    }
}

pub async fn all(arguments: &Arguments, kind: Kind) -> Result<Measured, String> {
    let target = Target::start(arguments, kind).await?;
    // What happens right after the start is not idleness yet.
    tokio::time::sleep(Duration::from_secs(arguments.seconds)).await;
    let (ready, idle_memory) = (target.ready, target.memory());
    eprintln!("ready after {} ms, idle with {} MiB", ready.as_millis(), idle_memory >> 20);
    let mut loads = streams::run(&target, arguments.seconds).await?;
    if arguments.streams {
        target.stop().await;
        return Ok(Measured { ready, idle_memory, loads });
    }
    loads.extend(writes(&target, arguments).await?);
    loads.extend(admission::run(&target, arguments.seconds).await?);
    loads.extend(reads(&target, arguments).await?);
    for count in [200, 1000] {
        loads.push(watchers::run(&target, count, arguments.seconds).await?);
    }
    target.stop().await;
    Ok(Measured { ready, idle_memory, loads })
}

async fn writes(target: &Target, arguments: &Arguments) -> Result<Vec<Cost>, String> {
    let client = Client::connect(target.port).await?;
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}});
    write(client.clone(), Method::POST, "/api/v1/namespaces".into(), JSON, namespace.to_string().into()).await?;
    let pods = format!("/api/v1/namespaces/{NAMESPACE}/pods");
    let maps = format!("/api/v1/namespaces/{NAMESPACE}/configmaps");
    let count = arguments.pods as u64;
    let create_pods = request(move |client, n| write(client, Method::POST, pods.clone(), JSON, pod(n)).boxed());
    let mut loads = vec![load::run(target, "create pods of 4 KB", AT_ONCE, 600, count, create_pods).await?];
    let seconds = arguments.seconds;
    for number in 0..WORKING_SET {
        let object = config_map(&format!("set-{number}"), number);
        write(client.clone(), Method::POST, maps.clone(), JSON, object).await?;
    }
    let create = {
        let maps = maps.clone();
        request(move |client, n| {
            write(client, Method::POST, maps.clone(), JSON, config_map(&format!("new-{n}"), n)).boxed()
        })
    };
    loads.push(load::run(target, "create config maps", AT_ONCE, seconds, u64::MAX, create).await?);
    let update = {
        let maps = maps.clone();
        request(move |client, n| {
            let name = format!("set-{}", n % WORKING_SET);
            write(client, Method::PUT, format!("{maps}/{name}"), JSON, config_map(&name, n + 7)).boxed()
        })
    };
    loads.push(load::run(target, "update config maps", AT_ONCE, seconds, u64::MAX, update).await?);
    let apply = request(move |client, n| {
        let name = format!("applied-{}", n % WORKING_SET);
        let path = format!("{maps}/{name}?fieldManager=bench&force=true");
        write(client, Method::PATCH, path, APPLY, config_map(&name, n)).boxed()
    });
    loads.push(load::run(target, "server-side apply", AT_ONCE, seconds, u64::MAX, apply).await?);
    Ok(loads)
}

async fn reads(target: &Target, arguments: &Arguments) -> Result<Vec<Cost>, String> {
    let pods = format!("/api/v1/namespaces/{NAMESPACE}/pods");
    let maps = format!("/api/v1/namespaces/{NAMESPACE}/configmaps");
    let (seconds, count) = (arguments.seconds, arguments.pods as u64);
    let get = {
        let pods = pods.clone();
        request(move |client, n| read(client, format!("{pods}/pod-{:06}", n * 7919 % count), JSON).boxed())
    };
    let mut loads = vec![load::run(target, "get a pod", AT_ONCE, seconds, u64::MAX, get).await?];
    for (name, accept) in [("list all pods as JSON", JSON), ("list all pods as protobuf", PROTOBUF)] {
        let pods = pods.clone();
        let list = request(move |client, _| read(client, pods.clone(), accept).boxed());
        loads.push(load::run(target, name, 4, seconds, u64::MAX, list).await?);
    }
    let pages = {
        let pods = pods.clone();
        request(move |client, _| read_pages(client, pods.clone()).boxed())
    };
    loads.push(load::run(target, "list all pods in pages of 500", 4, seconds, u64::MAX, pages).await?);
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
    loads.push(load::run(target, "mixed", AT_ONCE, seconds, u64::MAX, mixed).await?);
    Ok(loads)
}

pub fn request<F>(make: F) -> MakeRequest
where
    F: Fn(Client, u64) -> futures::future::BoxFuture<'static, Result<(), String>> + Send + Sync + 'static,
{
    Arc::new(make)
}

pub async fn write(client: Client, method: Method, path: String, content: &str, object: Bytes) -> Result<(), String> {
    let reply = client.send(method, &path, JSON, content, object).await?;
    // Two writers may meet on one object; losing that race is an answer like any other.
    if reply.status.as_u16() == 409 { Ok(()) } else { success(&reply) }
}

async fn read(client: Client, path: String, accept: &'static str) -> Result<(), String> {
    success(&client.send(Method::GET, &path, accept, JSON, Bytes::new()).await?)
}

async fn read_pages(client: Client, path: String) -> Result<(), String> {
    let mut token = String::new();
    loop {
        let next = if token.is_empty() { String::new() } else { format!("&continue={token}") };
        let reply = client.send(Method::GET, &format!("{path}?limit=500{next}"), JSON, JSON, Bytes::new()).await?;
        success(&reply)?;
        // The token is near the beginning of the page.
        let head = String::from_utf8_lossy(&reply.head).into_owned();
        match head.split_once("\"continue\":\"").and_then(|(_, rest)| rest.split_once('"')) {
            Some((found, _)) => token = found.to_string(),
            None => return Ok(()),
        }
    }
}

fn success(reply: &Reply) -> Result<(), String> {
    if reply.status.is_success() {
        return Ok(());
    }
    Err(format!("{}: {}", reply.status, String::from_utf8_lossy(&reply.head)))
}
