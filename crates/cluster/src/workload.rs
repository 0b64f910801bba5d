//! Clients that create, read, list, change, apply and delete objects, and write down every answer with its time.

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
use crate::kinds::{KINDS, Kind};
use crate::lists::List;

/// Every so often clients turn to other keys, so that the history of each is short enough to be checked.
const EPOCH: Duration = Duration::from_secs(2);
/// Few keys, so that clients get in each other's way.
pub const KEYS_A_CLIENT: u64 = 2;
const TIMEOUT: Duration = Duration::from_secs(8);
/// The share of requests that are lists.
const LISTS: f64 = 0.05;
const APPLY: &str = "?fieldManager=cluster&force=true";

/// What was done and answered.
#[derive(Default)]
pub struct History {
    clock: AtomicU64,
    values: AtomicU64,
    operations: Mutex<Vec<Operation>>,
    lists: Mutex<Vec<List>>,
    /// Requests that clients have sent.
    requests: AtomicU64,
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

    /// The lists that clients got.
    pub fn lists(&self) -> parking_lot::MutexGuard<'_, Vec<List>> {
        self.lists.lock()
    }

    pub fn requests(&self) -> u64 {
        self.requests.load(Ordering::SeqCst)
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
        history.requests.fetch_add(1, Ordering::SeqCst);
        let epoch = began.elapsed().as_secs() / EPOCH.as_secs();
        let number = random.random_range(0..pace.keys);
        if random.random_bool(LISTS) {
            let keys = Keys { kind: kind_of(number), epoch, count: pace.keys };
            list(&mut client, &history, &keys, random.random_bool(0.5)).await;
            continue;
        }
        let key = key(epoch, number);
        known.retain(|known, _| known.split('-').nth(1) == Some(&epoch.to_string()));
        let value = history.values.fetch_add(1, Ordering::SeqCst);
        let call = match (random.random_range(0..12), known.get(&key)) {
            (0..3, _) => Call::Get,
            (3..5, _) | (5..8, None) => Call::Create(value),
            (5..8, Some(revision)) => Call::Update(value, *revision),
            // An update of a lease that was deleted creates it again, whatever revision it expects.
            (8 | 9, _) if !kind_of(number).is_deleted => Call::Put(value),
            (8, Some(revision)) => Call::Delete(Some(*revision)),
            (8, None) | (9, _) => Call::Delete(None),
            _ => Call::Put(value),
        };
        match operate(&mut client, &history, &key, call).await {
            Some(Answer::Done(revision) | Answer::Read(Some((_, revision)))) => drop(known.insert(key, revision)),
            Some(Answer::Happened | Answer::Conflicted | Answer::Refused(None)) => drop(known.remove(&key)),
            _ => {}
        }
    }
}

fn kind_of(number: u64) -> &'static Kind {
    KINDS[(number % KINDS.len() as u64) as usize]
}

fn key(epoch: u64, number: u64) -> String {
    format!("{}-{epoch}-{number}", kind_of(number).prefix)
}

/// What a list shows: the keys of one kind that clients use now.
struct Keys {
    kind: &'static Kind,
    epoch: u64,
    /// How many keys of all kinds there are.
    count: u64,
}

/// Lists and notes what was there; a list from any revision tells nothing about the present.
async fn list(client: &mut Client, history: &History, keys: &Keys, from_any: bool) {
    let began = history.tick();
    let version = if from_any { "&resourceVersion=0" } else { "" };
    let path = format!("{}?labelSelector=epoch%3D{}{version}", keys.kind.path, keys.epoch);
    let outcome = client.send(Method::GET, &path, None).await;
    let prefix = format!("{}-{}-", keys.kind.prefix, keys.epoch);
    let listed = match &outcome {
        Outcome::Answered { status: 200, body } => List::read(keys.kind, &prefix, body),
        _ => None,
    };
    let Some(listed) = listed else {
        *history.failures.lock().entry(got(&outcome)).or_default() += 1;
        return;
    };
    if !from_any {
        let ended = history.tick();
        let names = (0..keys.count).map(|number| key(keys.epoch, number)).filter(|name| keys.kind.has(name));
        let read = |key: String| {
            let answer = Answer::Read(listed.items.get(&key).copied());
            Operation { key, call: Call::Get, answer, began, ended }
        };
        history.operations.lock().extend(names.map(read));
    }
    history.lists.lock().push(listed);
}

/// Carries out one call and notes what came of it; None for a read without an answer, which says nothing.
async fn operate(client: &mut Client, history: &History, key: &str, call: Call) -> Option<Answer> {
    let began = history.tick();
    let kind = Kind::of(key);
    let path = format!("{}/{key}", kind.path);
    let outcome = match &call {
        Call::Get => client.send(Method::GET, &path, None).await,
        Call::Create(value) => client.send(Method::POST, kind.path, Some(&kind.object(key, *value, None))).await,
        Call::Update(value, at) => client.send(Method::PUT, &path, Some(&kind.object(key, *value, Some(*at)))).await,
        Call::Put(value) => {
            client.send(Method::PATCH, &format!("{path}{APPLY}"), Some(&kind.object(key, *value, None))).await
        }
        Call::Delete(at) => {
            let conditions = at.map_or(json!({}), |at| json!({"resourceVersion": at.to_string()}));
            let options = json!({"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": conditions});
            client.send(Method::DELETE, &path, Some(&options)).await
        }
    };
    let answer = match &outcome {
        Outcome::NotSent => Some(Answer::NotDone),
        Outcome::Lost => unanswered(&call),
        Outcome::Answered { status, body } => answer(kind, &call, *status, body),
    };
    if matches!(answer, None | Some(Answer::Unknown | Answer::NotDone)) {
        *history.failures.lock().entry(got(&outcome)).or_default() += 1;
    }
    if let Some(answer) = answer.clone() {
        history.note(key, call, answer, began);
    }
    answer
}

/// What a request got, in words.
fn got(outcome: &Outcome) -> String {
    match outcome {
        Outcome::NotSent => "could not be sent".to_string(),
        Outcome::Lost => "got no answer".to_string(),
        Outcome::Answered { status, body } => {
            let message = body["message"].as_str().unwrap_or_default();
            // Messages that name the object are the same message.
            let words = message.split(' ').filter(|word| !word.contains('-'));
            format!("got {status} {}", words.collect::<Vec<_>>().join(" "))
        }
    }
}

fn unanswered(call: &Call) -> Option<Answer> {
    (!matches!(call, Call::Get)).then_some(Answer::Unknown)
}

fn answer(kind: &Kind, call: &Call, status: u16, body: &Value) -> Option<Answer> {
    match (status, call) {
        (200, Call::Get) => Some(Answer::Read(kind.read(body))),
        (404, Call::Get) => Some(Answer::Read(None)),
        (200 | 201, Call::Create(_) | Call::Update(..) | Call::Put(_)) => {
            kind.read(body).map(|(_, revision)| Answer::Done(revision))
        }
        (200 | 202, Call::Delete(_)) => Some(Answer::Happened),
        (404, Call::Create(_) | Call::Update(..) | Call::Delete(_)) => Some(Answer::Refused(None)),
        (409, _) => Some(Answer::Conflicted),
        (429, _) => Some(Answer::NotDone),
        _ => unanswered(call),
    }
}

/// A last look at every key, which shows what writes without an answer have done.
pub async fn last_look(port: u16, history: &History) -> Result<usize, String> {
    let began = history.tick();
    let mut client = Client::new(port, TIMEOUT);
    let mut found: BTreeMap<String, (u64, i64)> = BTreeMap::new();
    for kind in KINDS {
        let Outcome::Answered { status: 200, body } = client.send(Method::GET, kind.path, None).await else {
            return Err("the last list failed".into());
        };
        let list = List::read(kind, kind.prefix, &body).ok_or("the last list has no items")?;
        found.extend(list.items);
    }
    let keys: BTreeSet<String> = history.operations().into_iter().map(|operation| operation.key).collect();
    for key in &keys {
        history.note(key, Call::Get, Answer::Read(found.get(key).copied()), began);
    }
    Ok(keys.len())
}
