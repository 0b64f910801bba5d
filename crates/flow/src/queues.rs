//! The queues of one priority level: fair queuing by virtual time.
//!
//! Every queue has a reading of the meter R, the seat-seconds that each active queue has been given so far. The queue
//! whose oldest request would finish first by that meter is served next. All methods take the time, so that they can be
//! tested without waiting.

use std::collections::VecDeque;
use std::time::Duration;

use metrics::Histogram;
use object::Str;
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::estimate::Work;
use crate::shuffle::Dealer;
use crate::turns::LevelTurns;

/// How long a request is assumed to run until it has finished.
const ESTIMATED_SERVICE: Duration = Duration::from_millis(3);

/// Seats times nanoseconds.
pub type SeatTime = i128;

fn seat_time(seats: u64, duration: Duration) -> SeatTime {
    i128::from(seats) * duration.as_nanos() as i128
}

/// A request as its level knows it.
#[derive(Clone, Debug)]
pub struct Ticket {
    pub id: u64,
    pub schema: Str,
    pub distinguisher: Str,
    pub work: Work,
    pub arrived: Instant,
    pub started: Option<Instant>,
    /// The queue it came through; None for requests that never wait.
    queue: Option<u64>,
    arrival_r: SeatTime,
    /// Whether it was started with a turn, which [`Queues::end_turn`] gives back.
    pub has_turn: bool,
}

impl Ticket {
    fn seats(&self) -> u64 {
        self.work.max_seats()
    }

    fn total_work(&self) -> SeatTime {
        seat_time(self.work.initial_seats, ESTIMATED_SERVICE)
            + seat_time(self.work.final_seats, self.work.additional_latency)
    }
}

/// A request in a queue and the channel on which it waits for its seats.
struct Waiting {
    ticket: Ticket,
    wake: oneshot::Sender<Ticket>,
}

struct Queue {
    id: u64,
    waiting: VecDeque<Waiting>,
    executing: usize,
    seats_in_use: u64,
    /// The reading of R at which the next request of this queue is dispatched.
    next_dispatch_r: SeatTime,
    sums: Sums,
}

/// Sums over the waiting requests of a queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sums {
    pub initial_seats: u64,
    pub max_seats: u64,
    pub total_work: SeatTime,
}

impl Queue {
    fn new(id: u64) -> Queue {
        let (waiting, sums) = (VecDeque::new(), Sums::default());
        Queue { id, waiting, executing: 0, seats_in_use: 0, next_dispatch_r: 0, sums }
    }

    fn is_active(&self) -> bool {
        self.executing > 0 || !self.waiting.is_empty()
    }

    fn push(&mut self, waiting: Waiting) {
        self.sums.initial_seats += waiting.ticket.work.initial_seats;
        self.sums.max_seats += waiting.ticket.seats();
        self.sums.total_work += waiting.ticket.total_work();
        self.waiting.push_back(waiting);
    }

    fn remove(&mut self, at: usize) -> Option<Waiting> {
        let waiting = self.waiting.remove(at)?;
        self.sums.initial_seats -= waiting.ticket.work.initial_seats;
        self.sums.max_seats -= waiting.ticket.seats();
        self.sums.total_work -= waiting.ticket.total_work();
        Some(waiting)
    }

    /// A queue that was idle must not be dispatched before its oldest request arrived.
    fn bound_next_dispatch(&mut self) {
        if let Some(oldest) = self.waiting.front() {
            self.next_dispatch_r = self.next_dispatch_r.max(oldest.ticket.arrival_r);
        }
    }
}

/// How a level treats requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Discipline {
    Exempt,
    Reject,
    Queue { dealer: Dealer, queues: usize, length_limit: usize },
}

/// The outcome for a request that has just arrived.
pub enum Arrival {
    Starts(Ticket),
    Waits(Ticket, oneshot::Receiver<Ticket>),
    /// Refused, for the reason that upstream's metric has.
    Refused(&'static str),
}

/// A request as it arrives.
#[derive(Clone, Copy)]
pub struct Arriving<'a> {
    pub schema: &'a Str,
    pub distinguisher: &'a str,
    /// Of schema and distinguisher.
    pub hash: u64,
    pub work: Work,
    /// Whether it waits for a turn while there is a backlog.
    pub takes_turns: bool,
    /// Observes the length of the queue that it gets into.
    pub lengths: &'a Histogram,
}

/// All requests of one level.
pub struct Queues {
    turns: LevelTurns,
    /// Turns that have ended and were not given back yet, see [`Queues::ended_turns`].
    ended_turns: usize,
    /// Whether the next request has seats and waits for a turn only.
    waits_for_turn: bool,
    /// The seats of running requests that hold a turn.
    seats_with_turn: u64,
    discipline: Discipline,
    limit: u64,
    queues: Vec<Queue>,
    /// Requests that run without having been in a queue; only counted, and listed for debugging.
    queueless: hashbrown::HashMap<u64, Ticket>,
    executing: hashbrown::HashMap<u64, Ticket>,
    current_r: SeatTime,
    synced: Instant,
    /// Queues in which requests wait or from which requests run.
    active: usize,
    robin: usize,
    enqueued: usize,
    next_id: u64,
    pub waiting: usize,
    pub seats_in_use: u64,
    pub seats_waiting: u64,
    pub totals: Totals,
}

/// Requests by how they ended, since the level was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    pub dispatched: u64,
    pub rejected: u64,
    pub timed_out: u64,
    pub cancelled: u64,
}

impl Queues {
    pub fn new(turns: LevelTurns, now: Instant) -> Queues {
        Queues {
            turns,
            ended_turns: 0,
            waits_for_turn: false,
            seats_with_turn: 0,
            discipline: Discipline::Reject,
            limit: 0,
            queues: Vec::new(),
            queueless: Default::default(),
            executing: Default::default(),
            current_r: 0,
            synced: now,
            active: 0,
            robin: 0,
            enqueued: 0,
            next_id: 0,
            waiting: 0,
            seats_in_use: 0,
            seats_waiting: 0,
            totals: Totals::default(),
        }
    }

    /// Changes discipline and limit. Queues are added at once; those that are too many go when they are empty.
    pub fn configure(&mut self, discipline: Discipline, limit: u64, now: Instant) {
        self.sync(now);
        self.discipline = discipline;
        self.limit = limit;
        if let Discipline::Queue { queues, .. } = discipline {
            while self.queues.len() < queues {
                let id = self.id();
                self.queues.push(Queue::new(id));
            }
        }
        self.dispatch(now);
    }

    pub fn is_idle(&self) -> bool {
        self.waiting == 0 && self.executing.is_empty() && self.queueless.is_empty()
    }

    pub fn executing(&self) -> usize {
        self.executing.len() + self.queueless.len()
    }

    /// How many queues have requests that wait.
    pub fn active(&self) -> usize {
        self.queues.iter().filter(|queue| !queue.waiting.is_empty()).count()
    }

    pub fn demand(&self) -> f64 {
        (self.seats_in_use + self.seats_waiting) as f64
    }

    /// A request arrives: it starts, waits, or is refused.
    pub fn arrive(&mut self, arriving: Arriving<'_>, now: Instant) -> Arrival {
        self.sync(now);
        let Arriving { hash, work, takes_turns, lengths, .. } = arriving;
        let (dealer, length_limit) = match self.discipline {
            Discipline::Queue { dealer, length_limit, .. } => (dealer, length_limit),
            _ if !self.has_room_for(work.max_seats()) => {
                self.totals.rejected += 1;
                return Arrival::Refused("concurrency-limit");
            }
            _ => return Arrival::Starts(self.start_without_queue(arriving, now)),
        };
        let at = self.pick(dealer, hash);
        // Requests that run without waiting for anything give their seats back in a moment.
        let seats_held = self.seats_in_use - self.seats_with_turn;
        if seats_held >= self.limit && self.queues[at].waiting.len() >= length_limit {
            self.totals.rejected += 1;
            return Arrival::Refused("queue-full");
        }
        lengths.observe((self.queues[at].waiting.len() + 1) as f64);
        let mut ticket = Ticket { queue: Some(self.queues[at].id), ..self.ticket(arriving, now) };
        self.bring_up_to_date(at);
        let is_next = match takes_turns {
            true => self.waiting == 0 && !self.turns.has_backlog(),
            false => self.waiting == 0 || self.waits_for_turn,
        };
        if is_next && self.seats_in_use < self.limit && self.has_room_for(ticket.seats()) {
            let queue = &mut self.queues[at];
            queue.next_dispatch_r = queue.next_dispatch_r.max(ticket.arrival_r);
            self.prepare_start(&mut ticket, now);
            self.occupy(at, &ticket);
            return Arrival::Starts(ticket);
        }
        let (wake, mut woken) = oneshot::channel();
        self.enqueue(at, Waiting { ticket: ticket.clone(), wake });
        self.dispatch(now);
        match woken.try_recv() {
            Ok(ticket) => Arrival::Starts(ticket),
            Err(_) => Arrival::Waits(ticket, woken),
        }
    }

    /// A queue that gets a request after it was idle has not fallen behind in the meantime.
    fn bring_up_to_date(&mut self, at: usize) {
        let queue = &mut self.queues[at];
        if !queue.is_active() {
            queue.next_dispatch_r = self.current_r;
        }
    }

    /// Changes a queue and keeps the number of active ones right.
    fn change<T>(&mut self, at: usize, change: impl FnOnce(&mut Queue) -> T) -> T {
        let queue = &mut self.queues[at];
        let was_active = queue.is_active();
        let result = change(queue);
        match (was_active, queue.is_active()) {
            (false, true) => self.active += 1,
            (true, false) => self.active -= 1,
            _ => {}
        }
        result
    }

    fn ticket(&mut self, arriving: Arriving<'_>, now: Instant) -> Ticket {
        Ticket {
            id: self.id(),
            schema: arriving.schema.clone(),
            distinguisher: arriving.distinguisher.into(),
            work: arriving.work,
            arrived: now,
            started: None,
            queue: None,
            arrival_r: self.current_r,
            has_turn: false,
        }
    }

    fn start_without_queue(&mut self, arriving: Arriving<'_>, now: Instant) -> Ticket {
        let ticket = Ticket { started: Some(now), ..self.ticket(arriving, now) };
        self.seats_in_use += ticket.seats();
        self.totals.dispatched += 1;
        self.queueless.insert(ticket.id, ticket.clone());
        ticket
    }

    fn id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id
    }

    /// The queue of the flow's hand that has the least work waiting. The search starts at another card each time, so that
    /// flows whose hands overlap do not favour the same queue.
    fn pick(&mut self, dealer: Dealer, hash: u64) -> usize {
        let hand: smallvec::SmallVec<[usize; 16]> = dealer.deal(hash).collect();
        let offset = self.enqueued % hand.len();
        self.enqueued = self.enqueued.wrapping_add(1);
        let turned = hand[offset..].iter().chain(&hand[..offset]);
        turned.copied().min_by_key(|at| self.queues[*at].sums.total_work).unwrap_or(0)
    }

    fn enqueue(&mut self, at: usize, waiting: Waiting) {
        self.waiting += 1;
        self.seats_waiting += waiting.ticket.seats();
        self.change(at, |queue| queue.push(waiting));
        self.queues[at].bound_next_dispatch();
    }

    fn has_room_for(&self, seats: u64) -> bool {
        match self.discipline {
            Discipline::Exempt => true,
            // A request that is wider than the limit runs alone.
            _ if seats > self.limit => self.executing() == 0,
            _ => self.seats_in_use + seats <= self.limit,
        }
    }

    /// Starts waiting requests for as long as there are seats and turns.
    pub fn dispatch(&mut self, now: Instant) {
        self.waits_for_turn = false;
        let mut has_turn = false;
        while self.waiting > 0 && self.seats_in_use < self.limit {
            let Some(at) = self.next_queue() else { break };
            has_turn = has_turn || self.turns.take(self.limit);
            if !has_turn {
                self.waits_for_turn = true;
                break;
            }
            let Some(Waiting { mut ticket, wake }) = self.change(at, |queue| queue.remove(0)) else { break };
            self.waiting -= 1;
            self.seats_waiting -= ticket.seats();
            self.prepare_start(&mut ticket, now);
            ticket.has_turn = true;
            // A client that has gone away in the meantime does not get seats.
            if wake.send(ticket.clone()).is_ok() {
                self.occupy(at, &ticket);
                has_turn = false;
            }
            self.queues[at].bound_next_dispatch();
        }
        self.ended_turns += usize::from(has_turn);
    }

    /// A running request has finished or waits for something else than the CPU.
    pub fn end_turn(&mut self, ticket: &Ticket) {
        let Some(running) = self.executing.get_mut(&ticket.id).filter(|running| running.has_turn) else { return };
        running.has_turn = false;
        self.seats_with_turn -= running.seats();
        self.ended_turns += 1;
    }

    /// Turns that have ended since the last call. They are given back when the level is not locked any more, because others may
    /// be dispatched then.
    pub fn ended_turns(&mut self) -> usize {
        std::mem::take(&mut self.ended_turns)
    }

    /// Gives a request of a queue its seats.
    fn occupy(&mut self, at: usize, ticket: &Ticket) {
        self.robin = at;
        self.change(at, |queue| {
            queue.executing += 1;
            queue.seats_in_use += ticket.seats();
            queue.next_dispatch_r += ticket.total_work();
        });
        self.seats_in_use += ticket.seats();
        if ticket.has_turn {
            self.seats_with_turn += ticket.seats();
        }
        self.totals.dispatched += 1;
        self.executing.insert(ticket.id, ticket.clone());
    }

    /// Final seats beyond the limit become more time with fewer seats: the work stays the same.
    fn prepare_start(&self, ticket: &mut Ticket, now: Instant) {
        ticket.started = Some(now);
        let work = &mut ticket.work;
        if work.final_seats > self.limit && self.limit > 0 {
            work.additional_latency = work.additional_latency.mul_f64(work.final_seats as f64 / self.limit as f64);
            work.final_seats = self.limit;
        }
    }

    /// The queue whose oldest request finishes first in virtual time, if that request can start now.
    fn next_queue(&self) -> Option<usize> {
        let count = self.queues.len();
        let mut best: Option<(SeatTime, usize)> = None;
        for step in 1..=count {
            let at = (self.robin + step) % count;
            let queue = &self.queues[at];
            let Some(oldest) = queue.waiting.front() else { continue };
            let finish = queue.next_dispatch_r + oldest.ticket.total_work();
            if best.is_none_or(|(earliest, _)| finish < earliest) {
                best = Some((finish, at));
            }
        }
        let (_, at) = best?;
        let seats = self.queues[at].waiting.front()?.ticket.seats();
        self.has_room_for(seats).then_some(at)
    }

    /// A waiting request gives up. False if it was started in the meantime.
    pub fn cancel(&mut self, ticket: &Ticket, timed_out: bool, now: Instant) -> bool {
        self.sync(now);
        let Some(at) = self.queue_at(ticket) else { return false };
        let mut waiting = self.queues[at].waiting.iter();
        let Some(place) = waiting.position(|waiting| waiting.ticket.id == ticket.id) else { return false };
        self.change(at, |queue| queue.remove(place));
        self.queues[at].bound_next_dispatch();
        self.waiting -= 1;
        self.seats_waiting -= ticket.seats();
        self.totals.rejected += 1;
        match timed_out {
            true => self.totals.timed_out += 1,
            false => self.totals.cancelled += 1,
        }
        true
    }

    /// A request has been answered. True if its seats stay occupied for its additional latency; then call
    /// [`Queues::release`] when that has passed.
    pub fn finish(&mut self, ticket: &Ticket, now: Instant) -> bool {
        self.sync(now);
        self.end_turn(ticket);
        let at = self.queue_at(ticket);
        match at {
            Some(_) => self.executing.remove(&ticket.id),
            None => self.queueless.remove(&ticket.id),
        };
        if let Some(at) = at {
            self.change(at, |queue| queue.executing -= 1);
            let queue = &mut self.queues[at];
            // The meter was advanced by the estimate when the request started; correct it by what it really took.
            let actual = ticket.started.map_or(Duration::ZERO, |started| now.saturating_duration_since(started));
            let seats = ticket.work.initial_seats;
            queue.next_dispatch_r += seat_time(seats, actual) - seat_time(seats, ESTIMATED_SERVICE);
            queue.bound_next_dispatch();
        }
        let lingers = !ticket.work.additional_latency.is_zero();
        if !lingers {
            self.vacate(ticket);
        }
        self.dispatch(now);
        lingers
    }

    /// Gives the seats of a finished request back, after its additional latency.
    pub fn release(&mut self, ticket: &Ticket, now: Instant) {
        self.sync(now);
        self.vacate(ticket);
        self.dispatch(now);
    }

    fn vacate(&mut self, ticket: &Ticket) {
        self.seats_in_use -= ticket.seats();
        if let Some(at) = self.queue_at(ticket) {
            self.queues[at].seats_in_use -= ticket.seats();
            self.remove_if_surplus(at);
        }
    }

    fn remove_if_surplus(&mut self, at: usize) {
        let wanted = match self.discipline {
            Discipline::Queue { queues, .. } => queues,
            _ => 0,
        };
        let queue = &self.queues[at];
        if self.queues.len() > wanted && !queue.is_active() && queue.seats_in_use == 0 {
            self.queues.remove(at);
            if self.robin >= at {
                self.robin = self.robin.saturating_sub(1);
            }
        }
    }

    /// Where the ticket's queue is: queues move when others before them are removed.
    fn queue_at(&self, ticket: &Ticket) -> Option<usize> {
        let id = ticket.queue?;
        self.queues.binary_search_by_key(&id, |queue| queue.id).ok()
    }

    /// Advances the meter by the time since it was last read, at the rate at which each active queue is served.
    fn sync(&mut self, now: Instant) {
        let elapsed = now.saturating_duration_since(self.synced);
        self.synced = now;
        if self.active > 0 {
            let seats = match self.waits_for_turn {
                true => self.seats_in_use,
                false => self.seats_in_use + self.seats_waiting,
            };
            self.current_r += seat_time(seats.min(self.limit), elapsed) / self.active as i128;
        }
    }

    /// Each queue with its waiting and running requests, for the debugging pages; queueless requests come last.
    pub fn dump(&self) -> Vec<Dumped> {
        let of = |queue: &Queue| Dumped {
            queue: true,
            waiting: queue.waiting.iter().map(|waiting| waiting.ticket.clone()).collect(),
            executing: self.executing.values().filter(|ticket| ticket.queue == Some(queue.id)).cloned().collect(),
            seats_in_use: queue.seats_in_use,
            next_dispatch_r: queue.next_dispatch_r,
            sums: queue.sums,
        };
        let mut dumped: Vec<Dumped> = self.queues.iter().map(of).collect();
        if !self.queueless.is_empty() {
            let executing = self.queueless.values().cloned().collect();
            dumped.push(Dumped { executing, ..Dumped::default() });
        }
        dumped
    }
}

/// One queue as the debugging pages show it.
#[derive(Default)]
pub struct Dumped {
    /// False for the requests that run without a queue.
    pub queue: bool,
    pub waiting: Vec<Ticket>,
    pub executing: Vec<Ticket>,
    pub seats_in_use: u64,
    pub next_dispatch_r: SeatTime,
    pub sums: Sums,
}

#[cfg(test)]
mod tests;
