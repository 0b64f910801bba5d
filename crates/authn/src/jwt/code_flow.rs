//! Signing in with an issuer in a browser: the authorization code flow with PKCE (RFC 7636), as a client without a secret.
//!
//! The browser gets a code, which is worth nothing without the verifier that its page made up. The server exchanges both for the ID
//! token, which the browser never sees.

use std::time::Duration;

use http::{Request, StatusCode, header};
use object::Value;
use outbound::Client;
use tokio::time::timeout;

use super::keyset::string;
use super::token::text;
use crate::jws::{Jws, json};

/// How long an issuer may take to exchange a code, and how large its answer may be.
const EXCHANGE_TIME: Duration = Duration::from_secs(10);
const ANSWER_BYTES_MAX: usize = 256 * 1024;
/// The longest error of an issuer that is told.
const ERROR_BYTES_MAX: usize = 300;
/// Scopes that bring claims which users are often made of. They are asked for if the issuer says that it has them.
const WANTED_SCOPES: [&str; 3] = ["profile", "email", "groups"];

/// Where an issuer signs users in, from its discovery document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IssuerEndpoints {
    authorization: String,
    token: String,
    scope: String,
    response_mode: &'static str,
}

/// An issuer as a page sends the browser to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignInIssuer {
    pub issuer: String,
    pub authorization_endpoint: String,
    pub client_id: String,
    pub scope: String,
    /// `fragment` where the issuer has it, so that the code is not sent to this server in an address; else `query`.
    pub response_mode: &'static str,
}

/// A code that an issuer gave to a browser, and what proves that the page asked for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IssuedCode<'a> {
    pub issuer: &'a str,
    pub code: &'a str,
    pub verifier: &'a str,
    pub nonce: &'a str,
    pub redirect_uri: &'a str,
}

impl IssuerEndpoints {
    /// None if the document does not say where users sign in, or not over TLS.
    pub fn read(document: &Value) -> Option<IssuerEndpoints> {
        let endpoint = |field: &str| Some(string(document, field)).filter(|url| url.starts_with("https://"));
        let has =
            |field: &str, wanted: &str| document.list_at(&[field]).iter().any(|item| item.as_str() == Some(wanted));
        let scopes = WANTED_SCOPES.iter().filter(|scope| has("scopes_supported", scope));
        Some(IssuerEndpoints {
            authorization: endpoint("authorization_endpoint")?,
            token: endpoint("token_endpoint")?,
            scope: ["openid"].iter().chain(scopes).copied().collect::<Vec<_>>().join(" "),
            response_mode: if has("response_modes_supported", "fragment") { "fragment" } else { "query" },
        })
    }

    /// As a page needs it. The client is the first audience that tokens may be for.
    pub fn sign_in(&self, issuer: &str, audiences: &[String]) -> Option<SignInIssuer> {
        Some(SignInIssuer {
            issuer: issuer.to_string(),
            authorization_endpoint: self.authorization.clone(),
            client_id: audiences.first()?.clone(),
            scope: self.scope.clone(),
            response_mode: self.response_mode,
        })
    }

    /// Exchanges a code for an ID token with the page's nonce. The token is not verified otherwise.
    pub async fn exchange(&self, client: &Client, client_id: &str, issued: &IssuedCode<'_>) -> Result<String, String> {
        let form = [
            ("grant_type", "authorization_code"),
            ("client_id", client_id),
            ("code", issued.code),
            ("code_verifier", issued.verifier),
            ("redirect_uri", issued.redirect_uri),
        ];
        let form: Vec<String> = form.iter().map(|(name, value)| [name, "=", &form_value(value)].concat()).collect();
        let request = Request::post(&self.token)
            .header(header::CONTENT_TYPE, "application/x-www-form-urlencoded")
            .header(header::ACCEPT, "application/json")
            .body(outbound::body(form.join("&")))
            .map_err(|error| error.to_string())?;
        let exchanged = async {
            let (head, body) = client.send(request).await?.into_parts();
            Ok::<_, outbound::Error>((head.status, outbound::read(body, ANSWER_BYTES_MAX).await?))
        };
        let exchanged = timeout(EXCHANGE_TIME, exchanged).await.map_err(|_| "the issuer does not answer")?;
        let (status, body) = exchanged.map_err(|error| error.to_string())?;
        let answer = json(&body);
        if status != StatusCode::OK {
            let said = answer.map(|answer| [string(&answer, "error"), string(&answer, "error_description")].join(" "));
            let said = said.unwrap_or_default();
            let said = said.get(..said.floor_char_boundary(ERROR_BYTES_MAX)).unwrap_or_default();
            return Err(format!(
                "the issuer refuses the code with {}: {}",
                status.as_u16(),
                object::quote(said.trim())
            ));
        }
        let token = answer.map(|answer| string(&answer, "id_token")).map_err(|_| "the issuer's answer is not JSON")?;
        // Tokens that were issued to another page, or earlier, have another nonce.
        let claims = Jws::unverified_claims(&token).map_err(|_| "the issuer's answer has no ID token")?;
        match text(&claims, "nonce") {
            Ok(nonce) if !nonce.is_empty() && nonce == issued.nonce => Ok(token),
            _ => Err("the ID token was not issued for this page".into()),
        }
    }
}

/// A value of a form: everything but letters, digits and `-._~` is escaped.
fn form_value(text: &str) -> String {
    let escape = |byte: u8| match byte {
        b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => char::from(byte).to_string(),
        other => format!("%{other:02X}"),
    };
    text.bytes().map(escape).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_hold_what_was_written() {
        for (text, want) in [("a-b_c.d~9", "a-b_c.d~9"), ("a b&c=d+e%", "a%20b%26c%3Dd%2Be%25"), ("é", "%C3%A9")] {
            assert_eq!(form_value(text), want);
        }
    }

    #[test]
    fn issuers_are_offered_where_they_can_be_used() {
        let document = |more: &str| {
            let text = format!(
                "{{\"authorization_endpoint\":\"https://i/auth\",\"token_endpoint\":\"https://i/token\"{more}}}"
            );
            IssuerEndpoints::read(&json(text.as_bytes()).unwrap())
        };
        let plain = document("").unwrap();
        assert_eq!((plain.scope.as_str(), plain.response_mode), ("openid", "query"));
        let more =
            "\"scopes_supported\":[\"groups\",\"x\",\"email\"],\"response_modes_supported\":[\"query\",\"fragment\"]";
        let rich = document(&[",", more].concat()).unwrap();
        assert_eq!((rich.scope.as_str(), rich.response_mode), ("openid email groups", "fragment"));
        assert_eq!(document(",\"token_endpoint\":\"http://i/token\""), None);
        assert_eq!(plain.sign_in("https://i", &[]), None);
        assert_eq!(plain.sign_in("https://i", &["one".into(), "two".into()]).unwrap().client_id, "one");
    }
}
