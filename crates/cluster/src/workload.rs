//! Clients that create, read, change and delete config maps, and write down every answer with its time.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use http::Method;
use parking_lot::Mutex;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use serde_json::{Value, json};
use storage::suite::linearizability::{Answer, Call, Operation};

use crate::client::{Client, Outcome};

pub const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
/// Every so often clients turn to other keys, so that the history of each is short enough to be checked.
const EPOCH: Duration = Duration::from_secs(2);
/// Few keys, so that clients get in each other's way.
pub const KEYS_A_CLIENT: u64 = 2;
const TIMEOUT: Duration = Duration::from_secs(8);

/// What was done and answered.
#[derive(Default)]
pub struct History {
    clock: AtomicU64,
    values: AtomicU64,
    operations: Mutex<Vec<Operation>>,
    /// Requests that got no answer, or one that a client cannot use (429 and 5xx), by what they got.
    failures: Mutex<BTreeMap<String, u64>>,
}

impl History {
    pub fn operations(&self) -> Vec<Operation> {
        self.operations.lock().clone()
    }

    pub fn failures(&self) -> BTreeMap<String, u64> {
        self.failures.lock().clone()
    }

    fn tick(&self) -> u64 {
        self.clock.fetch_add(1, Ordering::SeqCst)
    }

    fn note(&self, key: &str, call: Call, answer: Answer, began: u64) {
        let ended = self.tick();
        self.operations.lock().push(Operation { key: key.into(), call, answer, began, ended });
    }
}

/// How often a client asks, and about how many keys.
#[derive(Clone, Copy)]
pub struct Pace {
    pub rate: f64,
    pub keys: u64,
}

/// One client until told to stop.
pub async fn client(port: u16, seed: u64, pace: Pace, history: Arc<History>, stop: Arc<AtomicBool>) {
    let mut random = StdRng::seed_from_u64(seed);
    let mut client = Client::new(port, TIMEOUT);
    let mut known: BTreeMap<String, i64> = BTreeMap::new();
    let began = Instant::now();
    let mut next = tokio::time::Instant::now();
    while !stop.load(Ordering::SeqCst) {
        next += Duration::from_secs_f64(1.0 / pace.rate);
        tokio::time::sleep_until(next).await;
        next = next.max(tokio::time::Instant::now() - Duration::from_secs(1));
        let epoch = began.elapsed().as_secs() / EPOCH.as_secs();
        let key = format!("cm-{epoch}-{}", random.random_range(0..pace.keys));
        known.retain(|known, _| known.starts_with(&format!("cm-{epoch}-")));
        let value = history.values.fetch_add(1, Ordering::SeqCst);
        let call = match (random.random_range(0..10), known.get(&key)) {
            (0..3, _) => Call::Get,
            (3..5, _) | (5..9, None) => Call::Create(value),
            (5..8, Some(revision)) => Call::Update(value, *revision),
            (8, Some(revision)) => Call::Delete(Some(*revision)),
            _ => Call::Delete(None),
        };
        match operate(&mut client, &history, &key, call).await {
            Some(Answer::Done(revision) | Answer::Read(Some((_, revision)))) => drop(known.insert(key, revision)),
            Some(Answer::Happened | Answer::Conflicted | Answer::Refused(None)) => drop(known.remove(&key)),
            _ => {}
        }
    }
}

/// Carries out one call and notes what came of it; None for a read without an answer, which says nothing.
async fn operate(client: &mut Client, history: &History, key: &str, call: Call) -> Option<Answer> {
    let began = history.tick();
    let path = format!("{CONFIG_MAPS}/{key}");
    let outcome = match &call {
        Call::Get => client.send(Method::GET, &path, None).await,
        Call::Create(value) => client.send(Method::POST, CONFIG_MAPS, Some(&config_map(key, *value, None))).await,
        Call::Update(value, at) => client.send(Method::PUT, &path, Some(&config_map(key, *value, Some(*at)))).await,
        Call::Delete(at) => {
            let conditions = at.map_or(json!({}), |at| json!({"resourceVersion": at.to_string()}));
            let options = json!({"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": conditions});
            client.send(Method::DELETE, &path, Some(&options)).await
        }
    };
    let (answer, got) = match outcome {
        Outcome::NotSent => (Some(Answer::NotDone), "could not be sent".to_string()),
        Outcome::Lost => (unanswered(&call), "got no answer".to_string()),
        Outcome::Answered { status, body } => {
            (answer(&call, status, &body), format!("got {status} {}", body["message"].as_str().unwrap_or_default()))
        }
    };
    if matches!(answer, None | Some(Answer::Unknown | Answer::NotDone)) {
        *history.failures.lock().entry(got).or_default() += 1;
    }
    if let Some(answer) = answer.clone() {
        history.note(key, call, answer, began);
    }
    answer
}

fn unanswered(call: &Call) -> Option<Answer> {
    (!matches!(call, Call::Get)).then_some(Answer::Unknown)
}

fn answer(call: &Call, status: u16, body: &Value) -> Option<Answer> {
    match (status, call) {
        (200, Call::Get) => Some(Answer::Read(read(body))),
        (404, Call::Get) => Some(Answer::Read(None)),
        (200 | 201, Call::Create(_) | Call::Update(..)) => read(body).map(|(_, revision)| Answer::Done(revision)),
        (200 | 202, Call::Delete(_)) => Some(Answer::Happened),
        (404, _) => Some(Answer::Refused(None)),
        (409, _) => Some(Answer::Conflicted),
        (429, _) => Some(Answer::NotDone),
        _ => unanswered(call),
    }
}

/// Value and revision of a config map.
pub fn read(object: &Value) -> Option<(u64, i64)> {
    let value = object["data"]["value"].as_str()?.parse().ok()?;
    Some((value, object["metadata"]["resourceVersion"].as_str()?.parse().ok()?))
}

pub fn config_map(name: &str, value: u64, at: Option<i64>) -> Value {
    let mut object = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"value": value.to_string()}
    });
    if let Some(at) = at {
        object["metadata"]["resourceVersion"] = at.to_string().into();
    }
    object
}

/// A last look at every key, which shows what writes without an answer have done.
pub async fn last_look(port: u16, history: &History) -> Result<usize, String> {
    let began = history.tick();
    let mut client = Client::new(port, TIMEOUT);
    let Outcome::Answered { status: 200, body } = client.send(Method::GET, CONFIG_MAPS, None).await else {
        return Err("the last list failed".into());
    };
    let items = body["items"].as_array().ok_or("the last list has no items")?;
    let found: BTreeMap<&str, Option<(u64, i64)>> =
        items.iter().filter_map(|item| Some((item["metadata"]["name"].as_str()?, read(item)))).collect();
    let keys: BTreeSet<String> = history.operations().into_iter().map(|operation| operation.key).collect();
    for key in &keys {
        let seen = found.get(key.as_str()).copied().flatten();
        history.note(key, Call::Get, Answer::Read(seen), began);
    }
    Ok(keys.len())
}
