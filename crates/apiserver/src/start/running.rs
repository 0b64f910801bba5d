//! [`Running`]: a server that is serving.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use rest::Api;
use server::{Server, ShutdownTimeouts};
use tokio::task::JoinSet;

use crate::Pki;
use crate::own_console::{self, Console};
use crate::peering::Peering;
use crate::served_api::RunningApi;
use crate::store::OpenedStore;

/// A server that is serving. It ends when this is dropped; [`Running::stop`] lets requests finish first.
pub struct Running {
    /// Where it listens, or would if it were to: `listens` of its configuration.
    pub address: SocketAddr,
    pub pki: Pki,
    pub api: Arc<Api>,
    /// Answers requests of the same process, which need no listener.
    pub server: Arc<Server>,
    /// None if it is off.
    pub console: Option<Arc<Console>>,
    pub(super) timeouts: ShutdownTimeouts,
    pub(super) background: Background,
    pub(super) store: OpenedStore,
}

/// The parts that go on beside requests.
pub(super) struct Background {
    pub served: RunningApi,
    pub peering: Peering,
    pub tasks: JoinSet<()>,
    /// The listener, if there is one.
    pub serving: JoinSet<()>,
}

impl Running {
    /// The address that signs a browser in to the console at this URL, once; None if it is off.
    pub fn console_link(&self, url: &str) -> Option<String> {
        self.console.as_ref().map(|console| own_console::link(console, url))
    }

    /// Fails readiness, leaves the `kubernetes` Service, waits for `delay`, lets requests finish, and returns when everything
    /// is over.
    pub fn stop(mut self, delay: Duration) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            let timeouts = ShutdownTimeouts { delay, ..self.timeouts.clone() };
            let Background { served, peering, tasks, serving } = &mut self.background;
            let withdrawn = async {
                tokio::join!(peering.stop(), served.withdraw());
            };
            self.server.lifecycle.stop(&timeouts, withdrawn).await;
            served.stop().await;
            tasks.shutdown().await;
            while let Some(ended) = serving.join_next().await {
                if let Err(error) = ended {
                    tracing::error!(%error, "the listener did not end well");
                }
            }
            if let Some(auditor) = &self.server.auditor {
                auditor.stop().await;
            }
            self.store.close().await;
        })
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.server.lifecycle.end();
    }
}
