//! `/debug/pprof/profile`: where the server spends its CPU time, as a file for `go tool pprof`.

mod format;

use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

use bytes::Bytes;

/// As often as Go samples.
const SAMPLES_PER_SECOND: i32 = 100;
/// The length of a profile unless the client says otherwise.
const DEFAULT_SECONDS: u64 = 30;
const SECONDS_MAX: u64 = 600;
/// A signal that arrives in one of these libraries is not followed up the stack: they may hold locks that this needs.
const NOT_SAMPLED: [&str; 4] = ["libc", "libgcc", "pthread", "vdso"];

/// How long the profile is to take, by the request's query.
pub fn seconds(query: &str) -> Result<u64, &'static str> {
    let given = query.split('&').find_map(|pair| pair.strip_prefix("seconds="));
    match given.and_then(|seconds| seconds.parse::<i64>().ok()) {
        Some(seconds) if seconds > 0 => match u64::try_from(seconds) {
            Ok(seconds) if seconds <= SECONDS_MAX => Ok(seconds),
            _ => Err("profile duration exceeds server's WriteTimeout"),
        },
        _ => Ok(DEFAULT_SECONDS),
    }
}

/// Samples the server's threads for so long; ends earlier if it is dropped.
pub async fn profile(seconds: u64) -> Result<Bytes, String> {
    let (client, gone) = mpsc::channel();
    let sampled = tokio::task::spawn_blocking(move || sample(Duration::from_secs(seconds), &gone)).await;
    drop(client);
    sampled.map_err(|error| error.to_string())?
}

fn sample(time: Duration, gone: &Receiver<()>) -> Result<Bytes, String> {
    let profiler = pprof::ProfilerGuardBuilder::default().frequency(SAMPLES_PER_SECOND).blocklist(&NOT_SAMPLED);
    let profiler = profiler.build().map_err(|error| match error {
        pprof::Error::Running => "cpu profiling already in use".to_string(),
        other => other.to_string(),
    })?;
    let _ = gone.recv_timeout(time);
    let report = profiler.report().build().map_err(|error| error.to_string())?;
    drop(profiler);
    format::encode(&report).map(Bytes::from).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    use prost::Message;

    use super::*;

    #[test]
    fn lengths_are_read_as_go_reads_them() {
        for (query, expected) in [
            ("", Ok(30)),
            ("seconds=5", Ok(5)),
            ("debug=1&seconds=7", Ok(7)),
            ("seconds=-1", Ok(30)),
            ("seconds=x", Ok(30)),
            ("seconds=601", Err("profile duration exceeds server's WriteTimeout")),
        ] {
            assert_eq!(seconds(query), expected, "{query}");
        }
    }

    /// What the profile must show.
    #[inline(never)]
    fn burn(stop: &AtomicBool) -> u64 {
        let mut sum = 0u64;
        while !stop.load(Ordering::Relaxed) {
            sum = std::hint::black_box(sum.wrapping_mul(31).wrapping_add(1));
        }
        sum
    }

    #[tokio::test]
    async fn one_profile_at_a_time_names_the_functions_that_run() {
        let stop = Arc::new(AtomicBool::new(false));
        let busy = std::thread::spawn({
            let stop = stop.clone();
            move || burn(&stop)
        });
        let (taken, refused) = match tokio::join!(profile(1), profile(1)) {
            (Ok(taken), Err(why)) | (Err(why), Ok(taken)) => (taken, why),
            both => panic!("{both:?}"),
        };
        assert_eq!(refused, "cpu profiling already in use");
        stop.store(true, Ordering::Relaxed);
        busy.join().unwrap();
        let mut bytes = Vec::new();
        flate2::read::GzDecoder::new(&taken[..]).read_to_end(&mut bytes).unwrap();
        let profile = format::Profile::decode(&bytes[..]).unwrap();
        let text = |at: i64| profile.string_table[at as usize].as_str();
        assert_eq!(profile.string_table[0], "");
        let types: Vec<_> = profile.sample_type.iter().map(|one| (text(one.kind), text(one.unit))).collect();
        assert_eq!(types, [("samples", "count"), ("cpu", "nanoseconds")]);
        let burning: i64 = profile
            .sample
            .iter()
            .filter(|sample| {
                sample.location_id.iter().any(|id| {
                    let line = profile.location[*id as usize - 1].line[0];
                    text(profile.function[line.function_id as usize - 1].name).contains("burn")
                })
            })
            .map(|sample| sample.value[0])
            .sum();
        assert!(burning > 0, "{:?}", profile.string_table);
    }
}
