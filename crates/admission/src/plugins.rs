//! The built-in plugins, in the order upstream runs them.

mod default_toleration_seconds;
mod defaults;
mod namespace_lifecycle;
mod priority;
mod protection;
mod resize;
mod taint_nodes;

use std::sync::Arc;

use object::{GroupResource, Status};

use crate::{Attributes, Chain, Plugin};

/// A plugin with its name, in upstream's order; the flag says whether it is on unless told otherwise.
fn known() -> Vec<(bool, Arc<dyn Plugin>)> {
    vec![
        (true, Arc::new(namespace_lifecycle::NamespaceLifecycle)),
        (true, Arc::new(taint_nodes::TaintNodesByCondition)),
        (true, Arc::new(priority::Priority)),
        (true, Arc::new(default_toleration_seconds::DefaultTolerationSeconds)),
        (true, Arc::new(protection::StorageObjectInUseProtection)),
        (true, Arc::new(resize::PersistentVolumeClaimResize)),
        (true, Arc::new(defaults::DefaultIngressClass)),
        (true, Arc::new(defaults::DefaultStorageClass)),
    ]
}

/// The chain that `--enable-admission-plugins` and `--disable-admission-plugins` ask for.
pub fn chain(enabled: &[String], disabled: &[String]) -> Chain {
    let on = |default: bool, name: &str| {
        let named = |list: &[String]| list.iter().any(|item| item == name);
        !named(disabled) && (default || named(enabled))
    };
    Chain::new(known().into_iter().filter(|(default, plugin)| on(*default, plugin.name())).map(|(_, p)| p).collect())
}

/// The 403 that a plugin refuses a request with.
pub(crate) fn forbidden(attributes: &Attributes<'_>, why: impl std::fmt::Display) -> Status {
    let resource = GroupResource::new(attributes.resource.group.clone(), attributes.resource.resource.clone());
    Status::forbidden(&resource, attributes.name, why)
}
