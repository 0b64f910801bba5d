//! Who a request of the console comes from: a session's cookie together with the key that only the page has, the code of a
//! sign-in link, or a code that an issuer gave to the browser.
//!
//! A cookie is sent by the browser with requests that other sites cause, and to other ports of the same host. So the cookie alone is
//! nothing: the key is in a header, which only scripts of the same origin can set, and is kept where only they can read it.

use std::sync::{Arc, Weak};
use std::time::Duration;

use async_trait::async_trait;
use authn::jwt::{IssuedCode, JwtIssuers};
use authn::{Authenticator, Credentials, Identity, Method, Refused, cookie};
use authz::{Authorizer, Decision};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::HeaderMap;
use request::{Access, User};
use serde::Deserialize;

use crate::sessions::Credential;
use crate::{CODE, COOKIE, Console, ISSUED, PROOF, SESSION_PATH};

/// The key of the extra value that names the session, as upstream names other credentials.
const CREDENTIAL_ID: &str = "authentication.kubernetes.io/credential-id";
/// Before the session's name.
const SESSION: &str = "CONSOLE-SESSION=";
/// The credential of a request with the code of a link.
const LINK: &str = "CONSOLE-LINK";
/// The administrator's name in the kubeconfig that the server writes.
const ADMINISTRATOR: &str = "kubernetes-admin";

/// The credential of a request with a code of an issuer.
const ISSUER: &str = "CONSOLE-ISSUER";
/// How long a request waits until fewer codes are being exchanged. Anybody may send codes, so issuers are asked about a few at a time.
const EXCHANGE_PATIENCE: Duration = Duration::from_secs(5);
/// The longest header with a code.
const ISSUED_BYTES_MAX: usize = 8 * 1024;

/// Authenticates requests of signed-in pages, and the sign-in by a link or with an issuer.
pub struct CookieMethod {
    console: Arc<Console>,
    authentication: ConsoleAuthentication,
}

/// The parts of the server's authentication that sign browsers in.
pub struct ConsoleAuthentication {
    /// The authenticator that the console's method is a part of.
    pub authenticator: Weak<Authenticator>,
    /// None if the server knows no issuers.
    pub issuers: Option<Arc<JwtIssuers>>,
}

/// The header of a request with a code of an issuer: base64 of JSON.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct IssuedHeader {
    issuer: String,
    code: String,
    verifier: String,
    nonce: String,
    redirect_uri: String,
}

impl CookieMethod {
    pub fn new(console: Arc<Console>, authentication: ConsoleAuthentication) -> CookieMethod {
        CookieMethod { console, authentication }
    }

    /// Whose token this is; refused if it is nobody's any more.
    async fn review(&self, token: &str, now: i64) -> Result<Identity, Refused> {
        let authenticator = self.authentication.authenticator.upgrade();
        let authenticator = authenticator.ok_or_else(|| Refused::because("the server is starting or ending"))?;
        authenticator.review(token, &[], now).await
    }

    /// Exchanges the code of an issuer, and keeps the token for the answer of this request.
    async fn by_issuer(&self, header: &[u8], now: i64) -> Result<Identity, Refused> {
        let refused = |why: &str| Refused::because(["signing in with an issuer: ", why].concat());
        let sent = (header.len() <= ISSUED_BYTES_MAX).then(|| URL_SAFE_NO_PAD.decode(header).ok()).flatten();
        let sent: Option<IssuedHeader> = sent.and_then(|json| serde_json::from_slice(&json).ok());
        let sent = sent.ok_or_else(|| refused("the header cannot be read"))?;
        let issuers = self.authentication.issuers.as_ref().ok_or_else(|| refused("there is none"))?;
        let turn = tokio::time::timeout(EXCHANGE_PATIENCE, self.console.exchanges.acquire()).await;
        let Ok(Ok(_turn)) = turn else { return Err(refused("too many others do")) };
        let IssuedHeader { issuer, code, verifier, nonce, redirect_uri } = &sent;
        let issued = IssuedCode { issuer, code, verifier, nonce, redirect_uri };
        let token = issuers.exchange(&issued).await.map_err(|why| refused(&why))?;
        let mut identity = self.review(&token, now).await?;
        self.console.issued.0.keep(header, (identity.user.name.clone(), token), self.console.now());
        name_credential(&mut identity.user, ISSUER.to_string());
        Ok(identity)
    }

    async fn by_session(&self, credentials: &Credentials<'_>, key: &[u8]) -> Result<Option<Identity>, Refused> {
        let Some(cookie) = cookie::find(credentials.headers, COOKIE) else { return Ok(None) };
        let refused = || Refused::because("the console's session has ended");
        let now = self.console.now();
        let session = self.console.sessions.find(cookie, key, now).ok_or_else(refused)?;
        let mut identity = match &session.credential {
            Credential::Administrator => Identity { user: administrator(), ..Identity::default() },
            Credential::Token(token) => {
                let known = self.review(token, credentials.now).await;
                known.inspect_err(|_| self.console.sessions.end(&session.id))?
            }
        };
        name_credential(&mut identity.user, [SESSION, &session.id].concat());
        Ok(Some(identity))
    }
}

#[async_trait]
impl Method for CookieMethod {
    async fn identify(&self, credentials: &Credentials<'_>) -> Result<Option<Identity>, Refused> {
        let headers = credentials.headers;
        let Some(key) = headers.get(PROOF).filter(|_| is_of_same_origin(headers)) else { return Ok(None) };
        if let Some(code) = headers.get(CODE).filter(|_| credentials.path == SESSION_PATH) {
            let is_near = credentials.client.to_canonical().is_loopback();
            if !is_near || !self.console.codes.take(code.as_bytes(), self.console.now()) {
                return Err(Refused::because("the console's link was used, or is too old"));
            }
            let mut user = administrator();
            name_credential(&mut user, LINK.to_string());
            return Ok(Some(Identity { user, ..Identity::default() }));
        }
        if let Some(issued) = headers.get(ISSUED).filter(|_| credentials.path == SESSION_PATH) {
            return self.by_issuer(issued.as_bytes(), credentials.now).await.map(Some);
        }
        self.by_session(credentials, key.as_bytes()).await
    }
}

/// Whether a browser says that a page of this server sends the request. Other clients, and old browsers, do not say.
pub fn is_of_same_origin(headers: &HeaderMap) -> bool {
    let mut said = headers.get_all("sec-fetch-site").iter();
    said.all(|site| site == "same-origin")
}

fn administrator() -> User {
    User { name: ADMINISTRATOR.into(), groups: vec![User::MASTERS.into()], ..User::default() }
}

fn name_credential(user: &mut User, name: String) {
    match user.extra.iter_mut().find(|(key, _)| key == CREDENTIAL_ID) {
        Some((_, names)) => names.push(name),
        None => {
            let at = user.extra.partition_point(|(key, _)| key.as_str() < CREDENTIAL_ID);
            user.extra.insert(at, (CREDENTIAL_ID.into(), vec![name]));
        }
    }
}

fn credentials_of(user: &User) -> impl Iterator<Item = &str> {
    let named = user.extra.iter().filter(|(key, _)| key == CREDENTIAL_ID);
    named.flat_map(|(_, names)| names.iter().map(String::as_str))
}

/// The name of the session that a request was authenticated by.
pub fn session_of(user: &User) -> Option<&str> {
    credentials_of(user).find_map(|name| name.strip_prefix(SESSION))
}

/// Whether a request was authenticated by the code of a link.
pub fn came_by_link(user: &User) -> bool {
    user.is_member(User::MASTERS) && credentials_of(user).any(|name| name == LINK)
}

/// Lets every authenticated user sign in, ask who it is, and sign out. Everything else is for the configured authorizers.
pub struct SignInAuthorizer;

#[async_trait]
impl Authorizer for SignInAuthorizer {
    async fn decide(&self, access: &Access<'_>) -> Decision {
        let is_session = !access.is_resource && access.path == SESSION_PATH;
        let is_known = access.user.is_member(User::AUTHENTICATED) && access.user.name != User::ANONYMOUS;
        match is_session && is_known && matches!(access.verb, "get" | "post" | "delete") {
            true => Decision::allow("every authenticated user may sign in to the console"),
            false => Decision::no_opinion(""),
        }
    }
}
