//! Health checks and metrics of the store, with upstream's names.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use registry::ResourceStorage;
use rest::Api;
use server::{Check, Endpoint, Metrics, Shown, metric_head};
use storage::encryption::Encryption;
use storage::{Health, Store};
use tokio::task::AbortHandle;

use super::{Ask, OpenedStore, StoreConfig};

impl OpenedStore {
    /// Upstream's checks, and who asks them: `etcd` and `etcd-readiness`, whatever the engine is, and numbered ones for
    /// every etcd that some resources have for themselves; `kms-providers`, or `kms-provider-N`, for plugins that keep keys.
    pub fn checks(&self, config: &StoreConfig) -> Vec<(Arc<dyn Check>, &'static [Endpoint])> {
        let mut checks: Vec<(Arc<dyn Check>, &'static [Endpoint])> = Vec::new();
        for (number, cluster) in self.clusters.iter().enumerate() {
            let (health, readiness) = match number.checked_sub(1) {
                None => ("etcd".to_string(), "etcd-readiness".to_string()),
                Some(number) => (format!("etcd-override-{number}"), format!("etcd-override-readiness-{number}")),
            };
            let check = |name, group, timeout| Arc::new(StoreCheck { name, group, timeout, ask: cluster.ask.clone() });
            let all = &[Endpoint::Healthz, Endpoint::Livez, Endpoint::Readyz];
            checks.push((check(health, "etcd", config.healthcheck_timeout), all));
            checks.push((check(readiness, "etcd-readiness", config.readycheck_timeout), &[Endpoint::Readyz]));
            if cluster.is_embedded {
                for part in [CheckedPart::Disk, CheckedPart::Space] {
                    checks.push((Arc::new(EmbeddedCheck { part, store: cluster.store.clone() }), &[Endpoint::Readyz]));
                }
            }
        }
        for check in self.encryption.iter().flat_map(|encryption| KeysCheck::of(encryption, config.encryption_reload)) {
            // A restart of the server would not help a plugin.
            checks.push((Arc::new(check), &[Endpoint::Healthz, Endpoint::Readyz]));
        }
        checks
    }

    /// Metrics that tell what is stored and how much room it takes.
    pub fn metrics(&mut self, config: &StoreConfig, api: &Arc<Api>, shown: Shown) -> Arc<Metrics> {
        let metrics = Arc::new(Metrics::showing(shown));
        if let Some(recorder) = &self.history {
            crate::history::contribute(&metrics, recorder.clone());
        }
        let keys = self.encryption.as_ref().map(|encryption| encryption.key_meters()).unwrap_or_default();
        metrics.contribute(move |out| keys.write(out).expect("writing to a string cannot fail"));
        for keys in self.clusters.iter().filter_map(|cluster| cluster.keys_per_lease.clone()).take(1) {
            metrics.contribute(move |out| {
                let name = "etcd_lease_object_counts";
                let written = metric_head(out, name, "histogram", "Number of objects attached to a single etcd lease.")
                    .and_then(|()| keys.write(name, "", out));
                written.expect("writing to a string cannot fail");
            });
        }
        if !config.count_metric_interval.is_zero() {
            let api = Arc::downgrade(api);
            metrics.contribute(move |out| {
                if let Some(api) = api.upgrade() {
                    write_counts(&api, out).expect("writing to a string cannot fail");
                }
            });
        }
        let interval = config.size_metric_interval;
        if interval.is_zero() {
            return metrics;
        }
        let mut sizes = Vec::new();
        for cluster in &self.clusters {
            let (size, task) = measure(&cluster.store, interval);
            sizes.push(size);
            self.background.push(Box::new(AbortOnDrop(task)));
        }
        metrics.contribute(move |out| write_sizes(&sizes, out).expect("writing to a string cannot fail"));
        metrics
    }
}

/// Asks a store for its size now and then. Negative if it does not tell.
fn measure(store: &Arc<dyn Store>, interval: Duration) -> (Arc<AtomicI64>, AbortHandle) {
    let size = Arc::new(AtomicI64::new(-1));
    let (store, latest) = (Arc::downgrade(store), size.clone());
    let task = tokio::spawn(async move {
        while let Some(store) = store.upgrade() {
            let bytes = store.status().await.ok().and_then(|status| i64::try_from(status.size).ok());
            drop(store);
            latest.store(bytes.unwrap_or(-1), Ordering::Relaxed);
            tokio::time::sleep(interval).await;
        }
    });
    (size, task.abort_handle())
}

fn write_sizes(sizes: &[Arc<AtomicI64>], out: &mut String) -> std::fmt::Result {
    let name = "apiserver_storage_size_bytes";
    metric_head(out, name, "gauge", "Size of the store, as allocated on disk.")?;
    for (number, size) in sizes.iter().enumerate() {
        let bytes = size.load(Ordering::Relaxed);
        if bytes >= 0 {
            writeln!(out, "{name}{{storage_cluster_id=\"etcd-{number}\"}} {bytes}")?;
        }
    }
    Ok(())
}

/// How many objects there are of each kind, and what they take. The caches know at any time, so nothing is polled.
fn write_counts(api: &Api, out: &mut String) -> std::fmt::Result {
    let catalog = api.catalog.load();
    let mut stored: BTreeMap<(&str, &str), &Arc<ResourceStorage>> = BTreeMap::new();
    for storage in catalog.resources().filter_map(|resource| resource.storage.as_ref()) {
        stored.insert((&storage.kind.group, &storage.resource.resource), storage);
    }
    let mut family = |name: &str, help: &str, value: &dyn Fn(&ResourceStorage) -> usize| {
        metric_head(out, name, "gauge", help)?;
        stored.iter().try_for_each(|((group, resource), storage)| {
            writeln!(out, "{name}{{group=\"{group}\",resource=\"{resource}\"}} {}", value(storage))
        })
    };
    family("apiserver_resource_objects", "Number of stored objects by kind.", &|storage| storage.cache.len())?;
    family("apiserver_resource_size_estimate_bytes", "Size of stored objects by kind.", &|storage| {
        storage.cache.encoded_bytes()
    })
}

/// Whether the store answers. The health check is named etcd, as upstream's.
struct StoreCheck {
    name: String,
    group: &'static str,
    timeout: Duration,
    ask: Ask,
}

#[async_trait]
impl Check for StoreCheck {
    fn name(&self) -> &str {
        &self.name
    }

    fn group(&self) -> &str {
        self.group
    }

    async fn check(&self) -> Result<(), String> {
        let answer = tokio::time::timeout(self.timeout, (self.ask)()).await;
        answer.unwrap_or_else(|_| Err("error getting data from etcd: context deadline exceeded".into()))
    }
}

/// Whether the embedded store takes writes. Only readiness depends on it: a restart would not help.
struct EmbeddedCheck {
    part: CheckedPart,
    store: Arc<dyn Store>,
}

/// The reasons for which the embedded store takes no writes.
#[derive(Clone, Copy)]
enum CheckedPart {
    /// Files cannot be written.
    Disk,
    /// The quota is used up or the file system is full; deletions are possible.
    Space,
}

#[async_trait]
impl Check for EmbeddedCheck {
    fn name(&self) -> &str {
        match self.part {
            CheckedPart::Disk => "storage",
            CheckedPart::Space => "storage-space",
        }
    }

    async fn check(&self) -> Result<(), String> {
        let status = self.store.status().await.map_err(|error| error.to_string())?;
        match (self.part, status.health) {
            (CheckedPart::Disk, Health::Degraded(why)) | (CheckedPart::Space, Health::Full(why)) => Err(why),
            _ => Ok(()),
        }
    }
}

/// Whether the plugins that keep keys are well.
struct KeysCheck {
    name: String,
    encryption: Arc<Encryption>,
    /// One of them; otherwise all.
    plugin: Option<usize>,
}

impl KeysCheck {
    /// One check for all plugins if the configuration is reloaded or has only plugins of version 2; otherwise one for each.
    fn of(encryption: &Arc<Encryption>, reload: bool) -> Vec<KeysCheck> {
        let check = |name, plugin| KeysCheck { name, encryption: encryption.clone(), plugin };
        match encryption.plugins() {
            0 if !reload => Vec::new(),
            plugins if encryption.has_v1_plugins() && !reload => {
                (0..plugins).map(|index| check(format!("kms-provider-{index}"), Some(index))).collect()
            }
            _ => vec![check("kms-providers".into(), None)],
        }
    }
}

#[async_trait]
impl Check for KeysCheck {
    fn name(&self) -> &str {
        &self.name
    }

    async fn check(&self) -> Result<(), String> {
        match self.plugin {
            Some(index) => self.encryption.check_plugin(index).await,
            None => self.encryption.check_health().await,
        }
    }
}

struct AbortOnDrop(AbortHandle);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}
