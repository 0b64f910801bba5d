//! Leader election by a Lease, in the way of Kubernetes' controllers: the holder renews it, and another takes it when it has not been
//! renewed for its duration, which each measures by its own clock.

use std::time::Duration;

use futures::future::BoxFuture;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::api::{ObjectMeta, PostParams};
use kube::{Api, Client};
use tokio::time::Instant;

/// How long a Lease that is not renewed is its holder's.
const DURATION: Duration = Duration::from_secs(15);
/// How long the holder tries to renew it before it gives up.
const PATIENCE: Duration = Duration::from_secs(10);
/// How often it is renewed, or looked at by those who wait for it.
const INTERVAL: Duration = Duration::from_secs(2);
const NAMESPACE: &str = "kube-system";

/// Waits until the Lease of this name is held and then runs the future, until it ends or the Lease is lost.
pub async fn lead(client: &Client, name: &str, once: BoxFuture<'static, ()>) {
    let leases: Api<Lease> = Api::namespaced(client.clone(), NAMESPACE);
    let mut candidate = Candidate { leases, name, identity: uuid::Uuid::new_v4().to_string(), seen: None };
    while !candidate.take().await {
        tokio::time::sleep(INTERVAL).await;
    }
    tokio::select! {
        () = once => candidate.release().await,
        () = candidate.lose() => tracing::warn!(name, "the lease of a background loop was lost; it begins again"),
    }
}

struct Candidate<'a> {
    leases: Api<Lease>,
    name: &'a str,
    identity: String,
    /// What the Lease of another said when it was seen to change, and when that was.
    seen: Option<(Option<String>, Instant)>,
}

impl Candidate<'_> {
    /// Takes or renews the Lease; false if another holds it, or it could not be written.
    async fn take(&mut self) -> bool {
        let found = match self.leases.get_opt(self.name).await {
            Ok(found) => found,
            Err(error) => return failed(self.name, &error),
        };
        let written = match found {
            None => {
                let metadata = ObjectMeta { name: Some(self.name.to_string()), ..ObjectMeta::default() };
                let spec = Some(self.held(&LeaseSpec::default()));
                self.leases.create(&PostParams::default(), &Lease { metadata, spec }).await
            }
            Some(mut lease) => {
                let spec = lease.spec.take().unwrap_or_default();
                let holder = spec.holder_identity.clone().unwrap_or_default();
                if holder != self.identity && !holder.is_empty() && !self.is_over(&lease) {
                    return false;
                }
                lease.spec = Some(self.held(&spec));
                self.leases.replace(self.name, &PostParams::default(), &lease).await
            }
        };
        match written {
            Ok(_) => true,
            // Another was quicker.
            Err(kube::Error::Api(status)) if status.code == 409 => false,
            Err(error) => failed(self.name, &error),
        }
    }

    /// Whether the Lease of another has not changed for its duration.
    fn is_over(&mut self, lease: &Lease) -> bool {
        let version = lease.metadata.resource_version.clone();
        match &self.seen {
            Some((seen, since)) if *seen == version => since.elapsed() > DURATION,
            _ => {
                self.seen = Some((version, Instant::now()));
                false
            }
        }
    }

    /// The spec of a Lease that this candidate holds from now on.
    fn held(&self, before: &LeaseSpec) -> LeaseSpec {
        let now = Some(MicroTime(k8s_openapi::jiff::Timestamp::now()));
        let is_new = before.holder_identity.as_deref() != Some(&self.identity);
        LeaseSpec {
            holder_identity: Some(self.identity.clone()),
            lease_duration_seconds: Some(DURATION.as_secs() as i32),
            acquire_time: if is_new { now.clone() } else { before.acquire_time.clone() },
            renew_time: now,
            lease_transitions: Some(before.lease_transitions.unwrap_or(0) + i32::from(is_new)),
            ..LeaseSpec::default()
        }
    }

    /// Returns when the Lease could not be renewed in time.
    async fn lose(&mut self) {
        let mut renewed = Instant::now();
        while renewed.elapsed() < PATIENCE {
            tokio::time::sleep(INTERVAL).await;
            let left = PATIENCE.saturating_sub(renewed.elapsed());
            if tokio::time::timeout(left, self.take()).await.unwrap_or(false) {
                renewed = Instant::now();
            }
        }
    }

    /// Lets another take the Lease at once.
    async fn release(&mut self) {
        let Ok(Some(mut lease)) = self.leases.get_opt(self.name).await else { return };
        let Some(spec) = &mut lease.spec else { return };
        if spec.holder_identity.as_deref() == Some(&self.identity) {
            spec.holder_identity = None;
            let released = self.leases.replace(self.name, &PostParams::default(), &lease).await;
            drop(released);
        }
    }
}

fn failed(name: &str, error: &kube::Error) -> bool {
    tracing::warn!(name, %error, "the lease of a background loop cannot be written");
    false
}
