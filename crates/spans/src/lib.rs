//! The spans of traced requests.
//!
//! The server begins a span for each request that is sampled and runs the request's work [`OpenSpan::run`] it. Code below asks
//! [`begin`] for a span of its own; for a request that is not traced the answer is None, and all it costs is a look at a task local.

mod open;
mod sink;
mod wire;

pub use open::{OpenSpan, begin, event, traced};
pub use sink::{Finished, Sink};
pub use wire::{AnyValue, Event, KeyValue, Kind, Link, Scalar, Span, Status};
