//! Issuers of tokens by OpenID Connect, as the configuration of authentication names them.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use authn::TokenMethod;
use authn::configuration::AuthenticationConfiguration;
use authn::jwt::{ALGORITHMS, Egress as IssuerEgress, JwtIssuers, JwtMeters, JwtOptions};
use outbound::Egress;

use super::AllowedIssuers;

/// The issuers in force.
pub struct Issuers {
    issuers: Arc<JwtIssuers>,
    meters: Arc<JwtMeters>,
}

impl Issuers {
    pub fn open(
        configuration: &AuthenticationConfiguration,
        allowed: AllowedIssuers,
        egress: &Egress,
        server: &str,
    ) -> Result<Issuers, String> {
        let meters = Arc::new(JwtMeters::new(server));
        let options = JwtOptions {
            algorithms: allowed.algorithms.unwrap_or_else(|| ALGORITHMS.map(str::to_string).to_vec()),
            disallowed_issuers: allowed.disallowed,
            egress_selectors: allowed.egress_selectors,
            egress: of_issuers(egress),
            meters: meters.clone(),
        };
        Ok(Issuers { issuers: Arc::new(JwtIssuers::new(configuration, options)?), meters })
    }

    /// Authenticates by their tokens.
    pub fn method(&self) -> Option<Box<dyn TokenMethod>> {
        Some(Box::new(self.issuers.clone()))
    }

    /// Those that browsers may sign in with.
    #[cfg(feature = "console")]
    pub fn of_browsers(&self) -> Option<Arc<JwtIssuers>> {
        Some(self.issuers.clone())
    }

    /// Puts those of a changed configuration in force once their keys were fetched.
    pub async fn replace(&self, configuration: &AuthenticationConfiguration, patience: Duration) -> Result<(), String> {
        self.issuers.replace(configuration, patience).await
    }

    pub fn write_metrics(&self, out: &mut String) -> fmt::Result {
        self.meters.write(out)
    }
}

/// How issuers are reached that name an egress selector; None where no egress selection is configured.
fn of_issuers(egress: &Egress) -> Option<IssuerEgress> {
    if egress.control_plane.is_none() && egress.cluster.is_none() && egress.etcd.is_none() {
        return None;
    }
    let egress = egress.clone();
    Some(Arc::new(move |selector: &str| match selector {
        "controlplane" => egress.control_plane.clone(),
        "cluster" => egress.cluster.clone(),
        _ => None,
    }))
}
