//! [`CacheMeters`]: how one cache does.

use metrics::{Counter, Histogram};

/// Upstream's buckets, in seconds.
const INITIALIZATION_SECONDS: &[f64] = &[0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 180.0, 600.0];
const WAIT_SECONDS: &[f64] = &[0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0];
const DISPATCH_SECONDS: &[f64] = &[0.0001, 0.0005, 0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0];

/// The metrics of a cache.
pub struct CacheMeters {
    /// How long it took to list the store, each time that was needed.
    pub initializations: Histogram,
    /// How long readers waited for a revision.
    pub waits: Histogram,
    /// Objects that were there when watches began, and were sent to them.
    pub initial_events: Counter,
    /// The time between an event's arrival from the store and when watchers can read it.
    pub applied: Histogram,
    /// The time between an event's arrival from the store and when it was handed to a watcher.
    pub delivered: Histogram,
}

impl Default for CacheMeters {
    fn default() -> CacheMeters {
        let dispatch = || Histogram::new(DISPATCH_SECONDS);
        CacheMeters {
            initializations: Histogram::new(INITIALIZATION_SECONDS),
            waits: Histogram::new(WAIT_SECONDS),
            initial_events: Counter::default(),
            applied: dispatch(),
            delivered: dispatch(),
        }
    }
}
