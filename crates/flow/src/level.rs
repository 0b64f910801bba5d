//! [`Level`]: one priority level with its queues, limits and counters.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use object::Str;
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::configuration::{PriorityLevel, Response};
use crate::demand::{Demand, Integrator};
use crate::limits::{Bounds, Claim};
use crate::numbers::{LevelNumbers, Numbers, UtilizationNumbers};
use crate::queues::{Arrival, Arriving, Discipline, Queues, Ticket};
use crate::shuffle::Dealer;
use crate::turns::{LevelTurns, Turns};

/// The part of the nominal limit that one request may take at most.
const SEATS_MAX_PART: f64 = 0.15;

pub struct Level {
    pub name: Str,
    pub numbers: LevelNumbers,
    /// The most seats one request of this level may take; 0 for no bound of its own.
    seats_max: AtomicU64,
    pub quiescing: AtomicBool,
    turns: Arc<Turns>,
    pub state: Mutex<State>,
}

pub struct State {
    pub configuration: PriorityLevel,
    pub queues: Queues,
    pub integrator: Integrator,
    pub demand: Demand,
    utilization: Utilization,
    pub bounds: Bounds,
    pub limit: usize,
    has_limit: bool,
}

/// The parts of its capacity that a level uses, and since when.
struct Utilization {
    since: Instant,
    seats: f64,
    executing: f64,
    waiting: f64,
    demand: f64,
}

impl State {
    /// Notes for how long seats were used and asked for as they were, and how that is now.
    fn observe(&mut self, numbers: &UtilizationNumbers, now: Instant) {
        self.integrator.set(self.queues.demand(), now);
        let used = &self.utilization;
        let elapsed = now.saturating_duration_since(used.since).as_nanos();
        let nanoseconds = u64::try_from(elapsed).unwrap_or(u64::MAX);
        numbers.seats.observe_times(used.seats, nanoseconds);
        numbers.executing.observe_times(used.executing, nanoseconds);
        numbers.waiting.observe_times(used.waiting, nanoseconds);
        numbers.demand.observe_times(used.demand, nanoseconds);
        let seats = self.limit.max(1) as f64;
        let room = match self.configuration.response {
            Response::Queue { queues, length_limit, .. } => queues.max(1) as f64 * length_limit.max(1) as f64,
            _ => 1.0,
        };
        self.utilization = Utilization {
            since: now,
            seats: self.queues.seats_in_use as f64 / seats,
            executing: self.queues.executing() as f64 / seats,
            waiting: self.queues.waiting as f64 / room,
            demand: self.queues.demand() / self.bounds.nominal.max(1) as f64,
        };
    }
}

impl Level {
    pub fn new(configuration: PriorityLevel, numbers: &Numbers, turns: &Arc<Turns>, now: Instant) -> Arc<Level> {
        let name = configuration.name.clone();
        let state = |level: &Weak<Level>| State {
            configuration,
            queues: Queues::new(LevelTurns::new(turns, level.clone()), now),
            integrator: Integrator::new(now),
            demand: Demand::default(),
            utilization: Utilization { since: now, seats: 0.0, executing: 0.0, waiting: 0.0, demand: 0.0 },
            bounds: Bounds::default(),
            limit: 0,
            has_limit: false,
        };
        Arc::new_cyclic(|level| Level {
            numbers: numbers.level(&name),
            name,
            seats_max: AtomicU64::new(0),
            quiescing: AtomicBool::new(false),
            turns: turns.clone(),
            state: Mutex::new(state(level)),
        })
    }

    pub fn seats_max(&self) -> u64 {
        self.seats_max.load(Ordering::Relaxed)
    }

    /// Changes what the state knows and keeps the integrated demand right.
    pub fn change<T>(&self, change: impl FnOnce(&mut Queues, Instant) -> T) -> T {
        let now = Instant::now();
        let (result, ended_turns) = {
            let mut state = self.state.lock();
            let result = change(&mut state.queues, now);
            state.observe(&self.numbers.utilization, now);
            (result, state.queues.ended_turns())
        };
        if ended_turns > 0 {
            self.turns.give_back(ended_turns);
        }
        result
    }

    pub fn arrive(&self, arriving: Arriving<'_>) -> Arrival {
        self.change(|queues, now| queues.arrive(arriving, now))
    }

    /// Ends a request; its seats are given back now or after its additional latency.
    pub fn finish(self: &Arc<Level>, ticket: Ticket) {
        let lingers = self.change(|queues, now| queues.finish(&ticket, now));
        if !lingers {
            return;
        }
        let level = self.clone();
        // Requests are finished inside the server's runtime; outside of one there is nothing left to limit.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                tokio::time::sleep(ticket.work.additional_latency).await;
                level.change(|queues, now| queues.release(&ticket, now));
            });
        }
    }

    pub fn is_idle(&self) -> bool {
        self.state.lock().queues.is_idle()
    }

    /// Takes over the bounds that follow from the shares of all levels.
    pub fn set_bounds(&self, total: usize, sum_of_shares: f64) -> Bounds {
        let mut state = self.state.lock();
        let configured = &state.configuration;
        let bounds = Bounds::of(
            total,
            configured.shares,
            sum_of_shares,
            configured.lendable_percent,
            configured.borrowing_percent,
        );
        if let Response::Queue { hand_size, .. } = configured.response {
            let part = (bounds.nominal as f64 * SEATS_MAX_PART).ceil().min((bounds.nominal / hand_size) as f64);
            self.seats_max.store(part.max(1.0) as u64, Ordering::Relaxed);
        }
        state.bounds = bounds;
        if !state.has_limit {
            state.limit = bounds.initial();
            state.has_limit = true;
        }
        self.numbers.set_bounds(bounds);
        bounds
    }

    /// The seats that this level asks for in the next division.
    pub fn claim(&self, now: Instant) -> Claim {
        let mut state = self.state.lock();
        let state = &mut *state;
        state.demand.update(&mut state.integrator, now);
        Claim {
            bounds: state.bounds,
            exempt: state.configuration.response == Response::Exempt,
            high_watermark: state.demand.high_watermark as usize,
            smoothed: state.demand.smoothed,
        }
    }

    /// Sets the limit until the next division; None keeps the one it has.
    pub fn set_limit(&self, limit: Option<usize>, target: f64) {
        let now = Instant::now();
        let mut locked = self.state.lock();
        let state = &mut *locked;
        // A level that has lent all its seats still runs one request, so that its demand can grow.
        state.limit = limit.unwrap_or(state.limit).max(1);
        let discipline = discipline(state.configuration.response);
        state.queues.configure(discipline, state.limit as u64, now);
        state.observe(&self.numbers.utilization, now);
        self.numbers.set_demand(&state.demand, target, state.limit);
        let ended_turns = state.queues.ended_turns();
        drop(locked);
        self.turns.give_back(ended_turns);
    }
}

fn discipline(response: Response) -> Discipline {
    match response {
        Response::Exempt => Discipline::Exempt,
        Response::Reject => Discipline::Reject,
        // A configuration whose hands cannot be dealt is not read in the first place.
        Response::Queue { queues, hand_size, length_limit } => match Dealer::new(queues, hand_size) {
            Some(dealer) => Discipline::Queue { dealer, queues, length_limit },
            None => Discipline::Reject,
        },
    }
}
