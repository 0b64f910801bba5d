//! [`Connect`]: subresources that pass a connection on to a kubelet, a pod or a service: exec, attach, portforward, log
//! and proxy. Here it is only said where the connection goes; it is made by the server.

use async_trait::async_trait;
use object::{GroupVersionKind, Status, Value};

use crate::{Context, Features, Storage};

/// A subresource that is a connection instead of an object.
#[async_trait]
pub trait Connect: Send + Sync + 'static {
    /// The kind of the options in the query.
    fn options(&self) -> GroupVersionKind;

    /// Where the connection goes; None where the answer is empty, as the log of a pod that has no node yet.
    async fn target(&self, call: &ConnectCall<'_>) -> Result<Option<Target>, Status>;

    /// What clients are told when the target cannot be reached.
    fn unreachable(&self, target: &Target, why: &str) -> Status;

    /// Whether this is upstream's CONNECT, which admission sees; reading a log is a GET.
    fn is_admitted(&self) -> bool {
        true
    }

    /// A verb that the user must be allowed, whatever the request's own verb is.
    fn required_verb(&self, _features: &Features) -> Option<&'static str> {
        None
    }
}

/// What a connection is asked for with.
pub struct ConnectCall<'a> {
    pub cx: Context<'a>,
    pub storage: &'a Storage,
    /// As in the path: for a proxy also `name:port` or `scheme:name:port`.
    pub name: &'a str,
    /// The query as an object of the kind [`Connect::options`].
    pub options: &'a Value,
    /// The path below the subresource, as it was sent.
    pub path: &'a str,
    /// The query with its question mark, "" if there is none.
    pub query: &'a str,
}

impl ConnectCall<'_> {
    /// The path below the subresource with the query: what a proxied request asks the other end for.
    pub fn proxied_path(&self) -> String {
        let path = if self.path.is_empty() { "/" } else { self.path };
        format!("{path}{}", self.query)
    }
}

/// The other end of a connection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Target {
    /// Kubelets are shown the server's client certificate, other targets none.
    pub kubelet: bool,
    pub tls: bool,
    pub host: String,
    pub port: u16,
    /// With the query.
    pub path: String,
    /// Whether `host` must resolve to global unicast addresses only, so that the server cannot be made to reach itself.
    pub only_global: bool,
}
