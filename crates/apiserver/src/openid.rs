//! `/.well-known/openid-configuration` and `/openid/v1/jwks`: how others check service accounts' tokens.

use authn::service_account::{PublicKey, key_set};
use authz::Permitted;
use bytes::Bytes;
use http::{HeaderValue, StatusCode, header};
use rest::{Accept, Body, Call, Reply, ReplyBody, accept, failure};
use server::Paths;

use crate::accounts::Accounts;

const CONFIGURATION: &str = "/.well-known/openid-configuration";
const KEYS: &str = "/openid/v1/jwks";
/// Others may keep what they read for an hour.
const CACHING: &str = "public, max-age=3600";

/// The two documents, which never change while the server runs.
pub struct OpenId {
    configuration: Bytes,
    keys: Bytes,
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
        let text = object::quote;
        let configuration = format!(
            "{{\"issuer\":{},\"jwks_uri\":{},\"response_types_supported\":[\"id_token\"],\
             \"subject_types_supported\":[\"public\"],\"id_token_signing_alg_values_supported\":[{}]}}",
            text(issuer),
            text(&jwks_uri),
            algorithms(&accounts.keys).iter().map(|name| text(name)).collect::<Vec<_>>().join(",")
        );
        Some(OpenId { configuration: configuration.into(), keys: key_set(&accounts.keys).into() })
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
            CONFIGURATION => ("application/json", &self.configuration),
            KEYS => ("application/jwk-set+json", &self.keys),
            _ => return None,
        };
        if let Err(status) = accept::check_route(call, &[media], &[]) {
            return Some(failure(&status, &Accept::of_status(&call.headers, &call.query)));
        }
        let mut reply = Reply::new(StatusCode::OK, media, ReplyBody::Ready(body.clone()));
        reply.headers.insert(header::CACHE_CONTROL, HeaderValue::from_static(CACHING));
        Some(reply)
    }

    fn listed(&self) -> Vec<String> {
        vec![CONFIGURATION.into(), KEYS.into()]
    }
}
