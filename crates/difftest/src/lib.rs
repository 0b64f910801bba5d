//! Differential testing: recorded requests, each with the answer of a real kube-apiserver v1.37, played against a server.
//!
//! What may differ from run to run (uids, times, resource versions, allocated addresses) is normalised on both sides
//! before an answer is compared. A case runs in a namespace of its own; values can be captured from one answer and used
//! in a later request.

pub mod audit;
mod client;
mod interop;
pub mod node_authorizer;
mod normal;
mod openapi;
mod play;
pub mod record;

use std::collections::BTreeMap;

use serde_json::Value;

pub use client::{Client, Connection, crypto, trusting};
pub use interop::Interop;

/// All recorded cases.
pub fn cases() -> Result<Vec<Value>, String> {
    facts::current()?.cases()
}

/// How many answers of a group were right, of how many.
pub type Score = BTreeMap<String, (usize, usize)>;

/// An answer that was not what the real server said.
pub struct Difference {
    pub case: String,
    pub step: usize,
    pub request: String,
    pub want: Value,
    pub got: Value,
}

/// Plays cases, a few at a time, and counts.
pub async fn run(client: &Client, cases: Vec<Value>) -> (Score, Vec<Difference>) {
    let mut score = Score::new();
    let mut differences = Vec::new();
    for (case, answers) in play::all(client, cases).await {
        let name = case["name"].as_str().unwrap_or("");
        let entry = score.entry(name.split('/').next().unwrap_or("").to_string()).or_default();
        let steps = case["steps"].as_array().into_iter().flatten();
        for (index, (step, got)) in steps.zip(answers).enumerate().filter(|(_, (step, _))| !step["expect"].is_null()) {
            entry.1 += 1;
            if step["expect"] == got {
                entry.0 += 1;
                continue;
            }
            let request = format!("{} {}", step["method"].as_str().unwrap_or(""), step["path"].as_str().unwrap_or(""));
            differences.push(Difference { case: name.into(), step: index, request, want: step["expect"].clone(), got });
        }
    }
    (score, differences)
}
