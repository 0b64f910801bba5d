//! Which providers a resource has.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use tokio::sync::watch as signal;

use super::cipher::Cipher;
use super::config::{ConfigError, Configuration, Keys, Kms, ProviderConfig};
use super::meters::KeyMeters;
use super::plugins::KmsPlugin;
use super::provider::{Chain, Keyed, Provider};

const KMS_V1_REFUSED: &str = "KMSv1 is deprecated and will only receive security updates going forward. Use KMSv2 \
                              instead.  Set --feature-gates=KMSv1=true to use the deprecated KMSv1 feature.";

/// Group and resource, as `secrets` or `deployments.apps` name them; `*` stands for all.
pub(crate) type GroupResource<'a> = (&'a str, &'a str);

pub(crate) fn parse_group_resource(name: &str) -> GroupResource<'_> {
    name.split_once('.').map_or(("", name), |(resource, group)| (group, resource))
}

/// The rules in force. They can be exchanged while the store is in use.
pub struct Encryption {
    rules: ArcSwap<Rules>,
    /// Counts the rules that have been in force.
    generation: signal::Sender<u64>,
    kms: KmsOptions,
}

/// What holds for all plugins.
#[derive(Clone, Default)]
pub(crate) struct KmsOptions {
    /// Whether plugins of version 1 may be used: the feature gate `KMSv1`.
    pub v1: bool,
    pub meters: Arc<KeyMeters>,
}

impl KmsOptions {
    pub fn new(v1: bool) -> KmsOptions {
        KmsOptions { v1, meters: Arc::default() }
    }
}

#[derive(Default)]
pub(crate) struct Rules {
    /// By group, then resource.
    chains: HashMap<String, HashMap<String, Arc<Chain>>>,
    plugins: Vec<KmsPlugin>,
    /// How long calls to all plugins together may take.
    pub timeouts: Duration,
}

impl Encryption {
    /// Nothing is encrypted, and encrypted values are refused.
    pub fn none(kms_v1: bool) -> Self {
        Encryption::of(Rules::default(), KmsOptions::new(kms_v1))
    }

    /// Makes rules of a configuration in JSON. Plugins are contacted once; those that do not answer yet are tried again
    /// in the background, as an API server and its plugin may start in any order. Must be called within a runtime.
    pub async fn from_json(json: &[u8], kms_v1: bool) -> Result<Self, ConfigError> {
        let kms = KmsOptions::new(kms_v1);
        let rules = Rules::build(&Configuration::parse(json, false)?, &kms).await?;
        Ok(Encryption::of(rules, kms))
    }

    pub(crate) fn of(rules: Rules, kms: KmsOptions) -> Self {
        // From one on, so that none can be told from the first.
        Encryption { rules: ArcSwap::from_pointee(rules), generation: signal::Sender::new(1), kms }
    }

    pub(crate) fn kms(&self) -> &KmsOptions {
        &self.kms
    }

    /// Counts the keys that plugins encrypt.
    pub fn key_meters(&self) -> Arc<KeyMeters> {
        self.kms.meters.clone()
    }

    /// Tells of changes.
    pub(crate) fn generations(&self) -> signal::Receiver<u64> {
        self.generation.subscribe()
    }

    pub(crate) fn replace(&self, rules: Rules) {
        self.rules.store(Arc::new(rules));
        self.renew();
    }

    /// What could not be read before may be readable now.
    pub(crate) fn renew(&self) {
        self.generation.send_modify(|generation| *generation += 1);
    }

    pub(crate) fn chain(&self, resource: Option<GroupResource<'_>>) -> Arc<Chain> {
        let rules = self.rules.load();
        resource.and_then(|resource| rules.find(resource)).cloned().unwrap_or_default()
    }

    /// How many plugins are in use now.
    pub fn plugins(&self) -> usize {
        self.rules.load().plugins.len()
    }

    /// Whether a plugin of version 1 is in use now.
    pub fn has_v1_plugins(&self) -> bool {
        self.rules.load().plugins.iter().any(KmsPlugin::is_v1)
    }

    /// Whether all plugins work: what the health check `kms-providers` reports.
    pub async fn check_health(&self) -> Result<(), String> {
        let rules = self.rules.load_full();
        rules.check_health().await
    }

    /// Whether one plugin works: what the health check `kms-provider-N` reports.
    pub async fn check_plugin(&self, index: usize) -> Result<(), String> {
        let plugin = self.rules.load().plugins.get(index).cloned();
        match plugin {
            Some(plugin) => plugin.check().await,
            None => Ok(()),
        }
    }
}

impl Rules {
    pub async fn build(config: &Configuration, kms: &KmsOptions) -> Result<Self, ConfigError> {
        let mut built: HashMap<String, HashMap<String, Vec<Arc<Provider>>>> = HashMap::new();
        let mut rules = Rules::default();
        for rule in &config.resources {
            let mut providers = Vec::new();
            for provider in &rule.providers {
                providers.push(Arc::new(rules.provider(provider, kms).await.map_err(ConfigError)?));
            }
            for name in &rule.resources {
                let (group, resource) = parse_group_resource(name);
                for earlier in [(group, "*"), ("*", "*")] {
                    if built.get(earlier.0).is_some_and(|group| group.contains_key(earlier.1)) {
                        let (masked, by) = (shown((group, resource)), shown(earlier));
                        return Err(ConfigError(format!("resource {masked:?} is masked by earlier rule {by:?}")));
                    }
                }
                let chain = built.entry(group.into()).or_default().entry(resource.into()).or_default();
                chain.extend(providers.iter().cloned());
            }
        }
        let chains = |group: HashMap<String, Vec<Arc<Provider>>>| {
            group.into_iter().map(|(resource, providers)| (resource, Arc::new(Chain::new(providers)))).collect()
        };
        rules.chains = built.into_iter().map(|(group, resources)| (group, chains(resources))).collect();
        Ok(rules)
    }

    async fn provider(&mut self, config: &ProviderConfig, options: &KmsOptions) -> Result<Provider, String> {
        if let Some(keys) = &config.aesgcm {
            return keyed("k8s:enc:aesgcm:v1:", "AES", keys, Cipher::gcm);
        }
        if let Some(keys) = &config.aescbc {
            return keyed("k8s:enc:aescbc:v1:", "AES", keys, Cipher::cbc);
        }
        if let Some(keys) = &config.secretbox {
            return keyed("k8s:enc:secretbox:v1:", "Secretbox", keys, Cipher::secretbox);
        }
        let Some(kms) = &config.kms else { return Ok(Provider::Identity) };
        let plugin = self.plugin(kms, options).await?;
        self.plugins.push(plugin.clone());
        Ok(Provider::Kms(plugin))
    }

    async fn plugin(&mut self, kms: &Kms, options: &KmsOptions) -> Result<KmsPlugin, String> {
        let timeout = kms.timeout()?;
        let is_v1 = kms.api_version != "v2";
        if is_v1 && !options.v1 {
            return Err(KMS_V1_REFUSED.into());
        }
        if is_v1 {
            tracing::info!(
                "KMSv1 is deprecated and will only receive security updates going forward. Use KMSv2 instead."
            );
        }
        // The health check of version 1 makes two calls.
        self.timeouts += if is_v1 { 2 * timeout } else { timeout };
        KmsPlugin::start(kms, timeout, options.meters.clone()).await
    }

    fn find(&self, (group, resource): GroupResource<'_>) -> Option<&Arc<Chain>> {
        let at = |group: &str, resource: &str| self.chains.get(group).and_then(|group| group.get(resource));
        at(group, resource).or_else(|| at(group, "*")).or_else(|| at("*", "*"))
    }

    pub async fn check_health(&self) -> Result<(), String> {
        let mut problems = Vec::new();
        for (index, plugin) in self.plugins.iter().enumerate() {
            if let Err(problem) = plugin.check().await {
                problems.push(format!("kms-provider-{index}: {problem}"));
            }
        }
        if problems.is_empty() { Ok(()) } else { Err(object::aggregate(problems)) }
    }
}

fn keyed(
    prefix: &'static str,
    kind: &'static str,
    keys: &Keys,
    cipher: impl Fn(&[u8]) -> Result<Cipher, String>,
) -> Result<Provider, String> {
    let mut named = Vec::new();
    for key in &keys.keys {
        let wrong = |error: String| format!("error while creating cipher for named key {}: {error}", key.name);
        let secret = STANDARD.decode(&key.secret).map_err(|error| wrong(error.to_string()))?;
        named.push((format!("{}:", key.name), cipher(&secret).map_err(wrong)?));
    }
    Ok(Provider::Keyed(Keyed { prefix, kind, keys: named }))
}

fn shown((group, resource): GroupResource<'_>) -> String {
    match (group, resource) {
        ("", "*") => "*.".into(),
        ("", resource) => resource.into(),
        (group, resource) => format!("{resource}.{group}"),
    }
}
