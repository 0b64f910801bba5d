//! Playing one case: its namespace, its steps, what is captured on the way.

use std::collections::{BTreeMap, HashMap};
use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http_body_util::Full;
use regex_lite::{Captures, Regex};
use serde::Serialize;
use serde_json::{Map, Value, json};
use tokio::sync::Mutex;

use crate::{Client, normal};

type Variables = HashMap<String, String>;

/// How many cases are played at a time.
const AT_ONCE: usize = 4;

/// Plays all cases, a few at a time, and returns them in their order with the answer to each step.
pub async fn all(client: &Client, cases: Vec<Value>) -> Vec<(Value, Vec<Value>)> {
    let queue = Arc::new(Mutex::new(cases.into_iter().enumerate()));
    let mut workers = Vec::new();
    for _ in 0..AT_ONCE {
        let (queue, client) = (queue.clone(), client.clone());
        workers.push(tokio::spawn(async move {
            let mut played = Vec::new();
            loop {
                let next = queue.lock().await.next();
                let Some((at, case)) = next else { return played };
                let answers = self::case(&client, &case).await;
                played.push((at, (case, answers)));
            }
        }));
    }
    let mut played = BTreeMap::new();
    for worker in workers {
        played.extend(worker.await.unwrap_or_default());
    }
    played.into_values().collect()
}

/// Plays a case; the answer to each step.
async fn case(client: &Client, case: &Value) -> Vec<Value> {
    let namespace = namespace_of(case["name"].as_str().unwrap_or(""));
    let mut variables = Variables::from([("ns".to_string(), namespace.clone())]);
    if case["namespace"].as_bool() != Some(false) {
        let body = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}).to_string();
        // The recorder created namespaces without a user agent.
        let step =
            json!({"method": "POST", "path": "/api/v1/namespaces", "raw": body, "headers": {"user-agent": null}});
        answer(client, &step, &mut variables).await;
    }
    let mut answers = Vec::new();
    for step in case["steps"].as_array().into_iter().flatten() {
        if let Some(seconds) = step["settle"].as_f64() {
            // Recorded cases wait here for what happens without an answer: expiry, background deletion.
            tokio::time::sleep(Duration::from_secs_f64(seconds)).await;
        }
        answers.push(awaited(client, step, &mut variables).await);
    }
    answers
}

/// How long and how often a step is sent again until its answer is the one it waits for.
const UNTIL_MAX: Duration = Duration::from_secs(10);
const UNTIL_EVERY: Duration = Duration::from_millis(50);

/// The answer to a step; one with `until` is sent again until its JSON answer has all these values.
async fn awaited(client: &Client, step: &Value, variables: &mut Variables) -> Value {
    let Some(until) = step["until"].as_object() else { return answer(client, step, variables).await };
    let deadline = tokio::time::Instant::now() + UNTIL_MAX;
    // What is awaited may be outside of what is compared.
    let mut whole = step.clone();
    whole["only"] = Value::Null;
    loop {
        let got = answer(client, &whole, variables).await;
        let found = |path: &str| if path == "code" { got["status"].clone() } else { lookup(&got["body"], path) };
        let is_there = until.iter().all(|(path, want)| found(path) == *want);
        if is_there || tokio::time::Instant::now() > deadline {
            return if step["only"].is_array() { answer(client, step, variables).await } else { got };
        }
        tokio::time::sleep(UNTIL_EVERY).await;
    }
}

fn namespace_of(case: &str) -> String {
    let plain: String = case
        .to_lowercase()
        .chars()
        .map(|c| if c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' { c } else { '-' })
        .collect();
    let start = plain.len().saturating_sub(36);
    format!("dt-{}-x-ns", plain[start..].trim_matches('-'))
}

async fn answer(client: &Client, step: &Value, variables: &mut Variables) -> Value {
    let request = match request(client, step, variables) {
        Ok(request) => request,
        Err(why) => return json!({"failed": why}),
    };
    let response = match client.send(request).await {
        Ok(response) => response,
        Err(why) => return json!({"failed": why}),
    };
    let joined = |name: &str| {
        let all: Vec<&str> = response.headers().get_all(name).iter().filter_map(|v| v.to_str().ok()).collect();
        (!all.is_empty()).then(|| all.join(", "))
    };
    let mut headers = Map::new();
    for name in ["content-type", "warning"] {
        if let Some(value) = joined(name) {
            headers.insert(name.into(), normal::text(&value).into());
        }
    }
    let text = String::from_utf8_lossy(response.body()).into_owned();
    let content_type = joined("content-type").unwrap_or_default();
    let body = body(step, &text, &content_type, variables);
    json!({"status": response.status().as_u16(), "headers": headers, "body": body})
}

fn request(client: &Client, step: &Value, variables: &Variables) -> Result<Request<Full<Bytes>>, String> {
    let path = fill(step["path"].as_str().unwrap_or(""), variables);
    let body = match (step.get("body"), step.get("raw")) {
        (Some(body), _) => Some(fill(&as_recorded(body), variables)),
        (None, Some(raw)) => Some(fill(raw.as_str().unwrap_or(""), variables)),
        (None, None) => None,
    };
    let mut headers: Vec<(String, String)> = vec![
        ("host".into(), client.address().to_string()),
        ("user-agent".into(), "difftest".into()),
        ("accept".into(), step["accept"].as_str().unwrap_or("application/json").into()),
    ];
    if !client.token.is_empty() {
        headers.push(("authorization".into(), format!("Bearer {}", client.token)));
    }
    if body.is_some() {
        headers.push(("content-type".into(), step["contentType"].as_str().unwrap_or("application/json").into()));
    }
    for (name, value) in step["headers"].as_object().into_iter().flatten() {
        let name = name.to_lowercase();
        headers.retain(|(other, _)| *other != name);
        if let Some(value) = value.as_str() {
            headers.push((name, fill(value, variables)));
        }
    }
    let mut request = Request::builder().method(step["method"].as_str().unwrap_or("GET")).uri(path);
    for (name, value) in headers {
        request = request.header(name, value);
    }
    request.body(Full::new(Bytes::from(body.unwrap_or_default()))).map_err(|error| error.to_string())
}

/// JSON as the recorder sent it, with a space after every comma and colon: there are fields that are kept as they are written.
fn as_recorded(body: &Value) -> String {
    struct Spaced;
    impl serde_json::ser::Formatter for Spaced {
        fn begin_array_value<W: ?Sized + Write>(&mut self, out: &mut W, first: bool) -> std::io::Result<()> {
            if first { Ok(()) } else { out.write_all(b", ") }
        }

        fn begin_object_key<W: ?Sized + Write>(&mut self, out: &mut W, first: bool) -> std::io::Result<()> {
            if first { Ok(()) } else { out.write_all(b", ") }
        }

        fn begin_object_value<W: ?Sized + Write>(&mut self, out: &mut W) -> std::io::Result<()> {
            out.write_all(b": ")
        }
    }
    let mut out = Vec::new();
    let written = body.serialize(&mut serde_json::Serializer::with_formatter(&mut out, Spaced));
    written.map_or_else(|_| body.to_string(), |()| String::from_utf8_lossy(&out).into_owned())
}

fn body(step: &Value, text: &str, content_type: &str, variables: &mut Variables) -> Value {
    if step["watch"].as_bool() == Some(true) {
        let lines = text.lines().map(|line| match serde_json::from_str::<Value>(line) {
            Ok(event) => normal::value(&event, None),
            Err(_) => line.into(),
        });
        return lines.collect();
    }
    if !content_type.contains("json") {
        return normal::plain(text).into();
    }
    let parsed: Value = serde_json::from_str(text).unwrap_or_else(|_| text.into());
    for (variable, path) in step["capture"].as_object().into_iter().flatten() {
        let found = lookup(&parsed, path.as_str().unwrap_or(""));
        let text = found.as_str().map_or_else(|| found.to_string(), str::to_string);
        variables.insert(variable.clone(), text);
    }
    let kept = match step["only"].as_array() {
        Some(only) if parsed.is_object() || parsed.is_array() => {
            let pick = |path: &Value| {
                let path = path.as_str()?.to_string();
                let found = lookup(&parsed, &path);
                Some((path, found))
            };
            Value::Object(only.iter().filter_map(pick).collect())
        }
        _ => parsed,
    };
    normal::value(&kept, None)
}

fn lookup(value: &Value, dotted: &str) -> Value {
    let step = |value: &Value, part: &str| match value {
        Value::Array(items) => part.parse::<usize>().ok().and_then(|index| items.get(index)).cloned(),
        other => other.get(part).cloned(),
    };
    dotted.split('.').try_fold(value.clone(), |value, part| step(&value, part)).unwrap_or(Value::Null)
}

/// Puts captured values in for `${name}`.
fn fill(text: &str, variables: &Variables) -> String {
    let pattern = Regex::new(r"\$\{(\w+)\}").expect("the pattern is fixed");
    let value = |captures: &Captures<'_>| match variables.get(&captures[1]) {
        Some(value) => value.clone(),
        None => captures[0].to_string(),
    };
    pattern.replace_all(text, value).into_owned()
}
