//! The debugging pages under `/debug/api_priority_and_fairness/`.

use std::sync::Arc;
use std::time::Duration;

use object::timestamp::Time;
use object::{Clock, Str, SystemClock};
use tokio::time::Instant;

use crate::flow::Flow;
use crate::level::Level;
use crate::queues::{SeatTime, Ticket};

const LEVEL_COLUMNS: [&str; 10] = [
    "PriorityLevelName",
    "ActiveQueues",
    "IsIdle",
    "IsQuiescing",
    "WaitingRequests",
    "ExecutingRequests",
    "DispatchedRequests",
    "RejectedRequests",
    "TimedoutRequests",
    "CancelledRequests",
];
const QUEUE_COLUMNS: [&str; 9] = [
    "PriorityLevelName",
    "Index",
    "PendingRequests",
    "ExecutingRequests",
    "SeatsInUse",
    "NextDispatchR",
    "InitialSeatsSum",
    "MaxSeatsSum",
    "TotalWorkSum",
];
/// `FlowDistingsher` is how upstream spells it.
const REQUEST_COLUMNS: [&str; 10] = [
    "PriorityLevelName",
    "FlowSchemaName",
    "QueueIndex",
    "RequestIndexInQueue",
    "FlowDistingsher",
    "ArriveTime",
    "InitialSeats",
    "FinalSeats",
    "AdditionalLatency",
    "StartTime",
];

/// A priority level at this moment.
#[derive(Clone, Debug, PartialEq)]
pub struct LevelReport {
    pub name: Str,
    pub seats: u64,
    /// How many seats it may use now, and how many by its share alone.
    pub limit: usize,
    pub nominal: usize,
    pub executing: usize,
    pub waiting: usize,
    /// How many queues have requests.
    pub queues: usize,
    pub dispatched: u64,
    pub rejected: u64,
    pub timed_out: u64,
    pub cancelled: u64,
}

impl Flow {
    /// All levels as they are.
    pub fn report(&self) -> Vec<LevelReport> {
        let snapshot = self.snapshot();
        let report = |level: &Arc<Level>| {
            let state = level.state.lock();
            let (queues, totals) = (&state.queues, state.queues.totals);
            LevelReport {
                name: level.name.clone(),
                seats: queues.seats_in_use,
                limit: state.limit,
                nominal: state.bounds.nominal,
                executing: queues.executing(),
                waiting: queues.waiting,
                queues: queues.active(),
                dispatched: totals.dispatched,
                rejected: totals.rejected,
                timed_out: totals.timed_out,
                cancelled: totals.cancelled,
            }
        };
        snapshot.levels.iter().map(report).collect()
    }

    /// A page by the last part of its path; None if there is no such page.
    pub fn dump(&self, page: &str) -> Option<String> {
        match page {
            "dump_priority_levels" => Some(self.dump_levels()),
            "dump_queues" => Some(self.dump_queues()),
            "dump_requests" => Some(self.dump_requests()),
            _ => None,
        }
    }

    fn dump_levels(&self) -> String {
        let mut rows = vec![LEVEL_COLUMNS.map(String::from).to_vec()];
        for level in &self.snapshot().levels {
            let queues = &level.state.lock().queues;
            let active = queues.dump().iter().filter(|queue| !queue.waiting.is_empty()).count();
            let totals = queues.totals;
            rows.push(vec![
                level.name.to_string(),
                active.to_string(),
                queues.is_idle().to_string(),
                level.quiescing.load(std::sync::atomic::Ordering::Relaxed).to_string(),
                queues.waiting.to_string(),
                queues.executing().to_string(),
                totals.dispatched.to_string(),
                totals.rejected.to_string(),
                totals.timed_out.to_string(),
                totals.cancelled.to_string(),
            ]);
        }
        table(&rows)
    }

    fn dump_queues(&self) -> String {
        let mut rows = vec![QUEUE_COLUMNS.map(String::from).to_vec()];
        for level in &self.snapshot().levels {
            let dumped = level.state.lock().queues.dump();
            for (index, queue) in dumped.iter().filter(|queue| queue.queue).enumerate() {
                rows.push(vec![
                    level.name.to_string(),
                    index.to_string(),
                    queue.waiting.len().to_string(),
                    queue.executing.len().to_string(),
                    queue.seats_in_use.to_string(),
                    seat_seconds(queue.next_dispatch_r),
                    queue.sums.initial_seats.to_string(),
                    queue.sums.max_seats.to_string(),
                    seat_seconds(queue.sums.total_work),
                ]);
            }
        }
        table(&rows)
    }

    fn dump_requests(&self) -> String {
        let mut rows = vec![REQUEST_COLUMNS.map(String::from).to_vec()];
        for level in &self.snapshot().levels {
            let dumped = level.state.lock().queues.dump();
            for (index, queue) in dumped.iter().enumerate() {
                let index = if queue.queue { index.to_string() } else { "-1".to_string() };
                for (place, ticket) in queue.waiting.iter().enumerate() {
                    rows.push(request_row(&level.name, &index, place.to_string(), ticket));
                }
                for ticket in &queue.executing {
                    rows.push(request_row(&level.name, &index, "-1".to_string(), ticket));
                }
            }
        }
        table(&rows)
    }
}

fn request_row(level: &str, queue: &str, place: String, ticket: &Ticket) -> Vec<String> {
    vec![
        level.to_string(),
        ticket.schema.to_string(),
        queue.to_string(),
        place,
        ticket.distinguisher.to_string(),
        wall_time(Some(ticket.arrived)),
        ticket.work.initial_seats.to_string(),
        ticket.work.final_seats.to_string(),
        go_duration(ticket.work.additional_latency),
        wall_time(ticket.started),
    ]
}

/// Go's zero time stands for a request that has not started.
fn wall_time(at: Option<Instant>) -> String {
    let Some(at) = at else { return "0001-01-01T00:00:00Z".to_string() };
    let time = SystemClock.now().plus(negated(at.elapsed()));
    let seconds = Time(time).to_string();
    match format!("{:09}", time.nanos).trim_end_matches('0') {
        "" => seconds,
        fraction => format!("{}.{fraction}Z", seconds.trim_end_matches('Z')),
    }
}

fn negated(duration: Duration) -> object::duration::Duration {
    object::duration::Duration(i64::try_from(duration.as_nanos()).map_or(i64::MIN, |nanos| -nanos))
}

fn go_duration(duration: Duration) -> String {
    object::duration::Duration(i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX)).to_string()
}

/// Seat-seconds as upstream prints them.
fn seat_seconds(time: SeatTime) -> String {
    format!("{:.8}ss", time as f64 / 1e9)
}

/// Columns aligned as Go's tabwriter does with cells of at least eight characters and one space between them.
fn table(rows: &[Vec<String>]) -> String {
    const WIDTH_MIN: usize = 8;
    let columns = rows.first().map_or(0, Vec::len);
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        cells.map(|cell| cell.chars().count() + 2).max().unwrap_or(0).max(WIDTH_MIN)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut out = String::new();
    for row in rows {
        for (column, cell) in row.iter().enumerate() {
            match column + 1 == row.len() {
                true => out.push_str(cell),
                false => out.push_str(&format!("{:<1$}", format!("{cell},"), widths[column])),
            }
        }
        out.push('\n');
    }
    out
}
