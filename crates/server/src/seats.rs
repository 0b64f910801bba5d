//! How many requests may be worked on at once: by priority and fairness, or without it by `--max-requests-inflight` and
//! `--max-mutating-requests-inflight` alone.
//!
//! A seat is held while the server works on a request. It is given back while the server waits for the client to send its
//! body, and for good when the response is ready to be sent, or has begun if it is made while it is sent. So clients that are slow,
//! or do not read at all, cannot keep others out.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use flow::{Flow, Rejected, Work, WorkRequest};
use parking_lot::Mutex;
use registry::Catalog;
use request::{RequestInfo, User, Verb};
use rest::Call;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use crate::health::Endpoint;

/// One limit for reads and one for writes (zero is no limit), or both together under priority and fairness.
#[derive(Clone)]
pub struct Seats {
    reads: Arc<Limit>,
    writes: Arc<Limit>,
    flow: Option<Arc<Flow>>,
}

struct Limit {
    /// None if requests are not limited.
    free: Option<Arc<Semaphore>>,
    taken: AtomicUsize,
}

/// All seats are taken; says how priority and fairness classified the request, if it is on.
#[derive(Debug)]
pub struct Full(pub Option<Rejected>);

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
        Seats { reads: limit(reads), writes: limit(writes), flow: None }
    }

    /// Seats that priority and fairness gives out.
    pub fn by_priority(flow: Arc<Flow>) -> Seats {
        Seats { flow: Some(flow), ..Seats::new(0, 0) }
    }

    pub fn flow(&self) -> Option<&Arc<Flow>> {
        self.flow.as_ref()
    }

    /// Takes a seat, waiting for it until `deadline` at most. Health checks and long-running requests need none, except that
    /// priority and fairness also limits how many watches are started at once. `work` tells how many seats the request needs.
    pub async fn take(
        &self,
        info: &RequestInfo,
        user: &User,
        deadline: Instant,
        work: impl FnOnce(&Flow, &WorkRequest<'_>) -> Work,
    ) -> Result<Option<Seat>, Full> {
        let is_limited_watch = self.flow.is_some() && info.verb == Verb::Watch;
        if (info.is_long_running() && !is_limited_watch) || is_health_check(info) {
            return Ok(None);
        }
        let limit = if info.verb.is_read() { &self.reads } else { &self.writes };
        let hold = match (&self.flow, &limit.free) {
            (Some(flow), _) => {
                let seats = flow.admit(info, user, deadline, |asked| work(flow, asked)).await;
                Hold::Flow(seats.map_err(|rejected| Full(Some(rejected)))?)
            }
            (None, None) => Hold::Permit(None),
            (None, Some(free)) => match free.clone().try_acquire_owned() {
                Ok(permit) => Hold::Permit(Some(permit)),
                // Members of system:masters are not limited.
                Err(_) if user.is_member(User::MASTERS) => return Ok(None),
                Err(_) => return Err(Full(None)),
            },
        };
        Ok(Some(Seat(Arc::new(TakenSeat::new(limit.clone(), hold)))))
    }

    /// How many seats are taken by reads and by writes.
    pub fn taken(&self) -> (usize, usize) {
        (self.reads.taken.load(Ordering::Relaxed), self.writes.taken.load(Ordering::Relaxed))
    }
}

/// The facts that the number of seats of a list or watch depends on.
pub fn list_cost<'a>(catalog: &Catalog, call: &'a Call) -> (flow::ListOptions<'a>, Option<flow::ObjectStats>) {
    let info = &call.info;
    let value = |name: &str| call.query(name).unwrap_or("");
    let resource_version = value("resourceVersion");
    let options = flow::ListOptions {
        limit: value("limit").parse().unwrap_or(0),
        has_selector: !info.field_selector.is_empty() || !info.label_selector.is_empty(),
        looks_at_all: rest::looks_at_all(call),
        from_cache: value("continue").is_empty() && value("resourceVersionMatch") != "Exact",
        resource_version,
        send_initial_events: value("sendInitialEvents") == "true",
    };
    let storage = catalog.get(&info.group, &info.version, &info.resource).and_then(|found| found.storage.as_ref());
    let looked_at = match rest::is_find(info) {
        true => Some(rest::looked_at_by_find(catalog)),
        false => storage.map(|storage| (storage.cache.len() as u64, storage.cache.encoded_bytes() as u64)),
    };
    let stats = looked_at
        .map(|(count, bytes)| flow::ObjectStats { count, average_bytes: bytes.checked_div(count).unwrap_or(0) });
    (options, stats)
}

fn is_health_check(info: &RequestInfo) -> bool {
    !info.is_resource && Endpoint::ALL.iter().any(|endpoint| endpoint.check_in(&info.path).is_some())
}

/// A seat that is given back when it is dropped. Clones are the same seat.
#[derive(Clone)]
pub struct Seat(Arc<TakenSeat>);

/// A seat as long as it is taken.
pub struct WeakSeat(Weak<TakenSeat>);

impl WeakSeat {
    pub fn upgrade(&self) -> Option<Seat> {
        self.0.upgrade().map(Seat)
    }
}

struct TakenSeat {
    limit: Arc<Limit>,
    state: Mutex<State>,
}

enum State {
    Seated(Hold),
    /// Given back until [`Seat::resume`].
    Away(Option<flow::Away>),
}

/// Gives the seat back when it is dropped.
enum Hold {
    /// None if there is no limit.
    Permit(#[allow(dead_code)] Option<OwnedSemaphorePermit>),
    Flow(flow::Seats),
}

impl TakenSeat {
    fn new(limit: Arc<Limit>, hold: Hold) -> TakenSeat {
        limit.taken.fetch_add(1, Ordering::AcqRel);
        TakenSeat { limit, state: Mutex::new(State::Seated(hold)) }
    }
}

impl Seat {
    pub fn downgrade(&self) -> WeakSeat {
        WeakSeat(Arc::downgrade(&self.0))
    }

    /// How priority and fairness classified the request; None if it is off, or while the seat is given back.
    pub fn admission(&self) -> Option<Arc<flow::Admission>> {
        match &*self.0.state.lock() {
            State::Seated(Hold::Flow(seats)) => Some(seats.admission().clone()),
            _ => None,
        }
    }

    /// How many seats it is; 1 without priority and fairness, and 0 while it is given back.
    pub fn width(&self) -> u64 {
        match &*self.0.state.lock() {
            State::Seated(Hold::Flow(seats)) => seats.width(),
            State::Seated(Hold::Permit(_)) => 1,
            State::Away(_) => 0,
        }
    }

    /// Whether priority and fairness waits for [`Seat::end_turn`].
    pub fn has_turn(&self) -> bool {
        matches!(&*self.0.state.lock(), State::Seated(Hold::Flow(seats)) if seats.has_turn())
    }

    /// To be called when the request has run, to its end or until it had to wait for something.
    pub fn end_turn(&self) {
        if let State::Seated(Hold::Flow(seats)) = &mut *self.0.state.lock() {
            seats.end_turn();
        }
    }

    /// Gives the seat back until [`Seat::resume`].
    pub fn pause(&self) {
        let mut state = self.0.state.lock();
        match std::mem::replace(&mut *state, State::Away(None)) {
            State::Seated(hold) => {
                self.0.limit.taken.fetch_sub(1, Ordering::AcqRel);
                if let Hold::Flow(seats) = hold {
                    *state = State::Away(seats.give_back());
                }
            }
            away => *state = away,
        }
    }

    /// Waits for a free seat, in the order of arrival, if this one was given back.
    pub async fn resume(self) {
        let away = match &mut *self.0.state.lock() {
            State::Seated(_) => return,
            State::Away(away) => away.take(),
        };
        let hold = match (away, &self.0.limit.free) {
            (Some(away), _) => Hold::Flow(away.take_again().await),
            // The semaphore is never closed.
            (None, Some(free)) => Hold::Permit(free.clone().acquire_owned().await.ok()),
            (None, None) => Hold::Permit(None),
        };
        self.0.limit.taken.fetch_add(1, Ordering::AcqRel);
        *self.0.state.lock() = State::Seated(hold);
    }
}

impl Drop for TakenSeat {
    fn drop(&mut self) {
        if let State::Seated(_) = self.state.get_mut() {
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

    async fn take(seats: &Seats, info: &RequestInfo, user: &User) -> Result<Option<Seat>, Full> {
        seats.take(info, user, Instant::now(), |_, _| Work::ONE).await
    }

    #[tokio::test]
    async fn seats_are_limited() {
        let seats = Seats::new(1, 0);
        let (get, post) = (info("GET", "/api/v1/pods"), info("POST", "/api/v1/namespaces/x/pods"));
        let (alice, admin) = (User::default(), User { groups: vec![User::MASTERS.into()], ..User::default() });
        let first = take(&seats, &get, &alice).await.unwrap();
        assert!(first.is_some());
        assert!(take(&seats, &get, &alice).await.is_err());
        assert!(take(&seats, &get, &admin).await.unwrap().is_none());
        for path in ["/livez", "/livez/ping", "/readyz", "/healthz"] {
            assert!(take(&seats, &info("GET", path), &alice).await.unwrap().is_none(), "{path}");
        }
        assert!(take(&seats, &post, &alice).await.unwrap().is_some());
        assert_eq!(seats.taken(), (1, 0));
        drop(first);
        assert!(take(&seats, &get, &alice).await.unwrap().is_some());
    }

    #[tokio::test]
    async fn a_seat_can_be_given_back_for_a_while() {
        let flow = Arc::new(Flow::new(flow::FlowSettings { seats: 1 }));
        for seats in [Seats::new(0, 1), Seats::by_priority(flow)] {
            let post = info("POST", "/api/v1/namespaces/x/pods");
            let first = take(&seats, &post, &User::default()).await.unwrap().unwrap();
            first.pause();
            first.pause();
            let second = take(&seats, &post, &User::default()).await.unwrap().unwrap();
            let resumed = tokio::spawn(first.clone().resume());
            tokio::task::yield_now().await;
            assert!(!resumed.is_finished());
            drop(second);
            resumed.await.unwrap();
            assert_eq!(seats.taken(), (0, 1));
            assert!(take(&seats, &post, &User::default()).await.is_err());
            drop(first);
            assert_eq!(seats.taken(), (0, 0));
        }
    }

    #[tokio::test]
    async fn watches_take_a_seat_under_priority_and_fairness_only() {
        let watch = RequestInfo::parse("GET", "/api/v1/pods", &[("watch".into(), "true".into())]);
        assert!(take(&Seats::new(1, 1), &watch, &User::default()).await.unwrap().is_none());
        let seats = Seats::by_priority(Arc::new(Flow::new(flow::FlowSettings { seats: 10 })));
        let seat = take(&seats, &watch, &User::default()).await.unwrap().unwrap();
        assert_eq!(seat.admission().unwrap().schema, "catch-all");
    }
}
