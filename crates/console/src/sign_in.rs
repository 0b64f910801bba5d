//! Who a request of the console comes from: a session's cookie together with the key that only the page has, or the code of a
//! sign-in link.
//!
//! A cookie is sent by the browser with requests that other sites cause, and to other ports of the same host. So the cookie alone is
//! nothing: the key is in a header, which only scripts of the same origin can set, and is kept where only they can read it.

use std::sync::{Arc, OnceLock, Weak};

use async_trait::async_trait;
use authn::{Authenticator, Credentials, Identity, Method, Refused, cookie};
use authz::{Authorizer, Decision};
use http::HeaderMap;
use request::{Access, User};

use crate::sessions::Credential;
use crate::{CODE, COOKIE, Console, PROOF, SESSION_PATH};

/// The key of the extra value that names the session, as upstream names other credentials.
const CREDENTIAL_ID: &str = "authentication.kubernetes.io/credential-id";
/// Before the session's name.
const SESSION: &str = "CONSOLE-SESSION=";
/// The credential of a request with the code of a link.
const LINK: &str = "CONSOLE-LINK";
/// The administrator's name in the kubeconfig that the server writes.
const ADMINISTRATOR: &str = "kubernetes-admin";

/// Authenticates requests of signed-in pages, and the sign-in by a link.
pub struct CookieMethod {
    console: Arc<Console>,
    authenticator: Arc<OnceLock<Weak<Authenticator>>>,
}

impl CookieMethod {
    /// The method, and where it is told the authenticator that it is a part of.
    pub fn new(console: Arc<Console>) -> (CookieMethod, Arc<OnceLock<Weak<Authenticator>>>) {
        let authenticator = Arc::new(OnceLock::new());
        (CookieMethod { console, authenticator: authenticator.clone() }, authenticator)
    }

    async fn by_session(&self, credentials: &Credentials<'_>, key: &[u8]) -> Result<Option<Identity>, Refused> {
        let Some(cookie) = cookie::find(credentials.headers, COOKIE) else { return Ok(None) };
        let refused = || Refused::because("the console's session has ended");
        let now = self.console.now();
        let session = self.console.sessions.find(cookie, key, now).ok_or_else(refused)?;
        let mut identity = match &session.credential {
            Credential::Administrator => Identity { user: administrator(), ..Identity::default() },
            Credential::Token(token) => {
                let authenticator = self.authenticator.get().and_then(Weak::upgrade).ok_or_else(refused)?;
                let known = authenticator.review(token, &[], credentials.now).await;
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
