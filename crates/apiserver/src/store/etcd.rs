//! A store on etcd: one cluster, and others for some resources.

use std::collections::HashMap;
use std::sync::Arc;

use outbound::{Address, Dial};
use storage::{SplitStore, Store};
use storage_etcd::{EtcdDial, EtcdOptions, EtcdStore, Io};

use super::overrides::Override;
use super::{Ask, Cluster, OpenedStore, StoreConfig};
use crate::StartError;

/// Connects to the clusters that the configuration names; `dial` is how they are reached, if not directly.
pub(super) async fn open(config: &StoreConfig, dial: Option<Arc<dyn Dial>>) -> Result<OpenedStore, StartError> {
    let dial = dial.map(etcd_dial);
    let main = connect(config, &dial, &config.etcd_servers).await?;
    let mut opened = OpenedStore::of(main);
    let mut parts = Vec::new();
    // Several resources can be at the same servers.
    let mut known: HashMap<Vec<String>, Arc<dyn Store>> = HashMap::new();
    for text in &config.etcd_overrides {
        let each =
            Override::parse(text).map_err(|why| StartError::Setting(format!("--etcd-servers-overrides: {why}")))?;
        let Some(prefix) = each.key_prefix(&config.prefix()) else {
            tracing::warn!(group = each.group, resource = each.resource, "no such resource has an etcd of its own");
            continue;
        };
        let store = match known.get(&each.cluster()) {
            Some(store) => store.clone(),
            None => {
                let cluster = connect(config, &dial, &each.servers).await?;
                let store = cluster.store.clone();
                opened.clusters.push(cluster);
                known.insert(each.cluster(), store.clone());
                store
            }
        };
        parts.push((prefix.as_str().into(), store));
    }
    if !parts.is_empty() {
        opened.store = Arc::new(SplitStore::new(opened.store.clone(), parts));
    }
    Ok(opened)
}

async fn connect(config: &StoreConfig, dial: &Option<EtcdDial>, servers: &[String]) -> Result<Cluster, StartError> {
    let options = EtcdOptions {
        ca_file: config.etcd_cafile.clone(),
        cert_file: config.etcd_certfile.clone(),
        key_file: config.etcd_keyfile.clone(),
        dial: dial.clone(),
        compaction_interval: config.compaction_interval,
        start_timeout: config.start_timeout,
        lease_reuse: config.lease_reuse,
        ..EtcdOptions::at(servers.iter().cloned())
    };
    let store = EtcdStore::connect(options).await.map_err(|error| StartError::Store(error.to_string()))?;
    let asked = store.clone();
    let ask: Ask = Arc::new(move || {
        let store = asked.clone();
        Box::pin(async move { store.check().await })
    });
    let keys_per_lease = Some(store.keys_per_lease());
    Ok(Cluster { store: Arc::new(store), ask, is_embedded: false, keys_per_lease })
}

/// Connects to etcd as an egress selection says.
fn etcd_dial(dial: Arc<dyn Dial>) -> EtcdDial {
    EtcdDial(Arc::new(move |host, port| {
        let dial = dial.clone();
        Box::pin(async move {
            let stream = dial.dial(&Address { host, port }).await.map_err(|error| error.to_string())?;
            Ok(Box::new(stream) as Box<dyn Io>)
        })
    }))
}
