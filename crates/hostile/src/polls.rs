//! [`Polls`]: which requests kept a worker thread for too long.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use cpu_time::ThreadTime;
use testing::PollMeter;

/// For how long one poll of a request may compute, in CPU time. Code that is not optimized takes many times longer: the longest poll
/// of the whole suite took 15 ms in it, on two busy cores, and requests that do nothing seemed to take up to 6 ms.
const POLL_MAX: Duration = Duration::from_millis(if cfg!(debug_assertions) { 50 } else { 5 });
/// So many requests are named.
const NAMED_MAX: usize = 20;

/// The requests of which a poll took too long.
#[derive(Debug, Default)]
pub struct Polls(Mutex<Vec<String>>);

impl PollMeter for Polls {
    fn measure(&self, request: &str, poll: &mut dyn FnMut() -> bool) {
        let began = ThreadTime::now();
        let is_aside = poll();
        let took = began.elapsed();
        // The other tasks of the thread have moved to another one while it did what takes long.
        if took > POLL_MAX && !is_aside {
            let mut long = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            if long.len() < NAMED_MAX {
                long.push(format!("{took:?}: {request:.200}"));
            }
        }
    }
}

/// Fails the test when it ends.
pub struct Checked(pub Arc<Polls>);

impl Drop for Checked {
    fn drop(&mut self) {
        let long = self.0.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_failing = std::thread::panicking();
        assert!(is_failing || long.is_empty(), "requests kept a worker thread for too long: {long:#?}");
    }
}
