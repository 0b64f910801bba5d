//! [`Flow`]: classifies requests and hands out seats.

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use arc_swap::ArcSwap;
use metrics::Histogram;
use object::{Clock, Str, SystemClock, Value};
use parking_lot::Mutex;
use request::{RequestInfo, User, Verb};
use tokio::time::Instant;

use crate::by_kind::{CountedRequest, UncountedRequest};
use crate::configuration::{CATCH_ALL, EXEMPT, FlowSchema, PriorityLevel, Response};
use crate::dropped::Dropped;
use crate::estimate::{self, ListOptions, ObjectStats, Work};
use crate::level::Level;
use crate::limits;
use crate::numbers::{FlowNumbers, Numbers};
use crate::queues::{Arrival, Arriving, Ticket};
use crate::shuffle::hash_flow;
use crate::turns::{Turns, Unstarted};
use crate::watches::Watches;

/// Bounds of the turns for each CPU.
const TURNS_PER_CPU: RangeInclusive<usize> = 4..=64;
/// How often limits are adjusted to demand.
pub const ADJUSTMENT_PERIOD: Duration = Duration::from_secs(10);

#[derive(Clone, Copy, Debug)]
pub struct FlowSettings {
    /// The seats of all levels together: the sum of both in-flight limits.
    pub seats: usize,
}

/// API Priority and Fairness.
pub struct Flow {
    settings: FlowSettings,
    configuration: ArcSwap<FlowConfiguration>,
    /// Held while the configuration or the limits change.
    changing: Mutex<()>,
    pub watches: Watches,
    dropped: Dropped,
    turns: Arc<Turns>,
    pub(crate) numbers: Numbers,
}

/// Schemas in matching order, and all levels by name.
#[derive(Default)]
pub(crate) struct FlowConfiguration {
    routes: Vec<Arc<Route>>,
    pub levels: Vec<Arc<Level>>,
}

/// A schema and the level it leads to, with everything about them that a request needs.
struct Route {
    schema: FlowSchema,
    level: Arc<Level>,
    response: Response,
    admission: Arc<Admission>,
    numbers: FlowNumbers,
}

/// How a request was classified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Admission {
    pub schema: Str,
    pub schema_uid: Str,
    pub level: Str,
    pub level_uid: Str,
}

/// A request that got no seat: 429.
#[derive(Debug)]
pub struct Rejected {
    pub admission: Arc<Admission>,
    pub retry_after: i64,
}

/// The seats of a request, given back when dropped.
pub struct Seats {
    route: Arc<Route>,
    ticket: Option<Ticket>,
    verb: Verb,
    running: CountedRequest,
}

/// A request whose work is to be estimated.
pub struct WorkRequest<'a> {
    /// The most seats that one request of its level may have.
    seats_max: u64,
    watchers: &'a Histogram,
}

impl Seats {
    pub fn admission(&self) -> &Arc<Admission> {
        &self.route.admission
    }

    /// How many seats the request has.
    pub fn width(&self) -> u64 {
        self.ticket.as_ref().map_or(0, |ticket| ticket.work.initial_seats)
    }

    /// Whether the request waited in a queue and must say when it has run.
    pub fn has_turn(&self) -> bool {
        self.ticket.as_ref().is_some_and(|ticket| ticket.has_turn)
    }

    /// To be called when the request has run, to its end or until it had to wait for something.
    pub fn end_turn(&mut self) {
        if let Some(ticket) = self.ticket.as_mut().filter(|ticket| ticket.has_turn) {
            ticket.has_turn = false;
            self.route.level.change(|queues, _| queues.end_turn(ticket));
        }
    }

    /// Gives the seats back while the server waits for the client; [`Away::take_again`] takes them again.
    pub fn give_back(mut self) -> Option<Away> {
        let mut ticket = self.ticket.take()?;
        let (work, distinguisher) = (ticket.work, ticket.distinguisher.clone());
        // The work of serving watchers comes with the write, which has not happened yet.
        ticket.work.additional_latency = Duration::ZERO;
        self.route.level.finish(ticket);
        let (route, running) = (self.route.clone(), self.running.again());
        Some(Away { route, work, distinguisher, verb: self.verb, running })
    }
}

/// A request that was admitted and has given its seats back for a while.
pub struct Away {
    route: Arc<Route>,
    work: Work,
    distinguisher: Str,
    verb: Verb,
    running: UncountedRequest,
}

/// How long a returning request waits before it tries a full level again.
const RETURN_PAUSE: Duration = Duration::from_millis(50);

impl Away {
    /// Waits for seats for as long as it takes: the request was admitted once and is not refused later.
    pub async fn take_again(self) -> Seats {
        let Route { schema, level, numbers, .. } = &*self.route;
        let hash = hash_flow(&schema.name, &self.distinguisher);
        let (distinguisher, work) = (self.distinguisher.as_str(), self.work);
        let lengths = &*numbers.queue_lengths;
        let arriving = Arriving { schema: &schema.name, distinguisher, hash, work, takes_turns: false, lengths };
        let ticket = loop {
            match level.arrive(arriving) {
                Arrival::Starts(ticket) => break ticket,
                Arrival::Waits(ticket, woken) => {
                    let waiting = Waiting { level: level.clone(), ticket: Some(ticket) };
                    if let Ok(ticket) = waiting.wait(woken, Instant::now() + ADJUSTMENT_PERIOD).await {
                        break ticket;
                    }
                }
                Arrival::Refused(_) => tokio::time::sleep(RETURN_PAUSE).await,
            }
        };
        let running = self.running.count();
        let mut seats = Seats { route: self.route.clone(), ticket: Some(ticket), verb: self.verb, running };
        seats.end_turn();
        seats
    }
}

impl Flow {
    /// Starts with the mandatory schemas and levels only.
    pub fn new(settings: FlowSettings) -> Flow {
        let cpus = std::thread::available_parallelism().map_or(1, usize::from);
        Flow::with_turns(settings, cpus * TURNS_PER_CPU.start()..=cpus * TURNS_PER_CPU.end())
    }

    fn with_turns(settings: FlowSettings, turns: RangeInclusive<usize>) -> Flow {
        let flow = Flow {
            settings,
            turns: Turns::new(turns),
            configuration: ArcSwap::default(),
            changing: Mutex::new(()),
            watches: Watches::default(),
            dropped: Dropped::default(),
            numbers: Numbers::default(),
        };
        flow.configure(&[], &[]);
        flow
    }

    /// The schema and the level that a request would get.
    pub fn classify(&self, info: &RequestInfo, user: &User) -> Arc<Admission> {
        self.configuration.load().classify(info, user).admission.clone()
    }

    /// Waits until the request may run, at most until `deadline`. `work` tells how many seats it needs.
    pub async fn admit(
        &self,
        info: &RequestInfo,
        user: &User,
        deadline: Instant,
        work: impl FnOnce(&WorkRequest<'_>) -> Work,
    ) -> Result<Seats, Rejected> {
        let route = self.configuration.load().classify(info, user).clone();
        let Route { schema, level, numbers, .. } = &*route;
        let is_sharded = matches!(route.response, Response::Queue { queues, .. } if queues > 1);
        let distinguisher = if is_sharded { schema.distinguish(info, user) } else { "" };
        let hash = if is_sharded { hash_flow(&schema.name, distinguisher) } else { 0 };
        let work = work(&WorkRequest { seats_max: level.seats_max(), watchers: &numbers.watchers });
        route.numbers.estimated_seats.observe(work.max_seats() as f64);
        let began = Instant::now();
        // Watches run for long, and it takes little to begin one.
        let takes_turns = info.verb != Verb::Watch;
        let lengths = &*numbers.queue_lengths;
        let arriving = Arriving { schema: &schema.name, distinguisher, hash, work, takes_turns, lengths };
        let ticket = match level.arrive(arriving) {
            Arrival::Starts(ticket) => Ok(ticket),
            Arrival::Refused(reason) => Err(reason),
            Arrival::Waits(ticket, woken) => {
                let waiting = Waiting { level: level.clone(), ticket: Some(ticket) };
                let _counted = self.numbers.kinds.waits(info.verb);
                Box::pin(waiting.wait(woken, deadline)).await
            }
        };
        if route.response != Response::Exempt {
            route.numbers.waited(ticket.is_ok(), began.elapsed());
        }
        match ticket {
            Ok(ticket) => {
                route.numbers.dispatched.increment();
                let running = self.numbers.kinds.runs(info.verb);
                let seats = Seats { route, ticket: Some(ticket), verb: info.verb, running };
                if seats.has_turn() {
                    // Requests that have just arrived get into their queues before this one runs.
                    let began = Instant::now();
                    tokio::task::yield_now().await;
                    self.turns.waited(began.elapsed());
                }
                Ok(seats)
            }
            Err(reason) => {
                self.numbers.rejected(&level.name, &schema.name, reason);
                let retry_after = self.dropped.record(&level.name, SystemClock.now().secs);
                Err(Rejected { admission: route.admission.clone(), retry_after })
            }
        }
    }

    /// Counts a request whose task is spawned; what is returned is to be dropped when the task runs.
    pub fn spawned(&self) -> Unstarted {
        Unstarted::new(&self.turns)
    }

    /// The seats a request needs; `list` is called for lists and watches only.
    pub fn work<'a>(
        &self,
        info: &RequestInfo,
        asked: &WorkRequest<'_>,
        list: impl FnOnce() -> (ListOptions<'a>, Option<ObjectStats>),
    ) -> Work {
        match info.verb {
            Verb::List | Verb::Watch if info.is_resource => {
                let (options, stats) = list();
                estimate::list(info, &options, stats, asked.seats_max)
            }
            Verb::Create | Verb::Update | Verb::Patch | Verb::Delete if info.is_resource => {
                let watchers = self.watches.interested(info);
                asked.watchers.observe(watchers as f64);
                estimate::write(info, watchers, asked.seats_max)
            }
            _ => Work::ONE,
        }
    }

    /// Takes over all FlowSchemas and PriorityLevelConfigurations. Levels that are no longer wanted stay until their last
    /// request has ended.
    pub fn configure(&self, schemas: &[Value], levels: &[Value]) {
        let _changing = self.changing.lock();
        let now = Instant::now();
        let old = self.configuration.load_full();
        let mut wanted: Vec<PriorityLevel> = levels.iter().filter_map(PriorityLevel::read).collect();
        for mandatory in [PriorityLevel::mandatory_exempt(), PriorityLevel::mandatory_catch_all()] {
            if !wanted.iter().any(|level| level.name == mandatory.name) {
                wanted.push(mandatory);
            }
        }
        let mut kept: Vec<Arc<Level>> = wanted.into_iter().map(|level| self.level(&old, level, now)).collect();
        let routes = self.routes(schemas, &kept);
        for level in &old.levels {
            if kept.iter().any(|other| other.name == level.name) {
                continue;
            }
            match level.is_idle() {
                true => self.forget(&level.name),
                false => {
                    level.quiescing.store(true, Ordering::Relaxed);
                    kept.push(level.clone());
                }
            }
        }
        kept.sort_by(|a, b| a.name.cmp(&b.name));
        self.share(&kept);
        self.divide(&kept, now);
        self.configuration.store(Arc::new(FlowConfiguration { routes, levels: kept }));
    }

    /// The level of that name as it was, with its requests, under its new configuration.
    fn level(&self, old: &FlowConfiguration, configured: PriorityLevel, now: Instant) -> Arc<Level> {
        match old.levels.iter().find(|level| level.name == configured.name) {
            Some(level) => {
                level.quiescing.store(false, Ordering::Relaxed);
                level.state.lock().configuration = configured;
                level.clone()
            }
            None => Level::new(configured, &self.numbers, &self.turns, now),
        }
    }

    fn forget(&self, level: &str) {
        self.dropped.forget(level);
        self.numbers.forget(level);
    }

    /// The schemas whose level exists, in matching order, with the mandatory ones at their places.
    fn routes(&self, schemas: &[Value], levels: &[Arc<Level>]) -> Vec<Arc<Route>> {
        let mut schemas: Vec<FlowSchema> = schemas.iter().map(FlowSchema::read).collect();
        schemas.retain(|schema| levels.iter().any(|level| level.name == schema.level));
        schemas.sort_by(|a, b| a.precedence.cmp(&b.precedence).then_with(|| a.name.cmp(&b.name)));
        if !schemas.iter().any(|schema| schema.name == EXEMPT) {
            schemas.insert(0, FlowSchema::mandatory_exempt());
        }
        if !schemas.iter().any(|schema| schema.name == CATCH_ALL) {
            schemas.push(FlowSchema::mandatory_catch_all());
        }
        let route = |schema: FlowSchema| {
            let level = levels.iter().find(|level| level.name == schema.level)?.clone();
            let (response, level_uid) = {
                let state = level.state.lock();
                (state.configuration.response, state.configuration.uid.clone())
            };
            let admission = Arc::new(Admission {
                schema: schema.name.clone(),
                schema_uid: schema.uid.clone(),
                level: level.name.clone(),
                level_uid,
            });
            let numbers = self.numbers.flow(&level.name, &schema.name);
            Some(Arc::new(Route { schema, level, response, admission, numbers }))
        };
        schemas.into_iter().filter_map(route).collect()
    }

    /// Moves seats from levels that do not use them to levels that need them, and removes unwanted levels that have become
    /// idle; to be called every [`ADJUSTMENT_PERIOD`].
    pub fn adjust(&self) {
        let _changing = self.changing.lock();
        let configuration = self.configuration.load_full();
        let is_over = |level: &Arc<Level>| level.quiescing.load(Ordering::Relaxed) && level.is_idle();
        let (over, levels): (Vec<_>, Vec<_>) = configuration.levels.iter().cloned().partition(is_over);
        if !over.is_empty() {
            over.iter().for_each(|level| self.forget(&level.name));
            self.share(&levels);
            let routes = configuration.routes.clone();
            self.configuration.store(Arc::new(FlowConfiguration { routes, levels: levels.clone() }));
        }
        self.divide(&levels, Instant::now());
    }

    /// Sets the bounds of all levels by their shares.
    fn share(&self, levels: &[Arc<Level>]) {
        let shares: f64 = levels.iter().map(|level| level.state.lock().configuration.shares).sum();
        for level in levels {
            level.set_bounds(self.settings.seats, shares);
        }
    }

    fn divide(&self, levels: &[Arc<Level>], now: Instant) {
        let claims: Vec<limits::Claim> = levels.iter().map(|level| level.claim(now)).collect();
        let division = limits::divide(&claims);
        for (n, level) in levels.iter().enumerate() {
            let limit = division.as_ref().map(|division| division.limits[n]);
            level.set_limit(limit, division.as_ref().map_or(0.0, |division| division.targets[n]));
        }
        if let Some(division) = division {
            self.numbers.set_fair_fraction(division.fair_fraction);
        }
    }

    pub(crate) fn snapshot(&self) -> Arc<FlowConfiguration> {
        self.configuration.load_full()
    }

    /// Writes the metrics of priority and fairness.
    pub fn write_metrics(&self, out: &mut String) -> std::fmt::Result {
        self.numbers.set_current(&self.snapshot().levels);
        self.numbers.write(out)
    }
}

impl FlowConfiguration {
    /// The first schema that matches; catch-all takes every request that no other does.
    fn classify(&self, info: &RequestInfo, user: &User) -> &Arc<Route> {
        let matching = self.routes.iter().find(|route| route.schema.matches(info, user));
        let catch_all = || self.routes.iter().find(|route| route.schema.name == CATCH_ALL);
        matching.or_else(catch_all).unwrap_or_else(|| &self.routes[self.routes.len() - 1])
    }
}

/// A request in a queue. If its client goes away, it leaves the queue.
struct Waiting {
    level: Arc<Level>,
    ticket: Option<Ticket>,
}

impl Waiting {
    async fn wait(
        mut self,
        mut woken: tokio::sync::oneshot::Receiver<Ticket>,
        deadline: Instant,
    ) -> Result<Ticket, &'static str> {
        let outcome = tokio::time::timeout_at(deadline, &mut woken).await;
        let Some(ticket) = self.ticket.take() else { return Err("cancelled") };
        if let Ok(Ok(started)) = outcome {
            return Ok(started);
        }
        if self.level.change(|queues, now| queues.cancel(&ticket, true, now)) {
            return Err("time-out");
        }
        // It was started in the very moment in which the time was up.
        woken.try_recv().map_err(|_| "time-out")
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let Some(ticket) = self.ticket.take() else { return };
        if !self.level.change(|queues, now| queues.cancel(&ticket, false, now)) {
            // Its seats were given to it already, although it is gone.
            self.level.finish(ticket);
        }
    }
}

impl Drop for Seats {
    fn drop(&mut self) {
        let Some(ticket) = self.ticket.take() else { return };
        if let Some(started) = ticket.started {
            self.route.numbers.executed(self.verb == Verb::Watch, started.elapsed());
        }
        self.route.level.finish(ticket);
    }
}

#[cfg(test)]
mod tests;
#[cfg(test)]
mod turns_tests;
