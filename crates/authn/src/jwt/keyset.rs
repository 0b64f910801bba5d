//! [`KeySet`]: the keys at an issuer's `jwks_uri`, fetched when a token needs one that is not known.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http::{HeaderMap, StatusCode, header};
use object::Value;
use outbound::{Client, Fetched};
use tokio::time::Instant;

use super::meters::JwtMeters;
use crate::jws::{Jws, json};
use crate::keys::PublicKey;

/// How long a request to an issuer may take.
pub const TIMEOUT: Duration = Duration::from_secs(30);
/// The largest document that an issuer may send: thousands of keys.
pub const DOCUMENT_BYTES_MAX: usize = 1024 * 1024;
/// Keys are fetched again this long before they expire.
const EXPIRY_LEEWAY: Duration = Duration::from_secs(30);

/// Keys, and until when no others need to be looked for.
pub struct KeySet {
    url: String,
    client: Arc<Client>,
    /// Whose keys these are in the metrics.
    meters: Option<(String, Arc<JwtMeters>)>,
    cached: Mutex<Cached>,
    /// Held while keys are fetched. Requests that waited for it use what was fetched meanwhile.
    fetching: tokio::sync::Mutex<()>,
}

#[derive(Clone)]
struct Cached {
    keys: Arc<[PublicKey]>,
    /// None before the first fetch.
    expires: Option<Instant>,
    /// What the last fetch gave, and how many there were.
    last: Result<(), String>,
    fetches: u64,
}

impl KeySet {
    pub fn new(url: &str, client: Arc<Client>, meters: Option<(String, Arc<JwtMeters>)>) -> KeySet {
        let cached = Cached { keys: Arc::new([]), expires: None, last: Ok(()), fetches: 0 };
        KeySet {
            url: url.to_string(),
            client,
            meters,
            cached: Mutex::new(cached),
            fetching: tokio::sync::Mutex::default(),
        }
    }

    /// Whether one of the keys signed the token. Keys that were good stay in use while the issuer cannot be reached.
    pub async fn verify(&self, token: &Jws) -> Result<(), String> {
        let cached = self.cached();
        if signed_by_one(&cached.keys, token) {
            return Ok(());
        }
        const FAILED: &str = "failed to verify id token signature";
        if cached.expires.is_some_and(|expires| Instant::now() + EXPIRY_LEEWAY <= expires) {
            return Err(FAILED.into());
        }
        let keys = self.fetched(cached.fetches).await.map_err(|why| format!("fetching keys {why}"))?;
        if signed_by_one(&keys, token) { Ok(()) } else { Err(FAILED.into()) }
    }

    fn cached(&self) -> Cached {
        self.cached.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The keys after one more fetch than `known`.
    async fn fetched(&self, known: u64) -> Result<Arc<[PublicKey]>, String> {
        let _fetching = self.fetching.lock().await;
        let latest = self.cached();
        if latest.fetches > known {
            return latest.last.map(|()| latest.keys);
        }
        let fetched = self.fetch().await;
        let mut cached = self.cached.lock().unwrap_or_else(PoisonError::into_inner);
        cached.fetches += 1;
        match fetched {
            Ok((keys, expires)) => {
                *cached = Cached { keys, expires: Some(expires), last: Ok(()), fetches: cached.fetches };
            }
            Err(why) => cached.last = Err(why),
        }
        cached.last.clone().map(|()| cached.keys.clone())
    }

    async fn fetch(&self) -> Result<(Arc<[PublicKey]>, Instant), String> {
        let fetched = self.client.get(&self.url, None, Instant::now() + TIMEOUT, DOCUMENT_BYTES_MAX).await;
        let result = fetched.map_err(|why| format!("oidc: get keys failed {why}")).and_then(|fetched| {
            let keys = read(&fetched)?;
            Ok((fetched, keys))
        });
        if let Some((issuer, meters)) = &self.meters {
            meters.fetched(issuer, result.as_ref().ok().map(|(fetched, _)| &fetched.body[..]));
        }
        let (fetched, keys) = result?;
        Ok((keys, Instant::now() + freshness(&fetched.headers)))
    }
}

fn signed_by_one(keys: &[PublicKey], token: &Jws) -> bool {
    let named = |key: &&PublicKey| token.key_id.is_empty() || key.id() == token.key_id;
    keys.iter().filter(named).any(|key| key.signed(token))
}

fn read(fetched: &Fetched) -> Result<Arc<[PublicKey]>, String> {
    let body = String::from_utf8_lossy(&fetched.body);
    if fetched.status != StatusCode::OK {
        return Err(format!("oidc: get keys failed: {} {body}", fetched.status));
    }
    let wrong = |why: String| {
        let why = not_json(&fetched.headers, &why);
        format!("oidc: failed to decode keys: {why} {body}")
    };
    let set = json(&fetched.body).map_err(wrong)?;
    let mut keys = Vec::new();
    for key in set.field("keys").as_list().unwrap_or(&[]) {
        keys.extend(PublicKey::from_jwk(key).map_err(wrong)?);
    }
    Ok(keys.into())
}

/// What Go's client says about a document that is not the JSON it wants.
pub fn not_json(headers: &HeaderMap, why: &str) -> String {
    let media = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or("");
    match media.split(';').next().unwrap_or("").trim().eq_ignore_ascii_case("application/json") {
        true => format!("got Content-Type = application/json, but could not unmarshal as JSON: {why}"),
        false => format!("expected Content-Type = application/json, got {}: {why}", object::quote(media)),
    }
}

/// How long an answer may be kept: what `Cache-Control` says, not at all if it says nothing.
fn freshness(headers: &HeaderMap) -> Duration {
    let directives = headers.get_all(header::CACHE_CONTROL).iter().filter_map(|value| value.to_str().ok());
    let directives: Vec<&str> = directives.flat_map(|value| value.split(',')).map(str::trim).collect();
    let seconds = |name: &str| {
        let given = directives
            .iter()
            .find_map(|directive| directive.split_once('=').filter(|(key, _)| key.eq_ignore_ascii_case(name)));
        given.and_then(|(_, value)| value.trim_matches('"').parse::<u64>().ok())
    };
    let most = Duration::from_secs(365 * 24 * 60 * 60);
    let age = headers.get(header::AGE).and_then(|value| value.to_str().ok()?.parse::<u64>().ok()).unwrap_or(0);
    let fresh = seconds("s-maxage").or_else(|| seconds("max-age")).unwrap_or(0);
    Duration::from_secs(fresh.saturating_sub(age)).min(most)
}

/// A string of a document; "" if it is not there.
pub fn string(document: &Value, field: &str) -> String {
    document.str_at(&[field]).to_string()
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn answers_say_how_long_they_are_fresh() {
        for (value, want) in [
            ("max-age=60", 60),
            ("public, max-age=\"60\"", 60),
            ("max-age=60, s-maxage=30", 30),
            ("no-cache", 0),
            ("max-age=x", 0),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(header::CACHE_CONTROL, HeaderValue::from_static(value));
            assert_eq!(freshness(&headers).as_secs(), want, "{value}");
            headers.insert(header::AGE, HeaderValue::from_static("50"));
            assert_eq!(freshness(&headers).as_secs(), u64::saturating_sub(want, 50), "{value}");
        }
    }
}
