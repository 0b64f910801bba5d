//! Greedy clients: many clients of one user that list without a pause. They are a process of low priority on CPUs of their own, so
//! that what they cost themselves delays neither the server nor the polite client.

use std::io::{Read, Write};
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use http::StatusCode;
use tokio::process::{Child, Command};

use crate::Arguments;
use crate::client::Client;
use crate::objects::NAMESPACE;
use crate::target::GREEDY_TOKEN;

pub const CLIENTS: usize = 500;
/// Connections that the clients share.
const CONNECTIONS: usize = 50;

/// What clients do when they are refused.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Manners {
    /// They wait for as long as Retry-After says, as client-go does.
    Wait,
    /// They ask again at once.
    Insist,
}

/// Requests that were answered, and that were refused with 429.
#[derive(Clone, Copy, Default)]
pub struct Answered {
    pub served: u64,
    pub refused: u64,
}

/// The process of greedy clients.
pub struct Greedy(Child);

impl Greedy {
    pub fn start(arguments: &Arguments, port: u16, manners: Manners) -> Result<Greedy, String> {
        let program = std::env::current_exe().map_err(|error| error.to_string())?;
        let mut command = Command::new("nice");
        command.args(["-n", "19"]).arg(program).arg("--ferrokube").arg(&arguments.ferrokube);
        command.arg("--greedy").arg(port.to_string()).arg("--refused");
        command.arg(if manners == Manners::Wait { "wait" } else { "insist" });
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
        command.spawn().map(Greedy).map_err(|error| format!("cannot start the greedy clients: {error}"))
    }

    /// Ends the clients by closing their standard input.
    pub async fn stop(mut self) -> Result<Answered, String> {
        drop(self.0.stdin.take());
        let ended = tokio::time::timeout(Duration::from_secs(60), self.0.wait_with_output()).await;
        let output = ended.map_err(|_| "the greedy clients do not end")?.map_err(|error| error.to_string())?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let numbers: Vec<u64> = text.split_whitespace().filter_map(|number| number.parse().ok()).collect();
        match numbers[..] {
            [served, refused] => Ok(Answered { served, refused }),
            _ => Err(format!("the greedy clients failed: {text}")),
        }
    }
}

/// What the process of greedy clients does until its standard input is closed.
pub async fn run(port: u16, manners: Manners) -> Result<(), String> {
    let stop = Arc::new(AtomicBool::new(false));
    let counts = Arc::new((AtomicU64::new(0), AtomicU64::new(0)));
    let mut clients = Vec::new();
    for _ in 0..CONNECTIONS {
        clients.push(Client::connect_as(port, GREEDY_TOKEN).await?);
    }
    let mut tasks = tokio::task::JoinSet::new();
    for at in 0..CLIENTS {
        tasks.spawn(ask(clients[at % clients.len()].clone(), manners, stop.clone(), counts.clone()));
    }
    let _ = tokio::task::spawn_blocking(|| std::io::stdin().read(&mut [0])).await;
    stop.store(true, Ordering::Relaxed);
    let drained = async { while tasks.join_next().await.is_some() {} };
    let _ = tokio::time::timeout(Duration::from_secs(30), drained).await;
    let report = format!("{} {}\n", counts.0.load(Ordering::Relaxed), counts.1.load(Ordering::Relaxed));
    std::io::stdout().write_all(report.as_bytes()).map_err(|error| error.to_string())
}

async fn ask(client: Client, manners: Manners, stop: Arc<AtomicBool>, counts: Arc<(AtomicU64, AtomicU64)>) {
    let path = format!("/api/v1/namespaces/{NAMESPACE}/configmaps");
    while !stop.load(Ordering::Relaxed) {
        let Ok(reply) = client.get(&path).await else { return };
        if reply.status != StatusCode::TOO_MANY_REQUESTS {
            counts.0.fetch_add(1, Ordering::Relaxed);
            continue;
        }
        counts.1.fetch_add(1, Ordering::Relaxed);
        if manners == Manners::Wait {
            tokio::time::sleep(Duration::from_secs(reply.retry_after.unwrap_or(1))).await;
        }
    }
}
