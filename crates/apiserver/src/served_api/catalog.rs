//! The built-in resources as this configuration serves them.

use std::sync::Arc;

use actions::Actions;
use cache::Budget;
use kinds::core::service::Allocation;
use outbound::Egress;
use registry::{Catalog, Features, OwnClient, Report, Setup};
use storage::Store;

use crate::Config;
use crate::components::Components;
use crate::dial::Dialer;
use crate::served::Served;
use crate::start::StartError;

/// How many bytes of other encodings of stored objects are kept in memory: enough for a list of 100,000 pods as JSON.
const RENDITION_BUDGET_BYTES: usize = 512 * 1024 * 1024;

/// The configuration's settings of single kinds.
pub fn kinds_options(config: &Config, client: Arc<dyn OwnClient>) -> Result<kinds::KindOptions, StartError> {
    let ranges = config.own_service.ranges().map_err(StartError::Setting)?;
    let allocation = Arc::new(Allocation::new(&ranges, config.own_service.node_port_range, client));
    Ok(kinds::KindOptions { event_ttl: config.event_ttl, allocation, ..kinds::KindOptions::default() })
}

/// Loads the resources; each has a cache that follows the store from then on.
pub async fn open(
    config: &Config,
    features: &Features,
    store: Arc<dyn Store>,
    kinds: &kinds::KindOptions,
) -> Result<Catalog, StartError> {
    let strategies = kinds::strategies_with(kinds)
        .into_iter()
        .map(|(group, resource, strategy)| ((group, resource), strategy))
        .collect();
    let lifecycle = config.versions.lifecycle(config.serve_removed);
    let served = Served::new(config, lifecycle).map_err(StartError::Setting)?;
    let budget = Budget::new(RENDITION_BUDGET_BYTES);
    tokio::spawn(budget.drop_unused());
    let setup = Setup {
        store,
        prefix: config.store.prefix(),
        budget,
        strategies,
        conversions: kinds::conversions()
            .into_iter()
            .map(|(group, version, resource, c)| ((group, version, resource), c))
            .collect(),
        encoding: config.store.encoding,
        names_unreadable: features.enabled("AllowUnsafeMalformedObjectDeletion"),
        enabled: Box::new(move |resource, default| served.has(resource, default)),
        lifecycle,
    };
    let mut catalog = setup.catalog().await.map_err(|error| StartError::Store(error.to_string()))?;
    // Upstream has removed this version, so only its own name brings it back.
    if config.runtime_config.iter().any(|(name, on)| name == "apiextensions.k8s.io/v1beta1" && *on) {
        kinds::apiextensions::serve_v1beta1(&mut catalog);
    }
    Ok(catalog)
}

/// What is not stored is carried out (reviews, bindings), connected to (exec, proxies) or made when it is asked for.
pub fn set_unstored(
    config: &Config,
    catalog: &mut Catalog,
    actions: &Actions,
    store: Arc<dyn Store>,
    egress: &Egress,
) -> Result<Arc<Dialer>, StartError> {
    let dial = Dialer::new(&config.serving.kubelet, &egress.to_cluster()).map_err(StartError::Setting)?;
    for ((group, resource, subresource), action) in actions {
        catalog.set_action(group, resource, subresource, action);
    }
    let ranges = config.own_service.ranges().map_err(StartError::Setting)?;
    let is_ipv6 = ranges.first().is_some_and(|range| range.contains(':'));
    let options = kinds::core::ConnectOptions {
        address_types: config.serving.kubelet.address_types.clone(),
        kubelet_port: config.serving.kubelet.port,
        primary_family: if is_ipv6 { "IPv6" } else { "IPv4" },
    };
    for (resource, subresource, connect) in kinds::core::connects(&options) {
        catalog.set_connect("", resource, subresource, &connect);
    }
    let components: Arc<dyn Report> = Arc::new(Components { store, dial: dial.clone() });
    catalog.set_report("", "componentstatuses", &components);
    Ok(dial)
}
