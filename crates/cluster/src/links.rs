//! Connections that pass through here, and can be cut as a network would: between each server and each etcd member, and, in the
//! balancer, between clients and servers.

use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

/// After an accepted connection could not be had, such as for want of file descriptors.
const PAUSE: Duration = Duration::from_millis(10);

/// An address for each server and etcd member, which leads to the member.
pub struct Links {
    /// By server and member.
    links: Vec<Vec<Link>>,
    _tasks: JoinSet<()>,
}

struct Link {
    port: u16,
    cut_off: watch::Sender<bool>,
}

impl Links {
    pub async fn start(servers: usize, members: &[String]) -> Result<Links, String> {
        let (mut links, mut tasks) = (Vec::new(), JoinSet::new());
        for _ in 0..servers {
            let mut of_server = Vec::new();
            for member in members {
                let target =
                    member.rsplit(':').next().and_then(|port| port.parse().ok()).ok_or("a member has no port")?;
                let listener = TcpListener::bind(("127.0.0.1", 0)).await.map_err(|error| error.to_string())?;
                let port = listener.local_addr().map_err(|error| error.to_string())?.port();
                let cut_off = watch::Sender::new(false);
                tasks.spawn(accept(listener, target, cut_off.subscribe()));
                of_server.push(Link { port, cut_off });
            }
            links.push(of_server);
        }
        Ok(Links { links, _tasks: tasks })
    }

    /// Where a server finds the members.
    pub fn endpoints(&self, server: usize) -> Vec<String> {
        self.links[server].iter().map(|link| format!("http://127.0.0.1:{}", link.port)).collect()
    }

    /// Cuts a server off from a member, or from all, or lets it reach them again.
    pub fn cut_off(&self, server: usize, member: Option<usize>, cut: bool) {
        let links = self.links[server].iter().enumerate().filter(|(n, _)| member.is_none_or(|member| member == *n));
        for (_, link) in links {
            link.cut_off.send_replace(cut);
        }
    }
}

async fn accept(listener: TcpListener, target: u16, cut_off: watch::Receiver<bool>) {
    let mut connections = JoinSet::new();
    loop {
        match listener.accept().await {
            Ok((stream, _)) => drop(connections.spawn(pass_on(stream, target, cut_off.clone()))),
            Err(_) => tokio::time::sleep(PAUSE).await,
        }
        while connections.try_join_next().is_some() {}
    }
}

/// Passes a connection on to a port. While it is cut off it keeps silent, and afterwards it is closed.
pub async fn pass_on(mut client: TcpStream, port: u16, mut cut_off: watch::Receiver<bool>) {
    let _ = client.set_nodelay(true);
    let through = async {
        let mut backend = TcpStream::connect(("127.0.0.1", port)).await?;
        backend.set_nodelay(true)?;
        tokio::io::copy_bidirectional(&mut client, &mut backend).await
    };
    tokio::select! {
        biased;
        _ = cut_off.wait_for(|cut| *cut) => {}
        _ = through => return,
    }
    let _ = cut_off.wait_for(|cut| !*cut).await;
}
