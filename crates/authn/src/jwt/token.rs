//! [`Checks`]: what must be true of a token before its claims are looked at.

use object::timestamp::Time;
use object::{Timestamp, Value, quote};

use super::keyset::KeySet;
use crate::jws::{Jws, json_type};

/// Clocks may differ by this much.
const NOT_BEFORE_LEEWAY_SECONDS: i64 = 60;
const GOOGLE: &str = "https://accounts.google.com";
/// What Google's tokens have been known to say instead.
const GOOGLE_WITHOUT_SCHEME: &str = "accounts.google.com";

/// What tokens of an issuer must be signed with and be meant for.
#[derive(Clone)]
pub struct Checks {
    pub algorithms: Vec<String>,
    pub audiences: Vec<String>,
}

/// Who a token says it is from. Nothing is verified.
pub fn issuer_of(token: &str) -> Result<String, String> {
    if token.trim_start().starts_with('{') {
        return Err("token is not compact JWT".into());
    }
    let issuer = text(&Jws::unverified_claims(token)?, "iss")?;
    Ok(if issuer == GOOGLE_WITHOUT_SCHEME { GOOGLE.to_string() } else { issuer })
}

impl Checks {
    /// The claims of a token that was signed by `issuer` for one of the audiences, and is valid now.
    pub async fn verify(&self, token: &str, issuer: &str, keys: &KeySet, now: i64) -> Result<Value, String> {
        if token.matches('.').count() > 2 {
            return Err("oidc: malformed jwt".into());
        }
        let jws = Jws::parse(token).map_err(|why| format!("oidc: malformed jwt: {why}"))?;
        if !self.algorithms.contains(&jws.algorithm) {
            let (expected, got) = (quoted(&self.algorithms), quote(&jws.algorithm));
            return Err(format!("oidc: id token signed with unsupported algorithm, expected {expected} got {got}"));
        }
        keys.verify(&jws).await.map_err(|why| format!("failed to verify signature: {why}"))?;
        let claims = jws.claims().map_err(|why| format!("oidc: failed to unmarshal claims: {why}"))?;
        self.check(&claims, issuer, now)?;
        Ok(claims)
    }

    fn check(&self, claims: &Value, issuer: &str, now: i64) -> Result<(), String> {
        let wrong = |why: String| format!("oidc: failed to unmarshal claims: {why}");
        for claim in ["sub", "nonce", "at_hash"] {
            text(claims, claim).map_err(wrong)?;
        }
        check_sources(claims)?;
        let said = text(claims, "iss").map_err(wrong)?;
        if said != issuer && !(issuer == GOOGLE && said == GOOGLE_WITHOUT_SCHEME) {
            let (expected, got) = (quote(issuer), quote(&said));
            return Err(format!("oidc: id token issued by a different provider, expected {expected} got {got}"));
        }
        let meant = audience(claims).map_err(wrong)?;
        if !self.audiences.iter().any(|audience| meant.contains(audience)) {
            let expected = match self.audiences.as_slice() {
                [one] => format!("audience {}", quote(one)),
                several => {
                    let mut sorted = several.to_vec();
                    sorted.sort();
                    format!("audience in {}", quoted(&sorted))
                }
            };
            return Err(format!("oidc: expected {expected} got {}", quoted(&meant)));
        }
        let expires = date(claims, "exp").map_err(wrong)?;
        // The clock has whole seconds: a token that expires in this one has expired.
        if expires.is_none_or(|expires| expires <= now) {
            let shown = expires.map_or("0001-01-01 00:00:00 +0000 UTC".to_string(), go_time);
            return Err(format!("oidc: token is expired (Token Expiry: {shown})"));
        }
        if let Some(from) = date(claims, "nbf").map_err(wrong)?
            && now + NOT_BEFORE_LEEWAY_SECONDS < from
        {
            let (now, from) = (go_time(now), go_time(from));
            return Err(format!("oidc: current time {now} before the nbf (not before) time: {from}"));
        }
        date(claims, "iat").map_err(wrong).map(|_| ())
    }
}

/// Every distributed claim must have a source.
fn check_sources(claims: &Value) -> Result<(), String> {
    let sources = claims.field("_claim_sources");
    for (_, source) in claims.field("_claim_names").as_map().into_iter().flat_map(|names| names.iter()) {
        match source.as_str() {
            None | Some("") => return Err("oidc: failed to obtain source from claim name".into()),
            Some(source) if sources.field(source).is_null() => return Err("oidc: source does not exist".into()),
            Some(_) => {}
        }
    }
    Ok(())
}

/// A claim that is a string, "" if it is not there.
pub fn text(claims: &Value, claim: &str) -> Result<String, String> {
    match claims.field(claim) {
        Value::Null => Ok(String::new()),
        Value::String(text) => Ok(text.to_string()),
        other => Err(format!(
            "json: cannot unmarshal {} into Go struct field idToken.{claim} of type string",
            json_type(other)
        )),
    }
}

/// One audience or a list of them.
fn audience(claims: &Value) -> Result<Vec<String>, String> {
    let wrong = |value: &Value| format!("json: cannot unmarshal {} into Go value of type string", json_type(value));
    match claims.field("aud") {
        Value::Null => Ok(Vec::new()),
        Value::String(one) => Ok(vec![one.to_string()]),
        Value::List(list) => {
            list.iter().map(|item| item.as_str().map(str::to_string).ok_or_else(|| wrong(item))).collect()
        }
        other => Err(wrong(other)),
    }
}

/// A claim that is a number of seconds, with or without a fraction.
fn date(claims: &Value, claim: &str) -> Result<Option<i64>, String> {
    match claims.field(claim) {
        Value::Null => Ok(None),
        Value::Int(seconds) => Ok(Some(*seconds)),
        Value::Float(seconds) => Ok(Some(*seconds as i64)),
        other => Err(format!(
            "json: cannot unmarshal {} into Go struct field idToken.{claim} of type json.Number",
            json_type(other)
        )),
    }
}

/// Strings as Go prints a slice of them.
fn quoted(items: &[String]) -> String {
    format!("[{}]", items.iter().map(|item| quote(item)).collect::<Vec<_>>().join(" "))
}

/// A time as Go prints it.
fn go_time(seconds: i64) -> String {
    let text = Time(Timestamp::new(seconds, 0)).to_string();
    format!("{} +0000 UTC", text.replace('T', " ").trim_end_matches('Z'))
}
