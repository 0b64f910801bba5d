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
//! writes values with them, `cipher` has the primitives, and `plugins`, `kms`, `plugin`,
//! `plugin_v1` and `envelope` the plugins that keep keys elsewhere.

#[cfg_attr(not(feature = "kms"), allow(dead_code))] // Seeds are the plugins'.
mod cipher;
mod config;
#[cfg(feature = "kms")]
mod envelope;
mod feed;
#[cfg(feature = "kms")]
mod kms;
#[cfg_attr(not(feature = "kms"), allow(dead_code))] // Keys are counted by the plugins.
mod meters;
#[cfg(not(feature = "kms"))]
mod no_plugins;
#[cfg(not(feature = "kms"))]
use no_plugins as plugins;
#[cfg(feature = "kms")]
mod plugin;
#[cfg(feature = "kms")]
mod plugin_v1;
#[cfg(feature = "kms")]
mod plugins;
mod provider;
mod reload;
mod rules;
mod shape;
mod store;
mod validate;

pub use config::ConfigError;
pub use meters::KeyMeters;
pub use reload::{ConfigFile, ToJson};
pub use rules::Encryption;
pub use store::{EncryptedStore, ResourceOf};

#[cfg(feature = "mock-kms")]
pub mod mock;
#[cfg(test)]
mod tests;
