//! `node-authorizer <kube-apiserver's address> <ferrokube's address> <token>`: fills the store that both share with a cluster and
//! compares what they let its kubelets do.

use std::io::Write;
use std::process::ExitCode;

use difftest::Client;
use difftest::node_authorizer::{Compared, Size, compare};

const SIZE: Size = Size { nodes: 1_000, pods: 30_000, reviews: 10_000 };
/// How many complaints are shown.
const SHOWN: usize = 50;

#[tokio::main]
async fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let mut out = std::io::stderr();
    match run(&arguments).await {
        Ok(Compared { objects, reviews, allowed, complaints }) => {
            for complaint in complaints.iter().take(SHOWN) {
                let _ = writeln!(out, "--- {complaint}");
            }
            let count = complaints.len();
            let _ = writeln!(out, "{reviews} reviews ({allowed} allowed) over {objects} objects, {count} complaints");
            if complaints.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(why) => {
            let _ = writeln!(out, "{why}");
            ExitCode::FAILURE
        }
    }
}

async fn run(arguments: &[String]) -> Result<Compared, String> {
    let [theirs, ours, token] = arguments else {
        return Err("usage: node-authorizer <kube-apiserver's address> <ferrokube's address> <token>".into());
    };
    let client = |address: &String| Client::new(address.parse().map_err(|error| format!("{address}: {error}"))?, token);
    compare(&client(theirs)?, &client(ours)?, SIZE).await
}
