//! A key management plugin in use: the key that encrypts now, and keys that have been decrypted.
//!
//! Data keys are derived from a seed of our own, which the plugin encrypts once; the encrypted seed is stored with every
//! value. The plugin is asked for its status every minute. When it has a new key, a new seed is made. As long as the
//! plugin does not answer, reads go on with the seeds we know, and writes for three minutes: after that a storage
//! migration could silently use an old key.

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use parking_lot::Mutex;
use prost::Message;
use tokio::time::Instant;

use super::cipher::{Cipher, SEED_BYTES, random};
use super::envelope::{EncryptedObject, SOURCE_IS_KEY, SOURCE_IS_SEED, shown_key_id, validate_key_id};
use super::kms::{Client, DecryptRequest, EncryptRequest, StatusResponse};
use super::meters::KeyMeters;
use super::plugins::NeededKey;
use super::provider::{Failure, Opened};

/// How often the plugin is asked for its status, and how often while it fails.
const STATUS_INTERVAL: Duration = Duration::from_secs(60);
const STATUS_INTERVAL_FAILED: Duration = Duration::from_secs(10);
/// A health check answers with the last status if it is not older than this.
pub(crate) const HEALTH_TTL: Duration = Duration::from_secs(20);
pub(crate) const HEALTH_TTL_FAILED: Duration = Duration::from_secs(3);
/// A key that could not be decrypted is not asked for again for so long.
pub(crate) const FAILURE_TTL: Duration = Duration::from_secs(1);
/// Writes go on for so long without word from the plugin.
const SEED_TTL: Duration = Duration::from_secs(3 * 60);
/// Decrypted keys and seeds that are remembered. There is about one for each restart of a server and key of the plugin.
const KEYS_MAX: usize = 10_000;

pub(crate) struct Plugin {
    name: String,
    /// What values of this plugin begin with.
    pub prefix: String,
    client: Client,
    seed: ArcSwapOption<Seed>,
    keys: Mutex<HashMap<[u8; 32], Arc<Cipher>>>,
    meters: Arc<KeyMeters>,
    /// Keys that could not be decrypted just now, and why.
    failed: Mutex<HashMap<[u8; 32], (Instant, String)>>,
    checked: tokio::sync::Mutex<Option<PluginCheck>>,
}

/// What values are encrypted with now.
struct Seed {
    cipher: Arc<Cipher>,
    /// Without data.
    object: EncryptedObject,
    until: Instant,
}

struct PluginCheck {
    at: Instant,
    outcome: Result<(), String>,
    version: String,
}

impl Plugin {
    pub async fn start(
        name: &str,
        endpoint: &str,
        timeout: Duration,
        meters: Arc<KeyMeters>,
    ) -> Result<Arc<Self>, String> {
        let client = Client::new(endpoint, timeout)?;
        let plugin = Arc::new(Plugin {
            name: name.into(),
            prefix: format!("k8s:enc:kms:v2:{name}:"),
            client,
            seed: ArcSwapOption::empty(),
            keys: Mutex::default(),
            meters,
            failed: Mutex::default(),
            checked: tokio::sync::Mutex::default(),
        });
        if let Err(error) = plugin.check().await {
            tracing::error!(plugin = name, %error, "kms plugin failed health check probe");
        }
        tokio::spawn(keep_asking(Arc::downgrade(&plugin)));
        Ok(plugin)
    }

    pub fn seal(&self, value: &[u8], place: &[u8]) -> Result<Vec<u8>, String> {
        let seed = self.seed.load_full().ok_or("the kms plugin has not provided a key yet")?;
        let now = Instant::now();
        if now > seed.until {
            let (key, ago) = (shown_key_id(&seed.object.key_id), (now - seed.until).as_secs());
            return Err(format!("encryptedDEKSource with keyID hash {key:?} expired {ago} seconds ago"));
        }
        let mut object = seed.object.clone();
        seed.cipher.seal(value, place, &mut object.encrypted_data)?;
        object.validate()?;
        let mut out = Vec::with_capacity(self.prefix.len() + object.encoded_len());
        out.extend_from_slice(self.prefix.as_bytes());
        object.encode(&mut out).map_err(|error| error.to_string())?;
        Ok(out)
    }

    /// Opens a value if its key is known.
    pub fn open(self: &Arc<Self>, data: &[u8], place: &[u8]) -> Result<Opened, Failure> {
        let object = EncryptedObject::decode(data).map_err(|error| error.to_string())?;
        object.validate()?;
        let known = self.keys.lock().get(&object.source_digest()).cloned();
        let Some(cipher) = known else {
            self.meters.missed();
            return Err(Failure::NeedsKey(NeededKey::Source(self.clone(), Box::new(object))));
        };
        let value = cipher.open(&object.encrypted_data, place)?;
        let seed = self.seed.load();
        let current = seed.as_ref().map(|seed| &seed.object);
        let is_current = current
            .is_some_and(|current| (current.key_id == object.key_id) && (current.source_type == object.source_type));
        Ok(Opened { value: Some(value), stale: !is_current })
    }

    /// Has the plugin decrypt the object's key, and remembers it, or for a moment that it cannot: many values have the
    /// same key.
    pub async fn learn(&self, object: &EncryptedObject) -> Result<(), String> {
        let digest = object.source_digest();
        if let Some((at, why)) = self.failed.lock().get(&digest)
            && at.elapsed() < FAILURE_TTL
        {
            return Err(why.clone());
        }
        let outcome = self.ask_for_key(object).await;
        let mut failed = self.failed.lock();
        failed.retain(|_, (at, _)| at.elapsed() < FAILURE_TTL);
        if let Err(why) = &outcome {
            failed.insert(digest, (Instant::now(), why.clone()));
        }
        outcome
    }

    /// Like `learn`, whatever was answered just now.
    pub async fn ask_for_key(&self, object: &EncryptedObject) -> Result<(), String> {
        let request = DecryptRequest {
            ciphertext: object.encrypted_source.clone(),
            uid: uid()?,
            key_id: object.key_id.clone(),
            annotations: object.annotations.clone(),
        };
        let answer = self.client.decrypt(request).await;
        let plaintext = answer.map_err(|error| format!("failed to decrypt DEK, error: {error}"))?.plaintext;
        let cipher = match object.source_type {
            SOURCE_IS_KEY => Cipher::gcm(&plaintext)?,
            _ => Cipher::seeded(&plaintext)?,
        };
        self.remember(object, Arc::new(cipher));
        // It answers again, so perhaps for the other keys, too.
        self.failed.lock().clear();
        Ok(())
    }

    fn remember(&self, object: &EncryptedObject, cipher: Arc<Cipher>) {
        let mut keys = self.keys.lock();
        if keys.len() >= KEYS_MAX
            && let Some(any) = keys.keys().next().copied()
        {
            keys.remove(&any);
        }
        keys.insert(object.source_digest(), cipher);
    }

    /// Asks the plugin whether it is well, unless that was asked just now. As upstream, only the first answer says in which section
    /// the plugin failed.
    pub async fn check(&self) -> Result<(), String> {
        let mut checked = self.checked.lock().await;
        if let Some(last) = &*checked {
            let ttl = if last.outcome.is_ok() { HEALTH_TTL } else { HEALTH_TTL_FAILED };
            if last.at.elapsed() < ttl {
                return last.outcome.clone();
            }
        }
        let mut version = checked.as_ref().map_or_else(String::new, |last| last.version.clone());
        let status = self.client.status().await;
        let outcome = match &status {
            Ok(status) => self.follow(status, &mut version).await,
            Err(error) => Err(error.clone()),
        };
        *checked = Some(PluginCheck { at: Instant::now(), outcome: outcome.clone(), version });
        if let Err(error) = status {
            let name = &self.name;
            return Err(format!(
                "failed to perform status section of the healthz check for KMS Provider {name}, error: {error}"
            ));
        }
        outcome
    }

    async fn follow(&self, status: &StatusResponse, version: &mut String) -> Result<(), String> {
        let mut problems = Vec::new();
        if status.healthz != "ok" {
            problems.push(format!("got unexpected healthz status: {}", status.healthz));
        }
        if status.version != "v2" && status.version != "v2beta1" {
            problems.push(format!("expected KMSv2 API version v2, got {}", status.version));
        } else if version.is_empty() {
            version.clone_from(&status.version);
        } else if *version != status.version {
            problems.push(format!(
                "KMSv2 API version should not change after the initial status response version {version}, got {}",
                status.version
            ));
        }
        match validate_key_id(&status.key_id) {
            Err(error) => {
                problems.push(format!("got invalid KMSv2 KeyID hash {:?}: {error}", shown_key_id(&status.key_id)));
            }
            Ok(()) => problems.extend(self.rotate(&status.key_id).await.err()),
        }
        if problems.is_empty() {
            return Ok(());
        }
        Err(format!("kmsv2 Provider {} is not healthy, error: {}", self.name, object::aggregate(problems)))
    }

    /// Keeps the seed if the plugin's key is still the one that encrypted it, and makes a new one otherwise. If that
    /// fails, the old one stays until it expires.
    async fn rotate(&self, key_id: &str) -> Result<(), String> {
        // From before the call: it may take its time.
        let until = Instant::now() + SEED_TTL;
        if let Some(seed) = &*self.seed.load()
            && seed.object.key_id == key_id
        {
            let (cipher, object) = (seed.cipher.clone(), seed.object.clone());
            self.seed.store(Some(Arc::new(Seed { cipher, object, until })));
            return Ok(());
        }
        let secret: [u8; SEED_BYTES] = self.meters.generate(random)?;
        let request = EncryptRequest { plaintext: secret.to_vec(), uid: uid()? };
        let answer = self.client.encrypt(request).await;
        let answer = answer.map_err(|error| format!("failed to rotate DEK: failed to encrypt DEK, error: {error}"))?;
        let object = EncryptedObject {
            encrypted_data: Vec::new(),
            key_id: answer.key_id,
            encrypted_source: answer.ciphertext,
            annotations: answer.annotations,
            source_type: SOURCE_IS_SEED,
        };
        object.validate_source().map_err(|error| format!("failed to rotate DEK: {error}"))?;
        if object.key_id != key_id {
            let (status, encrypt) = (shown_key_id(key_id), shown_key_id(&object.key_id));
            return Err(format!(
                "failed to rotate DEK: statusKeyIDHash={status:?}, encryptKeyIDHash={encrypt:?} differ"
            ));
        }
        let cipher = Arc::new(Cipher::seeded(&secret)?);
        self.remember(&object, cipher.clone());
        self.seed.store(Some(Arc::new(Seed { cipher, object, until })));
        tracing::info!(plugin = %self.name, key = shown_key_id(key_id), "encrypting with a new seed");
        Ok(())
    }
}

/// Asks for the status until the plugin is no longer in use.
async fn keep_asking(plugin: Weak<Plugin>) {
    loop {
        let Some(current) = plugin.upgrade() else { return };
        let interval = match current.check().await {
            Ok(()) => STATUS_INTERVAL,
            Err(error) => {
                tracing::error!(plugin = %current.name, %error, "kms plugin failed health check probe");
                STATUS_INTERVAL_FAILED
            }
        };
        drop(current);
        tokio::time::sleep(interval).await;
    }
}

/// Identifies a call in the plugin's logs.
fn uid() -> Result<String, String> {
    let bytes: [u8; 16] = random()?;
    Ok(uuid::Builder::from_random_bytes(bytes).into_uuid().to_string())
}

#[cfg(test)]
mod tests {
    use super::super::mock::MockPlugin;
    use super::*;

    fn stale(opened: Result<Opened, Failure>) -> bool {
        match opened {
            Ok(opened) => opened.stale,
            Err(_) => panic!("cannot be read"),
        }
    }

    #[tokio::test]
    async fn a_seed_lives_as_long_as_the_plugins_key_and_not_without_word_from_it() {
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("kms.sock");
        let mock = MockPlugin::start(&socket);
        let endpoint = format!("unix://{}", socket.display());
        let plugin = Plugin::start("mock", &endpoint, Duration::from_secs(2), Arc::default()).await.unwrap();
        let age = || {
            let seed = plugin.seed.load_full().unwrap();
            let (cipher, object) = (seed.cipher.clone(), seed.object.clone());
            let until = Instant::now() - Duration::from_secs(1);
            plugin.seed.store(Some(Arc::new(Seed { cipher, object, until })));
        };
        let check_again = async || {
            *plugin.checked.lock().await = None;
            plugin.check().await
        };
        let first = plugin.seal(b"value", b"/place").unwrap();
        let first = &first[plugin.prefix.len()..];

        // Without word from the plugin nothing is written, but everything can be read.
        age();
        let refused = plugin.seal(b"value", b"/place").unwrap_err();
        assert!(refused.starts_with("encryptedDEKSource with keyID hash \"sha256:"), "{refused}");
        assert!(!stale(plugin.open(first, b"/place")));

        // Its word is enough; the seed stays.
        check_again().await.unwrap();
        plugin.seal(b"value", b"/place").unwrap();
        assert_eq!(mock.state.lock().encrypted, 1);

        // A new key means a new seed, and what the old one encrypted is stale.
        mock.state.lock().key_id = "key-2".into();
        check_again().await.unwrap();
        assert_eq!(mock.state.lock().encrypted, 2);
        assert!(stale(plugin.open(first, b"/place")));
        let second = plugin.seal(b"value", b"/place").unwrap();
        assert!(!stale(plugin.open(&second[plugin.prefix.len()..], b"/place")));

        // A plugin that changes its version is not trusted.
        mock.state.lock().version = "v2beta1".into();
        plugin.checked.lock().await.as_mut().unwrap().at = Instant::now() - HEALTH_TTL;
        let problem = plugin.check().await.unwrap_err();
        assert!(problem.contains("API version should not change"), "{problem}");

        // Only the first answer says in which section a call failed; the cause is remembered.
        mock.state.lock().broken = true;
        let cause = "rpc error: code = Internal desc = the plugin is broken";
        let section = "failed to perform status section of the healthz check for KMS Provider mock, error: ";
        assert_eq!(check_again().await, Err(format!("{section}{cause}")));
        assert_eq!(plugin.check().await, Err(cause.to_string()));
    }
}
