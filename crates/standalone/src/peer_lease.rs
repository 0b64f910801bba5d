//! The key that tells other servers where this one can be reached, for requests that they pass on to it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use peers::{Leases, Place};
use tokio::sync::Mutex;
use tokio::task::JoinSet;

use crate::Identity;

const INTERVAL: Duration = Duration::from_secs(10);
/// A server that is shutting down does not wait longer than this for its key to be removed.
const LEAVE_TIMEOUT: Duration = Duration::from_secs(20);

/// Keeps the key of this server.
pub struct PeerLease {
    leases: Leases,
    place: Place,
    /// Held while the key is written; true once the server has removed it.
    left: Mutex<bool>,
}

impl PeerLease {
    pub fn new(leases: Leases, identity: &Identity) -> PeerLease {
        let address: SocketAddr = identity.peer_address;
        let place = Place { address: address.ip().to_string(), port: address.port(), server: identity.lease_name() };
        PeerLease { leases, place, left: Mutex::new(false) }
    }

    /// Writes the key, and renews it until the tasks end.
    pub fn run<'a>(self: &'a Arc<Self>, tasks: &'a mut JoinSet<()>) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            self.renew().await;
            let lease = self.clone();
            tasks.spawn(async move {
                loop {
                    tokio::time::sleep(INTERVAL).await;
                    lease.renew().await;
                }
            });
        })
    }

    async fn renew(&self) {
        let left = self.left.lock().await;
        if *left {
            return;
        }
        if let Err(failure) = self.leases.renew(&self.place.server, &self.place).await {
            tracing::error!(%failure, "unable to update the peer endpoint lease");
        }
    }

    /// Removes the key, so that no more requests are passed on to this server.
    pub fn stop(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            let leaving = async {
                *self.left.lock().await = true;
                self.leases.remove(&self.place.server).await
            };
            match tokio::time::timeout(LEAVE_TIMEOUT, leaving).await {
                Ok(Ok(_)) => {}
                Ok(Err(failure)) => tracing::error!(%failure, "unable to remove the peer endpoint lease"),
                Err(_) => tracing::warn!("removing the peer endpoint lease timed out"),
            }
        })
    }
}
