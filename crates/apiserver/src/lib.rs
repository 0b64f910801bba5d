//! Puts the server together: configuration, store, catalog, chain. The only crate that reads flags and the environment.

mod accounts;
mod actions;
mod admin;
mod admission;
mod aggregation;
mod allocation;
mod audit;
mod authentication;
mod authorization;
pub mod cli;
mod client;
mod components;
mod config;
mod consistency;
mod debugging;
mod definitions;
mod dial;
mod escalation;
pub mod flags;
pub mod kubeconfig;
mod logging;
mod metered;
mod metrics;
mod openid;
mod own_objects;
mod own_service;
mod peering;
mod pki;
mod reload;
mod reload_meters;
mod repair;
mod served;
mod services;
mod serving;
mod shown_metrics;
mod start;
mod store;
mod traces;
mod versions;
mod zpages;

pub use config::Config;
pub use own_service::OwnServiceConfig;
pub use pki::Pki;
pub use serving::Serving;
pub use start::{Running, StartError, start};
pub use store::StoreConfig;
pub use versions::Versions;

/// Where a data directory keeps its store.
pub fn store_path(data_dir: &std::path::Path) -> std::path::PathBuf {
    data_dir.join("store.redb")
}
