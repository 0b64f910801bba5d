//! [`Config`]: everything that can be set, with the defaults of a server that was told nothing.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

/// What a server is started with.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where data, keys and certificates are kept.
    pub data_dir: PathBuf,
    pub bind_address: IpAddr,
    /// 0 picks a free port.
    pub port: u16,
    pub token_auth_file: Option<PathBuf>,
    pub client_ca_file: Option<PathBuf>,
    pub tls_cert_file: Option<PathBuf>,
    pub tls_private_key_file: Option<PathBuf>,
    pub anonymous_auth: bool,
    /// In order: Node, RBAC, AlwaysAllow, AlwaysDeny.
    pub authorization_mode: Vec<String>,
    /// `--feature-gates`.
    pub feature_gates: Vec<(String, bool)>,
    /// `--runtime-config`: group/version, or api/all and its like → on or off.
    pub runtime_config: Vec<(String, bool)>,
    pub enable_admission_plugins: Vec<String>,
    pub disable_admission_plugins: Vec<String>,
    pub service_cluster_ip_range: String,
    pub request_timeout: Duration,
    pub event_ttl: Duration,
    pub shutdown_delay: Duration,
    /// Whether the server looks after namespaces, owned objects and service accounts itself.
    pub standalone: bool,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            data_dir: PathBuf::from(".ferrokube"),
            bind_address: IpAddr::V4(Ipv4Addr::LOCALHOST),
            port: 6443,
            token_auth_file: None,
            client_ca_file: None,
            tls_cert_file: None,
            tls_private_key_file: None,
            anonymous_auth: true,
            authorization_mode: vec!["Node".into(), "RBAC".into()],
            feature_gates: Vec::new(),
            runtime_config: Vec::new(),
            enable_admission_plugins: Vec::new(),
            disable_admission_plugins: Vec::new(),
            service_cluster_ip_range: "10.0.0.0/24".into(),
            request_timeout: Duration::from_secs(60),
            event_ttl: Duration::from_secs(3600),
            shutdown_delay: Duration::ZERO,
            standalone: false,
        }
    }
}

impl Config {
    pub fn address(&self) -> SocketAddr {
        SocketAddr::new(self.bind_address, self.port)
    }
}
