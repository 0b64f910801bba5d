//! Settings of the listener: TLS, connections, limits and shutdown.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use flow::{Flow, FlowSettings};
use registry::Features;
use server::tls::{CertificateFiles, Certificates, Protocols};
use server::{
    Always, Check, ConnectionOptions, Cors, Delayed, Endpoint, Health, Hook, Lifecycle, Seats, ShutdownCheck,
    ShutdownTimeouts,
};

use crate::flags::{Row, rows};
use crate::{Config, Pki, peering, pki};

/// The flags that [`Serving`] takes.
pub(crate) const FLAGS: &[Row] = rows! { serving = &mut config.serving, |config, given|
    "cors-allowed-origins" => serving.cors_origins = given.list().collect(),
    // Zero or less is one worker, as upstream.
    "delete-collection-workers" => serving.delete_collection_workers = usize::try_from(given.number()?).unwrap_or(0).max(1),
    "disable-http2-serving" => serving.protocols.http1_only = given.boolean()?,
    "enable-priority-and-fairness" => serving.priority_and_fairness = given.boolean()?,
    "goaway-chance" => serving.connections.goaway_chance = chance(given.last())?,
    "http2-max-streams-per-connection" => match number(given.last())? {
        // Zero leaves it to the server.
        0 => {}
        most => serving.connections.max_streams = u32::try_from(most).map_err(|_| "is too large".to_string())?,
    },
    "kubelet-certificate-authority" => serving.kubelet.authority = given.path(),
    "kubelet-client-certificate" => serving.kubelet.certificate = given.path(),
    "kubelet-client-key" => serving.kubelet.key = given.path(),
    "kubelet-port" => serving.kubelet.port = given.read("is not a port")?,
    "kubelet-preferred-address-types" => serving.kubelet.address_types = given.list().collect(),
    "livez-grace-period" => serving.livez_grace = given.span_or_zero()?,
    "max-connection-bytes-per-sec" => serving.kubelet.max_bytes_per_second = number(given.last())? as u64,
    "max-mutating-requests-inflight" => serving.max_writes = number(given.last())?,
    "max-requests-inflight" => serving.max_reads = number(given.last())?,
    "min-request-timeout" => serving.min_request_timeout = Duration::from_secs(number(given.last())? as u64),
    "permit-port-sharing" => serving.connections.share_port = given.boolean()?,
    "shutdown-send-retry-after" => serving.connections.answer_while_leaving = given.boolean()?,
    "shutdown-watch-termination-grace-period" => serving.watch_grace = given.span()?,
    "strict-transport-security-directives" => serving.hsts = given.list().collect::<Vec<_>>().join("; "),
    "tls-cipher-suites" => serving.protocols.cipher_suites = given.list().collect(),
    "tls-curve-preferences" => {
        let number = |text: String| text.parse().map_err(|_| format!("{text} is not a number"));
        serving.protocols.curves = given.list().map(number).collect::<Result<_, _>>()?;
    },
    "tls-min-version" => serving.protocols.min_version = given.last().to_string(),
    "tls-sni-cert-key" => {
        serving.sni = given.0.iter().map(|value| CertificateFiles::parse(value)).collect::<Result<_, _>>()?;
    },
};

/// Settings with kube-apiserver's defaults.
#[derive(Clone, Debug)]
pub struct Serving {
    pub sni: Vec<CertificateFiles>,
    pub protocols: Protocols,
    pub connections: ConnectionOptions,
    pub cors_origins: Vec<String>,
    pub hsts: String,
    /// Watches without a timeout last at least this long.
    pub min_request_timeout: Duration,
    pub max_reads: usize,
    pub max_writes: usize,
    /// How many objects of one DELETECOLLECTION are deleted at the same time.
    pub delete_collection_workers: usize,
    /// `--redact-secrets-for`: groups whose members see Secrets without their values.
    pub redact_secrets_for: Vec<String>,
    /// `--authorized-lists-for`: groups whose members get what they may see of lists that they may not see as a whole.
    pub authorized_lists_for: Vec<String>,
    /// Whether seats are given out by priority and fairness.
    pub priority_and_fairness: bool,
    pub watch_grace: Duration,
    /// `--livez-grace-period`: how long liveness does not depend on the steps of the start.
    pub livez_grace: Duration,
    pub kubelet: Kubelets,
}

/// How kubelets are reached, how this server proves itself to them, and how they do to it.
#[derive(Clone, Debug)]
pub struct Kubelets {
    pub authority: Option<PathBuf>,
    pub certificate: Option<PathBuf>,
    pub key: Option<PathBuf>,
    /// Which of a node's addresses is used: the first type that it has.
    pub address_types: Vec<String>,
    /// The port of a kubelet that has not published another.
    pub port: u16,
    /// `--max-connection-bytes-per-sec`: how much an upgraded connection to a kubelet, pod or service carries; 0 for no limit.
    pub max_bytes_per_second: u64,
}

impl Default for Kubelets {
    fn default() -> Kubelets {
        let kinds::core::ConnectOptions { address_types, kubelet_port: port, .. } = Default::default();
        Kubelets { authority: None, certificate: None, key: None, address_types, port, max_bytes_per_second: 0 }
    }
}

impl Default for Serving {
    fn default() -> Serving {
        Serving {
            sni: Vec::new(),
            protocols: Protocols::default(),
            connections: ConnectionOptions::default(),
            cors_origins: Vec::new(),
            hsts: String::new(),
            min_request_timeout: Duration::from_secs(1800),
            max_reads: 400,
            max_writes: 200,
            delete_collection_workers: 1,
            redact_secrets_for: Vec::new(),
            authorized_lists_for: Vec::new(),
            priority_and_fairness: true,
            watch_grace: Duration::ZERO,
            livez_grace: Duration::ZERO,
            kubelet: Kubelets::default(),
        }
    }
}

impl Serving {
    /// With priority and fairness the sum of both limits is divided among priority levels.
    pub fn seats(&self) -> Seats {
        match self.priority_and_fairness {
            true => Seats::by_priority(Arc::new(Flow::new(FlowSettings { seats: self.max_reads + self.max_writes }))),
            false => Seats::new(self.max_reads, self.max_writes),
        }
    }

    pub fn cors(&self) -> Result<Cors, String> {
        Cors::new(&self.cors_origins)
    }
}

fn number(text: &str) -> Result<usize, String> {
    text.parse().map_err(|_| format!("{text} is not a number that can be used here"))
}

/// More than one request in fifty asking for a new connection would be all that a server does.
fn chance(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(chance) if (0.0..=0.02).contains(&chance) => Ok(chance),
        _ => Err("--goaway-chance can not be less than 0 or greater than 0.02".into()),
    }
}

/// How long each step of the shutdown may take.
pub fn shutdown_timeouts(config: &Config) -> ShutdownTimeouts {
    ShutdownTimeouts {
        delay: config.shutdown_delay,
        requests: config.request_timeout,
        watches: config.serving.watch_grace,
    }
}

/// The certificates the server shows: those it was given, or its own.
pub fn certificates(config: &Config, pki: &Pki) -> Result<Arc<Certificates>, String> {
    let (certificate, key) = serving_files(config, pki)?;
    if let Some(folder) = config.cert_dir.as_deref().filter(|_| config.tls_cert_file.is_none()) {
        fill(folder, &certificate, &key, config, pki)?;
    }
    let default = CertificateFiles { certificate, key, names: Vec::new() };
    server::tls::follow(default, config.serving.sni.clone())
}

/// Where the serving certificate and its key are.
pub fn serving_files(config: &Config, pki: &Pki) -> Result<(PathBuf, PathBuf), String> {
    match (&config.tls_cert_file, &config.tls_private_key_file, &config.cert_dir) {
        (Some(certificate), Some(key), _) => Ok((certificate.clone(), key.clone())),
        (None, None, Some(folder)) => Ok((folder.join("apiserver.crt"), folder.join("apiserver.key"))),
        (None, None, None) => Ok((pki.serving_cert.clone(), pki.serving_key.clone())),
        _ => Err("missing filename for serving cert: --tls-cert-file and --tls-private-key-file go together".into()),
    }
}

/// Puts a pair into `--cert-dir` where there is none: the server's own, or one that is made for this alone.
fn fill(folder: &Path, certificate: &Path, key: &Path, config: &Config, pki: &Pki) -> Result<(), String> {
    if certificate.exists() && key.exists() {
        return Ok(());
    }
    let failed = |error: std::io::Error| format!("cannot use --cert-dir {}: {error}", folder.display());
    std::fs::create_dir_all(folder).map_err(failed)?;
    let (chain, private) = match pki.own.serving {
        true => (
            std::fs::read_to_string(&pki.serving_cert).map_err(failed)?,
            std::fs::read_to_string(&pki.serving_key).map_err(failed)?,
        ),
        false => pki::self_signed(&crate::start::hosts(config)).map_err(|error| error.to_string())?,
    };
    files::replace(key, private.as_bytes()).map_err(failed)?;
    files::replace(certificate, chain.as_bytes()).map_err(failed)
}

/// What kube-apiserver does after it has started, by the names of its checks. Here it is done when the system's own
/// objects are there and the caches follow the store, which is before the first request is answered.
const HOOKS: &[&str] = &[
    "poststarthook/start-encryption-provider-config-automatic-reload",
    "poststarthook/start-apiserver-admission-initializer",
    "poststarthook/generic-apiserver-start-informers",
    "poststarthook/priority-and-fairness-config-consumer",
    "poststarthook/priority-and-fairness-filter",
    "poststarthook/storage-object-count-tracker-hook",
    "poststarthook/start-apiextensions-informers",
    "poststarthook/start-apiextensions-controllers",
    "poststarthook/crd-informer-synced",
    "poststarthook/start-system-namespaces-controller",
    "poststarthook/peer-endpoint-reconciler-controller",
    "poststarthook/mixed-version-proxy-handler",
    "poststarthook/local-discovery-cache-sync",
    "poststarthook/peer-discovery-workers",
    "poststarthook/start-cluster-authentication-info-controller",
    "poststarthook/start-kube-apiserver-identity-lease-controller",
    "poststarthook/start-kube-apiserver-identity-lease-garbage-collector",
    "poststarthook/storage-readiness",
    "poststarthook/start-legacy-token-tracking-controller",
    "poststarthook/start-service-ip-repair-controllers",
    "poststarthook/rbac/bootstrap-roles",
    "poststarthook/scheduling/bootstrap-system-priority-classes",
    "poststarthook/priority-and-fairness-config-producer",
    "poststarthook/bootstrap-controller",
    "poststarthook/start-kubernetes-service-cidr-controller",
    "poststarthook/start-kube-aggregator-informers",
    "poststarthook/apiservice-status-local-available-controller",
    "poststarthook/apiservice-status-remote-available-controller",
    "poststarthook/apiservice-registration-controller",
    "poststarthook/apiservice-discovery-controller",
    peering::STORAGE_VERSION_HOOK,
    "poststarthook/kube-apiserver-autoregistration",
    "autoregister-completion",
    "poststarthook/apiservice-openapi-controller",
    "poststarthook/apiservice-openapiv3-controller",
];

/// Whether a hook belongs to a feature that is on.
fn is_run(hook: &str, config: &Config, features: &Features) -> bool {
    match hook.trim_start_matches("poststarthook/") {
        "start-encryption-provider-config-automatic-reload" => config.store.encryption_reload,
        "peer-endpoint-reconciler-controller" => features.enabled(peering::PEER_PROXY),
        "mixed-version-proxy-handler" | "local-discovery-cache-sync" | "peer-discovery-workers" => {
            features.enabled(peering::PEER_PROXY) && config.peering.authority.is_some()
        }
        "start-kube-apiserver-identity-lease-controller" => features.enabled(peering::IDENTITY),
        "start-kube-apiserver-identity-lease-garbage-collector" => features.enabled(peering::IDENTITY),
        _ if hook == peering::STORAGE_VERSION_HOOK => {
            features.enabled(peering::STORAGE_VERSIONS) && features.enabled(peering::IDENTITY)
        }
        _ => true,
    }
}

/// The checks in the order upstream lists them; the hooks are finished when the server has started.
pub fn health(
    config: &Config,
    features: &Features,
    store: Vec<(Arc<dyn Check>, &[Endpoint])>,
    lifecycle: &Lifecycle,
) -> (Health, Vec<Arc<Hook>>) {
    let health = Health::default();
    let run = HOOKS.iter().filter(|name| is_run(name, config, features));
    let hooks: Vec<Arc<Hook>> = run.map(|name| Hook::new(name)).collect();
    let synced = Hook::new("informer-sync");
    health.add(Arc::new(Always("ping")), true, true);
    health.add(Arc::new(Always("log")), true, true);
    health.add(Arc::new(Always("loopback-serving-certificate")), true, false);
    for (check, endpoints) in store {
        health.add_to(endpoints, check);
    }
    health.add(synced.clone(), false, true);
    for hook in &hooks {
        health.add_to(&[Endpoint::Healthz, Endpoint::Readyz], hook.clone());
        health.add_to(&[Endpoint::Livez], Delayed::new(hook.clone(), config.serving.livez_grace));
    }
    health.add(Arc::new(ShutdownCheck(lifecycle.clone())), false, true);
    (health, hooks.into_iter().chain([synced]).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flags::{Given, set};

    #[test]
    fn flags_are_taken_or_refused_with_a_reason() {
        let apply = |name: &str, value: &str| {
            let mut config = Config::default();
            set(&mut config, name, Given(&[value.to_string()])).map(|_| config.serving)
        };
        assert_eq!(apply("goaway-chance", "0.001").unwrap().connections.goaway_chance, 0.001);
        assert_eq!(apply("http2-max-streams-per-connection", "0").unwrap().connections.max_streams, 100);
        assert_eq!(apply("min-request-timeout", "5").unwrap().min_request_timeout, Duration::from_secs(5));
        assert_eq!(
            apply("strict-transport-security-directives", "max-age=1,preload").unwrap().hsts,
            "max-age=1; preload"
        );
        for (name, value) in [("goaway-chance", "0.5"), ("tls-sni-cert-key", "x"), ("max-requests-inflight", "-1")] {
            assert!(apply(name, value).is_err(), "{name}");
        }
    }
}
