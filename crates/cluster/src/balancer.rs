//! A small TCP balancer: each connection goes to one of the servers that are ready. It can cut servers off, as a network would.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use http::Method;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::client::{Client, Outcome};
use crate::links;

/// How often servers are asked whether they are ready, and how long they may take to answer.
const PROBE_INTERVAL: Duration = Duration::from_millis(100);
const PROBE_TIMEOUT: Duration = Duration::from_millis(1000);

/// The balancer; it ends when this is dropped.
pub struct Balancer {
    pub port: u16,
    servers: Arc<Vec<Server>>,
    _tasks: JoinSet<()>,
}

struct Server {
    port: u16,
    ready: AtomicBool,
    /// Counts processes: what a probe of an earlier one has found says nothing about the present one.
    process: AtomicU64,
    /// Whether nothing gets through.
    cut_off: watch::Sender<bool>,
}

impl Balancer {
    pub async fn start(ports: &[u16]) -> Result<Balancer, String> {
        let server = |port: &u16| Server {
            port: *port,
            ready: AtomicBool::new(false),
            process: AtomicU64::new(0),
            cut_off: watch::Sender::new(false),
        };
        let servers: Arc<Vec<Server>> = Arc::new(ports.iter().map(server).collect());
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.map_err(|error| error.to_string())?;
        let port = listener.local_addr().map_err(|error| error.to_string())?.port();
        let mut tasks = JoinSet::new();
        for index in 0..ports.len() {
            tasks.spawn(probe(servers.clone(), index));
        }
        tasks.spawn(accept(listener, servers.clone()));
        Ok(Balancer { port, servers, _tasks: tasks })
    }

    /// Cuts a server off from clients, or lets it be reached again.
    pub fn cut_off(&self, server: usize, cut: bool) {
        self.servers[server].cut_off.send_replace(cut);
    }

    /// Forgets what is known about a server, because its process has ended.
    pub fn forget(&self, server: usize) {
        self.servers[server].process.fetch_add(1, Ordering::SeqCst);
        self.servers[server].ready.store(false, Ordering::SeqCst);
    }

    pub fn is_ready(&self, server: usize) -> bool {
        self.servers[server].ready.load(Ordering::SeqCst)
    }
}

async fn probe(servers: Arc<Vec<Server>>, index: usize) {
    let server = &servers[index];
    let (mut client, mut probed) = (Client::new(server.port, PROBE_TIMEOUT), 0);
    loop {
        let process = server.process.load(Ordering::SeqCst);
        if process != probed {
            (client, probed) = (Client::new(server.port, PROBE_TIMEOUT), process);
        }
        let answer = client.send(Method::GET, "/readyz", None).await;
        if server.process.load(Ordering::SeqCst) == process {
            server.ready.store(matches!(answer, Outcome::Answered { status: 200, .. }), Ordering::SeqCst);
        }
        tokio::time::sleep(PROBE_INTERVAL).await;
    }
}

async fn accept(listener: TcpListener, servers: Arc<Vec<Server>>) {
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        while connections.try_join_next().is_some() {}
        connections.spawn(forward(stream, servers.clone()));
    }
}

async fn forward(client: TcpStream, servers: Arc<Vec<Server>>) {
    let ready: Vec<&Server> = servers.iter().filter(|server| server.ready.load(Ordering::SeqCst)).collect();
    if !ready.is_empty() {
        let server = ready[rand::random_range(0..ready.len())];
        links::pass_on(client, server.port, server.cut_off.subscribe()).await;
    }
}
