//! Which providers a resource has.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use tokio::sync::watch as signal;

use super::cipher::Cipher;
use super::config::{ConfigError, Configuration, Keys, ProviderConfig};
use super::plugin::Plugin;
use super::provider::{Chain, Keyed, Provider};

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
}

#[derive(Default)]
pub(crate) struct Rules {
    /// By group, then resource.
    chains: HashMap<String, HashMap<String, Arc<Chain>>>,
    plugins: Vec<Arc<Plugin>>,
    /// How long calls to all plugins together may take.
    pub timeouts: Duration,
}

impl Encryption {
    /// Nothing is encrypted, and encrypted values are refused.
    pub fn none() -> Self {
        Encryption::of(Rules::default())
    }

    /// Makes rules of a configuration in JSON. Plugins are contacted once; those that do not answer yet are tried again
    /// in the background, as an API server and its plugin may start in any order. Must be called within a runtime.
    pub async fn from_json(json: &[u8]) -> Result<Self, ConfigError> {
        let rules = Rules::build(&Configuration::parse(json, false)?).await?;
        Ok(Encryption::of(rules))
    }

    fn of(rules: Rules) -> Self {
        // From one on, so that none can be told from the first.
        Encryption { rules: ArcSwap::from_pointee(rules), generation: signal::Sender::new(1) }
    }

    pub(crate) fn generation(&self) -> u64 {
        *self.generation.borrow()
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

    /// Whether plugins are in use now.
    pub fn has_plugins(&self) -> bool {
        !self.rules.load().plugins.is_empty()
    }

    /// Whether all plugins work: what the health check `kms-providers` reports.
    pub async fn check_health(&self) -> Result<(), String> {
        let rules = self.rules.load_full();
        rules.check_health().await
    }
}

impl Rules {
    pub async fn build(config: &Configuration) -> Result<Self, ConfigError> {
        let mut built: HashMap<String, HashMap<String, Vec<Arc<Provider>>>> = HashMap::new();
        let mut rules = Rules::default();
        for rule in &config.resources {
            let mut providers = Vec::new();
            for provider in &rule.providers {
                providers.push(Arc::new(rules.provider(provider).await.map_err(ConfigError)?));
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

    async fn provider(&mut self, config: &ProviderConfig) -> Result<Provider, String> {
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
        if kms.api_version != "v2" {
            return Err(
                "KMSv1 is deprecated and will only receive security updates going forward. Use KMSv2 instead. \
                        It is not supported here."
                    .into(),
            );
        }
        let plugin = Plugin::start(&kms.name, &kms.endpoint, kms.timeout()?).await?;
        self.timeouts += kms.timeout()?;
        self.plugins.push(plugin.clone());
        Ok(Provider::Kms(plugin))
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
        match problems.as_slice() {
            [] => Ok(()),
            problems => Err(super::aggregate(problems)),
        }
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
