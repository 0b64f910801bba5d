//! Which defaults hold. The name that the program is started by decides: [`KUBE_APISERVER`] has that program's, every other name ours.

use crate::Config;

/// Started by this name the server has upstream's defaults.
pub const KUBE_APISERVER: &str = "kube-apiserver";

/// Started by this name the program stands in for etcd, for envtest.
pub const ETCD: &str = "etcd";

/// Upstream flags that a server used alone may be given too. Any other shows that the server is part of a control plane.
const ALSO_ALONE: &[&str] =
    &["bind-address", "event-ttl", "feature-gates", "logging-format", "runtime-config", "secure-port"];

/// Defaults that are not those of upstream's table of flags: flag, ours, and the one by the name kube-apiserver.
const OTHERS: &[(&str, &str, &str)] = &[
    ("authorization-mode", "Node,RBAC", "AlwaysAllow"),
    ("bind-address", "127.0.0.1", "0.0.0.0"),
    ("cert-dir", "<data-dir>/pki", "\"/var/run/kubernetes\", <data-dir>/pki without --etcd-servers"),
    ("service-account-issuer", "https://kubernetes.default.svc", "https://kubernetes.default.svc"),
    ("service-cluster-ip-range", "10.0.0.0/24", "10.0.0.0/24"),
];

/// Where kube-apiserver keeps the serving certificate that it makes.
pub const CERT_DIR: &str = "/var/run/kubernetes";

/// The page of the help.
pub const PAGE: &str = "\
Defaults:
  Started as ferrokube, the server is safe and complete by itself: it listens on 127.0.0.1, authorizes with Node,RBAC and keeps
  its data in --data-dir. Started as kube-apiserver, by a link with that name, it has kube-apiserver's defaults: it listens on
  0.0.0.0 and authorizes with AlwaysAllow, which allows everything to everyone who is authenticated and turns anonymous requests
  off, and has no console. Other flags never change these.

  Four things depend on which flags are given; the line \"Defaults\" in the log says at each start what was chosen:
  --etcd-servers    Without it, objects are in the data directory.
  --standalone      Without it, ferrokube does what a controller manager would (empties deleted namespaces, collects owned objects,
                    makes service accounts) unless another flag of kube-apiserver is given than --bind-address, --event-ttl,
                    --feature-gates, --logging-format, --runtime-config, --secure-port; kube-apiserver never does. Admission is the
                    same either way: where nothing makes service accounts, give --disable-admission-plugins=ServiceAccount.
  --own-authority   Without it, client certificates of the authority in the data directory are accepted if there is no
                    --client-ca-file, and not even then (and none is made) where --etcd-servers and --cert-dir or --tls-cert-file
                    are given, unless an earlier start made one.
  --anonymous-auth  Is off with --authorization-mode=AlwaysAllow, whatever it says, as in kube-apiserver.";

/// The default of a flag that is not the table's.
pub fn of(flag: &str, called_as: &str) -> Option<&'static str> {
    let (_, ours, theirs) = OTHERS.iter().find(|(name, ..)| *name == flag)?;
    Some(if called_as == KUBE_APISERVER { theirs } else { ours })
}

/// Whether the server does what a controller manager would, and why.
pub fn standalone(asked: Option<bool>, called_as: &str, given: &[&str]) -> (bool, String) {
    if let Some(asked) = asked {
        return (asked, "--standalone was given".into());
    }
    if called_as == KUBE_APISERVER {
        return (false, format!("it was started as {KUBE_APISERVER}"));
    }
    match given.iter().find(|flag| !ALSO_ALONE.contains(flag)) {
        Some(flag) => (false, format!("--{flag} shows that this is part of a control plane")),
        None => (true, "no flag shows that this is part of a control plane".into()),
    }
}

/// Says in the log which defaults hold.
pub fn report(config: &Config, called_as: &str, standalone_because: &str) {
    let store = if config.store.etcd_servers.is_empty() { "embedded" } else { "etcd" };
    let authorization = match &config.authorization.file {
        Some(file) => file.display().to_string(),
        None => config.authorization.modes.join(","),
    };
    tracing::info!(
        program = called_as,
        store,
        address = %config.address(),
        authorization,
        anonymousAuth = config.anonymous_auth,
        ownAuthority = config.trusts_own_authority(),
        standalone = config.standalone,
        standaloneBecause = standalone_because,
        "Defaults"
    );
}
