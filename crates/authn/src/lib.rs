//! Authentication: who is asking. Each method either knows the credential, refuses it, or has not been given one.

mod certificate;
mod tokens;

use request::User;
use rustls_pki_types::CertificateDer;

pub use certificate::CertificateAuthority;
pub use tokens::{TokenFile, TokenFileError};

/// What a request brings to prove who it is from.
pub struct Credentials<'a> {
    /// The client's certificate chain, its own first; whoever holds it has proved so in the handshake.
    pub certificates: &'a [CertificateDer<'static>],
    /// The value of the Authorization header, "" if there is none.
    pub authorization: &'a str,
    /// Seconds since the epoch, to judge validity by.
    pub now: i64,
}

/// A credential was brought and is not good.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Refused(pub String);

/// One way of telling who somebody is. `Ok(None)`: nothing was brought that this method understands.
#[async_trait::async_trait]
pub trait Method: Send + Sync + 'static {
    async fn identify(&self, credentials: &Credentials<'_>) -> Result<Option<User>, Refused>;
}

/// All methods in order; the first that knows somebody decides.
pub struct Authenticator {
    pub methods: Vec<Box<dyn Method>>,
    /// Whether requests that bring nothing are let in as `system:anonymous`.
    pub anonymous: bool,
}

impl Authenticator {
    pub async fn authenticate(&self, credentials: &Credentials<'_>) -> Result<User, Refused> {
        let mut refusals = Vec::new();
        for method in &self.methods {
            match method.identify(credentials).await {
                Ok(Some(user)) => return Ok(authenticated(user)),
                Ok(None) => {}
                Err(Refused(why)) => refusals.push(why),
            }
        }
        // A bearer token nobody knows is a wrong token, not an absent one.
        let brought = bearer(credentials.authorization).is_some();
        if refusals.is_empty() && !brought && self.anonymous {
            return Ok(User::anonymous());
        }
        Err(Refused(if refusals.is_empty() { "invalid credentials".into() } else { refusals.join(", ") }))
    }
}

fn authenticated(mut user: User) -> User {
    if user.name != User::ANONYMOUS && !user.is_member(User::AUTHENTICATED) {
        user.groups.push(User::AUTHENTICATED.into());
    }
    user
}

/// The token of a `Bearer` authorization.
pub fn bearer(authorization: &str) -> Option<&str> {
    let (scheme, token) = authorization.trim().split_once(' ')?;
    let token = token.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

#[cfg(test)]
mod tests {
    use super::bearer;

    #[test]
    fn bearer_tokens_are_found() {
        for (header, want) in [
            ("Bearer abc", Some("abc")),
            ("bearer  abc ", Some("abc")),
            ("Bearer ", None),
            ("Basic abc", None),
            ("", None),
        ] {
            assert_eq!(bearer(header), want, "{header:?}");
        }
    }
}
