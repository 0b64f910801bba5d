//! Service account tokens: signed by this server, or by the one before it, for a pod or by a TokenRequest.
//!
//! [`Issuer`] signs what [`Claims`] say. [`ServiceAccountTokens`] accepts a token if its signature is by a known key, it is
//! from a known issuer, meant for this audience, still valid, and if what it is bound to still exists.

mod bound;
mod claims;
mod external;
mod legacy;
mod meters;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use async_trait::async_trait;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use futures::FutureExt;
use futures::future::{BoxFuture, Shared};
use object::quote;
use registry::OwnClient;
use request::User;

pub use self::claims::{Bound, Claims, Kubernetes, Reference};
pub use self::external::ExternalSigner;
pub use self::meters::AccountMeters;
use crate::jws::Jws;
pub use crate::keys::{KeyError, PublicKey, SigningKey, key_set, read_public_keys};
use crate::{Identity, Refused, Token, TokenMethod, intersection};

/// Who tokens in secrets, from before there were bound ones, were issued by.
pub const LEGACY_ISSUER: &str = "kubernetes/serviceaccount";

/// Signs tokens.
pub struct Issuer {
    name: String,
    signer: Signer,
}

/// What signs: a key, or another process that has one.
pub enum Signer {
    Key(PendingKey),
    External(Arc<ExternalSigner>),
}

/// A signing key that may still be being made: an RSA key takes longer than anything else when a server starts for the first time.
#[derive(Clone)]
pub struct PendingKey(Shared<BoxFuture<'static, Result<Arc<SigningKey>, String>>>);

impl PendingKey {
    /// The key that `making` answers with.
    pub fn new(making: impl Future<Output = Result<SigningKey, String>> + Send + 'static) -> PendingKey {
        PendingKey(making.map(|made| made.map(Arc::new)).boxed().shared())
    }

    /// Waits until it is made.
    async fn get(&self) -> Result<Arc<SigningKey>, KeyError> {
        let made = match self.0.peek() {
            Some(made) => made.clone(),
            None => self.0.clone().await,
        };
        made.map_err(KeyError::Sign)
    }
}

impl From<SigningKey> for PendingKey {
    fn from(key: SigningKey) -> PendingKey {
        PendingKey::new(std::future::ready(Ok(key)))
    }
}

/// The keys that tokens may be signed with.
#[derive(Clone)]
pub enum Keys {
    Fixed(Arc<[PublicKey]>),
    /// That of the key that signs.
    Own(PendingKey),
    External(Arc<ExternalSigner>),
}

impl Keys {
    /// The keys with this id, all of them for "".
    async fn find(&self, id: &str) -> Vec<PublicKey> {
        match self {
            Keys::External(signer) => signer.find(id).await,
            own => own.discoverable().await.into_iter().filter(|key| id.is_empty() || key.id() == id).collect(),
        }
    }

    /// The keys that others may know.
    pub async fn discoverable(&self) -> Vec<PublicKey> {
        match self {
            Keys::Fixed(keys) => keys.to_vec(),
            Keys::Own(key) => key.get().await.iter().map(|key| key.public().clone()).collect(),
            Keys::External(signer) => signer.discoverable(),
        }
    }

    /// For how long others may keep the keys.
    pub fn max_age_seconds(&self) -> u64 {
        match self {
            Keys::Fixed(_) | Keys::Own(_) => 3600,
            Keys::External(signer) => signer.max_age_seconds(),
        }
    }
}

impl Issuer {
    pub fn new(name: &str, signer: Signer) -> Issuer {
        Issuer { name: name.to_string(), signer }
    }

    /// A token that says this, in this issuer's name.
    pub async fn issue(&self, mut claims: Claims) -> Result<String, KeyError> {
        claims.iss.clone_from(&self.name);
        let payload = serde_json::to_vec(&claims).map_err(|error| KeyError::Sign(error.to_string()))?;
        let pair = match &self.signer {
            Signer::Key(pair) => pair.get().await?,
            Signer::External(signer) => return signer.sign(&payload).await.map_err(KeyError::External),
        };
        let key = pair.public();
        let header = serde_json::json!({ "alg": key.algorithm().name(), "kid": key.id() }).to_string();
        let text = format!("{}.{}", URL_SAFE_NO_PAD.encode(header), URL_SAFE_NO_PAD.encode(payload));
        let signature = pair.sign(text.as_bytes())?;
        Ok(format!("{text}.{}", URL_SAFE_NO_PAD.encode(signature)))
    }
}

/// Believes tokens of service accounts.
pub struct ServiceAccountTokens {
    /// All that are believed, the one that issues new tokens first.
    pub issuers: Vec<String>,
    pub keys: Keys,
    /// Whom tokens are meant for that do not say.
    pub audiences: Vec<String>,
    /// Whether tokens in secrets must still be there: `--service-account-lookup`.
    pub lookup: bool,
    /// Whether tokens may be bound to webhook configurations.
    pub webhook_tokens: bool,
    pub objects: Arc<dyn OwnClient>,
    pub meters: Arc<AccountMeters>,
}

#[async_trait]
impl TokenMethod for ServiceAccountTokens {
    async fn identify(&self, token: &Token<'_>) -> Result<Option<Identity>, Refused> {
        let Ok(signed) = Jws::parse(token.text) else { return Ok(None) };
        let Ok(unverified) = signed.claims() else { return Ok(None) };
        let issuer = unverified.str_at(&["iss"]);
        let mut refused = Refused::default();
        if issuer == LEGACY_ISSUER {
            match self.identify_legacy(token, &signed).await {
                Ok(identity) => return Ok(Some(identity)),
                Err(why) => refused.also(why),
            }
        }
        if self.issuers.iter().any(|known| known == issuer) {
            match self.identify_bound(token, &signed).await {
                Ok(identity) => return Ok(Some(identity)),
                Err(why) => refused.also(why),
            }
        }
        if refused.is_empty() { Ok(None) } else { Err(refused) }
    }
}

impl ServiceAccountTokens {
    async fn identify_bound(&self, token: &Token<'_>, signed: &Jws) -> Result<Identity, Refused> {
        let (claims, audiences) = self.believe(token, signed).await?;
        let check = bound::Check { objects: &*self.objects, now: token.now, webhook_tokens: self.webhook_tokens };
        let user = check.user(&claims).await?;
        match claims.kubernetes.as_ref().and_then(|said| said.warnafter).filter(|threshold| *threshold != 0) {
            None => {}
            Some(threshold) if token.now > threshold => self.meters.stale.increment(),
            Some(_) => self.meters.valid.increment(),
        }
        Ok(Identity { user, audiences, ..Identity::default() })
    }

    async fn identify_legacy(&self, token: &Token<'_>, signed: &Jws) -> Result<Identity, Refused> {
        let (claims, audiences) = self.believe(token, signed).await?;
        let check =
            legacy::Check { objects: &*self.objects, now: token.now, lookup: self.lookup, meters: &self.meters };
        let (user, warnings) = check.user(token.text, &claims).await?;
        Ok(Identity { user, audiences, warnings, ..Identity::default() })
    }

    /// The claims, once their signature was found good, and the audiences that are wanted and meant.
    async fn believe(&self, token: &Token<'_>, signed: &Jws) -> Result<(Claims, Vec<String>), Refused> {
        let candidates = self.keys.find(&signed.key_id).await;
        if candidates.is_empty() {
            return Err(Refused::because("invalid signature, no keys found"));
        }
        if !candidates.iter().any(|key| key.signed(signed)) {
            return Err(Refused::because("go-jose/go-jose: error in cryptographic primitive"));
        }
        let claims: Claims =
            serde_json::from_slice(&signed.payload).map_err(|error| Refused::because(error.to_string()))?;
        // Tokens that do not say are from before audiences, and meant for API servers.
        let meant = if claims.aud.is_empty() {
            self.meters.legacy.increment();
            &self.audiences
        } else {
            &claims.aud
        };
        let audiences = intersection(meant, token.audiences);
        if audiences.is_empty() && !self.audiences.is_empty() {
            return Err(Refused::because(format!(
                "token audiences {} is invalid for the target audiences {}",
                quoted(meant),
                quoted(token.audiences)
            )));
        }
        Ok((claims, audiences))
    }
}

/// Strings as Go prints a slice of them.
fn quoted(items: &[String]) -> String {
    format!("[{}]", items.iter().map(|item| quote(item)).collect::<Vec<_>>().join(" "))
}

/// The user that an account's tokens stand for.
pub fn user(namespace: &str, name: &str, uid: &str) -> User {
    User {
        name: format!("system:serviceaccount:{namespace}:{name}"),
        uid: uid.to_string(),
        groups: vec!["system:serviceaccounts".into(), format!("system:serviceaccounts:{namespace}")],
        ..User::default()
    }
}
