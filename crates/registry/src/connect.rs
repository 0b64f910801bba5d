//! [`Connect`]: subresources that pass a connection on to a kubelet, a pod or a service: exec, attach, portforward, log
//! and proxy. Here it is only said where the connection goes; it is made by the server.

use async_trait::async_trait;
use object::{GroupVersionKind, Value};

use crate::{Context, Error, Features, ResourceStorage};

/// A subresource that is a connection instead of an object.
#[async_trait]
pub trait Connect: Send + Sync + 'static {
    /// The kind of the options in the query.
    fn options(&self) -> GroupVersionKind;

    /// The kind of connection that clients ask for.
    fn exchange(&self) -> Exchange;

    /// Where the connection goes; None where the answer is empty, as the log of a pod that has no node yet.
    async fn target(&self, call: &ConnectCall<'_>) -> Result<Option<Target>, Error>;

    /// A verb that the user must be allowed, whatever the request's own verb is.
    fn required_verb(&self, _features: &Features) -> Option<&'static str> {
        None
    }
}

/// The kind of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exchange {
    /// A GET whose answer is a container's log. It is not a CONNECT, so admission does not see it.
    Log,
    /// exec and attach: the streams of a command.
    RemoteCommand,
    /// Connections to ports of a pod.
    PortForward,
    /// The client's request, passed on as it is.
    Proxy,
}

/// The request for a connection.
pub struct ConnectCall<'a> {
    /// The request.
    pub cx: Context<'a>,
    /// The storage of the resource.
    pub storage: &'a ResourceStorage,
    /// As in the path: for a proxy also `name:port` or `scheme:name:port`.
    pub name: &'a str,
    /// The query as an object of the kind [`Connect::options`].
    pub options: &'a Value,
}

/// The other end of a connection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Target {
    /// Kubelets are shown the server's client certificate, other targets none.
    pub kubelet: bool,
    /// Whether the connection is encrypted.
    pub tls: bool,
    /// The host.
    pub host: String,
    /// The port.
    pub port: u16,
    /// With the query.
    pub path: String,
    /// Whether `host` must resolve to global unicast addresses only, so that the server cannot be made to reach itself.
    pub only_global: bool,
    /// Whether a kubelet's certificate is not verified: `insecureSkipTLSVerifyBackend`.
    pub unverified: bool,
    /// Whether the node declares that its kubelet speaks WebSocket, so that nothing needs to be translated.
    pub websockets: bool,
}

impl Target {
    /// Host and port as in a URL.
    pub fn authority(&self) -> String {
        if self.host.contains(':') {
            format!("[{}]:{}", self.host, self.port)
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }
}
