//! From a configuration to a serving server, in stages. Each is a type that owns what the next one needs:
//!
//! - [`Config`], from flags or built in code;
//! - [`Completed`]: its settings go together, and what follows from them is known;
//! - `Opened`: keys, store and certificates are open, and the address is taken;
//! - `Assembled`: the API is put together with the server around it, and does nothing yet;
//! - [`Running`]: it serves.
//!
//! Parts of the server have the same verbs: `open` makes one out of settings, files and connections, `run` begins what it does
//! until its tasks end, and `stop` ends that in order.

mod assembled;
mod completed;
mod opened;
mod paths;
mod running;

use std::net::SocketAddr;
use std::path::PathBuf;

use futures::future::BoxFuture;

use self::completed::Completed;
pub(crate) use self::completed::{StartSettings, hosts};
pub use self::running::Running;
use crate::{Config, ProgramParts};

/// Why a server does not start: one sentence for the administrator.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error("the data directory {path} cannot be used: {why}; name another with --data-dir{instead}")]
    DataDir { path: PathBuf, why: String, instead: &'static str },
    #[error("cannot open the store: {0}")]
    Store(String),
    #[error("cannot listen on {address}: {why}")]
    Listen { address: SocketAddr, why: String },
    #[error("{0}")]
    Setting(String),
    #[error(transparent)]
    Definition(#[from] crd::OwnDefinitionError),
}

impl StartError {
    fn data_dir(config: &Config, why: impl std::fmt::Display) -> StartError {
        let instead = match config.store.etcd_servers.is_empty() {
            true => "",
            false => {
                ". None is needed if --client-ca-file, --tls-cert-file, --tls-private-key-file and \
                 --service-account-signing-key-file are given"
            }
        };
        StartError::DataDir { path: config.data_dir.clone(), why: why.to_string(), instead }
    }
}

/// Starts a server and returns as soon as it is ready.
pub fn start(config: Config) -> BoxFuture<'static, Result<Running, StartError>> {
    start_with(config, ProgramParts::default())
}

/// Starts a server with parts of the program it runs in.
pub fn start_with(config: Config, parts: ProgramParts) -> BoxFuture<'static, Result<Running, StartError>> {
    Box::pin(async move {
        let completed = Completed::of(config, parts)?;
        let directory = completed.make_data_dir()?;
        let opened = completed.open(directory.clone()).await?;
        let store = opened.own_store();
        let running = async { opened.assemble().await?.run().await }.await;
        match (&running, store, directory) {
            (Ok(_), _, Some(directory)) => directory.keep(),
            // The next start should not find a file that looks like the victim of a crash.
            (Err(_), Some(store), _) => store.close().await,
            _ => {}
        }
        running
    })
}

pub(crate) fn hostname() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}
