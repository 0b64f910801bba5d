//! `--service-account-signing-endpoint`: another process signs tokens and knows the keys that check them.

#[cfg(test)]
mod tests;

use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use metrics::{Counter, Family, Gauge, Histogram};
use object::{Clock, SystemClock};
use outbound::{GrpcError, UnixGrpc};

use crate::jws::json;
use crate::keys::PublicKey;

const SIGN: &str = "/v1.ExternalJWTSigner/Sign";
const FETCH_KEYS: &str = "/v1.ExternalJWTSigner/FetchKeys";
const METADATA: &str = "/v1.ExternalJWTSigner/Metadata";

/// How long each call may take.
const FETCH_TIMEOUT: Duration = Duration::from_secs(60);
const METADATA_TIMEOUT: Duration = Duration::from_secs(10);
const SIGN_TIMEOUT: Duration = Duration::from_secs(30);
/// When keys are fetched again after that failed.
const FALLBACK_REFRESH: Duration = Duration::from_secs(10);
const KEY_ID_BYTES_MAX: usize = 1024;
/// Tokens must be able to live at least this long.
const LIFE_SECONDS_MIN: i64 = 10 * 60;

/// The other process, and the keys that it told us.
pub struct ExternalSigner {
    client: UnixGrpc,
    keys: ArcSwap<Keys>,
    fetching: tokio::sync::Mutex<()>,
    meters: ExternalMeters,
    /// How long tokens may live at most.
    pub max_seconds: i64,
}

struct Keys {
    keys: Vec<ExternalKey>,
    refresh: Instant,
    fetched: u64,
}

struct ExternalKey {
    key: PublicKey,
    /// It only checks tokens that were signed before; others are not told about it.
    excluded: bool,
}

impl ExternalSigner {
    /// Asks the process for its keys and what it can do. Err is upstream's text.
    pub async fn connect(socket: &str) -> Result<Arc<ExternalSigner>, String> {
        let failed = |why: String| format!("while setting up external-jwt-signer: {why}");
        let (client, meters) = (UnixGrpc::new(socket), ExternalMeters::default());
        let keys = fetch(&client, &meters, 0).await.map_err(|why| {
            failed(format!("while initially filling key cache: while performing initial cache fill: {why}"))
        })?;
        let metadata = meters.timed(METADATA, client.call(METADATA, MetadataRequest {}, METADATA_TIMEOUT)).await;
        let MetadataResponse { max_token_expiration_seconds: max_seconds } =
            metadata.map_err(|error| failed(error.to_string()))?;
        if max_seconds < LIFE_SECONDS_MIN {
            return Err(format!(
                "max token life supported by external-jwt-signer ({max_seconds}s) is less than acceptable (min \
                 {LIFE_SECONDS_MIN}s)"
            ));
        }
        let keys = ArcSwap::from_pointee(keys);
        let signer =
            Arc::new(ExternalSigner { client, keys, fetching: tokio::sync::Mutex::default(), meters, max_seconds });
        tokio::spawn(follow(Arc::downgrade(&signer)));
        Ok(signer)
    }

    /// A token with these claims.
    pub async fn sign(&self, payload: &[u8]) -> Result<String, String> {
        let outcome = self.try_sign(payload).await;
        let code = match &outcome {
            Ok(_) => "OK".to_string(),
            Err((_, code)) => code.clone().unwrap_or_else(|| "unknown-non-grpc".into()),
        };
        self.meters.signed.with(&[&code]).increment();
        outcome.map_err(|(why, _)| why)
    }

    async fn try_sign(&self, payload: &[u8]) -> Result<String, (String, Option<String>)> {
        let claims = URL_SAFE_NO_PAD.encode(payload);
        let request = SignRequest { claims: claims.clone() };
        let signed = self.meters.timed(SIGN, self.client.call(SIGN, request, SIGN_TIMEOUT)).await;
        let SignResponse { header, signature } =
            signed.map_err(|error: GrpcError| (format!("while signing jwt: {error}"), Some(error.code)))?;
        let other = |why: String| (why, None);
        self.check_header(&header).await.map_err(|why| other(format!("while validating header: {why}")))?;
        if signature.is_empty() {
            return Err(other("empty signature returned".into()));
        }
        Ok(format!("{header}.{claims}.{signature}"))
    }

    async fn check_header(&self, header: &str) -> Result<(), String> {
        let bytes = URL_SAFE_NO_PAD.decode(header).map_err(|error| format!("while unwrapping header: {error}"))?;
        let header = json(&bytes).map_err(|why| format!("while parsing header JSON: {why}"))?;
        let known = ["alg", "kid", "typ"];
        let fields = header.as_map().into_iter().flat_map(|map| map.iter());
        if let Some((name, _)) = fields.into_iter().find(|(name, _)| !known.contains(name)) {
            return Err(format!("while parsing header JSON: json: unknown field {}", object::quote(name)));
        }
        let (algorithm, key_id) = (header.str_at(&["alg"]), header.str_at(&["kid"]));
        match () {
            () if header.str_at(&["typ"]) != "JWT" => return Err("bad type".into()),
            () if key_id.is_empty() => return Err("key id missing".into()),
            () if key_id.len() > KEY_ID_BYTES_MAX => return Err("key id longer than 1 kb".into()),
            () if !["RS256", "ES256", "ES384", "ES512"].contains(&algorithm) => {
                return Err(format!("bad signing algorithm {}", object::quote(algorithm)));
            }
            () => {}
        }
        let keys = self.known(key_id).await;
        if keys.keys.iter().any(|key| key.excluded && key.key.id() == key_id) {
            return Err(format!("key used for signing JWT (kid: {key_id}) is excluded from OIDC discovery docs"));
        }
        Ok(())
    }

    /// The keys with this id, all of them for "". A key that is not known is looked for.
    pub async fn find(&self, key_id: &str) -> Vec<PublicKey> {
        let keys = self.known(key_id).await;
        let named = keys.keys.iter().filter(|key| key_id.is_empty() || key.key.id() == key_id);
        named.map(|key| key.key.clone()).collect()
    }

    /// The keys that others may know.
    pub fn discoverable(&self) -> Vec<PublicKey> {
        self.keys.load().keys.iter().filter(|key| !key.excluded).map(|key| key.key.clone()).collect()
    }

    /// For how many seconds others may keep the keys.
    pub fn max_age_seconds(&self) -> u64 {
        self.keys.load().refresh.saturating_duration_since(Instant::now()).as_secs()
    }

    async fn known(&self, key_id: &str) -> Arc<Keys> {
        let current = self.keys.load_full();
        if key_id.is_empty() || current.keys.iter().any(|key| key.key.id() == key_id) {
            return current;
        }
        if let Err(error) = self.refresh(current.fetched).await {
            tracing::error!(error, "Error while syncing keys");
        }
        self.keys.load_full()
    }

    /// Fetches keys, unless another request did so since there were `known` fetches.
    async fn refresh(&self, known: u64) -> Result<(), String> {
        let _fetching = self.fetching.lock().await;
        if self.keys.load().fetched > known {
            return Ok(());
        }
        self.keys.store(Arc::new(fetch(&self.client, &self.meters, known + 1).await?));
        Ok(())
    }

    pub fn write_metrics(&self, out: &mut String) -> std::fmt::Result {
        self.meters.write(out)
    }
}

/// Fetches keys when the process said that it should be asked again.
async fn follow(signer: Weak<ExternalSigner>) {
    let mut wait = match signer.upgrade() {
        Some(signer) => signer.keys.load().refresh.saturating_duration_since(Instant::now()),
        None => return,
    };
    loop {
        tokio::time::sleep(wait).await;
        let Some(signer) = signer.upgrade() else { return };
        let known = signer.keys.load().fetched;
        wait = match signer.refresh(known).await {
            Ok(()) => signer.keys.load().refresh.saturating_duration_since(Instant::now()),
            Err(error) => {
                tracing::error!(error, "when syncing supported public keys(Stale set of keys will be supported)");
                FALLBACK_REFRESH
            }
        };
    }
}

async fn fetch(client: &UnixGrpc, meters: &ExternalMeters, fetched: u64) -> Result<Keys, String> {
    let answer = meters.timed(FETCH_KEYS, client.call(FETCH_KEYS, FetchKeysRequest {}, FETCH_TIMEOUT)).await;
    let code = answer.as_ref().err().map_or("OK".to_string(), |error: &GrpcError| error.code.clone());
    let read = match answer {
        Ok(answer) => read(&answer, fetched),
        Err(error) => Err(format!("while getting externally supported jwt signing keys: {error}")),
    };
    let code = if read.is_err() && code == "OK" { "unknown-non-grpc" } else { code.as_str() };
    meters.fetches.with(&[code]).increment();
    let (keys, data_seconds) = read.map_err(|why| format!("while fetching token verification keys: {why}"))?;
    meters.fetched.with(&[]).set(SystemClock.now().secs as f64);
    meters.data.with(&[]).set(data_seconds);
    Ok(keys)
}

fn read(answer: &FetchKeysResponse, fetched: u64) -> Result<(Keys, f64), String> {
    let seconds = answer.refresh_hint_seconds;
    let refresh = u64::try_from(seconds).ok().filter(|seconds| *seconds > 0);
    let refresh = refresh.ok_or_else(|| format!("found invalid refresh hint ({seconds}s)"))?;
    if answer.keys.is_empty() {
        return Err("found no keys".into());
    }
    let data = answer.data_timestamp.as_ref().ok_or("invalid data timestamp: proto: invalid nil Timestamp")?;
    let mut keys = Vec::with_capacity(answer.keys.len());
    for Key { key_id, key, exclude_from_oidc_discovery: excluded } in &answer.keys {
        if key_id.is_empty() || key_id.len() > KEY_ID_BYTES_MAX {
            return Err(format!("found invalid public key id {}", object::quote(key_id)));
        }
        if key.is_empty() {
            return Err("found empty public key".into());
        }
        let key = PublicKey::from_pkix(key, key_id)
            .map_err(|error| format!("while parsing external public keys: {error}"))?;
        keys.push(ExternalKey { key, excluded: *excluded });
    }
    let refresh = Instant::now() + Duration::from_secs(refresh.min(365 * 24 * 60 * 60));
    Ok((Keys { keys, refresh, fetched }, data.seconds as f64 + f64::from(data.nanos) / 1e9))
}

/// Metrics of the other process.
struct ExternalMeters {
    fetched: Family<Gauge>,
    data: Family<Gauge>,
    fetches: Family<Counter>,
    signed: Family<Counter>,
    durations: Family<Histogram>,
}

impl Default for ExternalMeters {
    fn default() -> ExternalMeters {
        const BUCKETS: &[f64] = &[0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0];
        ExternalMeters {
            fetched: Family::new(
                "apiserver_externaljwt_fetch_keys_success_timestamp",
                "Unix Timestamp in seconds of the last successful FetchKeys request",
                &[],
                Gauge::default,
            ),
            data: Family::new(
                "apiserver_externaljwt_fetch_keys_data_timestamp",
                "Unix Timestamp in seconds of the last successful FetchKeys data_timestamp value returned by the external \
                 signer",
                &[],
                Gauge::default,
            ),
            fetches: Family::new(
                "apiserver_externaljwt_fetch_keys_request_total",
                "Total attempts at syncing supported JWKs",
                &["code"],
                Counter::default,
            ),
            signed: Family::new(
                "apiserver_externaljwt_sign_request_total",
                "Total attempts at signing JWT",
                &["code"],
                Counter::default,
            ),
            durations: Family::new(
                "apiserver_externaljwt_request_duration_seconds",
                "Request duration and time for calls to external-jwt-signer",
                &["method", "code"],
                || Histogram::new(BUCKETS),
            ),
        }
    }
}

impl ExternalMeters {
    async fn timed<A>(&self, method: &str, call: impl Future<Output = Result<A, GrpcError>>) -> Result<A, GrpcError> {
        let began = Instant::now();
        let outcome = call.await;
        let code = outcome.as_ref().err().map_or("OK", |error| error.code.as_str());
        self.durations.with(&[method, code]).observe(began.elapsed().as_secs_f64());
        outcome
    }

    fn write(&self, out: &mut String) -> std::fmt::Result {
        self.fetched.write(out)?;
        self.data.write(out)?;
        self.fetches.write(out)?;
        self.signed.write(out)?;
        self.durations.write(out)
    }
}

#[derive(Clone, PartialEq, prost::Message)]
struct SignRequest {
    #[prost(string, tag = "1")]
    claims: String,
}

#[derive(Clone, PartialEq, prost::Message)]
struct SignResponse {
    #[prost(string, tag = "1")]
    header: String,
    #[prost(string, tag = "2")]
    signature: String,
}

#[derive(Clone, PartialEq, prost::Message)]
struct FetchKeysRequest {}

#[derive(Clone, PartialEq, prost::Message)]
struct FetchKeysResponse {
    #[prost(message, repeated, tag = "1")]
    keys: Vec<Key>,
    #[prost(message, optional, tag = "2")]
    data_timestamp: Option<DataTimestamp>,
    #[prost(int64, tag = "3")]
    refresh_hint_seconds: i64,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Key {
    #[prost(string, tag = "1")]
    key_id: String,
    #[prost(bytes = "vec", tag = "2")]
    key: Vec<u8>,
    #[prost(bool, tag = "3")]
    exclude_from_oidc_discovery: bool,
}

/// `google.protobuf.Timestamp`.
#[derive(Clone, PartialEq, prost::Message)]
struct DataTimestamp {
    #[prost(int64, tag = "1")]
    seconds: i64,
    #[prost(int32, tag = "2")]
    nanos: i32,
}

#[derive(Clone, PartialEq, prost::Message)]
struct MetadataRequest {}

#[derive(Clone, PartialEq, prost::Message)]
struct MetadataResponse {
    #[prost(int64, tag = "1")]
    max_token_expiration_seconds: i64,
}
