//! Where requests arrive: the listener, TLS, the filter chain, and the paths that are not resources.
//!
//! Start with [`chain`]: the filters in the order a request meets them.

mod arrival;
mod audit;
mod call;
mod chain;
mod compress;
mod connections;
mod cors;
mod extended_connect;
mod finish;
mod health;
mod host;
mod http_log;
mod impersonate;
mod lifecycle;
mod listen;
mod metrics;
mod observe;
mod origin;
mod parts;
mod paths;
mod peer;
mod polls;
mod receive;
mod refused;
mod seats;
mod shares;
mod sparing;
pub mod systemd;
mod target;
pub mod tls;
mod trace;
mod track;
mod unfinished;
mod version;
mod windows;

pub use self::metrics::{Metrics, Shown};
pub use ::metrics::{Histogram, head as metric_head};
pub use arrival::{ArrivingBody, BodyError};
pub use call::query;
pub use chain::{HttpResponse, Server, WriteBarrier};
pub use cors::Cors;
pub use health::{Always, Check, Delayed, Endpoint, Health, Hook};
pub use impersonate::Impersonation;
pub use lifecycle::{Lifecycle, Phase, ShutdownCheck, ShutdownTimeouts};
pub use listen::{ConnectionOptions, Listener};
pub use observe::{ObservedClient, ObservedRequest, RequestObserver};
pub use paths::{Paths, PublicPages};
pub use peer::{Peer, Timeouts};
pub use polls::PollMeter;
pub use seats::Seats;
pub use sparing::Sparing;
pub use trace::Tracer;
pub use unfinished::Unfinished;
pub use version::{Build, Version};
