//! Admission: what changes or refuses a request after it was authorized and before it is stored.
//!
//! A [`Plugin`] sees objects in the storage version. All plugins that may change the object run first, in the order of the
//! [`Chain`]; then, on the final object, all that may refuse it.

mod attributes;
mod chain;
mod config;
mod host;
pub mod plugins;

pub use attributes::{Attributes, Operation};
pub use chain::{Chain, Plugin};
pub use config::Configuration;
pub use host::Host;
