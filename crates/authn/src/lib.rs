//! Authentication: which user sends a request. Each method accepts a credential, refuses it, or finds none that it understands.
//!
//! A connection's certificate comes first, then the bearer token, which each [`TokenMethod`] is asked about in turn. Tokens that
//! were good a moment ago are remembered for a few seconds, so that a busy client costs one signature check now and then.

mod bootstrap_tokens;
mod cache;
mod certificate;
pub mod configuration;
pub mod cookie;
pub mod headers;
mod jws;
pub mod jwt;
mod keys;
mod meters;
mod refused;
mod request_header;
pub mod service_account;
#[cfg(test)]
mod testing;
mod tokens;
mod webhook;
mod websocket;

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use http::HeaderMap;
use request::User;
use rustls_pki_types::CertificateDer;

pub use self::bootstrap_tokens::BootstrapTokens;
use self::cache::TokenCache;
pub use self::certificate::CertificateAuthority;
use self::configuration::Anonymous;
use self::meters::Attempt;
pub use self::meters::AuthnMeters;
pub use self::refused::Refused;
pub use self::request_header::{RequestHeader, UserHeaders};
pub use self::tokens::{TokenFile, TokenFileError};
pub use self::webhook::TokenWebhook;

/// How long a good token is not looked at again, as upstream does: a deleted service account's tokens work that much longer.
const GOOD_FOR: Duration = Duration::from_secs(10);

/// Under which extra key a user's credential is named.
pub(crate) const CREDENTIAL_ID: &str = "authentication.kubernetes.io/credential-id";

/// The credentials of a request.
pub struct Credentials<'a> {
    /// The client's certificate chain, its own first; the handshake has proved that the client has its key.
    pub certificates: &'a [CertificateDer<'static>],
    pub headers: &'a HeaderMap,
    /// The path of the request's URL, which decides whether it may be anonymous.
    pub path: &'a str,
    /// The address that the connection comes from.
    pub client: IpAddr,
    /// Seconds since the epoch, to judge validity by.
    pub now: i64,
}

/// One authentication method. `Ok(None)`: the request has no credential that this method understands.
#[async_trait::async_trait]
pub trait Method: Send + Sync + 'static {
    async fn identify(&self, credentials: &Credentials<'_>) -> Result<Option<Identity>, Refused>;
}

/// A bearer token, and whom it must be meant for.
#[derive(Clone, Copy)]
pub struct Token<'a> {
    pub text: &'a str,
    /// The token must be meant for one of these.
    pub audiences: &'a [String],
    /// Seconds since the epoch, to judge validity by.
    pub now: i64,
}

/// The user that a credential stands for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    pub user: User,
    /// Those of the wanted audiences that the token is meant for. Empty for tokens that know no audiences: they are meant for
    /// this server.
    pub audiences: Vec<String>,
    /// What to tell the client about its credential.
    pub warnings: Vec<String>,
    /// When the certificate expires, in seconds since the epoch, if it was one.
    pub certificate_ends: Option<i64>,
}

/// One kind of token. `Ok(None)`: the token is of another kind.
#[async_trait::async_trait]
pub trait TokenMethod: Send + Sync + 'static {
    async fn identify(&self, token: &Token<'_>) -> Result<Option<Identity>, Refused>;
}

#[async_trait::async_trait]
impl<M: TokenMethod> TokenMethod for Arc<M> {
    async fn identify(&self, token: &Token<'_>) -> Result<Option<Identity>, Refused> {
        M::identify(self, token).await
    }
}

/// All methods in order; the first that accepts a credential decides.
pub struct Authenticator {
    pub methods: Vec<Box<dyn Method>>,
    pub tokens: Vec<Box<dyn TokenMethod>>,
    /// Whom tokens for this server are meant for: `--api-audiences`.
    pub audiences: Vec<String>,
    /// Which requests that bring nothing are let in as `system:anonymous`.
    pub anonymous: Anonymous,
    /// The headers of front proxies, besides the standard ones, that servers behind this one must not see.
    pub proxy_headers: Option<UserHeaders>,
    /// The name of the cookie of signed-in browsers, which servers behind this one must not see either.
    pub session_cookie: Option<&'static str>,
    pub meters: AuthnMeters,
    cache: TokenCache<Identity>,
}

impl Authenticator {
    pub fn new(
        methods: Vec<Box<dyn Method>>,
        tokens: Vec<Box<dyn TokenMethod>>,
        audiences: Vec<String>,
        anonymous: Anonymous,
    ) -> Authenticator {
        let cache = TokenCache::new(GOOD_FOR);
        Authenticator {
            methods,
            tokens,
            audiences,
            anonymous,
            proxy_headers: None,
            session_cookie: None,
            meters: AuthnMeters::default(),
            cache,
        }
    }

    /// Who sent a request.
    pub async fn authenticate(&self, credentials: &Credentials<'_>) -> Result<Identity, Refused> {
        let began = Instant::now();
        let outcome = self.try_all(credentials).await;
        let attempt = match &outcome {
            Ok(identity) => Attempt::Success(&identity.user.name),
            Err(refused) if refused.is_empty() => Attempt::Failure,
            Err(_) => Attempt::Error,
        };
        self.meters.attempted(attempt, began.elapsed());
        outcome.map_err(|refused| if refused.is_empty() { Refused::because("no credentials") } else { refused })
    }

    /// Removes credentials from a request: the servers it is passed on to must not see them.
    pub fn strip(&self, headers: &mut HeaderMap) {
        headers.remove(http::header::AUTHORIZATION);
        if headers.keys().any(|name| name.as_str().starts_with("x-remote-")) {
            UserHeaders::standard().strip(headers);
        }
        if let Some(proxy_headers) = &self.proxy_headers {
            proxy_headers.strip(headers);
        }
        if let Some(name) = self.session_cookie {
            cookie::strip(headers, name);
        }
        websocket::strip(headers);
    }

    /// Err is empty if no credential was brought.
    async fn try_all(&self, credentials: &Credentials<'_>) -> Result<Identity, Refused> {
        let mut refused = Refused::default();
        for method in &self.methods {
            match method.identify(credentials).await {
                Ok(Some(identity)) => return Ok(authenticated(identity)),
                Ok(None) => {}
                Err(why) => refused.also(why),
            }
        }
        let authorization = headers::texts(credentials.headers, http::header::AUTHORIZATION.as_str());
        let authorization = match authorization {
            Ok(values) => values.first().copied().unwrap_or(""),
            Err(unreadable) => {
                refused.also(Refused::because(unreadable.to_string()));
                ""
            }
        };
        let subprotocol = websocket::token(credentials.headers).unwrap_or_else(|why| {
            refused.also(why);
            None
        });
        for text in bearer(authorization).into_iter().chain(subprotocol.as_deref()) {
            match self.identify(&Token { text, audiences: &self.audiences, now: credentials.now }).await {
                Ok(identity) => return Ok(identity),
                Err(why) => refused.also(why),
            }
        }
        let Anonymous { enabled, paths } = &self.anonymous;
        if refused.is_empty() && *enabled && (paths.is_empty() || paths.iter().any(|path| path == credentials.path)) {
            return Ok(Identity { user: User::anonymous(), ..Identity::default() });
        }
        Err(refused)
    }

    /// Whose token this is, for a TokenReview: meant for one of `audiences`, or for this server if there are none.
    pub async fn review(&self, token: &str, audiences: &[String], now: i64) -> Result<Identity, Refused> {
        let wanted = if audiences.is_empty() { &self.audiences } else { audiences };
        // As in a request, only the first word counts.
        let text = token.split(' ').next().unwrap_or("");
        let mut identity = self.identify(&Token { text, audiences: wanted, now }).await.map_err(|why| {
            // Upstream asks twice, first for tokens of its own, and tells all answers.
            let mut refused = Refused::because(INVALID);
            refused.also(why);
            refused
        })?;
        if identity.audiences.is_empty() {
            identity.audiences = intersection(&self.audiences, wanted);
        }
        Ok(identity)
    }

    async fn identify(&self, token: &Token<'_>) -> Result<Identity, Refused> {
        let began = Instant::now();
        if let Some(known) = self.cache.get(token) {
            self.meters.cache_hit(began.elapsed());
            return Ok(known);
        }
        let mut fetch = self.meters.fetch();
        let mut refused = Refused::default();
        for method in &self.tokens {
            match method.identify(token).await {
                // A token without audiences of its own is meant for this server only.
                Ok(Some(identity)) if is_meant(&identity, token, &self.audiences) => {
                    let identity = authenticated(identity);
                    self.cache.put(token, &identity);
                    fetch.succeeded = true;
                    return Ok(identity);
                }
                Ok(_) => {}
                Err(why) => refused.also(why),
            }
        }
        fetch.succeeded = refused.is_empty();
        // A bearer token that no method knows is refused, not treated as absent.
        Err(if refused.is_empty() { Refused::because(INVALID) } else { refused })
    }
}

const INVALID: &str = "invalid bearer token";

fn is_meant(identity: &Identity, token: &Token<'_>, own: &[String]) -> bool {
    !identity.audiences.is_empty() || own.is_empty() || own.iter().any(|audience| token.audiences.contains(audience))
}

/// What is in both, in the order of the first.
pub(crate) fn intersection(first: &[String], second: &[String]) -> Vec<String> {
    first.iter().filter(|item| second.contains(item)).cloned().collect()
}

fn authenticated(mut identity: Identity) -> Identity {
    let user = &mut identity.user;
    // Whoever says that a user is not authenticated is believed.
    let is_said = user.is_member(User::AUTHENTICATED) || user.is_member(User::UNAUTHENTICATED);
    if user.name != User::ANONYMOUS && !is_said {
        user.groups.push(User::AUTHENTICATED.into());
    }
    identity
}

/// The token of a `Bearer` authorization: the word after it.
pub fn bearer(authorization: &str) -> Option<&str> {
    let mut words = authorization.trim().splitn(3, ' ');
    let (scheme, token) = (words.next()?, words.next()?);
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

#[cfg(test)]
mod tests {
    use super::bearer;

    #[test]
    fn bearer_tokens_are_found() {
        for (header, want) in [
            ("Bearer abc", Some("abc")),
            ("bearer abc ", Some("abc")),
            ("Bearer abc def", Some("abc")),
            ("Bearer  abc", None),
            ("Bearer ", None),
            ("Basic abc", None),
            ("", None),
        ] {
            assert_eq!(bearer(header), want, "{header:?}");
        }
    }
}
