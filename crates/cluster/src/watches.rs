//! Watchers that follow all objects of a kind across reconnects, and the check that each has seen every change once and in order.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use http::Method;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use parking_lot::Mutex;
use serde_json::Value;
use storage::suite::linearizability::{Answer, Call, Operation};

use crate::client::{Client, Outcome};
use crate::kinds::{CONFIG_MAP, Kind};
use crate::lists::{self, List};

const TIMEOUT: Duration = Duration::from_secs(8);
/// A watch that hears nothing for so long, not even a bookmark, is begun anew.
const SILENCE: Duration = Duration::from_secs(90);
const PAUSE: Duration = Duration::from_millis(50);

/// What a change did: the key, and its new value if there is one.
pub type KeyChange = (String, Option<u64>);

/// What one watcher has seen.
pub struct Seen {
    pub kind: &'static Kind,
    pub events: Mutex<Vec<(i64, KeyChange)>>,
    /// The revision it began at.
    pub began: AtomicU64,
    /// How often it had to list again, because its revision was gone.
    pub relists: AtomicU64,
    pub reconnects: AtomicU64,
}

impl Seen {
    pub fn new(kind: &'static Kind) -> Seen {
        Seen {
            kind,
            events: Mutex::default(),
            began: AtomicU64::new(0),
            relists: AtomicU64::new(0),
            reconnects: AtomicU64::new(0),
        }
    }
}

/// Follows until it is dropped.
pub async fn follow(port: u16, seen: Arc<Seen>) {
    let mut revision: Option<i64> = None;
    loop {
        let at = match revision {
            Some(at) => at,
            None => match list(port, seen.kind).await {
                Some(at) => {
                    seen.began.store(at.unsigned_abs(), Ordering::SeqCst);
                    at
                }
                None => {
                    tokio::time::sleep(PAUSE).await;
                    continue;
                }
            },
        };
        let (reached, is_gone) = watch(port, at, &seen).await;
        revision = (!is_gone).then_some(reached);
        seen.reconnects.fetch_add(1, Ordering::SeqCst);
        seen.relists.fetch_add(u64::from(is_gone), Ordering::SeqCst);
        tokio::time::sleep(PAUSE).await;
    }
}

async fn list(port: u16, kind: &Kind) -> Option<i64> {
    let mut client = Client::new(port, TIMEOUT);
    match client.send(Method::GET, &format!("{}?limit=1", kind.path), None).await {
        Outcome::Answered { status: 200, body } => body["metadata"]["resourceVersion"].as_str()?.parse().ok(),
        _ => None,
    }
}

/// One watch: how far it got, and whether its revision is gone.
async fn watch(port: u16, after: i64, seen: &Seen) -> (i64, bool) {
    let mut client = Client::new(port, TIMEOUT);
    let options = format!("watch=true&allowWatchBookmarks=true&resourceVersion={after}&timeoutSeconds=300");
    let path = format!("{}?{options}", seen.kind.path);
    let opened = tokio::time::timeout(TIMEOUT, client.open(Method::GET, &path, None)).await;
    let Ok(Ok((status, mut incoming))) = opened else { return (after, false) };
    if status != 200 {
        return (after, status == 410);
    }
    let (mut at, mut rest) = (after, Vec::new());
    while let Some(line) = next_line(&mut incoming, &mut rest).await {
        let Ok(event) = serde_json::from_slice::<Value>(&line) else { break };
        let object = &event["object"];
        match event["type"].as_str() {
            Some("ERROR") => return (at, object["code"] == 410),
            Some(kind) => {
                let Some(revision) = object["metadata"]["resourceVersion"].as_str().and_then(|v| v.parse().ok()) else {
                    break;
                };
                at = revision;
                if kind != "BOOKMARK" {
                    let name = object["metadata"]["name"].as_str().unwrap_or_default().to_string();
                    let value = seen.kind.read(object).map(|(value, _)| value).filter(|_| kind != "DELETED");
                    seen.events.lock().push((revision, (name, value)));
                }
            }
            None => break,
        }
    }
    (at, false)
}

async fn next_line(incoming: &mut Incoming, rest: &mut Vec<u8>) -> Option<Vec<u8>> {
    loop {
        if let Some(end) = memchr::memchr(b'\n', rest) {
            let line = rest[..end].to_vec();
            rest.drain(..=end);
            return Some(line);
        }
        let frame = tokio::time::timeout(SILENCE, incoming.frame()).await.ok()??.ok()?;
        if let Ok(data) = frame.into_data() {
            rest.extend_from_slice(&data);
        }
    }
}

/// How many changes and lists were checked.
#[derive(Default)]
pub struct Checked {
    pub changes: usize,
    pub lists: usize,
}

/// Complains about a change of a kind that a watcher has missed, seen twice, out of order or wrong, and about a list that shows
/// something else.
pub fn check(watchers: &[&Seen], operations: &[Operation], lists: &[List]) -> Result<Checked, String> {
    let kind = watchers.first().map_or(&CONFIG_MAP, |seen| seen.kind);
    let mut all: BTreeMap<i64, KeyChange> = BTreeMap::new();
    for operation in operations.iter().filter(|operation| kind.has(&operation.key)) {
        if let (Answer::Done(revision), Call::Create(value) | Call::Update(value, _) | Call::Put(value)) =
            (&operation.answer, &operation.call)
        {
            all.insert(*revision, (operation.key.clone(), Some(*value)));
        }
    }
    for (number, watcher) in watchers.iter().enumerate() {
        let mut last = 0;
        for (revision, change) in watcher.events.lock().iter() {
            if *revision <= last {
                return Err(format!("watcher {number} got revision {revision} after {last}"));
            }
            last = *revision;
            let known = all.entry(*revision).or_insert_with(|| change.clone());
            if known != change {
                return Err(format!("watcher {number} saw {change:?} at revision {revision}, which was {known:?}"));
            }
        }
    }
    // A watcher that had to list again may have missed what was before.
    let faithful = || watchers.iter().enumerate().filter(|(_, w)| w.relists.load(Ordering::SeqCst) == 0);
    for (number, watcher) in faithful() {
        let events = watcher.events.lock();
        let (began, last) = (watcher.began.load(Ordering::SeqCst), events.last().map_or(0, |(revision, _)| *revision));
        let seen: BTreeMap<i64, &KeyChange> = events.iter().map(|(revision, change)| (*revision, change)).collect();
        let range = began.cast_signed().saturating_add(1)..=last;
        if let Some((revision, change)) = all.iter().find(|(at, _)| range.contains(at) && !seen.contains_key(at)) {
            return Err(format!("watcher {number} has missed {change:?} at revision {revision}"));
        }
    }
    // Only watchers tell the revisions of deletions, so without one that has seen all the state is not known.
    let began = faithful().map(|(_, watcher)| watcher.began.load(Ordering::SeqCst).cast_signed()).min();
    let lists: Vec<&List> = lists.iter().filter(|list| list.kind.prefix == kind.prefix).collect();
    let checked = began.map(|began| lists::check(&lists, &all, began)).transpose()?;
    Ok(Checked { changes: all.len(), lists: checked.unwrap_or_default() })
}
