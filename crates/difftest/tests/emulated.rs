//! A server that emulates an older version beside what was recorded from that version: discovery, OpenAPI, columns, the objects that it
//! begins with, and answers. Each score may only rise: when it does, raise it in `ratchet-<version>.txt` too.

#![allow(clippy::unwrap_used, clippy::print_stdout)] // In tests a failed assumption is a failed test, in helpers too.

mod support;

use std::collections::BTreeMap;

use apiserver::{StoreConfig, Versions};
use difftest::{Client, record, run};
use facts::Facts;
use serde_json::Value;

/// Of so many cases one is played: about 700 requests.
const EVERY: usize = 8;
/// How many differences are shown of a kind of facts.
const SHOWN: usize = 12;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn version_1_36_is_emulated() {
    check("1.36", include_str!("../ratchet-1.36.txt")).await;
}

async fn check(version: &str, ratchet: &str) {
    let recorded = Facts::of(version).unwrap();
    let server = support::server(StoreConfig::default(), Versions::emulating(version).unwrap()).await;
    let client = Client::new(server.running.address, "admin-token").unwrap();
    let ours = record::defaults(&client).await.unwrap();
    let mut scores: BTreeMap<String, (usize, usize)> = BTreeMap::new();
    for (name, bytes) in &ours {
        let kind = name.split('/').next().unwrap().trim_end_matches(".json");
        let (Ok(theirs), Ok(ours)) =
            (serde_json::from_slice(recorded.bytes(name).unwrap()), serde_json::from_slice(bytes))
        else {
            continue;
        };
        compare(kind, name, &theirs, &ours, scores.entry(kind.into()).or_default());
    }
    let cases = recorded.cases().unwrap().into_iter().step_by(EVERY).collect();
    let (answers, differences) = run(&client, cases).await;
    let sum = answers.values().fold((0, 0), |sum, score| (sum.0 + score.0, sum.1 + score.1));
    scores.insert("answers".into(), sum);
    for difference in differences.iter().take(SHOWN) {
        println!("--- {} {}\nwant {}\ngot  {}", difference.case, difference.request, difference.want, difference.got);
    }
    let mut fallen = Vec::new();
    for (kind, (same, all)) in &scores {
        println!("emulation of {version}, {kind}: {same}/{all}");
        let floor = ratchet.lines().find_map(|line| line.strip_prefix(kind.as_str())?.trim().parse().ok());
        if floor.is_none_or(|floor: usize| *same < floor) {
            fallen.push(format!("{kind} {same}"));
        }
    }
    server.stop().await;
    assert!(fallen.is_empty(), "scores fell, or are not in the ratchet: {fallen:?}");
}

/// Counts the values in the recording, and those that are the same in ours; a value that only ours has counts as one that differs.
fn compare(kind: &str, name: &str, theirs: &Value, ours: &Value, score: &mut (usize, usize)) {
    let (mut want, mut got) = (BTreeMap::new(), BTreeMap::new());
    flatten(theirs, name.to_string(), &mut want);
    flatten(ours, name.to_string(), &mut got);
    let mut shown = 0;
    for path in want.keys().chain(got.keys().filter(|path| !want.contains_key(*path))) {
        score.1 += 1;
        if want.get(path) == got.get(path) {
            score.0 += 1;
        } else if shown < SHOWN {
            shown += 1;
            println!("--- {kind} {path}: want {:?}, got {:?}", want.get(path), got.get(path));
        }
    }
}

/// Every value without parts, by its path. Items with a name are told apart by it, so that one more moves no other.
fn flatten(value: &Value, path: String, out: &mut BTreeMap<String, String>) {
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            for (name, value) in fields {
                flatten(value, format!("{path}.{name}"), out);
            }
        }
        Value::Array(items) if !items.is_empty() => {
            for (at, item) in items.iter().enumerate() {
                let names = ["version", "resource", "subresource", "name"].iter().filter_map(|key| item[*key].as_str());
                let name = item["metadata"]["name"].as_str().into_iter().chain(names).collect::<Vec<_>>().join("/");
                let name = if name.is_empty() { at.to_string() } else { name };
                flatten(item, format!("{path}[{name}]"), out);
            }
        }
        value => drop(out.insert(path, value.to_string())),
    }
}
