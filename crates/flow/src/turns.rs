//! [`Turns`]: which requests run next while more of them have arrived than the runtime has begun to work on.
//!
//! A request that waits for nothing runs to its end in one poll of its task. Requests that arrive together would therefore
//! run in the order in which they arrived, whatever their flows, before any seat is short. While there is such a backlog,
//! requests wait in the queues of their levels, and each one that leaves its queue holds a turn. There are only a few
//! turns, and a request with a turn first lets all other tasks run, so that those which arrive meanwhile get
//! into their queues. A turn ends when the request is finished or waits for something else than the CPU.

use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;

use crate::level::Level;

/// For each turn that there is at least, as many requests that have not run yet are no backlog: it costs less to run them as they come.
const UNSTARTED_PER_TURN: usize = 8;
/// How long a request with a turn may have to wait until it runs: there are as many turns as fit in.
const WAIT: Duration = Duration::from_micros(300);
/// The part of the time per turn that each new measurement makes up.
const SMOOTHING: f64 = 1.0 / 16.0;
/// How much the virtual time of a level with one seat advances with each turn.
const TURN_OF_ONE_SEAT: u64 = 1 << 20;

pub struct Turns {
    /// Requests whose tasks were spawned and have not run yet.
    unstarted: AtomicUsize,
    /// How many turns there are.
    turns: AtomicUsize,
    bounds: RangeInclusive<usize>,
    state: Mutex<State>,
}

struct State {
    taken: usize,
    /// Seconds for which each turn keeps the next request waiting.
    seconds: f64,
    /// The virtual time of the latest turn.
    clock: u64,
    /// Levels that have gone leave their places empty for later ones.
    levels: Vec<Option<TurnPlace>>,
}

/// A level in the order of turns.
struct TurnPlace {
    level: Weak<Level>,
    /// Whether requests of the level have seats and wait for a turn.
    waits: bool,
    /// The virtual time of the level's next turn, which advances more slowly for levels with more seats.
    next: u64,
}

impl Turns {
    /// As few as possible at first.
    pub fn new(bounds: RangeInclusive<usize>) -> Arc<Turns> {
        let seconds = WAIT.as_secs_f64() / *bounds.start() as f64;
        let state = State { taken: 0, seconds, clock: 0, levels: Vec::new() };
        let turns = AtomicUsize::new(*bounds.start());
        Arc::new(Turns { unstarted: AtomicUsize::new(0), turns, bounds, state: Mutex::new(state) })
    }

    fn turns(&self) -> usize {
        self.turns.load(Ordering::Relaxed)
    }

    /// A request runs that has waited for so long after it got its turn.
    pub fn waited(&self, time: Duration) {
        let mut state = self.state.lock();
        let each = time.as_secs_f64() / state.taken.max(1) as f64;
        state.seconds += (each - state.seconds) * SMOOTHING;
        let turns = (WAIT.as_secs_f64() / state.seconds.max(f64::EPSILON)) as usize;
        self.turns.store(turns.clamp(*self.bounds.start(), *self.bounds.end()), Ordering::Relaxed);
    }

    /// Gives turns back and lets levels that wait for turns go on.
    pub fn give_back(&self, turns: usize) {
        self.state.lock().taken -= turns;
        while let Some(level) = self.next_level() {
            level.change(|queues, now| queues.dispatch(now));
        }
    }

    /// The level whose turn it is, if a turn is free.
    fn next_level(&self) -> Option<Arc<Level>> {
        let mut state = self.state.lock();
        let clock = state.clock;
        while state.taken < self.turns() {
            let waiting = state.levels.iter_mut().flatten().filter(|place| place.waits);
            let place = waiting.min_by_key(|place| place.next.max(clock))?;
            place.waits = false;
            if let Some(level) = place.level.upgrade() {
                return Some(level);
            }
        }
        None
    }
}

/// A request whose task was spawned; to be dropped when the task runs.
pub struct Unstarted(Arc<Turns>);

impl Unstarted {
    pub fn new(turns: &Arc<Turns>) -> Unstarted {
        turns.unstarted.fetch_add(1, Ordering::Relaxed);
        Unstarted(turns.clone())
    }
}

impl Drop for Unstarted {
    fn drop(&mut self) {
        self.0.unstarted.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The place of one level among all that share the turns.
pub struct LevelTurns {
    turns: Arc<Turns>,
    at: usize,
}

impl LevelTurns {
    pub fn new(turns: &Arc<Turns>, level: Weak<Level>) -> LevelTurns {
        let mut state = turns.state.lock();
        let place = Some(TurnPlace { level, waits: false, next: 0 });
        let at = match state.levels.iter().position(Option::is_none) {
            Some(at) => at,
            None => {
                state.levels.push(None);
                state.levels.len() - 1
            }
        };
        state.levels[at] = place;
        drop(state);
        LevelTurns { turns: turns.clone(), at }
    }

    /// Whether requests have arrived that the runtime has not begun to work on.
    pub fn has_backlog(&self) -> bool {
        self.turns.unstarted.load(Ordering::Relaxed) > self.turns.bounds.start() * UNSTARTED_PER_TURN
    }

    /// Takes a turn for a level with so many seats. If none is free, [`Queues::dispatch`](crate::queues::Queues::dispatch) is
    /// called when it is this level's turn.
    pub fn take(&self, seats: u64) -> bool {
        let mut state = self.turns.state.lock();
        let State { taken, clock, levels, .. } = &mut *state;
        let Some(place) = levels.get_mut(self.at).and_then(Option::as_mut) else { return false };
        if *taken >= self.turns.turns() {
            place.waits = true;
            return false;
        }
        *taken += 1;
        *clock = place.next.max(*clock);
        place.next = *clock + TURN_OF_ONE_SEAT / seats.clamp(1, TURN_OF_ONE_SEAT);
        true
    }
}

impl Drop for LevelTurns {
    fn drop(&mut self) {
        if let Some(place) = self.turns.state.lock().levels.get_mut(self.at) {
            *place = None;
        }
    }
}
