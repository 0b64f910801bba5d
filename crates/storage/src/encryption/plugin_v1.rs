//! A key management plugin of version 1, behind the feature gate `KMSv1`: every value has a data key of its own, which the plugin
//! encrypts when the value is written and decrypts when it is read.
//!
//! A value is stored as the length of its encrypted data key in two bytes, that key, and what AES-GCM made of the value. Servers
//! before Kubernetes 1.25 wrote with AES-CBC: such values can be read, and are stale.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::OnceCell;
use tokio::time::Instant;

use super::cipher::{Cipher, random};
use super::kms::{Client, TIMED_OUT};
use super::meters::KeyMeters;
use super::plugin::{FAILURE_TTL, HEALTH_TTL, HEALTH_TTL_FAILED};
use super::plugins::NeededKey;
use super::provider::{Failure, Opened};

const VERSION: &str = "v1beta1";
const DATA_KEY_BYTES: usize = 32;
/// Decrypted data keys that are remembered if the configuration does not say how many.
pub(crate) const CACHE_SIZE: i32 = 1000;

pub(crate) struct PluginV1 {
    name: String,
    /// What values of this plugin begin with.
    pub prefix: String,
    client: Client,
    version_checked: OnceCell<()>,
    /// None if the configuration wants no keys remembered.
    keys: Option<Mutex<RecentKeys>>,
    meters: Arc<KeyMeters>,
    /// When a call last timed out: others are not made for a moment, or a list of many values would wait for each of them.
    timed_out: Mutex<Option<Instant>>,
    checked: tokio::sync::Mutex<Option<(Instant, Result<(), String>)>>,
}

/// What one value is encrypted with.
pub(crate) struct DataKey {
    gcm: Cipher,
    cbc: Cipher,
}

/// A data key that the plugin has decrypted for a value that is being read.
pub(crate) struct LearnedKey {
    encrypted: Box<[u8]>,
    key: Arc<DataKey>,
}

impl PluginV1 {
    /// A `cache_size` below one means that no keys are remembered.
    pub fn new(
        name: &str,
        endpoint: &str,
        timeout: Duration,
        cache_size: i32,
        meters: Arc<KeyMeters>,
    ) -> Result<Self, String> {
        let wrong = |error| format!("could not configure KMSv1-Plugin's probe {name:?}, error: {error}");
        let cache_size = usize::try_from(cache_size).ok().filter(|size| *size > 0);
        Ok(PluginV1 {
            name: name.into(),
            prefix: format!("k8s:enc:kms:v1:{name}:"),
            client: Client::new(endpoint, timeout).map_err(wrong)?,
            version_checked: OnceCell::new(),
            keys: cache_size.map(|size| Mutex::new(RecentKeys::new(size))),
            meters,
            timed_out: Mutex::default(),
            checked: tokio::sync::Mutex::default(),
        })
    }

    pub async fn seal(&self, value: &[u8], place: &[u8]) -> Result<Vec<u8>, String> {
        let secret: [u8; DATA_KEY_BYTES] = self.meters.generate(random)?;
        let encrypted = self.encrypt(&secret).await?;
        let length = u16::try_from(encrypted.len())
            .map_err(|_| format!("pending child length {} exceeds 2-byte length prefix", encrypted.len()))?;
        let key = self.remember(&encrypted, &secret)?;
        let mut out = Vec::with_capacity(self.prefix.len() + encrypted.len() + value.len() + 64);
        out.extend_from_slice(self.prefix.as_bytes());
        out.extend_from_slice(&length.to_be_bytes());
        out.extend_from_slice(&encrypted);
        key.gcm.seal(value, place, &mut out)?;
        Ok(out)
    }

    /// Opens a value if its key was learned for it or is remembered.
    pub fn open(self: &Arc<Self>, data: &[u8], place: &[u8], learned: Option<&LearnedKey>) -> Result<Opened, Failure> {
        let (encrypted, sealed) = split(data)?;
        let learned = learned.filter(|learned| *learned.encrypted == *encrypted).map(|learned| learned.key.clone());
        let key = learned.or_else(|| self.keys.as_ref()?.lock().get(encrypted));
        let Some(key) = key else {
            self.meters.missed();
            return Err(Failure::NeedsKey(NeededKey::DataKey(self.clone(), encrypted.into())));
        };
        match key.gcm.open(sealed, place) {
            Ok(value) => Ok(Opened { value: Some(value), stale: false }),
            Err(first) => match key.cbc.open(sealed, place) {
                Ok(value) => Ok(Opened { value: Some(value), stale: true }),
                Err(second) => Err(object::aggregate([first, second]).into()),
            },
        }
    }

    /// Has the plugin decrypt a data key.
    pub async fn learn(&self, encrypted: &[u8]) -> Result<LearnedKey, String> {
        if self.timed_out.lock().is_some_and(|at| at.elapsed() < FAILURE_TTL) {
            return Err(TIMED_OUT.into());
        }
        let key = self.decrypt(encrypted).await.and_then(|secret| self.remember(encrypted, &secret))?;
        Ok(LearnedKey { encrypted: encrypted.into(), key })
    }

    /// Whether the plugin can decrypt what it encrypts, unless that was tried just now.
    pub async fn check(&self) -> Result<(), String> {
        let mut checked = self.checked.lock().await;
        if let Some((at, outcome)) = &*checked {
            let ttl = if outcome.is_ok() { HEALTH_TTL } else { HEALTH_TTL_FAILED };
            if at.elapsed() < ttl {
                return outcome.clone();
            }
        }
        let failed = |section: &str, error: &str| {
            let name = &self.name;
            format!("failed to perform {section} section of the healthz check for KMS Provider {name}, error: {error}")
        };
        let (section, outcome) = match self.encrypt(b"ping").await {
            Err(error) => ("encrypt", Err(error)),
            Ok(encrypted) => ("decrypt", self.decrypt(&encrypted).await.map(drop)),
        };
        *checked = Some((Instant::now(), outcome.clone()));
        outcome.map_err(|error| failed(section, &error))
    }

    fn remember(&self, encrypted: &[u8], secret: &[u8]) -> Result<Arc<DataKey>, String> {
        let key = Arc::new(DataKey { gcm: Cipher::gcm(secret)?, cbc: Cipher::cbc(secret)? });
        if let Some(keys) = &self.keys {
            let mut keys = keys.lock();
            keys.insert(encrypted, key.clone());
            self.meters.remembers(keys.keys.len(), keys.size);
        }
        Ok(key)
    }

    async fn encrypt(&self, plain: &[u8]) -> Result<Vec<u8>, String> {
        let request = EncryptRequest { version: VERSION.into(), plain: plain.into() };
        let answer: EncryptResponse = self.call("/v1beta1.KeyManagementService/Encrypt", request).await?;
        Ok(answer.cipher)
    }

    async fn decrypt(&self, cipher: &[u8]) -> Result<Vec<u8>, String> {
        let request = DecryptRequest { version: VERSION.into(), cipher: cipher.into() };
        let answer: DecryptResponse = self.call("/v1beta1.KeyManagementService/Decrypt", request).await?;
        Ok(answer.plain)
    }

    /// Asks for the plugin's version before the first call.
    async fn call<Q, A>(&self, path: &'static str, request: Q) -> Result<A, String>
    where
        Q: prost::Message + Clone + 'static,
        A: prost::Message + Default + 'static,
    {
        let outcome = match self.version_checked.get_or_try_init(|| self.check_version()).await {
            Ok(()) => self.client.call(path, request).await,
            Err(error) => Err(error),
        };
        let timed_out = outcome.as_ref().is_err_and(|error| error.ends_with(TIMED_OUT));
        *self.timed_out.lock() = timed_out.then(Instant::now);
        outcome
    }

    async fn check_version(&self) -> Result<(), String> {
        let request = VersionRequest { version: VERSION.into() };
        let answer: Result<VersionResponse, String> =
            self.client.call("/v1beta1.KeyManagementService/Version", request).await;
        let version = answer.map_err(|error| format!("failed get version from remote KMS provider: {error}"))?.version;
        if version != VERSION {
            return Err(format!(
                "KMS provider api version {version} is not supported, only {VERSION} is supported now"
            ));
        }
        Ok(())
    }
}

/// The encrypted data key of a stored value, and the encrypted value.
fn split(data: &[u8]) -> Result<(&[u8], &[u8]), String> {
    let parts = data.split_first_chunk::<2>();
    parts.and_then(|(length, rest)| rest.split_at_checked(u16::from_be_bytes(*length).into())).ok_or_else(|| {
        "invalid data encountered by envelope transformer: failed to read uint16 length prefixed data".to_string()
    })
}

/// The data keys that were used last, by their encrypted form.
struct RecentKeys {
    size: usize,
    keys: HashMap<Arc<[u8]>, (u64, Arc<DataKey>)>,
    /// By when they were last used.
    order: BTreeMap<u64, Arc<[u8]>>,
    uses: u64,
}

impl RecentKeys {
    fn new(size: usize) -> Self {
        RecentKeys { size, keys: HashMap::new(), order: BTreeMap::new(), uses: 0 }
    }

    fn get(&mut self, encrypted: &[u8]) -> Option<Arc<DataKey>> {
        let (used, key) = self.keys.get_mut(encrypted)?;
        let name = self.order.remove(used)?;
        self.uses += 1;
        *used = self.uses;
        self.order.insert(self.uses, name);
        Some(key.clone())
    }

    fn insert(&mut self, encrypted: &[u8], key: Arc<DataKey>) {
        if self.get(encrypted).is_some() {
            return;
        }
        if self.keys.len() >= self.size
            && let Some((_, oldest)) = self.order.pop_first()
        {
            self.keys.remove(&oldest);
        }
        let name: Arc<[u8]> = encrypted.into();
        self.uses += 1;
        self.order.insert(self.uses, name.clone());
        self.keys.insert(name, (self.uses, key));
    }
}

#[derive(Clone, PartialEq, prost::Message)]
struct VersionRequest {
    #[prost(string, tag = "1")]
    version: String,
}

#[derive(Clone, PartialEq, prost::Message)]
struct VersionResponse {
    #[prost(string, tag = "1")]
    version: String,
}

#[derive(Clone, PartialEq, prost::Message)]
struct DecryptRequest {
    #[prost(string, tag = "1")]
    version: String,
    #[prost(bytes = "vec", tag = "2")]
    cipher: Vec<u8>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct DecryptResponse {
    #[prost(bytes = "vec", tag = "1")]
    plain: Vec<u8>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct EncryptRequest {
    #[prost(string, tag = "1")]
    version: String,
    #[prost(bytes = "vec", tag = "2")]
    plain: Vec<u8>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct EncryptResponse {
    #[prost(bytes = "vec", tag = "1")]
    cipher: Vec<u8>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_keys_used_last_are_remembered() {
        let key = || {
            let secret = [7; DATA_KEY_BYTES];
            Arc::new(DataKey { gcm: Cipher::gcm(&secret).unwrap(), cbc: Cipher::cbc(&secret).unwrap() })
        };
        let mut keys = RecentKeys::new(2);
        keys.insert(b"a", key());
        keys.insert(b"b", key());
        assert!(keys.get(b"a").is_some());
        keys.insert(b"c", key());
        let known = [b"a", b"b", b"c"].map(|name| keys.get(name).is_some());
        assert_eq!(known, [true, false, true]);
        assert_eq!((keys.keys.len(), keys.order.len()), (2, 2));
    }

    #[test]
    fn values_that_are_cut_off() {
        for data in [&b""[..], b"\0", b"\0\x02a"] {
            assert!(split(data).unwrap_err().contains("failed to read uint16 length prefixed data"), "{data:?}");
        }
        assert_eq!(split(b"\0\x02abc"), Ok((&b"ab"[..], &b"c"[..])));
    }
}
