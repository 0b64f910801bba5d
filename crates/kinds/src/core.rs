//! The core group.

use std::sync::Arc;

use crate::{KindOptions, Strategies, events};

pub(crate) mod address;
mod componentstatus;
mod configmap;
mod connect;
mod data;
pub(crate) mod endpoints;
mod limitrange;
mod namespace;
mod node;
mod persistentvolume;
mod persistentvolumeclaim;
pub mod pod;
pub mod podtemplate;
pub mod replicationcontroller;
mod resourcequota;
mod secret;
pub mod service;
mod serviceaccount;
mod volume_cells;

pub use componentstatus::ComponentStatus;
pub use configmap::ConfigMap;
pub use connect::{ConnectOptions, Connects, connects};
pub use endpoints::Endpoints;
pub use limitrange::LimitRange;
pub use namespace::Namespace;
pub use node::Node;
pub use persistentvolume::{PersistentVolume, validate_inline_spec};
pub use persistentvolumeclaim::PersistentVolumeClaim;
pub use resourcequota::ResourceQuota;
pub use secret::Secret;
pub use service::Service;
pub use serviceaccount::ServiceAccount;

pub fn strategies(options: &KindOptions) -> Strategies {
    vec![
        ("", "componentstatuses", Arc::new(ComponentStatus)),
        ("", "configmaps", Arc::new(ConfigMap)),
        ("", "endpoints", Arc::new(Endpoints)),
        ("", "events", Arc::new(events::Event::new(options.event_ttl))),
        ("", "limitranges", Arc::new(LimitRange)),
        ("", "namespaces", Arc::new(Namespace)),
        ("", "nodes", Arc::new(Node)),
        ("", "persistentvolumeclaims", Arc::new(PersistentVolumeClaim)),
        ("", "persistentvolumes", Arc::new(PersistentVolume)),
        ("", "pods", Arc::new(pod::Pod)),
        ("", "podtemplates", Arc::new(podtemplate::PodTemplate)),
        ("", "replicationcontrollers", Arc::new(replicationcontroller::ReplicationController)),
        ("", "resourcequotas", Arc::new(ResourceQuota)),
        ("", "secrets", Arc::new(Secret)),
        ("", "services", Arc::new(Service::new(options.allocation.clone()))),
        ("", "serviceaccounts", Arc::new(ServiceAccount)),
    ]
}

#[cfg(test)]
mod recorded;
