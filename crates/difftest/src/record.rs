//! Records what a real server says of itself: discovery, OpenAPI without prose, columns, the objects it begins with, metrics, and its answers
//! to the cases. `cargo xtask record` starts the servers and packs what is written here.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http_body_util::Full;
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::{Client, openapi, play};

/// Files by their names in the archive.
pub type Files = BTreeMap<String, Vec<u8>>;

const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";

/// The lists of what a server creates by itself. Its lease and a day that it notes are about the machine.
const BOOTSTRAP: [(&str, &str); 13] = [
    ("apiservices", "/apis/apiregistration.k8s.io/v1/apiservices"),
    ("clusterrolebindings", "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"),
    ("clusterroles", "/apis/rbac.authorization.k8s.io/v1/clusterroles"),
    ("endpoints", "/api/v1/endpoints"),
    ("endpointslices", "/apis/discovery.k8s.io/v1/endpointslices"),
    ("flowschemas", "/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas"),
    ("namespaces", "/api/v1/namespaces"),
    ("priorityclasses", "/apis/scheduling.k8s.io/v1/priorityclasses"),
    ("prioritylevelconfigurations", "/apis/flowcontrol.apiserver.k8s.io/v1/prioritylevelconfigurations"),
    ("rolebindings", "/apis/rbac.authorization.k8s.io/v1/rolebindings"),
    ("roles", "/apis/rbac.authorization.k8s.io/v1/roles"),
    ("servicecidrs", "/apis/networking.k8s.io/v1/servicecidrs"),
    ("services", "/api/v1/services"),
];

/// How long a server may take until it is ready and says the same twice.
const PATIENCE: u32 = 300;
const EVERY: Duration = Duration::from_secs(1);

/// Waits until a server is ready.
pub async fn ready(client: &Client) -> Result<(), String> {
    for _ in 0..PATIENCE {
        if get(client, "/readyz", "*/*").await.is_ok() {
            return Ok(());
        }
        tokio::time::sleep(EVERY).await;
    }
    Err("the server does not become ready".into())
}

/// What a server with its defaults says.
pub async fn defaults(client: &Client) -> Result<Files, String> {
    let mut files = settled(client, "discovery/").await?;
    files.extend(openapi_files(client).await?);
    let columns = columns(client, &files).await?;
    write(&mut files, "table-columns.json", &columns)?;
    for (name, path) in BOOTSTRAP {
        let list = json(client, path, "application/json").await?;
        let items = list["items"].as_array().cloned().unwrap_or_default();
        write(&mut files, &format!("bootstrap/{name}.json"), &items.into_iter().map(bare).collect::<Value>())?;
    }
    for path in ["/livez", "/readyz"] {
        let text = get(client, &format!("{path}?verbose"), "*/*").await?;
        files.insert(format!("bootstrap{path}-verbose.txt"), text.to_vec());
    }
    Ok(files)
}

/// What a server with every API and feature on says besides; `defaults` is what one without them said.
pub async fn everything(client: &Client, defaults: &Files) -> Result<Files, String> {
    let mut files = settled(client, "all-apis/discovery-").await?;
    let known = |name: &str| -> Result<Map<String, Value>, String> {
        let bytes = defaults.get(name).ok_or_else(|| format!("{name} was not recorded"))?;
        serde_json::from_slice(bytes).map_err(|error| error.to_string())
    };
    let mut columns = columns(client, &files).await?;
    let without = known("table-columns.json")?;
    columns.retain(|path, _| !without.contains_key(path));
    write(&mut files, "all-apis/table-columns-added.json", &columns)?;
    let (mut schemas, _) = openapi::third(&documents(client).await?);
    let without = known("openapi/v3-schemas.json")?;
    schemas.retain(|name, _| !without.contains_key(name));
    write(&mut files, "all-apis/v3-schemas-added.json", &schemas)?;
    Ok(files)
}

/// The answers to all cases, and the metrics that there are after them.
pub async fn answers(client: &Client) -> Result<Files, String> {
    let mut facts = facts::Facts::default();
    for (file, cases) in facts::requests()? {
        let answers = play::all(client, cases).await;
        let answers: Vec<_> = answers.into_iter().map(|(case, answers)| (name(&case), answers)).collect();
        facts.insert_answers(&file, &answers);
    }
    let mut files = Files::new();
    for name in facts.names("answers/") {
        files.insert(name.to_string(), facts.bytes(name)?.to_vec());
    }
    let metrics = String::from_utf8_lossy(&get(client, "/metrics", "*/*").await?).into_owned();
    let types = metrics.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' '));
    write(&mut files, "metric-names.json", &types.collect::<BTreeSet<_>>())?;
    Ok(files)
}

fn name(case: &Value) -> String {
    case["name"].as_str().unwrap_or_default().to_string()
}

/// Discovery, as soon as it is the same twice: documents of groups come one after another.
async fn settled(client: &Client, beginning: &str) -> Result<Files, String> {
    let mut last = Files::new();
    for _ in 0..PATIENCE {
        let mut files = Files::new();
        let aggregated = json!({
            "/api": json(client, "/api", AGGREGATED).await?,
            "/apis": json(client, "/apis", AGGREGATED).await?,
        });
        write(&mut files, &format!("{beginning}aggregated.json"), &aggregated)?;
        write(&mut files, &format!("{beginning}unaggregated.json"), &unaggregated(client).await?)?;
        if beginning.ends_with('/') {
            write(&mut files, &format!("{beginning}paths.json"), &json(client, "/", "application/json").await?)?;
        }
        if files == last && !aggregated.to_string().contains("\"Stale\"") {
            return Ok(files);
        }
        last = files;
        tokio::time::sleep(EVERY).await;
    }
    Err("discovery does not settle".into())
}

async fn unaggregated(client: &Client) -> Result<Map<String, Value>, String> {
    let plain = "application/json";
    let mut documents = Map::new();
    for path in ["/api", "/api/v1", "/apis"] {
        documents.insert(path.into(), json(client, path, plain).await?);
    }
    for group in documents["/apis"]["groups"].as_array().cloned().into_iter().flatten() {
        let group_path = format!("/apis/{}", group["name"].as_str().unwrap_or_default());
        documents.insert(group_path.clone(), json(client, &group_path, plain).await?);
        for version in group["versions"].as_array().into_iter().flatten() {
            let path = format!("{group_path}/{}", version["version"].as_str().unwrap_or_default());
            documents.insert(path.clone(), json(client, &path, plain).await?);
        }
    }
    Ok(documents)
}

async fn documents(client: &Client) -> Result<BTreeMap<String, Value>, String> {
    let index = json(client, "/openapi/v3", "application/json").await?;
    let mut documents = BTreeMap::new();
    for name in index["paths"].as_object().into_iter().flatten().map(|(name, _)| name) {
        documents.insert(name.clone(), json(client, &format!("/openapi/v3/{name}"), "application/json").await?);
    }
    Ok(documents)
}

async fn openapi_files(client: &Client) -> Result<Files, String> {
    let documents = documents(client).await?;
    let mut files = Files::new();
    let (schemas, paths) = openapi::third(&documents);
    write(&mut files, "openapi/v3-index.json", &documents.keys().collect::<Vec<_>>())?;
    write(&mut files, "openapi/v3-schemas.json", &schemas)?;
    write(&mut files, "openapi/v3-paths.json", &paths)?;
    let second = json(client, "/openapi/v2", "application/json").await?;
    write(&mut files, "openapi/v2-definitions.json", &openapi::bare(&second["definitions"]))?;
    Ok(files)
}

/// The columns of every resource that can be listed, by the path of its list.
async fn columns(client: &Client, discovery: &Files) -> Result<Map<String, Value>, String> {
    let plain = discovery.iter().find(|(name, _)| name.ends_with("unaggregated.json")).map(|(_, bytes)| bytes);
    let plain: Map<String, Value> =
        serde_json::from_slice(plain.ok_or("no discovery")?).map_err(|error| error.to_string())?;
    let mut columns = Map::new();
    for (root, document) in &plain {
        for resource in document["resources"].as_array().into_iter().flatten() {
            let is_listed = resource["verbs"].as_array().is_some_and(|verbs| verbs.iter().any(|verb| verb == "list"));
            let path = format!("{root}/{}", resource["name"].as_str().unwrap_or_default());
            if is_listed {
                let table = json(client, &path, TABLE).await?;
                columns.insert(path, openapi::bare(&table["columnDefinitions"]));
            }
        }
    }
    Ok(columns)
}

/// An object without what is different each time, and without its status, which controllers write when they come to it.
fn bare(mut object: Value) -> Value {
    if let Some(metadata) = object["metadata"].as_object_mut() {
        metadata.retain(|key, _| {
            !matches!(key.as_str(), "uid" | "resourceVersion" | "creationTimestamp" | "managedFields")
        });
    }
    if let Some(object) = object.as_object_mut() {
        object.remove("status");
    }
    object
}

async fn get(client: &Client, path: &str, accept: &str) -> Result<Bytes, String> {
    let request = Request::get(path)
        .header("host", client.address().to_string())
        .header("authorization", format!("Bearer {}", client.token))
        .header("accept", accept)
        .body(Full::default())
        .map_err(|error| error.to_string())?;
    let response = client.send(request).await?;
    match response.status().as_u16() {
        200 => Ok(response.into_body()),
        code => Err(format!("GET {path}: {code} {}", String::from_utf8_lossy(response.body()))),
    }
}

async fn json(client: &Client, path: &str, accept: &str) -> Result<Value, String> {
    let bytes = get(client, path, accept).await?;
    serde_json::from_slice(&bytes).map_err(|error| format!("GET {path}: {error}"))
}

/// Adds a file of JSON, in lines that are indented by one space.
fn write(files: &mut Files, name: &str, value: &impl Serialize) -> Result<(), String> {
    files.insert(name.to_string(), facts::pretty(value, " ")?);
    Ok(())
}
