//! [`Provider`]: an issuer, found by OpenID Connect discovery.

use std::sync::{Arc, Weak};
use std::time::Duration;

use http::StatusCode;
use object::quote;
use outbound::Client;
use tokio::sync::watch;
use tokio::time::Instant;

use super::code_flow::IssuerEndpoints;
use super::keyset::{DOCUMENT_BYTES_MAX, KeySet, TIMEOUT, not_json, string};
use super::meters::JwtMeters;
use crate::configuration::IssuerConfiguration;
use crate::jws::json;

/// How often discovery is tried until it succeeds.
const DISCOVERY_INTERVAL: Duration = Duration::from_secs(10);
const WELL_KNOWN: &str = "/.well-known/openid-configuration";

/// An issuer and, once discovery has found them, its keys.
pub struct Provider {
    pub issuer: String,
    discovery_url: String,
    client: Arc<Client>,
    meters: Option<Arc<JwtMeters>>,
    /// Err is why discovery has not succeeded yet.
    found: watch::Sender<Result<DiscoveredIssuer, String>>,
}

/// The part of an issuer's discovery document that is used.
#[derive(Clone)]
struct DiscoveredIssuer {
    keys: Arc<KeySet>,
    /// Where browsers sign in, if they can.
    endpoints: Option<Arc<IssuerEndpoints>>,
}

impl Provider {
    /// Begins discovery, which is tried until it succeeds or the provider is dropped.
    pub fn start(issuer: &IssuerConfiguration, client: Arc<Client>, meters: Option<Arc<JwtMeters>>) -> Arc<Provider> {
        let discovery_url = match issuer.discovery_url.as_str() {
            "" => format!("{}{WELL_KNOWN}", issuer.url.strip_suffix('/').unwrap_or(&issuer.url)),
            url => url.to_string(),
        };
        let waiting = format!("oidc: authenticator for issuer {} is not initialized", quote(&issuer.url));
        let (found, _) = watch::channel(Err(waiting));
        let provider = Arc::new(Provider { issuer: issuer.url.clone(), discovery_url, client, meters, found });
        tokio::spawn(discover(Arc::downgrade(&provider)));
        provider
    }

    /// The keys; None before discovery has succeeded.
    pub fn keys(&self) -> Option<Arc<KeySet>> {
        self.found.borrow().as_ref().ok().map(|found| found.keys.clone())
    }

    /// Where browsers sign in; None if they cannot, or before discovery has succeeded.
    pub fn endpoints(&self) -> Option<Arc<IssuerEndpoints>> {
        self.found.borrow().as_ref().ok()?.endpoints.clone()
    }

    /// Waits until discovery has succeeded, or says why it has not.
    pub async fn healthy(&self, patience: Duration) -> Result<(), String> {
        let mut found = self.found.subscribe();
        let _ = tokio::time::timeout(patience, found.wait_for(Result::is_ok)).await;
        let outcome = found.borrow();
        outcome
            .as_ref()
            .map(|_| ())
            .map_err(|why| format!("oidc: authenticator for issuer {} is not healthy: {why}", quote(&self.issuer)))
    }

    /// Fetches the discovery document and takes the addresses from it.
    async fn discovered(&self) -> Result<DiscoveredIssuer, String> {
        let fetched = self.client.get(&self.discovery_url, None, Instant::now() + TIMEOUT, DOCUMENT_BYTES_MAX).await;
        let fetched = fetched.map_err(|error| error.to_string())?;
        if fetched.status != StatusCode::OK {
            return Err(format!("{}: {}", fetched.status, String::from_utf8_lossy(&fetched.body)));
        }
        let document = json(&fetched.body).map_err(|why| {
            format!("oidc: failed to decode provider discovery object: {}", not_json(&fetched.headers, &why))
        })?;
        let said = string(&document, "issuer");
        if said != self.issuer {
            let (expected, got) = (quote(&self.issuer), quote(&said));
            return Err(format!(
                "oidc: issuer did not match the issuer returned by provider, expected {expected} got {got}"
            ));
        }
        match string(&document, "jwks_uri").as_str() {
            "" => Err("provider did not return JWKS URL".into()),
            url => {
                let meters = self.meters.clone().map(|meters| (self.issuer.clone(), meters));
                let keys = Arc::new(KeySet::new(url, self.client.clone(), meters));
                Ok(DiscoveredIssuer { keys, endpoints: IssuerEndpoints::read(&document).map(Arc::new) })
            }
        }
    }
}

async fn discover(provider: Weak<Provider>) {
    while let Some(current) = provider.upgrade() {
        match current.discovered().await {
            Ok(found) => {
                let _ = current.found.send_replace(Ok(found));
                return;
            }
            Err(why) => {
                tracing::error!(issuer = current.issuer, why, "oidc authenticator: initializing plugin");
                let _ = current.found.send_replace(Err(why));
            }
        }
        drop(current);
        tokio::time::sleep(DISCOVERY_INTERVAL).await;
    }
}
