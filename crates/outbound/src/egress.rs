//! [`Egress`]: through which proxy the server reaches which network, from `--egress-selector-config-file`.

mod http_connect;
mod meters;
mod tunnel;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use codec::{ConfigKind, ConfigType};
use object::{Errors, Value, quote};
use spans::KeyValue;

use self::http_connect::{HttpConnect, Proxy};
pub use self::meters::EgressMeters;
use self::tunnel::Tunnel;
use crate::{
    Address, CallMeters, Certificate, CertificateMeters, ClientOptions, Credentials, Dial, Direct, Error, Protocols,
    Roots, Stream,
};

const FILE: ConfigKind = ConfigKind {
    kind: "EgressSelectorConfiguration",
    versions: &["apiserver.k8s.io/v1beta1", "apiserver.k8s.io/v1alpha1"],
    scheme: "pkg/server/egressselector/config.go:33",
    fields: &[(
        "egressSelections",
        ConfigType::List(&ConfigType::Object(&[
            ("name", ConfigType::String),
            (
                "connection",
                ConfigType::Object(&[
                    ("proxyProtocol", ConfigType::String),
                    (
                        "transport",
                        ConfigType::Object(&[
                            (
                                "tcp",
                                ConfigType::Object(&[
                                    ("url", ConfigType::String),
                                    (
                                        "tlsConfig",
                                        ConfigType::Object(&[
                                            ("caBundle", ConfigType::String),
                                            ("clientKey", ConfigType::String),
                                            ("clientCert", ConfigType::String),
                                            ("tlsServerName", ConfigType::String),
                                        ]),
                                    ),
                                ]),
                            ),
                            ("uds", ConfigType::Object(&[("udsName", ConfigType::String)])),
                        ]),
                    ),
                ]),
            ),
        ])),
    )],
};

/// How each network is reached. None: directly, as without a file.
#[derive(Clone, Default)]
pub struct Egress {
    /// Webhooks at URLs, token issuers, audit backends.
    pub control_plane: Option<Arc<dyn Dial>>,
    pub etcd: Option<Arc<dyn Dial>>,
    /// Kubelets, pods and Services.
    pub cluster: Option<Arc<dyn Dial>>,
    pub meters: Arc<EgressMeters>,
    /// Counts calls to the control plane's network and of admission and conversion.
    pub calls: Arc<CallMeters>,
    /// Counts refused certificates of the servers of those calls.
    pub certificates: Arc<CertificateMeters>,
}

impl Egress {
    /// Reads the file. Err is upstream's text.
    pub fn read(path: &Path) -> Result<Egress, String> {
        let text = std::fs::read(path).map_err(|error| {
            let shown = path.display().to_string();
            let why = crate::in_gos_words(&error);
            format!("unable to read egress selector configuration from {} [open {shown}: {why}]", quote(&shown))
        })?;
        Egress::parse(&text)
    }

    fn parse(text: &[u8]) -> Result<Egress, String> {
        let file = FILE.read(text)?;
        let selections = file.list_at(&["egressSelections"]);
        let errors = validate(selections);
        if !errors.is_empty() {
            return Err(errors.aggregate());
        }
        let mut egress = Egress::default();
        for selection in selections {
            let name = selection.str_at(&["name"]).to_lowercase();
            let dial = dial(selection.field("connection"), &egress.meters)
                .map_err(|why| format!("failed to create dialer for egressSelection {}: {why}", quote(&name)))?;
            match name.as_str() {
                "controlplane" => egress.control_plane = Some(dial),
                "etcd" => egress.etcd = Some(dial),
                _ => egress.cluster = Some(dial),
            }
        }
        Ok(egress)
    }

    /// How to reach the control plane's network.
    pub fn to_control_plane(&self) -> Arc<dyn Dial> {
        self.control_plane.clone().unwrap_or_else(|| Arc::new(Direct))
    }

    /// These options for a server in the control plane's network.
    pub fn of_control_plane(&self, options: ClientOptions) -> ClientOptions {
        let (calls, certificates) = (self.calls.clone(), self.certificates.clone());
        ClientOptions { dial: self.to_control_plane(), calls, certificates, ..options }
    }

    /// How to reach the cluster's network.
    pub fn to_cluster(&self) -> Arc<dyn Dial> {
        self.cluster.clone().unwrap_or_else(|| Arc::new(Direct))
    }
}

fn dial(connection: &Value, meters: &Arc<EgressMeters>) -> Result<Arc<dyn Dial>, String> {
    let transport = connection.field("transport");
    let socket = transport.field("uds");
    let socket = (!socket.is_null()).then(|| PathBuf::from(socket.str_at(&["udsName"])));
    let meters = meters.clone();
    let (name, dial): (_, Arc<dyn Dial>) = match (connection.str_at(&["proxyProtocol"]), socket) {
        ("Direct", _) => return Ok(Arc::new(Direct)),
        ("GRPC", Some(socket)) => ("Proxy via grpc protocol over uds", Arc::new(Tunnel { socket, meters })),
        (_, Some(socket)) => {
            let dial = HttpConnect { proxy: Proxy::Socket(socket), meters };
            ("Proxy via http_connect protocol over uds", Arc::new(dial))
        }
        (_, None) => {
            let dial = HttpConnect { proxy: tcp_proxy(transport.field("tcp"))?, meters };
            ("Proxy via http_connect protocol over tcp", Arc::new(dial))
        }
    };
    Ok(Arc::new(Traced { name, dial }))
}

/// Connects in a span of its own, if the request that needs the connection is traced.
struct Traced {
    name: &'static str,
    dial: Arc<dyn Dial>,
}

#[async_trait]
impl Dial for Traced {
    async fn dial(&self, address: &Address) -> Result<Box<dyn Stream>, Error> {
        let attributes = || vec![KeyValue::text("address", address.to_string())];
        spans::traced(self.name, attributes, self.dial.dial(address)).await
    }
}

fn tcp_proxy(tcp: &Value) -> Result<Proxy, String> {
    let url = tcp.str_at(&["url"]);
    let uri = url.parse().map_err(|error| format!("invalid proxy server url {}: {error}", quote(url)))?;
    let tls = tcp.field("tlsConfig");
    let text = |field: &str| Some(tls.str_at(&[field])).filter(|text| !text.is_empty());
    let certificate = match (text("clientCert"), text("clientKey")) {
        (Some(cert), Some(key)) => Some(Certificate::Files { certificate: cert.into(), key: key.into() }),
        _ => None,
    };
    let options = ClientOptions {
        roots: text("caBundle").map_or(Roots::System, |file| Roots::File(file.into())),
        server_name: text("tlsServerName").map(str::to_string),
        credentials: Credentials { certificate, ..Credentials::default() },
        protocols: Protocols::Http1,
        ..ClientOptions::default()
    };
    Ok(Proxy::Tcp { connector: crate::client::connector(&options)?.with_protocols(&[]), uri })
}

fn validate(selections: &[Value]) -> Errors {
    let mut errors = Errors::new();
    let at = object::Path::of("service.connection");
    for selection in selections {
        let connection = selection.field("connection");
        let transport = connection.field("transport");
        match connection.str_at(&["proxyProtocol"]) {
            "Direct" if !transport.is_null() => {
                errors.invalid(&at.field("transport"), "direct", "config must be absent for direct connect");
            }
            "Direct" => {}
            "HTTPConnect" => validate_http_connect(transport, &at, &mut errors),
            "GRPC" if transport.is_null() => {
                errors.required(&at.field("transport"), "transport must be set for GRPC");
            }
            "GRPC" if transport.field("uds").is_null() => {
                errors.required(&at.field("uds"), "UDS must be set with GRPC");
            }
            "GRPC" => validate_socket(transport.field("uds"), &at, &mut errors),
            other => errors.not_supported(&at.field("protocol"), other, &["Direct", "HTTPConnect", "GRPC"]),
        }
    }
    let mut seen: Vec<String> = Vec::new();
    for (index, selection) in selections.iter().enumerate() {
        let name = selection.str_at(&["name"]).to_lowercase();
        if seen.contains(&name) {
            errors.duplicate(&at.index(index), name);
            continue;
        }
        if !matches!(name.as_str(), "controlplane" | "cluster" | "etcd") {
            errors.not_supported(&at, name.as_str(), &["cluster", "controlplane", "etcd"]);
        }
        seen.push(name);
    }
    errors
}

fn validate_http_connect(transport: &Value, at: &object::Path, errors: &mut Errors) {
    if transport.is_null() {
        errors.required(&at.field("transport"), "transport must be set for HTTPConnect");
        return;
    }
    let (tcp, socket) = (transport.field("tcp"), transport.field("uds"));
    match (tcp.is_null(), socket.is_null()) {
        (false, false) => {
            errors.invalid(&at.field("tcp"), tcp.clone(), "TCP and UDS cannot both be set");
        }
        (true, true) => errors.required(&at.field("tcp"), "One of TCP or UDS must be set"),
        (true, false) => validate_socket(socket, at, errors),
        (false, true) => validate_tcp(tcp, at, errors),
    }
}

fn validate_socket(socket: &Value, at: &object::Path, errors: &mut Errors) {
    if socket.str_at(&["udsName"]).is_empty() {
        errors.invalid(&at.field("udsName"), "nil", "must be present for UDS connections");
    }
}

fn validate_tcp(tcp: &Value, at: &object::Path, errors: &mut Errors) {
    let (url, tls, path) = (tcp.str_at(&["url"]), tcp.field("tlsConfig"), at.field("tlsConfig"));
    if url.starts_with("http://") {
        if !tls.is_null() {
            errors.invalid(&path, "nil", "config must not be present when using HTTP");
        }
        return;
    }
    if !url.starts_with("https://") {
        errors.invalid(&at.field("url"), url, "supported connection protocols are http:// and https://");
        return;
    }
    if tls.is_null() {
        errors.required(&path, "TLSConfig must be present when using HTTPS");
        return;
    }
    for (field, missing, gone) in [
        ("caBundle", "", "TLS config ca bundle does not exist"),
        ("clientCert", "Using TLS requires clientCert", "TLS client cert does not exist"),
        ("clientKey", "Using TLS requires requires clientKey", "TLS client key does not exist"),
    ] {
        let file = tls.str_at(&[field]);
        if file.is_empty() {
            if !missing.is_empty() {
                errors.invalid(&path.field(field), "nil", missing);
            }
        } else if !Path::new(file).exists() {
            errors.invalid(&path.field(field), file, gone);
        }
    }
}

#[cfg(test)]
mod tests;
