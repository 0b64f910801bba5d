//! What servers on one store tell each other: who and where they are, what they serve, and in which versions they store objects.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;

use outbound::{Certificate, Egress};
use peers::{Leases, PeerSettings, Peers};
use rest::Api;
use server::{Check, Hook, Metrics, WriteBarrier};
use standalone::{Advertised, Identity, PeerLease, StorageVersions};
use tokio::task::JoinSet;

use crate::Config;
use crate::flags::{Row, rows};
use crate::served_api::ServedApi;

/// The flags that [`PeerConfig`] takes.
pub(crate) const FLAGS: &[Row] = rows! { peering = &mut config.peering, |config, given|
    "peer-advertise-ip" => if !given.last().is_empty() {
        peering.advertise_ip = Some(given.read("is no address")?);
    },
    "peer-advertise-port" => if !given.last().is_empty() {
        peering.advertise_port = Some(given.read("is not a port")?);
    },
    "peer-ca-file" => peering.authority = given.path(),
};

/// Feature gates.
pub(crate) const IDENTITY: &str = "APIServerIdentity";
pub(crate) const PEER_PROXY: &str = "UnknownVersionInteroperabilityProxy";
pub(crate) const STORAGE_VERSIONS: &str = "StorageVersionAPI";

/// The check that passes when all StorageVersions are written.
pub(crate) const STORAGE_VERSION_HOOK: &str = "poststarthook/built-in-resources-storage-version-updater";

/// Settings with kube-apiserver's defaults.
#[derive(Clone, Debug, Default)]
pub struct PeerConfig {
    /// Who signs the serving certificates of other servers. Without it no requests are passed on to them.
    pub authority: Option<PathBuf>,
    /// Where other servers reach this one; both or none.
    pub advertise_ip: Option<IpAddr>,
    pub advertise_port: Option<u16>,
}

impl PeerConfig {
    /// Flags that need a feature which is off.
    fn check(&self) -> Result<(), String> {
        let given = [
            ("peer-ca-file", self.authority.is_some()),
            ("peer-advertise-ip", self.advertise_ip.is_some()),
            ("peer-advertise-port", self.advertise_port.is_some()),
        ];
        match given.iter().find(|(_, is_given)| *is_given) {
            Some((flag, _)) => Err(format!("--{flag} requires {PEER_PROXY} feature to be turned on")),
            None => Ok(()),
        }
    }
}

/// This server among the others.
pub struct Peering {
    pub identity: Identity,
    pub peers: Option<Arc<Peers>>,
    pub storage_versions: Option<Arc<StorageVersions>>,
    lease: Option<Arc<PeerLease>>,
}

impl Peering {
    pub fn open(
        config: &Config,
        served: &ServedApi,
        advertised: &Advertised,
        egress: &Egress,
        metrics: &Metrics,
    ) -> Result<Peering, String> {
        let identity = identity(config, advertised);
        let api = &served.api;
        let features = &api.features;
        let storage_versions = (features.enabled(STORAGE_VERSIONS) && features.enabled(IDENTITY))
            .then(|| StorageVersions::new(&api.catalog.load()));
        if !features.enabled(PEER_PROXY) {
            config.peering.check()?;
            return Ok(Peering { identity, peers: None, storage_versions, lease: None });
        }
        let leases = Leases::of_peers(served.store.clone(), &config.store.prefix());
        let peers = open_peers(config, api, &identity, leases.clone(), egress)?;
        if let Some(peers) = &peers {
            let weak = Arc::downgrade(peers);
            metrics.contribute(move |out| {
                let written = weak.upgrade().map(|peers| peers.write_metrics(out));
                written.transpose().expect("writing to a string cannot fail");
            });
        }
        // A store in the data directory has no other servers.
        let is_shared = !config.store.etcd_servers.is_empty();
        let lease = is_shared.then(|| Arc::new(PeerLease::new(leases, &identity)));
        Ok(Peering { identity, peers, storage_versions, lease })
    }

    /// Tells others where this server is, and learns what they serve. To be called when the server listens. Then the checks of
    /// the start pass: everything is done, but the StorageVersions may still be written.
    pub async fn run(&self, hooks: Vec<Arc<Hook>>, tasks: &mut JoinSet<()>) {
        if let Some(lease) = &self.lease {
            lease.run(tasks).await;
        }
        if let Some(peers) = &self.peers {
            peers.run(tasks).await;
        }
        self.finish(hooks, tasks);
    }

    /// Tells others that this server is no more.
    pub async fn stop(&self) {
        if let Some(lease) = &self.lease {
            lease.stop().await;
        }
    }

    pub fn write_barrier(&self) -> Option<WriteBarrier> {
        let versions = self.storage_versions.clone()?;
        Some(Arc::new(move |info, user| versions.refuses(info, user)))
    }

    fn finish(&self, hooks: Vec<Arc<Hook>>, tasks: &mut JoinSet<()>) {
        for hook in hooks {
            match &self.storage_versions {
                Some(versions) if hook.name() == STORAGE_VERSION_HOOK => {
                    let versions = versions.clone();
                    tasks.spawn(async move {
                        versions.complete().await;
                        hook.finish();
                    });
                }
                _ => hook.finish(),
            }
        }
    }
}

fn identity(config: &Config, advertised: &Advertised) -> Identity {
    let given = config.peering.advertise_ip.zip(config.peering.advertise_port);
    // An address of the loopback device is of use to servers on the same machine.
    let (ip, port) = given.unwrap_or((config.advertise_address.unwrap_or(advertised.address), advertised.port));
    Identity {
        hostname: config.hostname.clone(),
        peer_address: SocketAddr::new(ip, port),
        instance: uuid::Uuid::new_v4().to_string(),
    }
}

/// Requests are passed on to other servers if it is known how to trust them.
fn open_peers(
    config: &Config,
    api: &Arc<Api>,
    identity: &Identity,
    leases: Leases,
    egress: &Egress,
) -> Result<Option<Arc<Peers>>, String> {
    let Some(authority) = config.peering.authority.clone() else { return Ok(None) };
    let missing = |flag: &str| format!("error building peer proxy handler, {flag} not specified");
    let certificate = config.aggregation.certificate.clone().ok_or_else(|| missing("proxy-cert-file"))?;
    let key = config.aggregation.key.clone().ok_or_else(|| missing("proxy-key-file"))?;
    Peers::new(PeerSettings {
        api: api.clone(),
        server: identity.lease_name(),
        leases,
        authority,
        certificate: Certificate::Files { certificate, key },
        dial: egress.to_control_plane(),
    })
    .map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flags::{Given, set};

    #[test]
    fn flags_need_their_feature() {
        for (flag, value, want) in [
            ("peer-ca-file", "ca.crt", Some("--peer-ca-file requires UnknownVersionInteroperabilityProxy")),
            ("peer-advertise-ip", "10.0.0.1", Some("--peer-advertise-ip requires")),
            ("peer-advertise-port", "6443", Some("--peer-advertise-port requires")),
            ("peer-advertise-port", "", None),
        ] {
            let mut config = Config::default();
            set(&mut config, flag, Given(&[value.to_string()])).unwrap();
            let refused = config.peering.check().err();
            assert_eq!(refused.is_some(), want.is_some(), "{flag}");
            assert!(refused.unwrap_or_default().starts_with(want.unwrap_or_default()), "{flag}");
        }
        for flag in ["peer-advertise-port", "peer-advertise-ip"] {
            assert!(set(&mut Config::default(), flag, Given(&["x".to_string()])).is_err());
        }
    }
}
