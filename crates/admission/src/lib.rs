//! Admission: what changes or refuses a request after it was authorized and before it is stored.
//!
//! A [`Plugin`] sees objects in the storage version. All plugins that may change the object run first, in the order of the
//! [`Chain`]; then, on the final object, all that may refuse it.

mod attributes;
mod chain;
mod compiled;
mod config;
mod explained;
mod host;
mod manifests;
mod matching;
mod metadata;
mod meters;
mod parts;
pub mod plugins;
pub mod policy;
mod reinvocation;
mod versioned;
pub mod webhook;

pub use attributes::{Annotation, Annotations, Attributes, Operation};
pub use chain::{Chain, Plugin, Sees};
pub use compiled::{Compiled, Snapshot};
pub use config::Configuration;
pub use explained::{PolicyFinding, PolicyOutcome};
pub use host::{Answer, Host};
pub use matching::{Matched, Matcher};
pub use meters::AdmissionMeters;
pub use reinvocation::Reinvocation;
pub use versioned::Versioned;
