//! The events.k8s.io group, and the events of the core group: two views of the same stored objects.

mod convert;
mod event;

use std::sync::Arc;
use std::time::Duration;

pub use convert::Conversion;
pub use event::Event;

use crate::{KindOptions, Strategies};

/// How long events are kept unless `--event-ttl` says otherwise.
pub const DEFAULT_TTL: Duration = Duration::from_secs(60 * 60);

pub fn strategies(options: &KindOptions) -> Strategies {
    vec![("events.k8s.io", "events", Arc::new(Event::new(options.event_ttl)))]
}
