//! Where requests arrive: the listener, TLS, the filter chain, and the paths that are not resources.
//!
//! Start with [`chain`]: the filters in the order a request meets them.

mod audit;
mod call;
mod chain;
mod compress;
mod cors;
mod extended_connect;
mod health;
mod impersonate;
mod lifecycle;
mod listen;
mod metrics;
mod paths;
mod peer;
mod receive;
mod seats;
pub mod systemd;
mod target;
pub mod tls;
mod trace;
mod track;
mod version;

pub use self::metrics::{Metrics, Shown};
pub use ::metrics::{Histogram, head as metric_head};
pub use chain::{Server, WriteBarrier};
pub use cors::Cors;
pub use health::{Always, Check, Delayed, Endpoint, Health, Hook};
pub use impersonate::Impersonation;
pub use lifecycle::{Lifecycle, Phase, ShutdownCheck, ShutdownTimeouts};
pub use listen::{ConnectionOptions, Listener};
pub use paths::Paths;
pub use peer::Peer;
pub use receive::Unfinished;
pub use seats::Seats;
pub use trace::Tracer;
pub use version::Version;
