//! Tokens of OpenID Connect issuers: `--authentication-config` and the `--oidc-*` flags.
//!
//! Each issuer has a [`Provider`], which finds and keeps its keys. A token whose signature is good is checked for its audience
//! and dates; then claims, or expressions over them, say which user it stands for.

mod claims;
mod code_flow;
mod distributed;
mod keyset;
mod meters;
mod provider;
#[cfg(test)]
mod tests;
mod token;

use std::sync::Arc;
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use async_trait::async_trait;
use cel::Decl;
use outbound::{Client, ClientOptions, Dial, Direct, Roots};

use self::claims::Mapping;
pub use self::code_flow::{IssuedCode, SignInIssuer};
use self::distributed::Resolver;
pub use self::meters::JwtMeters;
use self::provider::Provider;
use self::token::{Checks, issuer_of};
use crate::configuration::{self, AuthenticationConfiguration, JwtConfiguration};
use crate::{Identity, Refused, Token, TokenMethod};

/// Every algorithm that issuers may sign with.
pub const ALGORITHMS: [&str; 9] = ["ES256", "ES384", "ES512", "PS256", "PS384", "PS512", "RS256", "RS384", "RS512"];

/// How long authenticators of a replaced configuration keep their metrics.
const FORGET_METRICS_AFTER: Duration = Duration::from_secs(90);

/// The type of `user` in expressions.
pub(crate) fn user_type() -> Arc<Decl> {
    cel::decl::admission::user_info()
}

/// Opens connections to issuers that name an egress selector; None where that selector is not configured.
pub type Egress = Arc<dyn Fn(&str) -> Option<Arc<dyn Dial>> + Send + Sync>;

/// What all issuers of a server share.
#[derive(Clone)]
pub struct JwtOptions {
    /// The algorithms that tokens may be signed with.
    pub algorithms: Vec<String>,
    /// Issuers whose tokens other methods know.
    pub disallowed_issuers: Vec<String>,
    /// Whether issuers may name an egress selector.
    pub egress_selectors: bool,
    /// None where the server has no egress selection.
    pub egress: Option<Egress>,
    pub meters: Arc<JwtMeters>,
}

/// The issuers of the configuration in force.
pub struct JwtIssuers {
    options: JwtOptions,
    current: ArcSwap<Vec<JwtAuthenticator>>,
}

impl JwtIssuers {
    /// Believes the tokens of these issuers as soon as their keys are found. Err is upstream's text.
    pub fn new(configuration: &AuthenticationConfiguration, options: JwtOptions) -> Result<JwtIssuers, String> {
        for algorithm in &options.algorithms {
            if !ALGORITHMS.contains(&algorithm.as_str()) {
                return Err(format!("oidc: unsupported signing alg: {}", object::quote(algorithm)));
            }
        }
        let current = ArcSwap::from_pointee(authenticators(configuration, &options)?);
        Ok(JwtIssuers { options, current })
    }

    /// Puts another configuration in force once discovery has succeeded for all its issuers. If that takes longer than
    /// `patience` the old one stays.
    pub async fn replace(&self, configuration: &AuthenticationConfiguration, patience: Duration) -> Result<(), String> {
        let new = authenticators(configuration, &self.options)?;
        let deadline = Instant::now() + patience;
        let mut unhealthy = Vec::new();
        for authenticator in &new {
            let left = deadline.saturating_duration_since(Instant::now());
            if let Err(why) = authenticator.provider.healthy(left).await {
                unhealthy.push(why);
            }
        }
        match unhealthy.as_slice() {
            [] => {}
            [one] => return Err(format!("[{one}, context deadline exceeded]")),
            several => return Err(format!("[{}, context deadline exceeded]", several.join(", "))),
        }
        let kept: Vec<String> = new.iter().map(|authenticator| authenticator.provider.issuer.clone()).collect();
        let old = self.current.swap(Arc::new(new));
        let meters = self.options.meters.clone();
        tokio::spawn(async move {
            tokio::time::sleep(FORGET_METRICS_AFTER).await;
            let gone = old.iter().map(|authenticator| &authenticator.provider.issuer);
            gone.filter(|issuer| !kept.contains(issuer)).for_each(|issuer| meters.forget(issuer));
        });
        Ok(())
    }

    /// The issuers that browsers can sign in with, in the order of the configuration.
    pub fn sign_ins(&self) -> Vec<SignInIssuer> {
        let current = self.current.load();
        let all = current
            .iter()
            .filter_map(|one| one.provider.endpoints()?.sign_in(&one.provider.issuer, &one.checks.audiences));
        all.collect()
    }

    /// The ID token for a code that one of the issuers gave to a browser.
    pub async fn exchange(&self, issued: &IssuedCode<'_>) -> Result<String, String> {
        let current = self.current.load_full();
        let one = current.iter().find(|one| one.provider.issuer == issued.issuer);
        let one = one.ok_or("browsers cannot sign in with this issuer")?;
        let endpoints = one.provider.endpoints().ok_or("the issuer does not say where browsers sign in")?;
        let client_id = one.checks.audiences.first().ok_or("the issuer has no audience")?;
        endpoints.exchange(&one.client, client_id, issued).await
    }
}

fn authenticators(
    configuration: &AuthenticationConfiguration,
    options: &JwtOptions,
) -> Result<Vec<JwtAuthenticator>, String> {
    configuration.jwt.iter().map(|jwt| JwtAuthenticator::new(jwt, options)).collect()
}

#[async_trait]
impl TokenMethod for JwtIssuers {
    async fn identify(&self, token: &Token<'_>) -> Result<Option<Identity>, Refused> {
        let current = self.current.load_full();
        // The issuers differ, so at most one of them knows the token.
        let Ok(issuer) = issuer_of(token.text) else { return Ok(None) };
        let Some(known) = current.iter().find(|known| known.provider.issuer == issuer) else { return Ok(None) };
        let began = Instant::now();
        let outcome = known.identify(token).await;
        self.options.meters.authenticated(&issuer, outcome.is_ok(), began.elapsed());
        outcome.map(Some).map_err(Refused::because)
    }
}

/// Believes the tokens of one issuer.
struct JwtAuthenticator {
    provider: Arc<Provider>,
    client: Arc<Client>,
    checks: Checks,
    mapping: Mapping,
    /// Looks up a groups claim that is kept elsewhere.
    resolver: Option<Resolver>,
}

impl JwtAuthenticator {
    fn new(jwt: &JwtConfiguration, options: &JwtOptions) -> Result<JwtAuthenticator, String> {
        let compiled = configuration::compile(jwt, &options.disallowed_issuers, options.egress_selectors)
            .map_err(|errors| errors.aggregate())?;
        let client = Arc::new(client(jwt, options)?);
        let checks = Checks { algorithms: options.algorithms.clone(), audiences: jwt.issuer.audiences.clone() };
        let provider = Provider::start(&jwt.issuer, client.clone(), Some(options.meters.clone()));
        let groups = &jwt.claim_mappings.groups.claim;
        let resolver = (!groups.is_empty()).then(|| Resolver::new(groups, client.clone(), checks.clone()));
        Ok(JwtAuthenticator { provider, client, checks, mapping: Mapping::new(jwt, compiled), resolver })
    }

    async fn identify(&self, token: &Token<'_>) -> Result<Identity, String> {
        let keys = self.provider.keys().ok_or("oidc: authenticator not initialized")?;
        let verified = self.checks.verify(token.text, &self.provider.issuer, &keys, token.now).await;
        let mut claims = verified.map_err(|why| format!("oidc: verify token: {why}"))?;
        if let Some(resolver) = &self.resolver {
            let expanded = resolver.expand(&mut claims, token.now).await;
            expanded.map_err(|why| format!("oidc: could not expand distributed claims: {why}"))?;
        }
        Ok(Identity { user: self.mapping.user(&claims)?, ..Identity::default() })
    }
}

/// The client for discovery, keys and distributed claims.
fn client(jwt: &JwtConfiguration, options: &JwtOptions) -> Result<Client, String> {
    let authority = &jwt.issuer.certificate_authority;
    let roots = if authority.is_empty() { Roots::System } else { Roots::Pem(authority.clone().into_bytes()) };
    let selector = jwt.issuer.egress_selector_type.as_str();
    let quoted = object::quote(selector);
    let dial: Arc<dyn Dial> = match (&options.egress, selector) {
        (_, "") => Arc::new(Direct),
        (None, _) => return Err(format!("oidc: egress lookup required with egress selector type {quoted}")),
        (Some(egress), _) => {
            egress(selector).ok_or_else(|| format!("oidc: egress lookup for {quoted} is not configured"))?
        }
    };
    let options = ClientOptions { roots, dial, user_agent: "Go-http-client/2.0".into(), ..ClientOptions::default() };
    Client::new(&options).map_err(|error| error.to_string())
}
