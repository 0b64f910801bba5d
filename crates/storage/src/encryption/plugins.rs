//! Key management plugins of either version, as the providers of a rule use them.

use std::sync::Arc;
use std::time::Duration;

use super::config::Kms;
use super::envelope::{EncryptedObject, sha256};
use super::meters::KeyMeters;
use super::plugin::Plugin;
pub(crate) use super::plugin_v1::LearnedKey;
use super::plugin_v1::{CACHE_SIZE, PluginV1};
use super::provider::{Failure, Opened};

/// A key management plugin of either version.
#[derive(Clone)]
pub(crate) enum KmsPlugin {
    V1(Arc<PluginV1>),
    V2(Arc<Plugin>),
}

/// A key that a plugin has to decrypt before a value can be read.
pub(crate) enum NeededKey {
    /// The data key of one value.
    DataKey(Arc<PluginV1>, Box<[u8]>),
    /// The seed, or the key, that many values have in common.
    Source(Arc<Plugin>, Box<EncryptedObject>),
}

impl KmsPlugin {
    /// The plugin that a configuration names. One of version 2 is contacted once.
    pub async fn start(kms: &Kms, timeout: Duration, meters: Arc<KeyMeters>) -> Result<KmsPlugin, String> {
        if kms.api_version == "v2" {
            return Ok(KmsPlugin::V2(Plugin::start(&kms.name, &kms.endpoint, timeout, meters).await?));
        }
        let cache_size = kms.cachesize.unwrap_or(CACHE_SIZE);
        Ok(KmsPlugin::V1(Arc::new(PluginV1::new(&kms.name, &kms.endpoint, timeout, cache_size, meters)?)))
    }

    pub fn is_v1(&self) -> bool {
        matches!(self, KmsPlugin::V1(_))
    }

    pub async fn seal(&self, value: &[u8], place: &[u8]) -> Result<Vec<u8>, String> {
        match self {
            KmsPlugin::V1(plugin) => plugin.seal(value, place).await,
            KmsPlugin::V2(plugin) => plugin.seal(value, place),
        }
    }

    pub async fn check(&self) -> Result<(), String> {
        match self {
            KmsPlugin::V1(plugin) => plugin.check().await,
            KmsPlugin::V2(plugin) => plugin.check().await,
        }
    }

    pub fn prefix(&self) -> &[u8] {
        match self {
            KmsPlugin::V1(plugin) => plugin.prefix.as_bytes(),
            KmsPlugin::V2(plugin) => plugin.prefix.as_bytes(),
        }
    }

    pub fn open(&self, data: &[u8], place: &[u8], learned: Option<&LearnedKey>) -> Result<Opened, Failure> {
        match self {
            KmsPlugin::V1(plugin) => plugin.open(data, place, learned),
            KmsPlugin::V2(plugin) => plugin.open(data, place),
        }
    }
}

impl NeededKey {
    /// Has the plugin decrypt the key. Keys of many values are remembered; the key of one value is returned.
    pub async fn learn(&self) -> Result<Option<LearnedKey>, String> {
        match self {
            NeededKey::DataKey(plugin, encrypted) => plugin.learn(encrypted).await.map(Some),
            NeededKey::Source(plugin, object) => plugin.learn(object).await.map(|()| None),
        }
    }

    /// Like `learn`, whatever was answered just now.
    pub async fn ask(&self) -> Result<(), String> {
        match self {
            NeededKey::DataKey(plugin, encrypted) => plugin.learn(encrypted).await.map(drop),
            NeededKey::Source(plugin, object) => plugin.ask_for_key(object).await,
        }
    }

    pub fn digest(&self) -> [u8; 32] {
        match self {
            NeededKey::DataKey(_, encrypted) => sha256(encrypted),
            NeededKey::Source(_, object) => object.source_digest(),
        }
    }
}
