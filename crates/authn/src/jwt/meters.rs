//! [`JwtMeters`]: metrics of issuers, under upstream's names. Issuers and servers appear as hashes.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use metrics::{Family, Gauge, Histogram, head};

use crate::meters::sha256;

const BUCKETS: &[f64] = &[0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];
const KEY_SET_INFO: &str = "apiserver_authentication_jwt_authenticator_jwks_fetch_last_key_set_info";

/// How long tokens took, and when keys were fetched.
pub struct JwtMeters {
    server: String,
    latency: Family<Histogram>,
    fetches: Family<Gauge>,
    /// The hash of an issuer's last key set, by the hash of the issuer.
    key_sets: Mutex<BTreeMap<String, String>>,
}

impl JwtMeters {
    /// For the server with this identity.
    pub fn new(server: &str) -> JwtMeters {
        JwtMeters {
            server: sha256(server.as_bytes()),
            latency: Family::new(
                "apiserver_authentication_jwt_authenticator_latency_seconds",
                "Latency of jwt authentication operations in seconds. This is the time spent authenticating a token for \
                 cache miss only (i.e. when the token is not found in the cache).",
                &["jwt_issuer_hash", "result"],
                || Histogram::new(BUCKETS),
            ),
            fetches: Family::new(
                "apiserver_authentication_jwt_authenticator_jwks_fetch_last_timestamp_seconds",
                "Timestamp of the last successful or failed JWKS fetch split by result, api server identity and jwt \
                 issuer for the JWT authenticator.",
                &["jwt_issuer_hash", "apiserver_id_hash", "result"],
                Gauge::default,
            ),
            key_sets: Mutex::default(),
        }
    }

    pub fn authenticated(&self, issuer: &str, succeeded: bool, took: Duration) {
        let result = if succeeded { "success" } else { "failure" };
        self.latency.with(&[&sha256(issuer.as_bytes()), result]).observe(took.as_secs_f64());
    }

    /// Notes a fetch of keys; None if it failed.
    #[allow(clippy::disallowed_methods)] // The metric is the time of this machine.
    pub fn fetched(&self, issuer: &str, key_set: Option<&[u8]>) {
        let issuer = sha256(issuer.as_bytes());
        let result = if key_set.is_some() { "success" } else { "failure" };
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        self.fetches.with(&[&issuer, &self.server, result]).set(now.as_secs_f64());
        if let Some(key_set) = key_set {
            let mut key_sets = self.key_sets.lock().unwrap_or_else(PoisonError::into_inner);
            key_sets.insert(issuer, sha256(key_set));
        }
    }

    /// Drops what is known about the keys of an issuer that is not configured any more.
    pub fn forget(&self, issuer: &str) {
        let issuer = sha256(issuer.as_bytes());
        self.fetches.forget(&issuer);
        self.key_sets.lock().unwrap_or_else(PoisonError::into_inner).remove(&issuer);
    }

    pub fn write(&self, out: &mut String) -> std::fmt::Result {
        self.latency.write(out)?;
        self.fetches.write(out)?;
        let key_sets = self.key_sets.lock().unwrap_or_else(PoisonError::into_inner);
        if key_sets.is_empty() {
            return Ok(());
        }
        let help = "Information about the last JWKS fetched by the JWT authenticator with hash as label, split by api \
                    server identity and jwt issuer.";
        head(out, KEY_SET_INFO, "gauge", help)?;
        for (issuer, hash) in key_sets.iter() {
            let server = &self.server;
            let labels = format!("apiserver_id_hash=\"{server}\",hash=\"{hash}\",jwt_issuer_hash=\"{issuer}\"");
            writeln!(out, "{KEY_SET_INFO}{{{labels}}} 1")?;
        }
        Ok(())
    }
}
