//! The same requests to two servers, and the audit events of both compared field by field.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{Request, StatusCode};
use http_body_util::Full;
use serde_json::Value;

use crate::{Client, normal};

/// One request a line.
const REQUESTS: &str = include_str!("../data/audit.txt");
/// The token of a user without roles.
pub const PLAIN_TOKEN: &str = "plain-token";
/// The events that are compared have ids with this beginning.
const ID: &str = "audit-";
/// How long events may take to be written, and a definition to be served.
const PATIENCE: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(100);
/// An event is late if the log has not grown for so long.
const QUIET: Duration = Duration::from_secs(2);

/// A server with its audit log.
pub struct Audited {
    pub client: Client,
    pub log: PathBuf,
}

/// What was compared.
#[derive(Default)]
pub struct Compared {
    pub requests: usize,
    pub events: usize,
    pub complaints: Vec<String>,
}

/// Sends the requests to both and compares what they have recorded.
pub async fn compare(theirs: &Audited, ours: &Audited) -> Result<Compared, String> {
    let lines: Vec<&str> = REQUESTS.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).collect();
    let (their_codes, our_codes) = (play(&theirs.client, &lines).await?, play(&ours.client, &lines).await?);
    let (their_events, our_events) = (events(&theirs.log).await?, events(&ours.log).await?);
    let mut compared = Compared { requests: lines.len(), ..Compared::default() };
    for (at, line) in lines.iter().enumerate() {
        let short: String = line.chars().take(120).collect();
        let mut complain = |what: String| compared.complaints.push(format!("{short}\n    {what}"));
        if their_codes[at] != our_codes[at] {
            complain(format!("answered with {} instead of {}", our_codes[at], their_codes[at]));
        }
        let of = |events: &BTreeMap<String, Vec<Value>>| events.get(&id(at)).cloned().unwrap_or_default();
        let (theirs, ours) = (of(&their_events), of(&our_events));
        let stages = |events: &[Value]| events.iter().map(|event| event["stage"].to_string()).collect::<Vec<_>>();
        if stages(&theirs) != stages(&ours) {
            complain(format!("stages {:?} instead of {:?}", stages(&ours), stages(&theirs)));
            continue;
        }
        for (theirs, ours) in theirs.iter().zip(&ours) {
            let mut found = Vec::new();
            differences(theirs, ours, &mut format!("{}: ", theirs["stage"].as_str().unwrap_or("")), &mut found);
            found.into_iter().for_each(&mut complain);
        }
        compared.events += theirs.len();
    }
    Ok(compared)
}

fn id(at: usize) -> String {
    format!("{ID}{at:03}")
}

async fn play(client: &Client, lines: &[&str]) -> Result<Vec<StatusCode>, String> {
    let mut codes = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let response = client.send(request(client, line, &id(at))?).await.map_err(|why| format!("{line}: {why}"))?;
        codes.push(response.status());
        if response.status() == StatusCode::CREATED && line.contains("/customresourcedefinitions") {
            let began = Instant::now();
            let look = || request(client, "admin GET /apis/example.com/v1", "look");
            while client.send(look()?).await?.status() != StatusCode::OK && began.elapsed() < PATIENCE {
                tokio::time::sleep(POLL).await;
            }
        }
    }
    Ok(codes)
}

fn request(client: &Client, line: &str, id: &str) -> Result<Request<Full<Bytes>>, String> {
    let mut words = line.splitn(5, ' ');
    let mut next = || words.next().unwrap_or("");
    let (who, method, path, kind, body) = (next(), next(), next(), next(), next());
    let (user, other) = who.split_once("as:").map_or((who, ""), |(user, other)| (user.trim_end_matches('-'), other));
    let token = match user {
        "admin" | "" => client.token.as_str(),
        "plain" => PLAIN_TOKEN,
        _ => "wrong-token",
    };
    let content_type = match kind {
        "" => "",
        "json" => "application/json",
        "yaml" => "application/yaml",
        "text" => "text/plain",
        "merge" => "application/merge-patch+json",
        "jsonpatch" => "application/json-patch+json",
        "strategic" => "application/strategic-merge-patch+json",
        "apply" => "application/apply-patch+yaml",
        other => return Err(format!("{line}: {other} is no type of a body")),
    };
    let mut request = Request::builder().method(method).uri(path).header("host", client.address().to_string());
    request = request.header("audit-id", id).header("user-agent", "audit/1");
    if user != "none" {
        request = request.header("authorization", format!("Bearer {token}"));
    }
    if !other.is_empty() {
        request = request.header("impersonate-user", other);
    }
    if !content_type.is_empty() {
        request = request.header("content-type", content_type);
    }
    request.body(Full::new(Bytes::copy_from_slice(body.as_bytes()))).map_err(|error| format!("{line}: {error}"))
}

/// The events by id, in the order they were written, with what may differ made alike. Waits until no more come.
async fn events(log: &Path) -> Result<BTreeMap<String, Vec<Value>>, String> {
    let began = Instant::now();
    let (mut size, mut since) = (0, Instant::now());
    while since.elapsed() < QUIET && began.elapsed() < PATIENCE {
        tokio::time::sleep(POLL).await;
        let now = std::fs::metadata(log).map(|file| file.len()).unwrap_or(0);
        if now != size {
            (size, since) = (now, Instant::now());
        }
    }
    let text = std::fs::read_to_string(log).map_err(|error| format!("{}: {error}", log.display()))?;
    let mut events: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for line in text.lines() {
        let event: Value = serde_json::from_str(line).map_err(|error| format!("{}: {error}", log.display()))?;
        let id = event["auditID"].as_str().unwrap_or("").to_string();
        if id.starts_with(ID) {
            events.entry(id).or_default().push(comparable(event));
        }
    }
    Ok(events)
}

fn comparable(mut event: Value) -> Value {
    if let Some(fields) = event.as_object_mut() {
        for field in ["requestReceivedTimestamp", "stageTimestamp", "sourceIPs"] {
            fields.remove(field);
        }
        // Only slow requests have these.
        if let Some(annotations) = fields.get_mut("annotations").and_then(Value::as_object_mut) {
            annotations.retain(|key, _| !key.starts_with("apiserver.latency.k8s.io/"));
            // Of several bindings that allow a request kube-apiserver names any.
            if let Some(reason) = annotations.get_mut("authorization.k8s.io/reason")
                && reason.as_str().is_some_and(|reason| reason.starts_with("RBAC: allowed by"))
            {
                *reason = "RBAC: allowed".into();
            }
        }
        if fields.get("annotations").and_then(Value::as_object).is_some_and(serde_json::Map::is_empty) {
            fields.remove("annotations");
        }
    }
    normal::value(&event, None)
}

/// Says for each field in which two values differ what each has.
fn differences(theirs: &Value, ours: &Value, path: &mut String, found: &mut Vec<String>) {
    match (theirs, ours) {
        (Value::Object(theirs), Value::Object(ours)) => {
            let new = ours.keys().filter(|key| !theirs.contains_key(*key));
            for key in theirs.keys().chain(new) {
                let length = path.len();
                path.push('.');
                path.push_str(key);
                let of = |map: &serde_json::Map<String, Value>| map.get(key).cloned().unwrap_or(Value::Null);
                differences(&of(theirs), &of(ours), path, found);
                path.truncate(length);
            }
        }
        (Value::Array(theirs), Value::Array(ours)) if theirs.len() == ours.len() => {
            for (at, (theirs, ours)) in theirs.iter().zip(ours).enumerate() {
                let length = path.len();
                path.push_str(&format!("[{at}]"));
                differences(theirs, ours, path, found);
                path.truncate(length);
            }
        }
        _ if theirs == ours => {}
        _ => {
            let short = |value: &Value| value.to_string().chars().take(300).collect::<String>();
            found.push(format!("{path} is {} instead of {}", short(ours), short(theirs)));
        }
    }
}
