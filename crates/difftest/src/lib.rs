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
mod play;

use std::collections::BTreeMap;
use std::io::Read;

use serde_json::Value;

pub use client::{Client, Connection, crypto, trusting};
pub use interop::Interop;

/// The recorded cases that live in this repository, compressed.
const RECORDED: &[u8] = include_bytes!("../data/cases.json.gz");

/// All recorded cases.
pub fn cases() -> Result<Vec<Value>, String> {
    let mut text = String::new();
    flate2::read::GzDecoder::new(RECORDED).read_to_string(&mut text).map_err(|error| error.to_string())?;
    serde_json::from_str(&text).map_err(|error| error.to_string())
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
    const AT_ONCE: usize = 4;
    let queue = std::sync::Arc::new(tokio::sync::Mutex::new(cases.into_iter()));
    let mut workers = Vec::new();
    for _ in 0..AT_ONCE {
        let (queue, client) = (queue.clone(), client.clone());
        workers.push(tokio::spawn(async move {
            let mut results = Vec::new();
            loop {
                let next = queue.lock().await.next();
                let Some(case) = next else { return results };
                results.extend(play::case(&client, &case).await);
            }
        }));
    }
    let mut score = Score::new();
    let mut differences = Vec::new();
    for worker in workers {
        for result in worker.await.unwrap_or_default() {
            let group = result.case.split('/').next().unwrap_or("").to_string();
            let entry = score.entry(group).or_default();
            entry.1 += 1;
            if result.want == result.got {
                entry.0 += 1;
            } else {
                differences.push(result);
            }
        }
    }
    (score, differences)
}
