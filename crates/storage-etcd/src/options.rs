//! What the engine is started with.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use tokio::io::{AsyncRead, AsyncWrite};

/// A connection to a member.
pub trait Io: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Io for T {}

/// Opens a connection to a host and port, through a proxy for instance.
#[derive(Clone)]
pub struct EtcdDial(pub Arc<dyn Fn(String, u16) -> BoxFuture<'static, Result<Box<dyn Io>, String>> + Send + Sync>);

impl std::fmt::Debug for EtcdDial {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("EtcdDial")
    }
}

/// Where etcd is and how to reach it: kube-apiserver's flags of the same names.
#[derive(Clone, Debug)]
pub struct EtcdOptions {
    /// `https://host:2379`, each a member of one cluster.
    pub endpoints: Vec<String>,
    /// Who signs the members' certificates; without it, those whom this machine trusts.
    pub ca_file: Option<PathBuf>,
    /// Who we are. Files are read again for every connection, so that they can be renewed.
    pub cert_file: Option<PathBuf>,
    pub key_file: Option<PathBuf>,
    /// Opens connections to members, where they are not reached directly.
    pub dial: Option<EtcdDial>,
    /// How often history is compacted, together with all other API servers on this etcd; zero leaves it to others.
    pub compaction_interval: Duration,
    /// Keys that expire within so long of each other may share a lease.
    pub lease_reuse: Duration,
    /// How long starting waits for the first member that answers.
    pub start_timeout: Duration,
    /// A member that has not answered after so long is not waited for any longer. etcd itself gives up after seven seconds.
    pub attempt_timeout: Duration,
    /// How long a read is tried again while members fail.
    pub read_timeout: Duration,
    /// How long a write is tried again while members fail.
    pub write_timeout: Duration,
}

impl EtcdOptions {
    pub fn at(endpoints: impl IntoIterator<Item = String>) -> Self {
        EtcdOptions {
            endpoints: endpoints.into_iter().collect(),
            ca_file: None,
            cert_file: None,
            key_file: None,
            dial: None,
            compaction_interval: Duration::ZERO,
            lease_reuse: Duration::from_secs(60),
            start_timeout: Duration::from_secs(60),
            attempt_timeout: Duration::from_secs(8),
            read_timeout: Duration::from_secs(20),
            write_timeout: Duration::from_secs(20),
        }
    }
}

/// Why the engine cannot be started, as one sentence for the log.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct StartError(pub String);
