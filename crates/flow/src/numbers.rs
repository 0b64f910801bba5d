//! The metrics of priority and fairness, under upstream's names.

use std::sync::Arc;
use std::time::Duration;

use hashbrown::HashMap;
use metrics::{Counter, Family, Gauge, Histogram};
use object::Str;

use crate::by_kind::RequestKinds;
use crate::demand::Demand;
use crate::level::Level;
use crate::limits::Bounds;
use crate::queues::Ticket;

const SECONDS: &[f64] = &[0.0, 0.005, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 15.0, 30.0];
const SEATS: &[f64] = &[1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 100.0];
const QUEUE_LENGTHS: &[f64] = &[0.0, 10.0, 25.0, 50.0, 100.0, 250.0, 500.0, 1000.0];
const WATCHERS: &[f64] = &[0.0, 1.0, 10.0, 100.0, 1000.0, 10000.0];
const DEMAND: &[f64] = &[0.2, 0.4, 0.6, 0.8, 1.0, 1.2, 1.4, 1.7, 2.0, 2.8, 4.0, 6.0];
/// Both 0.99 and 1, so that quantiles show saturation.
const SEAT_UTILIZATION: &[f64] = &[0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 1.0];
const REQUEST_UTILIZATION: &[f64] = &[0.0, 0.001, 0.003, 0.01, 0.03, 0.1, 0.25, 0.5, 0.75, 1.0];
const LEVEL: &[&str] = &["priority_level"];
const UTILIZATION: &[&str] = &["priority_level", "phase"];
const FLOW: &[&str] = &["priority_level", "flow_schema"];

macro_rules! gauges {
    ($($field:ident: $labels:ident, $help:literal;)*) => {
        /// Gauges by level, or by level and schema.
        struct Gauges { $($field: Family<Gauge>,)* }

        impl Default for Gauges {
            fn default() -> Gauges {
                Gauges { $($field: gauge(concat!("apiserver_flowcontrol_", stringify!($field)), $help, $labels),)* }
            }
        }

        impl Gauges {
            fn all(&self) -> Vec<&Family<Gauge>> {
                vec![$(&self.$field,)*]
            }
        }
    };
}

gauges! {
    nominal_limit_seats: LEVEL, "Nominal seats of each priority level";
    lower_limit_seats: LEVEL, "Lower bound of the seats of each priority level";
    upper_limit_seats: LEVEL, "Upper bound of the seats of each priority level";
    current_limit_seats: LEVEL, "Seats of each priority level until the next adjustment";
    demand_seats_high_watermark: LEVEL, "Most seats asked for in the last adjustment period";
    demand_seats_average: LEVEL, "Average of the seats asked for in the last adjustment period";
    demand_seats_stdev: LEVEL, "Standard deviation of the seats asked for in the last adjustment period";
    demand_seats_smoothed: LEVEL, "Smoothed seats asked for";
    target_seats: LEVEL, "Seats that the last adjustment aimed at";
    current_inqueue_requests: FLOW, "Requests that wait in queues";
    current_inqueue_seats: FLOW, "Seats that requests in queues wait for";
    current_executing_requests: FLOW, "Requests that run; of watches those that are being initialised";
    current_executing_seats: FLOW, "Seats of requests that run; of watches those that are being initialised";
}

/// All metrics of priority and fairness.
pub struct Numbers {
    gauges: Gauges,
    fair_fraction: Family<Gauge>,
    rejected: Family<Counter>,
    dispatched: Family<Counter>,
    wait_seconds: Family<Histogram>,
    execution_seconds: Family<Histogram>,
    estimated_seats: Family<Histogram>,
    seat_utilization: Family<Histogram>,
    request_utilization: Family<Histogram>,
    demand: Family<Histogram>,
    queue_lengths: Family<Histogram>,
    watchers: Family<Histogram>,
    pub kinds: RequestKinds,
}

impl Default for Numbers {
    fn default() -> Numbers {
        let seconds: fn() -> Histogram = || Histogram::new(SECONDS);
        Numbers {
            gauges: Gauges::default(),
            fair_fraction: gauge(
                "apiserver_flowcontrol_seat_fair_frac",
                "Fair fraction of the targets that each priority level gets",
                &[],
            ),
            rejected: Family::new(
                "apiserver_flowcontrol_rejected_requests_total",
                "Requests refused",
                &["priority_level", "flow_schema", "reason"],
                Counter::default,
            ),
            dispatched: Family::new(
                "apiserver_flowcontrol_dispatched_requests_total",
                "Requests started",
                FLOW,
                Counter::default,
            ),
            wait_seconds: Family::new(
                "apiserver_flowcontrol_request_wait_duration_seconds",
                "Time that requests waited in their queue",
                &["priority_level", "flow_schema", "execute"],
                seconds,
            ),
            execution_seconds: Family::new(
                "apiserver_flowcontrol_request_execution_seconds",
                "Time that requests ran; of watches the time that their initialisation took",
                &["priority_level", "flow_schema", "type"],
                seconds,
            ),
            estimated_seats: Family::new(
                "apiserver_flowcontrol_work_estimated_seats",
                "Seats that requests were estimated to need",
                FLOW,
                || Histogram::new(SEATS),
            ),
            seat_utilization: Family::new(
                "apiserver_flowcontrol_priority_level_seat_utilization",
                "Observations, at the end of every nanosecond, of utilization of seats for any stage of execution (but only initial stage for WATCHes)",
                UTILIZATION,
                || Histogram::new(SEAT_UTILIZATION),
            ),
            request_utilization: Family::new(
                "apiserver_flowcontrol_priority_level_request_utilization",
                "Observations, at the end of every nanosecond, of number of requests (as a fraction of the relevant limit) waiting or in any stage of execution (but only initial stage for WATCHes)",
                UTILIZATION,
                || Histogram::new(REQUEST_UTILIZATION),
            ),
            demand: Family::new(
                "apiserver_flowcontrol_demand_seats",
                "Observations, at the end of every nanosecond, of (the number of seats each priority level could use) / (nominal number of seats for that level)",
                LEVEL,
                || Histogram::new(DEMAND),
            ),
            queue_lengths: Family::new(
                "apiserver_flowcontrol_request_queue_length_after_enqueue",
                "Length of a queue, as seen by each request after it is enqueued",
                FLOW,
                || Histogram::new(QUEUE_LENGTHS),
            ),
            watchers: Family::new(
                "apiserver_flowcontrol_watch_count_samples",
                "Watches that a write will be told to",
                FLOW,
                || Histogram::new(WATCHERS),
            ),
            kinds: RequestKinds::default(),
        }
    }
}

fn gauge(name: &'static str, help: &'static str, labels: &'static [&'static str]) -> Family<Gauge> {
    Family::new(name, help, labels, Gauge::default)
}

impl Numbers {
    pub fn level(&self, name: &str) -> LevelNumbers {
        let of = |family: &Family<Gauge>| family.with(&[name]);
        let gauges = &self.gauges;
        LevelNumbers {
            bounds: [of(&gauges.nominal_limit_seats), of(&gauges.lower_limit_seats), of(&gauges.upper_limit_seats)],
            demand: [
                of(&gauges.demand_seats_high_watermark),
                of(&gauges.demand_seats_average),
                of(&gauges.demand_seats_stdev),
                of(&gauges.demand_seats_smoothed),
                of(&gauges.target_seats),
                of(&gauges.current_limit_seats),
            ],
            utilization: UtilizationNumbers {
                seats: self.seat_utilization.with(&[name, "executing"]),
                executing: self.request_utilization.with(&[name, "executing"]),
                waiting: self.request_utilization.with(&[name, "waiting"]),
                demand: self.demand.with(&[name]),
            },
        }
    }

    pub fn flow(&self, level: &str, schema: &str) -> FlowNumbers {
        FlowNumbers {
            dispatched: self.dispatched.with(&[level, schema]),
            estimated_seats: self.estimated_seats.with(&[level, schema]),
            queue_lengths: self.queue_lengths.with(&[level, schema]),
            watchers: self.watchers.with(&[level, schema]),
            waited: ["false", "true"].map(|execute| self.wait_seconds.with(&[level, schema, execute])),
            executed: ["regular", "watch"].map(|kind| self.execution_seconds.with(&[level, schema, kind])),
        }
    }

    pub fn rejected(&self, level: &str, schema: &str, reason: &str) {
        self.rejected.with(&[level, schema, reason]).increment();
    }

    pub fn set_fair_fraction(&self, fraction: f64) {
        self.fair_fraction.with(&[]).set(fraction);
    }

    /// Counts the requests of all levels as they are now.
    pub fn set_current(&self, levels: &[Arc<Level>]) {
        let gauges = &self.gauges;
        for level in levels {
            level.change(|_, _| ());
            let dumped = level.state.lock().queues.dump();
            let (mut waiting, mut executing) = (HashMap::new(), HashMap::new());
            for queue in &dumped {
                count(&queue.waiting, &mut waiting);
                count(&queue.executing, &mut executing);
            }
            for (counts, requests, seats) in [
                (waiting, &gauges.current_inqueue_requests, &gauges.current_inqueue_seats),
                (executing, &gauges.current_executing_requests, &gauges.current_executing_seats),
            ] {
                requests.forget(&level.name);
                seats.forget(&level.name);
                for (schema, (number, width)) in counts {
                    requests.with(&[&level.name, schema]).set(number as f64);
                    seats.with(&[&level.name, schema]).set(width as f64);
                }
            }
        }
    }

    /// Drops the series of a level that is gone.
    pub fn forget(&self, level: &str) {
        self.gauges.all().into_iter().for_each(|family| family.forget(level));
        self.seat_utilization.forget(level);
        self.request_utilization.forget(level);
        self.demand.forget(level);
    }

    pub fn write(&self, out: &mut String) -> std::fmt::Result {
        self.gauges.all().into_iter().try_for_each(|family| family.write(out))?;
        self.fair_fraction.write(out)?;
        self.rejected.write(out)?;
        self.dispatched.write(out)?;
        self.wait_seconds.write(out)?;
        self.execution_seconds.write(out)?;
        self.estimated_seats.write(out)?;
        self.seat_utilization.write(out)?;
        self.request_utilization.write(out)?;
        self.demand.write(out)?;
        self.queue_lengths.write(out)?;
        self.watchers.write(out)?;
        self.kinds.write(out)
    }
}

fn count<'a>(tickets: &'a [Ticket], counts: &mut HashMap<&'a Str, (u64, u64)>) {
    for ticket in tickets {
        let (number, seats) = counts.entry(&ticket.schema).or_default();
        *number += 1;
        *seats += ticket.work.max_seats();
    }
}

/// The series of one level.
pub struct LevelNumbers {
    bounds: [Arc<Gauge>; 3],
    demand: [Arc<Gauge>; 6],
    pub utilization: UtilizationNumbers,
}

/// How much of a level's capacity is used, observed over time.
pub struct UtilizationNumbers {
    pub seats: Arc<Histogram>,
    pub executing: Arc<Histogram>,
    pub waiting: Arc<Histogram>,
    /// In parts of the nominal limit.
    pub demand: Arc<Histogram>,
}

impl LevelNumbers {
    pub fn set_bounds(&self, bounds: Bounds) {
        let values = [bounds.nominal, bounds.lower, bounds.upper];
        self.bounds.iter().zip(values).for_each(|(gauge, value)| gauge.set(value as f64));
    }

    pub fn set_demand(&self, demand: &Demand, target: f64, limit: usize) {
        let values = [demand.high_watermark, demand.average, demand.deviation, demand.smoothed, target, limit as f64];
        self.demand.iter().zip(values).for_each(|(gauge, value)| gauge.set(value));
    }
}

/// The series of one schema and its level.
pub struct FlowNumbers {
    pub dispatched: Arc<Counter>,
    pub estimated_seats: Arc<Histogram>,
    pub queue_lengths: Arc<Histogram>,
    /// Of writes: how many watches will be told.
    pub watchers: Arc<Histogram>,
    /// By whether the request was started.
    waited: [Arc<Histogram>; 2],
    /// By whether it is a watch.
    executed: [Arc<Histogram>; 2],
}

impl FlowNumbers {
    pub fn waited(&self, started: bool, time: Duration) {
        self.waited[usize::from(started)].observe(time.as_secs_f64());
    }

    pub fn executed(&self, is_watch: bool, time: Duration) {
        self.executed[usize::from(is_watch)].observe(time.as_secs_f64());
    }
}
