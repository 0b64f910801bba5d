//! Thousands of custom resource definitions on a server of their own: what they cost to install, to keep, to start with, to
//! use and to delete.

use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::FutureExt;
use http::{Method, StatusCode};
use serde_json::{Value, json};

use crate::Arguments;
use crate::client::Client;
use crate::load::{self, Extent, MakeRequest};
use crate::report::{Figure, Line};
use crate::scenarios::{JSON, read, request, write};
use crate::target::{Cpu, Kind, Memory, Target};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
/// The size of a definition's schema.
const SCHEMA_BYTES: usize = 20_000;
const PER_GROUP: u64 = 10;
/// Clients that install and delete at the same time.
const INSTALLERS: usize = 4;
/// Definitions that are made and used one after the other.
const FIRST_CREATES: u64 = 20;
/// A server is quiet when it used less of a processor than this for so long.
const QUIET: (f64, Duration) = (0.05, Duration::from_secs(3));
/// How long it has for that: kube-apiserver works for minutes on thousands of definitions.
const QUIET_PATIENCE: Duration = Duration::from_secs(600);
const PATIENCE: Duration = Duration::from_secs(60);

pub async fn run(arguments: &Arguments, kind: Kind) -> Result<Vec<Line>, String> {
    let count = arguments.definitions;
    let mut target = Target::start(arguments, kind).await?;
    quiet(&target).await;
    let before = target.memory();
    let name = |what: &str| format!("{count} definitions of 20 KB: {what}");
    let mut lines = vec![Line::new(name("CPU to install one"), Figure::Cpu(install(&target, count).await?))];
    lines.push(Line::new(name("memory"), Figure::Memory(grown(&target, before))));
    let first = first_create(&target, count).await?;
    lines.push(Line::new(name("first create after the POST of one more"), Figure::Took(first)));
    let documents = first_documents(&target, count).await?;
    lines.push(Line::new(name("OpenAPI of one group, first read"), Figure::Took(documents)));
    target.restart(arguments).await?;
    lines.push(Line::new(name("restart to ready"), Figure::Took(target.ready)));
    quiet(&target).await;
    lines.push(Line::new(name("CPU to delete one"), Figure::Cpu(delete(&target, count + FIRST_CREATES).await?)));
    lines.push(Line::new(name("memory after all were deleted"), Figure::Memory(grown(&target, before))));
    target.stop().await;
    Ok(lines)
}

/// How much more memory there is than before.
fn grown(target: &Target, before: Memory) -> Memory {
    let now = target.memory();
    Memory { server: now.server.saturating_sub(before.server), store: now.store.saturating_sub(before.store) }
}

/// The CPU of one, counted until the server has nothing more to do for what was installed.
async fn install(target: &Target, count: u64) -> Result<Cpu, String> {
    let text = definition("@number", "@group").to_string();
    let post =
        request(move |client, n| write(client, Method::POST, DEFINITIONS.into(), JSON, numbered(&text, n)).boxed());
    settled(target, "install definitions", count, post).await
}

async fn delete(target: &Target, count: u64) -> Result<Cpu, String> {
    let delete = request(move |client, n| {
        let path = format!("{DEFINITIONS}/things{n}.{}", group(n));
        write(client, Method::DELETE, path, JSON, Bytes::new()).boxed()
    });
    settled(target, "delete definitions", count, delete).await
}

/// The CPU of one request, together with the work that it leaves behind.
async fn settled(target: &Target, name: &str, count: u64, make: MakeRequest) -> Result<Cpu, String> {
    let before = target.cpu();
    let extent = Extent { at_once: INSTALLERS, seconds: u64::from(u16::MAX), at_most: count };
    let cost = load::run(target, name, extent, make).await?;
    quiet(target).await;
    Ok(target.cpu().since(before).per(cost.requests))
}

/// Waits until the server has nothing to do.
async fn quiet(target: &Target) {
    let began = Instant::now();
    let (share, window) = QUIET;
    while began.elapsed() < QUIET_PATIENCE {
        let before = target.cpu();
        tokio::time::sleep(window).await;
        if target.cpu().since(before).server.as_secs_f64() < share * window.as_secs_f64() {
            return;
        }
    }
}

/// The median time from the answer to a definition's POST until an object was created.
async fn first_create(target: &Target, from: u64) -> Result<Duration, String> {
    let client = Client::connect(target.port).await?;
    let text = definition("@number", "@group").to_string();
    let mut times = Vec::new();
    for n in from..from + FIRST_CREATES {
        write(client.clone(), Method::POST, DEFINITIONS.into(), JSON, numbered(&text, n)).await?;
        let (group, answered) = (group(n), Instant::now());
        let object = json!({
            "apiVersion": format!("{group}/v1"), "kind": format!("Thing{n}"), "metadata": {"name": "first"},
            "spec": {"field0": {"a0": "text"}},
        });
        let (path, body) = (format!("/apis/{group}/v1/namespaces/default/things{n}"), Bytes::from(object.to_string()));
        while client.send(Method::POST, &path, JSON, JSON, body.clone()).await?.status != StatusCode::CREATED {
            if answered.elapsed() > PATIENCE {
                return Err(format!("nothing can be created in {path}"));
            }
        }
        times.push(answered.elapsed());
    }
    Ok(median(times))
}

/// The median time of the first read of a group's document, for groups all over the place.
async fn first_documents(target: &Target, count: u64) -> Result<Duration, String> {
    let client = Client::connect(target.port).await?;
    let groups = count.div_ceil(PER_GROUP);
    let mut times = Vec::new();
    for n in (0..groups).step_by((groups / 10).max(1) as usize) {
        let asked = Instant::now();
        read(client.clone(), format!("/openapi/v3/apis/{}/v1", group(n * PER_GROUP)), JSON).await?;
        times.push(asked.elapsed());
    }
    Ok(median(times))
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

fn group(number: u64) -> String {
    format!("g{}.example.com", number / PER_GROUP)
}

fn numbered(text: &str, number: u64) -> Bytes {
    text.replace("@number", &number.to_string()).replace("@group", &group(number)).into()
}

fn definition(number: &str, group: &str) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("things{number}.{group}")},
        "spec": {
            "group": group, "scope": "Namespaced",
            "names": {"plural": format!("things{number}"), "kind": format!("Thing{number}")},
            "versions": [{
                "name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec(), "status": {
                    "type": "object", "x-kubernetes-preserve-unknown-fields": true,
                }}}},
            }],
        },
    })
}

/// A schema of about [`SCHEMA_BYTES`]: objects of some fields each, described as people describe them.
fn spec() -> Value {
    let (mut fields, mut bytes) = (serde_json::Map::new(), 0);
    while bytes < SCHEMA_BYTES {
        let types = ["string", "integer", "boolean"];
        let properties = (0..6).map(|n| {
            let text = "What this field means, told in one sentence.";
            (format!("a{n}"), json!({"type": types[n % 3], "description": text}))
        });
        let field = json!({
            "type": "object", "properties": properties.collect::<serde_json::Map<_, _>>(),
            "description": "A part of the configuration, described at such length that people understand what it is for.",
        });
        bytes += field.to_string().len();
        fields.insert(format!("field{}", fields.len()), field);
    }
    json!({"type": "object", "properties": fields})
}
