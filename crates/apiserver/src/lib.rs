//! Puts the server together: configuration, store, catalog, chain. The only crate that reads flags.

mod accounts;
#[cfg(feature = "embedded")]
pub mod admin;
mod admission;
mod aggregation;
mod audit;
mod authentication;
mod authorization;
mod components;
mod config;
mod consistency;
mod debugging;
pub mod descriptors;
mod dial;
mod discovery_paths;
mod escalation;
mod extensions;
pub mod flags;
mod fresh;
mod history;
pub mod kubeconfig;
pub mod logging;
mod metered;
mod metrics;
#[cfg(not(feature = "console"))]
mod no_console;
#[cfg(not(feature = "console"))]
use no_console as own_console;
mod openid;
mod own_client;
#[cfg(feature = "console")]
mod own_console;
mod own_objects;
mod own_service;
mod peering;
mod pki;
mod profile;
mod reload;
mod reload_meters;
mod repair;
mod served;
mod served_api;
mod services;
mod serving;
mod settle;
mod shown_metrics;
mod start;
mod store;
mod test_server;
mod traces;
mod versions;
mod zpages;

pub use aggregation::Aggregation;
pub use audit::AuditConfig;
pub use authentication::AuthenticationConfig;
pub use authorization::AuthorizationConfig;
pub use config::{Config, ServiceAccounts};
pub use crd::{ConvertFn, FedObjects, MakeObjects, OwnCall, OwnDefinition, OwnObjects, OwnSubresource};
pub use debugging::Debugging;
pub use extensions::{Built, MakePaths, ProgramParts};
pub use history::{HistoryConfig, directory as history_path};
pub use own_service::OwnServiceConfig;
pub use peering::PeerConfig;
pub use pki::Pki;
pub use profile::ApiProfile;
pub use server::PollMeter;
pub use serving::{Kubelets, Serving};
pub use shown_metrics::ShownMetrics;
pub use start::{Running, StartError, start, start_with};
pub use storage::memory::Reverted;
pub use store::{StoreConfig, UNFINISHED_MIGRATION};
pub use test_server::{TestDefinitions, TestServer, TestStore, TestUser};
pub use versions::Versions;

/// Why an option cannot be used that needs a part which the program was built without.
pub(crate) fn left_out(feature: &str) -> String {
    format!("the feature {feature} was left out of this program")
}

/// Where a data directory keeps its store.
pub fn store_path(data_dir: &std::path::Path) -> std::path::PathBuf {
    data_dir.join("store.redb")
}
