//! How much work a request is: the seats it occupies while it runs, and those its watch events occupy afterwards.

use std::time::Duration;

use request::{RequestInfo, Verb};

/// A list may take this many seats.
const LIST_SEATS_MAX: u64 = 100;
const WRITE_SEATS_MAX: u64 = 10;
/// One seat stands for this many bytes that a list holds in memory at once.
const BYTES_PER_SEAT: f64 = 100_000.0;
/// A list from the cache is streamed and never holds more than this.
const STREAMED_BYTES_MAX: u64 = 1_000_000;
/// The size assumed of objects whose size is unknown.
const OBJECT_BYTES_MAX: u64 = 1_500_000;
const WATCHES_PER_SEAT: u64 = 10;
const EVENT_DURATION: Duration = Duration::from_millis(5);

/// The seats of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Work {
    pub initial_seats: u64,
    /// Occupied for `additional_latency` after the answer, while watchers are served.
    pub final_seats: u64,
    pub additional_latency: Duration,
}

impl Work {
    pub const ONE: Work = Work::seats(1);

    pub const fn seats(initial_seats: u64) -> Work {
        Work { initial_seats, final_seats: 0, additional_latency: Duration::ZERO }
    }

    pub fn max_seats(&self) -> u64 {
        self.initial_seats.max(self.final_seats)
    }
}

/// How many objects a resource has, and how large they are on average.
#[derive(Clone, Copy, Debug, Default)]
pub struct ObjectStats {
    pub count: u64,
    pub average_bytes: u64,
}

/// The parts of a list's or watch's options that its cost depends on.
#[derive(Clone, Copy, Debug, Default)]
pub struct ListOptions<'a> {
    pub limit: u64,
    pub has_selector: bool,
    /// Whether the request computes something of every object, whatever its limit is, as filters do.
    pub looks_at_all: bool,
    /// Whether the list is answered from the watch cache.
    pub from_cache: bool,
    pub resource_version: &'a str,
    pub send_initial_events: bool,
}

/// The work of a list or watch; `stats` is None for resources that another server keeps.
pub fn list(info: &RequestInfo, options: &ListOptions, stats: Option<ObjectStats>, seats_max: u64) -> Work {
    let starts_now = !matches!(options.resource_version, "" | "0");
    if info.verb == Verb::Watch && !options.send_initial_events && starts_now {
        return Work::ONE;
    }
    let Some(stats) = stats else { return Work::ONE };
    let average = if stats.average_bytes == 0 && stats.count > 0 { OBJECT_BYTES_MAX } else { stats.average_bytes };
    let from_cache = info.verb == Verb::Watch || options.from_cache;
    let limited = if options.limit > 0 { stats.count.min(options.limit) } else { stats.count };
    let loaded = match () {
        () if !info.name.is_empty() => 1,
        () if options.looks_at_all => stats.count,
        () if !from_cache && options.has_selector => limited.max(stats.count / 2),
        () => limited,
    };
    let bytes = loaded.saturating_mul(average);
    let bytes = if from_cache && !options.looks_at_all { bytes.min(STREAMED_BYTES_MAX) } else { bytes };
    let seats = (bytes as f64 / BYTES_PER_SEAT).ceil() as u64;
    Work::seats(seats.clamp(1, at_most(seats_max, LIST_SEATS_MAX)))
}

/// The work of a write that `watchers` will be told about.
pub fn write(info: &RequestInfo, watchers: u64, seats_max: u64) -> Work {
    let makes_no_event = info.resource == "serviceaccounts" && info.subresource == "token";
    if makes_no_event || watchers < WATCHES_PER_SEAT {
        return Work::ONE;
    }
    let wanted = watchers.div_ceil(WATCHES_PER_SEAT);
    let final_seats = wanted.min(at_most(seats_max, WRITE_SEATS_MAX));
    // The same work with fewer seats takes longer.
    let additional_latency = EVENT_DURATION.mul_f64(wanted as f64 / final_seats as f64);
    Work { initial_seats: 1, final_seats, additional_latency }
}

/// A level's own maximum (0: it has none) within the general one.
fn at_most(level: u64, general: u64) -> u64 {
    if level == 0 { general } else { level.min(general) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_by_size() {
        let info = |path: &str| RequestInfo::parse("GET", path, &[]);
        let stats = |count, average_bytes| Some(ObjectStats { count, average_bytes });
        let cached = ListOptions { from_cache: true, ..ListOptions::default() };
        let stored = ListOptions::default();
        let pods = info("/api/v1/pods");
        for (options, stats, seats_max, want) in [
            (cached, None, 0, 1),
            (cached, stats(0, 0), 0, 1),
            (cached, stats(10_000, 4_000), 0, 10),
            (stored, stats(10_000, 4_000), 0, 100),
            (stored, stats(10_000, 4_000), 9, 9),
            (ListOptions { limit: 500, ..stored }, stats(10_000, 4_000), 0, 20),
            (ListOptions { limit: 500, has_selector: true, ..stored }, stats(10_000, 1_000), 0, 50),
            (stored, stats(1, 0), 0, 15),
            (ListOptions { looks_at_all: true, limit: 1, ..cached }, stats(1_000, 4_000), 0, 40),
            (ListOptions { looks_at_all: true, ..cached }, stats(100_000, 4_000), 0, 100),
        ] {
            assert_eq!(list(&pods, &options, stats, seats_max), Work::seats(want), "{options:?} {stats:?}");
        }
        let selector = [("fieldSelector".to_string(), "metadata.name=y".to_string())];
        let one = RequestInfo::parse("GET", "/api/v1/namespaces/x/pods", &selector);
        assert_eq!(list(&one, &stored, stats(10_000, 4_000), 0), Work::ONE);
    }

    #[test]
    fn a_watch_without_initial_events_is_one_seat() {
        let info = RequestInfo::parse("GET", "/api/v1/pods", &[("watch".to_string(), "true".to_string())]);
        let stats = Some(ObjectStats { count: 100_000, average_bytes: 1_000 });
        let at = |resource_version, send_initial_events| ListOptions {
            resource_version,
            send_initial_events,
            ..ListOptions::default()
        };
        assert_eq!(list(&info, &at("17", false), stats, 0), Work::ONE);
        for options in [at("17", true), at("0", false), at("", false)] {
            assert_eq!(list(&info, &options, stats, 0), Work::seats(10), "{options:?}");
        }
    }

    #[test]
    fn writes_by_watchers() {
        let pod = RequestInfo::parse("PUT", "/api/v1/namespaces/x/pods/y", &[]);
        let work = |final_seats, micros| Work {
            initial_seats: 1,
            final_seats,
            additional_latency: Duration::from_micros(micros),
        };
        assert_eq!(write(&pod, 9, 0), Work::ONE);
        assert_eq!(write(&pod, 10, 0), work(1, 5_000));
        assert_eq!(write(&pod, 95, 0), work(10, 5_000));
        assert_eq!(write(&pod, 1_000, 0), work(10, 50_000));
        assert_eq!(write(&pod, 1_000, 4), work(4, 125_000));
        let token = RequestInfo::parse("POST", "/api/v1/namespaces/x/serviceaccounts/y/token", &[]);
        assert_eq!(write(&token, 1_000, 0), Work::ONE);
    }
}
