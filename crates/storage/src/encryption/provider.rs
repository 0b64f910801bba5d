//! Reading and writing values with the providers of a rule.

use std::sync::Arc;

use bytes::Bytes;

use super::cipher::Cipher;
use super::plugins::{KmsPlugin, LearnedKey, NeededKey};

/// What no value but an encrypted one begins with.
const ENCRYPTED: &[u8] = b"k8s:enc:";

pub(crate) enum Provider {
    /// Values as they are; refuses encrypted ones.
    Identity,
    Keyed(Keyed),
    Kms(KmsPlugin),
}

/// Keys from the configuration: values are stored as `k8s:enc:aescbc:v1:name:…`.
pub(crate) struct Keyed {
    pub prefix: &'static str,
    /// For messages.
    pub kind: &'static str,
    /// Names, each with a colon, and what they name. The first one writes.
    pub keys: Vec<(String, Cipher)>,
}

/// The providers of a rule in order. Without any it is a single identity.
#[derive(Default)]
pub(crate) struct Chain {
    providers: Vec<Arc<Provider>>,
}

/// A value that was read.
#[derive(Debug, PartialEq)]
pub(crate) struct Opened {
    /// None if it is stored as it is.
    pub value: Option<Vec<u8>>,
    pub stale: bool,
}

pub(crate) enum Failure {
    /// No provider can decrypt it.
    Unreadable(String),
    /// A plugin has to decrypt this key first.
    #[cfg_attr(not(feature = "kms"), allow(dead_code))]
    NeedsKey(NeededKey),
}

impl From<String> for Failure {
    fn from(message: String) -> Self {
        Failure::Unreadable(message)
    }
}

impl Chain {
    pub fn new(providers: Vec<Arc<Provider>>) -> Self {
        Chain { providers }
    }

    pub async fn seal(&self, value: &Bytes, place: &[u8]) -> Result<Bytes, String> {
        match self.providers.first().map(|provider| &**provider) {
            None | Some(Provider::Identity) => Ok(value.clone()),
            Some(Provider::Keyed(keyed)) => {
                let (name, cipher) = keyed.keys.first().ok_or("the provider has no keys")?;
                let mut out = Vec::with_capacity(keyed.prefix.len() + name.len() + value.len() + 64);
                out.extend_from_slice(keyed.prefix.as_bytes());
                out.extend_from_slice(name.as_bytes());
                cipher.seal(value, place, &mut out)?;
                Ok(out.into())
            }
            Some(Provider::Kms(plugin)) => plugin.seal(value, place).await.map(Bytes::from),
        }
    }

    /// Tries every provider whose prefix the value has, for the same prefix may be configured twice, with other keys.
    /// `learned` is the data key that a plugin has decrypted for this value.
    pub fn open(&self, data: &[u8], place: &[u8], learned: Option<&LearnedKey>) -> Result<Opened, Failure> {
        let mut errors = Vec::new();
        for (index, provider) in self.providers.iter().enumerate() {
            let outcome = match &**provider {
                Provider::Identity if data.starts_with(ENCRYPTED) => continue,
                Provider::Identity => Ok(Opened { value: None, stale: false }),
                Provider::Keyed(keyed) => match data.strip_prefix(keyed.prefix.as_bytes()) {
                    Some(data) => keyed.open(data, place).map_err(Failure::Unreadable),
                    None => continue,
                },
                Provider::Kms(plugin) => match data.strip_prefix(plugin.prefix()) {
                    Some(data) => plugin.open(data, place, learned),
                    None => continue,
                },
            };
            match outcome {
                Ok(opened) => return Ok(Opened { stale: opened.stale || index != 0, ..opened }),
                Err(Failure::Unreadable(error)) => errors.push(error),
                Err(needs) => return Err(needs),
            }
        }
        match errors.as_slice() {
            [] if self.providers.is_empty() && data.starts_with(ENCRYPTED) => {
                Err("identity transformer tried to read encrypted data".to_string().into())
            }
            [] if self.providers.is_empty() => Ok(Opened { value: None, stale: false }),
            [] => Err("no matching prefix found".to_string().into()),
            _ => Err(object::aggregate(errors).into()),
        }
    }
}

impl Keyed {
    fn open(&self, data: &[u8], place: &[u8]) -> Result<Opened, String> {
        let mut errors = Vec::new();
        for (index, (name, cipher)) in self.keys.iter().enumerate() {
            let Some(data) = data.strip_prefix(name.as_bytes()) else { continue };
            match cipher.open(data, place) {
                Ok(value) => return Ok(Opened { value: Some(value), stale: index != 0 }),
                Err(error) => errors.push(error),
            }
        }
        match errors.as_slice() {
            [] => Err(format!("no matching key was found for the provided {} transformer", self.kind)),
            _ => Err(object::aggregate(errors)),
        }
    }
}
