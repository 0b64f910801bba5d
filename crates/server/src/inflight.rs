//! `--max-requests-inflight` and `--max-mutating-requests-inflight`: how many requests may be under way at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use request::{RequestInfo, User};

/// A bound for reads and one for writes. Zero is no bound.
#[derive(Clone, Default)]
pub struct InFlight {
    reads: Arc<Bound>,
    writes: Arc<Bound>,
}

#[derive(Default)]
struct Bound {
    most: usize,
    now: AtomicUsize,
}

impl InFlight {
    pub fn new(reads: usize, writes: usize) -> InFlight {
        let bound = |most| Arc::new(Bound { most, now: AtomicUsize::new(0) });
        InFlight { reads: bound(reads), writes: bound(writes) }
    }

    /// A seat for a request that is not long-running; None if all are taken. Administrators always get one: somebody
    /// has to be able to help.
    pub fn sit(&self, info: &RequestInfo, user: &User) -> Option<Seat> {
        let bound = if info.verb.is_read() { &self.reads } else { &self.writes };
        let before = bound.now.fetch_add(1, Ordering::AcqRel);
        let seat = Seat(bound.clone());
        let free = bound.most == 0 || before < bound.most || user.is_member(User::MASTERS);
        free.then_some(seat)
    }

    /// How many (reads, writes) are under way.
    pub fn now(&self) -> (usize, usize) {
        (self.reads.now.load(Ordering::Relaxed), self.writes.now.load(Ordering::Relaxed))
    }
}

/// Taken until it is dropped.
pub struct Seat(Arc<Bound>);

impl Drop for Seat {
    fn drop(&mut self) {
        self.0.now.fetch_sub(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seats_are_few() {
        let flight = InFlight::new(1, 0);
        let get = RequestInfo::parse("GET", "/api/v1/pods", &[]);
        let post = RequestInfo::parse("POST", "/api/v1/namespaces/x/pods", &[]);
        let (alice, admin) = (User::default(), User { groups: vec![User::MASTERS.into()], ..User::default() });
        let first = flight.sit(&get, &alice);
        assert!(first.is_some());
        assert!(flight.sit(&get, &alice).is_none());
        assert!(flight.sit(&get, &admin).is_some());
        assert!(flight.sit(&post, &alice).is_some());
        assert_eq!(flight.now(), (1, 0));
        drop(first);
        assert!(flight.sit(&get, &alice).is_some());
    }
}
