//! Encryption at rest, over any engine, in kube-apiserver's formats.
//!
//! The file named by `--encryption-provider-config` says for which resources values are encrypted and how. The first
//! provider of a rule writes, all of them read; a value that the first one would have written differently is `stale`, and
//! writing it again brings it up to date. A value that no provider can read is an error, never returned as it is.
//!
//! Values are bound to their place: the key under which one is stored is authenticated with it (by `aesgcm` and `kms`),
//! so that someone with write access to the disk cannot replace one secret by another.
//!
//! Start reading at `store`, the wrapper around an engine; `rules` finds the providers for a key, `provider` reads and
//! writes values with them, `cipher` has the primitives, and `kms`, `plugin`,
//! `plugin_v1` and `envelope` the plugins that keep keys elsewhere.

mod cipher;
mod config;
mod envelope;
mod feed;
mod kms;
mod plugin;
mod plugin_v1;
mod provider;
mod reload;
mod rules;
mod shape;
mod store;
mod validate;

pub use config::ConfigError;
pub use reload::{ConfigFile, ToJson};
pub use rules::Encryption;
pub use store::{EncryptedStore, ResourceOf};

#[cfg(feature = "mock-kms")]
pub mod mock;
#[cfg(test)]
mod tests;
