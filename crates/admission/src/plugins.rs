//! The built-in plugins, in the order upstream runs them.

mod always_pull_images;
mod default_toleration_seconds;
mod defaults;
mod limit_ranger;
mod namespace_lifecycle;
mod pod_security;
mod pod_topology_labels;
mod priority;
mod protection;
mod resize;
mod resource_quota;
mod resources;
mod runtime_class;
mod service_account;
mod taint_nodes;
#[cfg(test)]
mod testing;

use std::sync::Arc;

use object::{GroupResource, Status};

pub use self::resource_quota::QuotaWriter;
use crate::{Attributes, Chain, Plugin};

/// A plugin with its name, in upstream's order; the flag says whether it is on unless told otherwise.
fn known() -> Vec<(bool, Arc<dyn Plugin>)> {
    vec![
        (true, Arc::new(namespace_lifecycle::NamespaceLifecycle)),
        (true, Arc::new(limit_ranger::LimitRanger)),
        (true, Arc::new(service_account::ServiceAccount)),
        (true, Arc::new(taint_nodes::TaintNodesByCondition)),
        (false, Arc::new(always_pull_images::AlwaysPullImages)),
        (true, Arc::new(pod_security::PodSecurity)),
        (true, Arc::new(priority::Priority)),
        (true, Arc::new(default_toleration_seconds::DefaultTolerationSeconds)),
        (true, Arc::new(defaults::DefaultStorageClass)),
        (true, Arc::new(protection::StorageObjectInUseProtection)),
        (true, Arc::new(resize::PersistentVolumeClaimResize)),
        (true, Arc::new(runtime_class::RuntimeClass)),
        (true, Arc::new(defaults::DefaultIngressClass)),
        (true, Arc::new(pod_topology_labels::PodTopologyLabels)),
    ]
}

/// The chain that `--enable-admission-plugins` and `--disable-admission-plugins` ask for, without quotas.
pub fn chain(enabled: &[String], disabled: &[String]) -> Chain {
    chain_with_quotas(enabled, disabled, None)
}

/// The same with ResourceQuota, if there is somebody who can charge quotas.
pub fn chain_with_quotas(enabled: &[String], disabled: &[String], quotas: Option<Arc<dyn QuotaWriter>>) -> Chain {
    let on = |default: bool, name: &str| {
        let named = |list: &[String]| list.iter().any(|item| item == name);
        !named(disabled) && (default || named(enabled))
    };
    let mut plugins = known();
    if let Some(writer) = quotas {
        plugins.push((true, Arc::new(resource_quota::ResourceQuota::new(writer))));
    }
    Chain::new(plugins.into_iter().filter(|(default, plugin)| on(*default, plugin.name())).map(|(_, p)| p).collect())
}

/// The 403 that a plugin refuses a request with.
pub(crate) fn forbidden(attributes: &Attributes<'_>, why: impl std::fmt::Display) -> Status {
    let resource = GroupResource::new(attributes.resource.group.clone(), attributes.resource.resource.clone());
    Status::forbidden(&resource, attributes.name, why)
}
