//! `/.well-known/openid-configuration` and `/openid/v1/jwks`: how others check service accounts' tokens.

use authn::service_account::{Keys, PublicKey, key_set};
use authz::Permitted;
use bytes::Bytes;
use http::{HeaderValue, StatusCode, header};
use rest::{Accept, Body, Call, Reply, ReplyBody, accept, failure};
use server::Paths;

use crate::accounts::Accounts;

const CONFIGURATION: &str = "/.well-known/openid-configuration";
const KEYS: &str = "/openid/v1/jwks";

/// The two documents, made of the keys of the moment.
pub struct OpenId {
    issuer: String,
    jwks_uri: String,
    keys: Keys,
}

impl OpenId {
    /// None where the issuer has no address that others could look these up at. `jwks_uri` may be "", `own` is where the
    /// server is.
    pub fn new(accounts: &Accounts, jwks_uri: &str, own: &str) -> Option<OpenId> {
        let issuer = accounts.issuers.first()?;
        if !issuer.starts_with("https://") || issuer.contains(['?', '#']) {
            tracing::info!(
                issuer,
                "the issuer of service account tokens is not a plain https URL; its keys are not served"
            );
            return None;
        }
        let jwks_uri = if jwks_uri.is_empty() { format!("https://{own}{KEYS}") } else { jwks_uri.to_string() };
        Some(OpenId { issuer: issuer.clone(), jwks_uri, keys: accounts.keys.clone() })
    }

    async fn configuration(&self) -> String {
        let text = object::quote;
        format!(
            "{{\"issuer\":{},\"jwks_uri\":{},\"response_types_supported\":[\"id_token\"],\
             \"subject_types_supported\":[\"public\"],\"id_token_signing_alg_values_supported\":[{}]}}",
            text(&self.issuer),
            text(&self.jwks_uri),
            algorithms(&self.keys.discoverable().await).iter().map(|name| text(name)).collect::<Vec<_>>().join(",")
        )
    }
}

fn algorithms(keys: &[PublicKey]) -> Vec<&'static str> {
    let mut names: Vec<&str> = keys.iter().map(|key| key.algorithm().name()).collect();
    names.sort_unstable();
    names.dedup();
    names
}

#[async_trait::async_trait]
impl Paths for OpenId {
    async fn answer(&self, call: &Permitted<Call>, _: &mut Body) -> Option<Reply> {
        let (media, body) = match call.info.path.trim_end_matches('/') {
            CONFIGURATION => ("application/json", self.configuration().await),
            KEYS => ("application/jwk-set+json", key_set(&self.keys.discoverable().await)),
            _ => return None,
        };
        if let Err(status) = accept::check_route(call, &[media], &[]) {
            return Some(failure(&status, &Accept::of_status(&call.headers, &call.query)));
        }
        let mut reply = Reply::new(StatusCode::OK, media, ReplyBody::Ready(Bytes::from(body)));
        let caching = HeaderValue::from_str(&format!("public, max-age={}", self.keys.max_age_seconds()));
        caching.into_iter().for_each(|caching| drop(reply.headers.insert(header::CACHE_CONTROL, caching)));
        Some(reply)
    }

    fn listed(&self) -> Vec<String> {
        vec![CONFIGURATION.into(), KEYS.into()]
    }
}
