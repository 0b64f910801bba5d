//! APIServices: which server answers for a group-version. This server answers for the local ones; requests for the others
//! are passed on to an API server behind a Service of the cluster.
//!
//! Start with [`Aggregator`]. It follows the stored APIServices, keeps those of built-in groups and of custom resource
//! definitions (`autoregister.rs`), and has a [`Backend`] for each that is not local: `proxy.rs` passes requests on,
//! `availability.rs` checks whether it can be reached, `discovered.rs` and `openapi.rs` fetch what it serves
//! (`convert.rs` for those that know OpenAPI's second version only).

mod aggregator;
mod autoregister;
mod availability;
mod backend;
mod convert;
mod discovered;
pub mod follow;
mod meters;
pub mod openapi;
mod priorities;
pub mod proxy;
mod service;

pub use aggregator::{Aggregator, Setup};
pub use backend::{AggregatorSettings, Backend, Fetch, Fetched};
pub use discovered::Discovered;
pub use openapi::Specification;
pub use priorities::{CUSTOM, Priority, builtin};
pub use service::{ApiService, Group, Reference, sorted};
