//! Where requests arrive: the listener, TLS, the filter chain, and the paths that are not resources.
//!
//! Start with [`chain`]: the filters in the order a request meets them.

mod call;
mod chain;
mod compress;
mod health;
mod impersonate;
mod listen;
mod metrics;
mod paths;
pub mod tls;
mod version;

pub use chain::Server;
pub use health::{Check, Health};
pub use listen::{Listener, Shutdown};
pub use metrics::Metrics;
pub use paths::Paths;
pub use version::Version;
