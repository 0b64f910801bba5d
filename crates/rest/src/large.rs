//! [`Large`]: work on large objects does not keep the async workers from other requests.
//!
//! Decoding, patching, validating and encoding never wait, so one request with megabytes would hold its worker thread for as
//! long as that takes, and every connection of that worker with it. Once a request is known to be large, each of its polls runs
//! in [`tokio::task::block_in_place`]: the worker's other tasks move to another thread. Small requests pay for a load of a flag.

use std::cell::Cell;
use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::runtime::{Handle, RuntimeFlavor};

/// Requests that send, or change an object of, so many bytes are large: those below take a few milliseconds at most.
const LARGE_BYTES: usize = 64 * 1024;

thread_local! {
    /// Whether work was done away from the other tasks of the thread.
    static ASIDE: Cell<bool> = const { Cell::new(false) };
}

/// Whether this thread has done work away from its other tasks since this was last asked.
pub fn was_aside() -> bool {
    ASIDE.take()
}

fn away<T>(work: impl FnOnce() -> T) -> T {
    ASIDE.set(true);
    tokio::task::block_in_place(work)
}

/// Whether a request is large.
#[derive(Default)]
pub struct Large(AtomicBool);

impl Large {
    /// Tells how large something is that the request is about to work on.
    pub async fn note(&self, bytes: usize) {
        if bytes >= LARGE_BYTES && !self.0.swap(true, Ordering::Relaxed) {
            // What follows is part of the next poll.
            tokio::task::yield_now().await;
        }
    }

    /// Does the work of a request, away from the other requests of the worker once it is large.
    pub async fn run<T>(&self, work: impl Future<Output = T>) -> T {
        let mut work = Box::pin(work);
        poll_fn(|cx| {
            let large = self.0.load(Ordering::Relaxed);
            // A runtime with one thread, as tests have, has no other to move to.
            if large && Handle::current().runtime_flavor() == RuntimeFlavor::MultiThread {
                return away(|| work.as_mut().poll(cx));
            }
            work.as_mut().poll(cx)
        })
        .await
    }
}

/// Does a piece of work on so many bytes, away from the other requests of the worker if that is much: what reads do with large
/// objects.
pub fn aside<T>(bytes: usize, work: impl FnOnce() -> T) -> T {
    let has_others = || Handle::try_current().is_ok_and(|handle| handle.runtime_flavor() == RuntimeFlavor::MultiThread);
    if bytes >= LARGE_BYTES && has_others() { away(work) } else { work() }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// With one worker, a request that computes for a long time would keep all others waiting.
    #[test]
    fn others_are_served_meanwhile() {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_time().build().unwrap();
        runtime.block_on(async {
            let (done, waits) = std::sync::mpsc::channel::<()>();
            let heavy = tokio::spawn(async move {
                let large = &Large::default();
                let work = async move {
                    large.note(LARGE_BYTES).await;
                    // Computes until the other task has run.
                    waits.recv_timeout(Duration::from_secs(60)).is_ok()
                };
                large.run(work).await
            });
            let other = tokio::spawn(async move { done.send(()).is_ok() });
            assert!(other.await.unwrap() && heavy.await.unwrap());
        });
    }

    #[tokio::test]
    async fn a_runtime_with_one_thread_works_in_place() {
        let large = Large::default();
        let sum = large.run(async {
            large.note(LARGE_BYTES).await;
            1 + 1
        });
        assert_eq!(sum.await, 2);
    }
}
