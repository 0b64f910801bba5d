//! How many requests that read and that write wait and run, under upstream's names.

use std::sync::Arc;
use std::time::Duration;

use metrics::{Family, Gauge, Histogram};
use parking_lot::Mutex;
use request::Verb;
use tokio::time::Instant;

/// For how long the most requests that waited at once are remembered.
const PEAK_PERIOD: Duration = Duration::from_secs(1);
/// Upstream's buckets, which are for parts of a limit; under priority and fairness the limit is 1.
const BUCKETS: &[f64] = &[0.0, 0.001, 0.01, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 1.0];
const KINDS: [&str; 2] = ["readOnly", "mutating"];

/// The requests of both kinds.
pub struct RequestKinds {
    concurrency: Family<Histogram>,
    inqueue: Family<Gauge>,
    waiting: [Arc<Concurrency>; 2],
    running: [Arc<Concurrency>; 2],
}

impl Default for RequestKinds {
    fn default() -> RequestKinds {
        let concurrency = Family::new(
            "apiserver_flowcontrol_read_vs_write_current_requests",
            "Observations, at the end of every nanosecond, of the number of requests waiting or in regular stage of execution",
            &["phase", "request_kind"],
            || Histogram::new(BUCKETS),
        );
        let inqueue = Family::new(
            "apiserver_current_inqueue_requests",
            "Most requests that waited at once in the last second",
            &["request_kind"],
            Gauge::default,
        );
        let phase = |name: &str| KINDS.map(|kind| Arc::new(Concurrency::of(concurrency.with(&[name, kind]))));
        RequestKinds { waiting: phase("waiting"), running: phase("executing"), concurrency, inqueue }
    }
}

impl RequestKinds {
    /// Counts a request that waits until what is returned is dropped.
    pub fn waits(&self, verb: Verb) -> CountedRequest {
        UncountedRequest(self.waiting[kind(verb)].clone()).count()
    }

    /// Counts a request that runs until what is returned is dropped.
    pub fn runs(&self, verb: Verb) -> CountedRequest {
        UncountedRequest(self.running[kind(verb)].clone()).count()
    }

    pub fn write(&self, out: &mut String) -> std::fmt::Result {
        let now = Instant::now();
        for (name, waiting) in KINDS.iter().zip(&self.waiting) {
            self.inqueue.with(&[name]).set(waiting.peak(now) as f64);
        }
        self.waiting.iter().chain(&self.running).for_each(|concurrency| concurrency.change(0));
        self.concurrency.write(out)?;
        self.inqueue.write(out)
    }
}

fn kind(verb: Verb) -> usize {
    usize::from(!matches!(verb, Verb::Get | Verb::List | Verb::Watch))
}

/// How many requests there are, observed over time.
struct Concurrency {
    state: Mutex<ConcurrencyState>,
    observed: Arc<Histogram>,
}

struct ConcurrencyState {
    count: u64,
    since: Instant,
    /// The most requests since `peak_since`, and in the period before it.
    peak: u64,
    last_peak: u64,
    peak_since: Instant,
}

impl ConcurrencyState {
    fn roll(&mut self, now: Instant) {
        let passed = now.saturating_duration_since(self.peak_since);
        if passed >= PEAK_PERIOD {
            self.last_peak = if passed < 2 * PEAK_PERIOD { self.peak } else { self.count };
            (self.peak, self.peak_since) = (self.count, now);
        }
    }
}

impl Concurrency {
    fn of(observed: Arc<Histogram>) -> Concurrency {
        let now = Instant::now();
        let state = ConcurrencyState { count: 0, since: now, peak: 0, last_peak: 0, peak_since: now };
        Concurrency { state: Mutex::new(state), observed }
    }

    fn change(&self, by: i64) {
        let now = Instant::now();
        let mut state = self.state.lock();
        let nanoseconds = now.saturating_duration_since(state.since).as_nanos();
        self.observed.observe_times(state.count as f64, u64::try_from(nanoseconds).unwrap_or(u64::MAX));
        state.roll(now);
        state.since = now;
        state.count = state.count.saturating_add_signed(by);
        state.peak = state.peak.max(state.count);
    }

    fn peak(&self, now: Instant) -> u64 {
        let mut state = self.state.lock();
        state.roll(now);
        state.peak.max(state.last_peak)
    }
}

/// A request that is counted until this is dropped.
pub struct CountedRequest(Arc<Concurrency>);

impl CountedRequest {
    /// Counts the request again later.
    pub fn again(&self) -> UncountedRequest {
        UncountedRequest(self.0.clone())
    }
}

impl Drop for CountedRequest {
    fn drop(&mut self) {
        self.0.change(-1);
    }
}

/// A request that is not counted at the moment.
pub struct UncountedRequest(Arc<Concurrency>);

impl UncountedRequest {
    pub fn count(self) -> CountedRequest {
        self.0.change(1);
        CountedRequest(self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_most_of_the_last_second_is_shown() {
        let kinds = RequestKinds::default();
        let peaks = || {
            let mut out = String::new();
            kinds.write(&mut out).unwrap();
            let lines = out.lines().filter(|line| line.starts_with("apiserver_current_inqueue_requests{"));
            lines.map(|line| line.rsplit(' ').next().unwrap().parse().unwrap()).collect::<Vec<u64>>()
        };
        assert_eq!(peaks(), [0, 0]);
        let waiting = [kinds.waits(Verb::List), kinds.waits(Verb::Get)];
        drop(kinds.waits(Verb::Update));
        drop(waiting);
        assert_eq!(peaks(), [1, 2], "mutating, readOnly");
        tokio::time::advance(PEAK_PERIOD * 2).await;
        assert_eq!(peaks(), [0, 0]);
    }

    #[tokio::test(start_paused = true)]
    async fn requests_are_observed_for_as_long_as_they_run() {
        let kinds = RequestKinds::default();
        let running = kinds.runs(Verb::Create);
        tokio::time::advance(Duration::from_nanos(500)).await;
        drop(running);
        let mut out = String::new();
        kinds.write(&mut out).unwrap();
        let want = "apiserver_flowcontrol_read_vs_write_current_requests_sum{phase=\"executing\",request_kind=\"mutating\"} 500\n";
        assert!(out.contains(want), "{out}");
    }
}
