//! [`Config`]: everything that can be set, with the defaults of a server without flags.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use outbound::Egress;
use registry::Features;
use standalone::Leadership;

use crate::StoreConfig;
use crate::aggregation::Aggregation;
use crate::audit::AuditConfig;
use crate::authentication::AuthenticationConfig;
use crate::authorization::AuthorizationConfig;
use crate::debugging::Debugging;
use crate::own_service::OwnServiceConfig;
use crate::peering::PeerConfig;
use crate::profile::ApiProfile;
use crate::serving::Serving;
use crate::shown_metrics::ShownMetrics;
use crate::versions::Versions;

/// The settings that a server is started with.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where data, keys and certificates are kept.
    pub data_dir: PathBuf,
    /// Whether connections are accepted at all. Without it the server answers clients of its own process only, makes no certificates,
    /// and has no `kubernetes` Service.
    pub listens: bool,
    pub bind_address: IpAddr,
    /// Where the cluster reaches the server, if not at the address it listens on.
    pub advertise_address: Option<IpAddr>,
    /// 0 picks a free port.
    pub port: u16,
    pub token_auth_file: Option<PathBuf>,
    pub client_ca_file: Option<PathBuf>,
    /// `--own-authority`: whether the authority in the data directory vouches for clients. None: if nothing else was given.
    pub own_authority: Option<bool>,
    /// Where a serving certificate is looked for, and left, unless its files are named.
    pub cert_dir: Option<PathBuf>,
    pub tls_cert_file: Option<PathBuf>,
    pub tls_private_key_file: Option<PathBuf>,
    pub anonymous_auth: bool,
    /// `--enable-bootstrap-token-auth`: whether tokens in secrets of `kube-system` let new nodes in.
    pub bootstrap_tokens: bool,
    /// Whether containers may ask for all privileges.
    pub allow_privileged: bool,
    pub authorization: AuthorizationConfig,
    /// `--emulated-version` and `--min-compatibility-version`.
    pub versions: Versions,
    /// `--feature-gates`.
    pub feature_gates: Vec<(String, bool)>,
    /// Which built-in resources there are at all.
    pub profile: ApiProfile,
    /// `--runtime-config`: group/version, or api/all and its like → on or off.
    pub runtime_config: Vec<(String, bool)>,
    /// `KUBE_APISERVER_SERVE_REMOVED_APIS_FOR_ONE_RELEASE`: versions that this release removed can still be enabled.
    pub serve_removed: bool,
    pub enable_admission_plugins: Vec<String>,
    pub disable_admission_plugins: Vec<String>,
    /// `--admission-control`: all plugins that are enabled; None leaves that to the two lists above.
    pub admission_control: Option<Vec<String>>,
    /// `--admission-control-config-file`.
    pub admission_config_file: Option<PathBuf>,
    /// `--admission-webhook-ignore-budget`: how long webhooks with `failurePolicy: Ignore` may take together in one request.
    pub webhook_ignore_budget: Option<Duration>,
    pub aggregation: Aggregation,
    /// How long pods tolerate nodes that are not ready, and nodes that cannot be reached, unless they say.
    pub toleration_seconds: (i64, i64),
    pub service_accounts: ServiceAccounts,
    /// The commit and the compiler that the program is built from.
    pub build: server::Build,
    /// `--version=vX.Y.Z…`: what the server says it is, if not the version it was built as.
    pub reported_version: Option<String>,
    /// `--external-hostname`: the host in URLs that others are told, "" for the advertised address.
    pub external_hostname: String,
    /// `--tracing-config-file`.
    pub tracing_file: Option<PathBuf>,
    /// `--egress-selector-config-file`.
    pub egress_file: Option<PathBuf>,
    /// `--api-audiences`; whom tokens for this server are meant for. Empty: its issuers.
    pub api_audiences: Vec<String>,
    pub own_service: OwnServiceConfig,
    /// The machine's name, of which the server's identity is made.
    pub hostname: String,
    pub peering: PeerConfig,
    pub request_timeout: Duration,
    pub event_ttl: Duration,
    pub shutdown_delay: Duration,
    pub store: StoreConfig,
    /// `--enable-garbage-collector`.
    pub garbage_collection: bool,
    /// Whether the server looks after namespaces, owned objects and service accounts itself.
    pub standalone: bool,
    /// `--console`: whether browsers find pages at `/console/`.
    pub console: bool,
    pub serving: Serving,
    pub audit: AuditConfig,
    pub metrics: ShownMetrics,
    pub debugging: Debugging,
    pub leadership: Leadership,
    /// Every flag with its value, as `/flagz` shows them.
    pub flags: BTreeMap<String, String>,
    pub authentication: AuthenticationConfig,
}

/// The `--service-account-*` flags.
#[derive(Clone, Debug)]
pub struct ServiceAccounts {
    /// The first issues tokens, all are believed. Empty: `https://kubernetes.default.svc`.
    pub issuers: Vec<String>,
    /// None: a key is made at the first start and kept in the data directory.
    pub signing_key_file: Option<PathBuf>,
    /// Whether the key is made in memory instead of the data directory, so that tokens end with the server.
    pub key_in_memory: bool,
    /// `--service-account-signing-endpoint`: the socket of a process that signs instead.
    pub signing_endpoint: Option<String>,
    /// Keys that tokens may be signed with. Empty: the signing key.
    pub key_files: Vec<PathBuf>,
    /// Where others find the keys, if not at this server's advertised address.
    pub jwks_uri: String,
    /// The longest that tokens are good for; zero is without a limit.
    pub max_token_expiration: Duration,
    /// Whether pods' tokens live on for a year, so that clients which do not renew them keep working.
    pub extend_token_expiration: bool,
    /// Whether tokens in secrets are only good while they are there.
    pub lookup: bool,
}

impl Default for ServiceAccounts {
    fn default() -> ServiceAccounts {
        ServiceAccounts {
            issuers: Vec::new(),
            signing_key_file: None,
            key_in_memory: false,
            signing_endpoint: None,
            key_files: Vec::new(),
            jwks_uri: String::new(),
            max_token_expiration: Duration::ZERO,
            extend_token_expiration: true,
            lookup: true,
        }
    }
}

impl Default for Config {
    fn default() -> Config {
        Config {
            data_dir: PathBuf::from(".ferrokube"),
            listens: true,
            bind_address: IpAddr::V4(Ipv4Addr::LOCALHOST),
            advertise_address: None,
            port: 6443,
            token_auth_file: None,
            client_ca_file: None,
            own_authority: None,
            cert_dir: None,
            tls_cert_file: None,
            tls_private_key_file: None,
            anonymous_auth: true,
            bootstrap_tokens: false,
            allow_privileged: false,
            authorization: AuthorizationConfig::default(),
            versions: Versions::default(),
            feature_gates: Vec::new(),
            profile: ApiProfile::default(),
            runtime_config: Vec::new(),
            serve_removed: false,
            enable_admission_plugins: Vec::new(),
            disable_admission_plugins: Vec::new(),
            admission_control: None,
            admission_config_file: None,
            webhook_ignore_budget: None,
            aggregation: Aggregation::default(),
            toleration_seconds: (300, 300),
            service_accounts: ServiceAccounts::default(),
            build: server::Build::default(),
            reported_version: None,
            external_hostname: String::new(),
            tracing_file: None,
            egress_file: None,
            api_audiences: Vec::new(),
            own_service: OwnServiceConfig::default(),
            hostname: crate::start::hostname(),
            peering: PeerConfig::default(),
            request_timeout: Duration::from_secs(60),
            event_ttl: Duration::from_secs(3600),
            shutdown_delay: Duration::ZERO,
            store: StoreConfig::default(),
            garbage_collection: true,
            standalone: false,
            console: true,
            serving: Serving::default(),
            audit: AuditConfig::default(),
            metrics: ShownMetrics::default(),
            debugging: Debugging::default(),
            leadership: Leadership::default(),
            flags: BTreeMap::new(),
            authentication: AuthenticationConfig::default(),
        }
    }
}

impl Config {
    /// The defaults of kube-apiserver, which leave it to flags to make a server safe.
    pub fn of_kube_apiserver() -> Config {
        let mut config = Config { bind_address: IpAddr::V4(Ipv4Addr::UNSPECIFIED), ..Config::default() };
        config.authorization.modes = vec!["AlwaysAllow".into()];
        config
    }

    /// Which feature gates are on.
    pub(crate) fn features(&self) -> Result<Features, String> {
        let mut features = Features::at(self.versions.emulated, self.versions.compatible);
        features.set(&self.feature_gates)?;
        features.set_allow_privileged(self.allow_privileged);
        features.set_garbage_collection(self.garbage_collection);
        Ok(features)
    }

    /// The answer of `/version`.
    pub(crate) fn version(&self) -> server::Version {
        let (shown, build) = (self.versions.shown(), self.build.clone());
        server::Version { git_version: self.reported_version.clone().unwrap_or(shown.git_version), build, ..shown }
    }

    /// How other networks are reached.
    pub fn egress(&self) -> Result<Egress, String> {
        let Some(path) = &self.egress_file else { return Ok(Egress::default()) };
        if !path.exists() {
            return Err(format!("egress-selector-config-file {} does not exist", path.display()));
        }
        #[cfg(feature = "egress")]
        let read = Egress::read(path);
        #[cfg(not(feature = "egress"))]
        let read = Err(crate::left_out("egress"));
        read.map_err(|why| format!("failed to read egress selector config: {why}"))
    }

    pub fn address(&self) -> SocketAddr {
        SocketAddr::new(self.bind_address, self.port)
    }
}
