//! Puts the server together: configuration, store, catalog, chain. The only crate that reads flags and the environment.

mod actions;
mod allocation;
mod config;
mod escalation;
pub mod flags;
pub mod kubeconfig;
mod pki;
mod start;

pub use config::Config;
pub use pki::Pki;
pub use start::{Running, StartError, start};
