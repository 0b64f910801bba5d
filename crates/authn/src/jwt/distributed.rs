//! [`Resolver`]: a claim that the token does not hold but says where to ask for.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use object::{Value, quote};
use outbound::Client;
use tokio::time::Instant;

use super::keyset::{DOCUMENT_BYTES_MAX, TIMEOUT};
use super::provider::Provider;
use super::token::{Checks, issuer_of};
use crate::configuration::IssuerConfiguration;

/// How many issuers of distributed claims are remembered.
const ISSUERS_MAX: usize = 64;

/// Looks up one distributed claim.
pub struct Resolver {
    claim: String,
    client: Arc<Client>,
    checks: Checks,
    providers: Mutex<HashMap<String, Arc<Provider>>>,
}

impl Resolver {
    pub fn new(claim: &str, client: Arc<Client>, checks: Checks) -> Resolver {
        Resolver { claim: claim.to_string(), client, checks, providers: Mutex::default() }
    }

    /// Adds the claim if it is kept elsewhere.
    pub async fn expand(&self, claims: &mut Value, now: i64) -> Result<(), String> {
        let names = claims.field("_claim_names");
        if claims.get(&self.claim).is_some() || names.is_null() {
            return Ok(());
        }
        let Some(names) = names.as_map() else {
            return Err("oidc: error parsing distributed claim names: json: cannot unmarshal into a map".into());
        };
        let sources = claims.field("_claim_sources");
        if sources.is_null() {
            return Err("oidc: no claim sources".into());
        }
        let Some(source) = names.get(&self.claim).and_then(Value::as_str) else { return Ok(()) };
        let endpoint = sources.field(source);
        if endpoint.is_null() {
            return Err(format!("id token _claim_names contained a source {source} missing in _claims_sources"));
        }
        let (url, token) = (endpoint.str_at(&["endpoint"]).to_string(), endpoint.str_at(&["access_token"]).to_string());
        if url.is_empty() {
            return Ok(());
        }
        let value = self.resolve(&url, &token, now).await?;
        claims.set(&[&self.claim], value);
        Ok(())
    }

    async fn resolve(&self, url: &str, access_token: &str, now: i64) -> Result<Value, String> {
        let claim = quote(&self.claim);
        let jwt = self.fetch(url, access_token).await;
        let jwt = jwt.map_err(|why| format!("while getting distributed claim {claim}: {why}"))?;
        let issuer = issuer_of(&jwt)
            .map_err(|why| format!("getting untrusted issuer from endpoint {url} failed for claim {claim}: {why}"))?;
        let provider = self.provider(&issuer)?;
        let keys = provider.keys().ok_or_else(|| {
            let why = format!("verifier not initialized for issuer: {}", quote(&issuer));
            format!("verifying untrusted issuer {issuer} failed: {why}")
        })?;
        let verified = self.checks.verify(&jwt, &issuer, &keys, now).await;
        let claims = verified.map_err(|why| format!("verify distributed claim token: {why}"))?;
        claims.get(&self.claim).cloned().ok_or_else(|| {
            format!("jwt returned by distributed claim endpoint {} did not contain claim: {}", quote(url), self.claim)
        })
    }

    async fn fetch(&self, url: &str, access_token: &str) -> Result<String, String> {
        let token = Some(access_token).filter(|token| !token.is_empty());
        let fetched = self.client.get(url, token, Instant::now() + TIMEOUT, DOCUMENT_BYTES_MAX).await;
        let fetched = fetched.map_err(|error| error.to_string())?;
        if !(200..=226).contains(&fetched.status.as_u16()) {
            return Err(format!("error while getting distributed claim JWT: {}", fetched.status));
        }
        String::from_utf8(fetched.body.to_vec()).map_err(|_| "could not decode distributed claim response".to_string())
    }

    /// The issuer of a claim, which is looked for when it is first seen.
    pub(super) fn provider(&self, issuer: &str) -> Result<Arc<Provider>, String> {
        let mut providers = self.providers.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = providers.get(issuer) {
            return Ok(known.clone());
        }
        if providers.len() >= ISSUERS_MAX {
            return Err(format!("verifying untrusted issuer {issuer} failed: too many issuers of distributed claims"));
        }
        let configuration = IssuerConfiguration { url: issuer.to_string(), ..IssuerConfiguration::default() };
        let provider = Provider::start(&configuration, self.client.clone(), None);
        providers.insert(issuer.to_string(), provider.clone());
        Ok(provider)
    }
}
