//! Built-in kinds: a folder a group, a file a kind. A file holds what the schema table cannot say about its kind: rules
//! across fields, update rules, side effects, table cells; and their tests as cases.

use std::sync::Arc;
use std::time::Duration;

use registry::{Convert, Strategy};

pub mod common;

#[cfg(test)]
mod check;

pub mod admissionregistration;
pub mod apiextensions;
pub mod apiregistration;
pub mod apiserverinternal;
pub mod apps;
pub mod authentication;
pub mod authorization;
pub mod autoscaling;
pub mod batch;
pub mod certificates;
pub mod coordination;
pub mod core;
pub mod discovery;
pub mod events;
pub mod flowcontrol;
pub mod networking;
pub mod node;
pub mod policy;
pub mod rbac;
pub mod resource;
pub mod scheduling;
pub mod storage;
pub mod storagemigration;

mod removed;

/// Group, resource and the strategy of each kind that needs one; all others get the generic behaviour.
pub type Strategies = Vec<(&'static str, &'static str, Arc<dyn Strategy>)>;

/// What flags say about kinds.
#[derive(Clone)]
pub struct KindOptions {
    /// How long events are kept; zero is for ever.
    pub event_ttl: Duration,
    /// Where services get their addresses and ports from. Connected to the store when the server starts.
    pub allocation: Arc<core::service::Allocation>,
    /// Counts certificates that were issued for a requested time.
    pub certificate_durations: Arc<certificates::Durations>,
}

impl Default for KindOptions {
    fn default() -> KindOptions {
        KindOptions {
            event_ttl: events::DEFAULT_TTL,
            allocation: Arc::default(),
            certificate_durations: Arc::default(),
        }
    }
}

/// Group, version, resource and how it differs from the stored version, for resources where more than the name does.
pub type Conversions = Vec<(&'static str, &'static str, &'static str, Arc<dyn Convert>)>;

/// Every built-in conversion, for the catalog.
pub fn conversions() -> Conversions {
    let mut all = autoscaling::conversions();
    all.extend(apiextensions::conversions());
    all.extend(policy::conversions());
    all.extend(resource::conversions());
    all.extend(removed::conversions());
    all.push(("events.k8s.io", "v1", "events", Arc::new(events::Conversion)));
    all
}

/// Every built-in strategy with default options.
pub fn strategies() -> Strategies {
    strategies_with(&KindOptions::default())
}

/// Every built-in strategy, for the catalog.
pub fn strategies_with(options: &KindOptions) -> Strategies {
    [
        core::strategies(options),
        apps::strategies(),
        batch::strategies(),
        autoscaling::strategies(),
        policy::strategies(),
        networking::strategies(),
        discovery::strategies(),
        coordination::strategies(),
        node::strategies(),
        scheduling::strategies(),
        storage::strategies(),
        rbac::strategies(),
        admissionregistration::strategies(),
        apiextensions::strategies(),
        apiregistration::strategies(),
        certificates::strategies(options),
        flowcontrol::strategies(),
        authentication::strategies(),
        authorization::strategies(),
        resource::strategies(),
        storagemigration::strategies(),
        apiserverinternal::strategies(),
        events::strategies(options),
    ]
    .into_iter()
    .flatten()
    .collect()
}
