//! `--max-requests-inflight` and `--max-mutating-requests-inflight`: how many requests may be worked on at once.
//!
//! A seat is held while the server works on a request. It is given back while the server waits for the client to send its
//! body, and for good when the response is ready to be sent, so slow clients cannot keep others out.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use request::{RequestInfo, User};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::health::Endpoint;

/// One limit for reads and one for writes. Zero is no limit.
#[derive(Clone)]
pub struct Seats {
    reads: Arc<Limit>,
    writes: Arc<Limit>,
}

struct Limit {
    /// None if there is no limit.
    free: Option<Arc<Semaphore>>,
    taken: AtomicUsize,
}

/// All seats are taken.
#[derive(Debug, PartialEq, Eq)]
pub struct Full;

impl Default for Seats {
    fn default() -> Seats {
        Seats::new(0, 0)
    }
}

impl Seats {
    pub fn new(reads: usize, writes: usize) -> Seats {
        let limit = |most: usize| {
            let free = (most > 0).then(|| Arc::new(Semaphore::new(most.min(Semaphore::MAX_PERMITS))));
            Arc::new(Limit { free, taken: AtomicUsize::new(0) })
        };
        Seats { reads: limit(reads), writes: limit(writes) }
    }

    /// Takes a seat. Health checks and long-running requests need none. When all are taken, members of `system:masters` are
    /// served without one and everybody else is refused.
    pub async fn take(&self, info: &RequestInfo, user: &User) -> Result<Option<Seat>, Full> {
        if info.is_long_running() || is_health_check(info) {
            return Ok(None);
        }
        let limit = if info.verb.is_read() { &self.reads } else { &self.writes };
        let permit = match &limit.free {
            None => None,
            Some(free) => match free.clone().try_acquire_owned() {
                Ok(permit) => Some(permit),
                Err(_) if user.is_member(User::MASTERS) => return Ok(None),
                Err(_) => return Err(Full),
            },
        };
        Ok(Some(Seat(Arc::new(Taken::new(limit.clone(), permit)))))
    }

    /// How many seats are taken by reads and by writes.
    pub fn taken(&self) -> (usize, usize) {
        (self.reads.taken.load(Ordering::Relaxed), self.writes.taken.load(Ordering::Relaxed))
    }
}

fn is_health_check(info: &RequestInfo) -> bool {
    !info.is_resource && Endpoint::ALL.iter().any(|endpoint| endpoint.check_in(&info.path).is_some())
}

/// A seat that is given back when it is dropped. Clones are the same seat.
#[derive(Clone)]
pub struct Seat(Arc<Taken>);

struct Taken {
    limit: Arc<Limit>,
    state: Mutex<State>,
}

enum State {
    /// The permit is given back when it is dropped.
    Seated {
        _permit: Option<OwnedSemaphorePermit>,
    },
    Away,
}

impl Taken {
    fn new(limit: Arc<Limit>, permit: Option<OwnedSemaphorePermit>) -> Taken {
        limit.taken.fetch_add(1, Ordering::AcqRel);
        Taken { limit, state: Mutex::new(State::Seated { _permit: permit }) }
    }
}

impl Seat {
    /// Gives the seat back until [`Seat::resume`].
    pub fn pause(&self) {
        let before = std::mem::replace(&mut *self.0.state.lock(), State::Away);
        if let State::Seated { .. } = before {
            self.0.limit.taken.fetch_sub(1, Ordering::AcqRel);
        }
    }

    /// Waits for a free seat, in the order of arrival, if this one was given back.
    pub async fn resume(self) {
        if let State::Seated { .. } = *self.0.state.lock() {
            return;
        }
        let permit = match &self.0.limit.free {
            // The semaphore is never closed.
            Some(free) => free.clone().acquire_owned().await.ok(),
            None => None,
        };
        self.0.limit.taken.fetch_add(1, Ordering::AcqRel);
        *self.0.state.lock() = State::Seated { _permit: permit };
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        if let State::Seated { .. } = self.state.get_mut() {
            self.limit.taken.fetch_sub(1, Ordering::AcqRel);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(method: &str, path: &str) -> RequestInfo {
        RequestInfo::parse(method, path, &[])
    }

    #[tokio::test]
    async fn seats_are_limited() {
        let seats = Seats::new(1, 0);
        let (get, post) = (info("GET", "/api/v1/pods"), info("POST", "/api/v1/namespaces/x/pods"));
        let (alice, admin) = (User::default(), User { groups: vec![User::MASTERS.into()], ..User::default() });
        let first = seats.take(&get, &alice).await.unwrap();
        assert!(first.is_some());
        assert_eq!(seats.take(&get, &alice).await.err(), Some(Full));
        assert!(seats.take(&get, &admin).await.unwrap().is_none());
        for path in ["/livez", "/livez/ping", "/readyz", "/healthz"] {
            assert!(seats.take(&info("GET", path), &alice).await.unwrap().is_none(), "{path}");
        }
        assert!(seats.take(&post, &alice).await.unwrap().is_some());
        assert_eq!(seats.taken(), (1, 0));
        drop(first);
        assert!(seats.take(&get, &alice).await.unwrap().is_some());
    }

    #[tokio::test]
    async fn a_seat_can_be_given_back_for_a_while() {
        let seats = Seats::new(0, 1);
        let post = info("POST", "/api/v1/namespaces/x/pods");
        let first = seats.take(&post, &User::default()).await.unwrap().unwrap();
        first.pause();
        first.pause();
        let second = seats.take(&post, &User::default()).await.unwrap().unwrap();
        let resumed = tokio::spawn(first.clone().resume());
        tokio::task::yield_now().await;
        assert!(!resumed.is_finished());
        drop(second);
        resumed.await.unwrap();
        assert_eq!(seats.taken(), (0, 1));
        assert_eq!(seats.take(&post, &User::default()).await.err(), Some(Full));
        drop(first);
        assert_eq!(seats.taken(), (0, 0));
    }
}
