//! Two servers on one etcd: what one writes, the other reads, changes, watches and lists, byte for byte the same.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::Request;
use http_body_util::Full;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::{Client, cases};

/// Objects of the kinds that no recorded case creates.
const MORE: &str = include_str!("../data/interop.json");
const NAMESPACE: &str = "interop";
/// Watches are read from the start of the run and end by themselves.
const WATCH_SECONDS: u32 = 2;
/// Longer than a server takes to start on a busy machine.
const PATIENCE: Duration = Duration::from_secs(90);
const POLL: Duration = Duration::from_millis(100);
/// How often two reads are compared before they count as different.
const ATTEMPTS: usize = 5;

/// The servers, and what was found to be different.
pub struct Interop {
    servers: Arc<[Server; 2]>,
    pub complaints: Vec<String>,
    /// How many objects went both ways.
    pub objects: usize,
    /// Resources of which an object went both ways.
    covered: BTreeSet<String>,
}

struct Server {
    name: &'static str,
    client: Client,
}

/// Something to create: where, and what.
struct Sample {
    collection: String,
    body: Value,
}

impl Interop {
    pub fn new(reference: Client, ours: Client) -> Interop {
        let servers =
            [Server { name: "kube-apiserver", client: reference }, Server { name: "ferrokube", client: ours }];
        Interop { servers: Arc::new(servers), complaints: Vec::new(), objects: 0, covered: BTreeSet::new() }
    }

    /// Waits until both servers are ready, as they say themselves.
    pub async fn wait_until_ready(&self) -> Result<(), String> {
        for server in self.servers.iter() {
            let began = Instant::now();
            loop {
                let told = match server.raw("GET", "/readyz", None).await {
                    Ok((200, _)) => break,
                    Ok((_, text)) => String::from_utf8_lossy(&text).into_owned(),
                    Err(why) => why,
                };
                if began.elapsed() > PATIENCE {
                    return Err(format!("{} is not ready: {told}", server.name));
                }
                tokio::time::sleep(POLL).await;
            }
        }
        Ok(())
    }

    /// Everything. Fails if it cannot even begin.
    pub async fn run(&mut self) -> Result<(), String> {
        let resources = self.servers[0].resources().await?;
        let start = self.servers[0].send("GET", "/api/v1/namespaces?limit=1", None).await?;
        let start = start.1["metadata"]["resourceVersion"].as_str().unwrap_or("").to_string();
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}});
        self.servers[0].send("POST", "/api/v1/namespaces", Some(&namespace)).await?;
        let samples = samples()?;
        for (writer, reader) in [(0, 1), (1, 0)] {
            for sample in &samples {
                if let Err(why) = self.exchange(writer, reader, sample).await {
                    let (writer, reader) = (self.servers[writer].name, self.servers[reader].name);
                    self.complaints.push(format!("{} from {writer} to {reader}: {why}", sample.collection));
                }
            }
        }
        // What is watched is stored; other lists are made up by each server.
        let stored: Vec<String> =
            resources.into_iter().filter(|(_, verbs)| verbs.contains("watch")).map(|(path, _)| path).collect();
        let mut watches = JoinSet::new();
        for collection in &stored {
            let (servers, collection, start) = (self.servers.clone(), collection.clone(), start.clone());
            watches.spawn(async move { compare_watches(&servers, &collection, &start).await });
        }
        for collection in &stored {
            self.compare_lists(collection).await;
            if !self.covered.contains(collection) {
                self.complaints.push(format!("{collection}: there is no sample of this kind"));
            }
        }
        self.complaints.extend(watches.join_all().await.into_iter().flatten());
        Ok(())
    }

    /// Writes with one and reads with the other, changes with the other and reads with the one, and deletes.
    async fn exchange(&mut self, writer: usize, reader: usize, sample: &Sample) -> Result<(), String> {
        let [writer, reader] = [&self.servers[writer], &self.servers[reader]];
        let (path, body) = sample.for_server(writer.name);
        let (status, created) = writer.send("POST", &path, Some(&body)).await?;
        if status != 201 {
            return Err(format!("create answered {status}: {created}"));
        }
        let name = created["metadata"]["name"].as_str().unwrap_or("");
        let object = format!("{path}/{name}");
        alike(writer, reader, &object).await?;
        let change = json!({"metadata": {"annotations": {"interop": reader.name}}});
        let (status, changed) = reader.send("PATCH", &object, Some(&change)).await?;
        if status != 200 {
            return Err(format!("patch answered {status}: {changed}"));
        }
        same("read after a change", &writer.read(&object).await?, &changed)?;
        // A whole update with what the other read; resourceVersion included.
        let mut update = changed.clone();
        update["metadata"]["annotations"]["interop"] = "again".into();
        let (status, updated) = writer.send("PUT", &object, Some(&update)).await?;
        if status != 200 {
            return Err(format!("update answered {status}: {updated}"));
        }
        same("read after an update", &reader.read(&object).await?, &updated)?;
        // And one that is too late, by the other.
        let (status, _) = reader.send("PUT", &object, Some(&update)).await?;
        if status != 409 {
            return Err(format!("an update of an old version answered {status}"));
        }
        let (status, answer) = reader.send("DELETE", &object, None).await?;
        if !matches!(status, 200 | 202) {
            return Err(format!("delete answered {status}: {answer}"));
        }
        let (status_here, left_here) = reader.send("GET", &object, None).await?;
        let (status_there, left_there) = writer.send("GET", &object, None).await?;
        if status_here != status_there {
            return Err(format!("after a deletion one answers {status_here} and the other {status_there}"));
        }
        // Kinds with finalizers are still there, being deleted.
        same("read after a deletion", &left_there, &left_here)?;
        self.objects += 1;
        self.covered.insert(sample.collection.replace(&format!("/namespaces/{NAMESPACE}"), ""));
        Ok(())
    }

    async fn compare_lists(&mut self, collection: &str) {
        let mut found = Vec::new();
        // The servers' own loops change objects too, so a difference has to stay.
        for _ in 0..ATTEMPTS {
            let [reference, ours] = [self.servers[0].list(collection).await, self.servers[1].list(collection).await];
            found = match (reference, ours) {
                (Ok(reference), Ok(ours)) => differences(collection, "list", &reference, &ours),
                (reference, ours) => vec![format!("{collection}: cannot list: {:?}", [reference.err(), ours.err()])],
            };
            if found.is_empty() {
                return;
            }
        }
        self.complaints.extend(found);
    }
}

async fn compare_watches(servers: &[Server; 2], collection: &str, start: &str) -> Vec<String> {
    let path = format!("{collection}?watch=1&resourceVersion={start}&timeoutSeconds={WATCH_SECONDS}");
    match tokio::join!(servers[0].watch(&path), servers[1].watch(&path)) {
        (Ok(reference), Ok(ours)) => differences(collection, "watch", &reference, &ours),
        (reference, ours) => vec![format!("{collection}: cannot watch: {:?}", [reference.err(), ours.err()])],
    }
}

fn differences(collection: &str, what: &str, reference: &[Value], ours: &[Value]) -> Vec<String> {
    if reference.len() != ours.len() {
        return vec![format!("{collection}: {what} has {} items there, {} here", reference.len(), ours.len())];
    }
    let pairs = reference.iter().zip(ours);
    pairs
        .filter_map(|(reference, ours)| same(what, ours, reference).err())
        .map(|why| format!("{collection}: {why}"))
        .collect()
}

impl Server {
    async fn send(&self, method: &str, path: &str, body: Option<&Value>) -> Result<(u16, Value), String> {
        let response = self.raw(method, path, body).await?;
        let value = serde_json::from_slice(&response.1).map_err(|error| format!("{path} on {}: {error}", self.name))?;
        Ok((response.0, value))
    }

    async fn raw(&self, method: &str, path: &str, body: Option<&Value>) -> Result<(u16, Bytes), String> {
        let content_type = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("host", self.client.address().to_string())
            .header("user-agent", "interop")
            .header("authorization", format!("Bearer {}", self.client.token))
            .header("content-type", content_type)
            .body(Full::new(Bytes::from(body.map(Value::to_string).unwrap_or_default())))
            .map_err(|error| error.to_string())?;
        let response = self.client.send(request).await.map_err(|why| format!("{}: {why}", self.name))?;
        Ok((response.status().as_u16(), response.into_body()))
    }

    async fn read(&self, path: &str) -> Result<Value, String> {
        match self.send("GET", path, None).await? {
            (200, object) => Ok(object),
            (status, answer) => Err(format!("{} answered {status}: {answer}", self.name)),
        }
    }

    async fn list(&self, collection: &str) -> Result<Vec<Value>, String> {
        // In pages, so that continued lists are compared too.
        let mut items = Vec::new();
        let mut next = String::new();
        loop {
            let list = self.read(&format!("{collection}?limit=7&continue={next}")).await?;
            items.extend(list["items"].as_array().cloned().unwrap_or_default());
            next = list["metadata"]["continue"].as_str().unwrap_or("").to_string();
            if next.is_empty() {
                return Ok(items);
            }
        }
    }

    async fn watch(&self, path: &str) -> Result<Vec<Value>, String> {
        let (status, bytes) = self.raw("GET", path, None).await?;
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if status != 200 {
            return Err(format!("{} answered {status}: {text}", self.name));
        }
        text.lines().map(|line| serde_json::from_str(line).map_err(|error| error.to_string())).collect()
    }

    /// Every collection with its verbs.
    async fn resources(&self) -> Result<BTreeMap<String, BTreeSet<String>>, String> {
        let mut roots = vec!["/api/v1".to_string()];
        for group in self.read("/apis").await?["groups"].as_array().into_iter().flatten() {
            let version = group["preferredVersion"]["groupVersion"].as_str().unwrap_or("");
            roots.push(format!("/apis/{version}"));
        }
        let mut resources = BTreeMap::new();
        for root in roots {
            for resource in self.read(&root).await?["resources"].as_array().into_iter().flatten() {
                let name = resource["name"].as_str().unwrap_or("");
                let verbs = resource["verbs"].as_array().into_iter().flatten().filter_map(Value::as_str);
                if !name.contains('/') {
                    resources.insert(format!("{root}/{name}"), verbs.map(str::to_string).collect());
                }
            }
        }
        Ok(resources)
    }
}

impl Sample {
    /// The same object under another name for each writer.
    fn for_server(&self, writer: &str) -> (String, Value) {
        let mut body = self.body.clone();
        let letter = &writer[..1];
        let group = body["spec"]["group"].as_str().unwrap_or("").to_string();
        let name = body["metadata"]["name"].as_str().unwrap_or("").to_string();
        match body["kind"].as_str() {
            // These are named after what they are about.
            Some("IPAddress") => {}
            Some("CustomResourceDefinition" | "APIService") => {
                body["spec"]["group"] = format!("{letter}.{group}").into();
                body["metadata"]["name"] = name.replace(&group, &format!("{letter}.{group}")).into();
            }
            _ => body["metadata"]["name"] = format!("{name}-{letter}").into(),
        }
        (self.collection.clone(), body)
    }
}

/// The first object that each recorded `crud` case creates, and those of kinds that have no such case.
fn samples() -> Result<Vec<Sample>, String> {
    let mut samples = Vec::new();
    for case in cases()? {
        let name = case["name"].as_str().unwrap_or("");
        let steps = case["steps"].as_array().into_iter().flatten();
        let mut creates = steps.filter(|step| step["method"] == "POST" && step["expect"]["status"] == 201);
        if let Some(step) = name.starts_with("crud/").then(|| creates.next()).flatten() {
            samples.push(sample(step["path"].as_str().unwrap_or(""), &step["body"])?);
        }
    }
    let more: Vec<Value> = serde_json::from_str(MORE).map_err(|error| error.to_string())?;
    for one in more {
        samples.push(sample(one["path"].as_str().unwrap_or(""), &one["body"])?);
    }
    Ok(samples)
}

fn sample(path: &str, body: &Value) -> Result<Sample, String> {
    let collection = path.split('?').next().unwrap_or("").replace("${ns}", NAMESPACE);
    let body =
        serde_json::from_str(&body.to_string().replace("${ns}", NAMESPACE)).map_err(|error| error.to_string())?;
    Ok(Sample { collection, body })
}

/// Both read the same. The reference's own loops may change an object between two reads, so a difference has to stay.
async fn alike(one: &Server, other: &Server, path: &str) -> Result<(), String> {
    let mut outcome = Ok(());
    for _ in 0..ATTEMPTS {
        outcome = same("read", &other.read(path).await?, &one.read(path).await?);
        if outcome.is_ok() {
            break;
        }
    }
    outcome
}

fn same(what: &str, one: &Value, other: &Value) -> Result<(), String> {
    if one == other { Ok(()) } else { Err(format!("{what} differs:\n  {one}\n  {other}")) }
}
