//! `audit <kube-apiserver's address> <its log> <ferrokube's address> <its log> <token>`: sends the same requests to both and
//! compares their audit events.

use std::io::Write;
use std::process::ExitCode;

use difftest::Client;
use difftest::audit::{Audited, Compared, compare};

#[tokio::main]
async fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let mut out = std::io::stderr();
    match run(&arguments).await {
        Ok(Compared { requests, events, complaints }) => {
            for complaint in &complaints {
                let _ = writeln!(out, "--- {complaint}");
            }
            let _ = writeln!(out, "{requests} requests, {events} events, {} complaints", complaints.len());
            if complaints.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(why) => {
            let _ = writeln!(out, "{why}");
            ExitCode::FAILURE
        }
    }
}

async fn run(arguments: &[String]) -> Result<Compared, String> {
    let [theirs, their_log, ours, our_log, token] = arguments else {
        return Err("usage: audit <kube-apiserver's address> <its log> <ferrokube's address> <its log> <token>".into());
    };
    let audited = |address: &String, log: &String| {
        let address = address.parse().map_err(|error| format!("{address}: {error}"))?;
        Ok::<_, String>(Audited { client: Client::new(address, token)?, log: log.into() })
    };
    compare(&audited(theirs, their_log)?, &audited(ours, our_log)?).await
}
