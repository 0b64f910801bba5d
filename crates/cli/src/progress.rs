//! Shows how far long work is: one line that changes on a terminal, lines in a log, or JSON.

use std::io::{IsTerminal, Write};
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use object::{Value, value};
use storage::meter::{Meter, Reached, Step};

use super::outcome::{Output, json};

/// How often it is shown on a terminal, in a log and as JSON. Work that is done sooner shows nothing.
const TERMINAL_INTERVAL: Duration = Duration::from_millis(200);
const LOG_INTERVAL: Duration = Duration::from_secs(5);
const JSON_INTERVAL: Duration = Duration::from_secs(1);

const BAR_WIDTH: u64 = 30;

/// Shows a meter on standard error until it is dropped.
pub struct Progress {
    end: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum ProgressOutput {
    Terminal,
    Log,
    Json,
}

impl Progress {
    pub fn show(output: Output, meter: &Arc<Meter>) -> Progress {
        let place = match output {
            Output::Json => ProgressOutput::Json,
            Output::Text if is_terminal() => ProgressOutput::Terminal,
            Output::Text => ProgressOutput::Log,
        };
        let (end, ended) = mpsc::channel();
        let meter = meter.clone();
        let thread = std::thread::Builder::new().name("progress".into()).spawn(move || {
            let mut pace = ProgressPace::default();
            let mut shown = false;
            while ended.recv_timeout(place.interval()) == Err(RecvTimeoutError::Timeout) {
                let sight = pace.look(meter.reached(), Instant::now());
                if sight.reached.step != Step::Waiting {
                    shown = true;
                    place.print(&sight);
                }
            }
            if shown && place == ProgressOutput::Terminal {
                print("\r\x1b[K");
            }
        });
        // Without a thread for it, the work is done unseen.
        Progress { end: Some(end), thread: thread.ok() }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.end = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Whether a line can be written again and again.
#[allow(clippy::disallowed_methods)]
fn is_terminal() -> bool {
    std::io::stderr().is_terminal() && std::env::var_os("TERM").is_none_or(|terminal| terminal != "dumb")
}

fn print(text: &str) {
    let mut out = std::io::stderr();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

impl ProgressOutput {
    fn interval(self) -> Duration {
        match self {
            ProgressOutput::Terminal => TERMINAL_INTERVAL,
            ProgressOutput::Log => LOG_INTERVAL,
            ProgressOutput::Json => JSON_INTERVAL,
        }
    }

    fn print(self, sight: &Sight) {
        match self {
            ProgressOutput::Terminal => print(&format!("\r{}{}\x1b[K", sight.bar(), sight.line())),
            ProgressOutput::Log => print(&format!("{}\n", sight.line())),
            ProgressOutput::Json => print(&format!("{}\n", json(&sight.json()))),
        }
    }
}

/// Since when the present step goes on, from which its rate follows.
#[derive(Default)]
struct ProgressPace {
    began: Option<(Reached, Instant)>,
}

impl ProgressPace {
    fn look(&mut self, reached: Reached, now: Instant) -> Sight {
        let (first, began) = match self.began {
            Some((first, began)) if first.step == reached.step && first.done <= reached.done => (first, began),
            _ => *self.began.insert((reached, now)),
        };
        let seconds = now.saturating_duration_since(began).as_secs_f64();
        let (done, bytes) = (reached.done - first.done, reached.bytes.saturating_sub(first.bytes));
        if seconds <= 0.0 || done == 0 {
            return Sight { reached, rate: None, left: None };
        }
        let left = reached.all.saturating_sub(reached.done) as f64 / (done as f64 / seconds);
        Sight { reached, rate: Some((bytes as f64 / seconds) as u64), left: Some(left.ceil() as u64) }
    }
}

/// The state of the work at one moment, with its rate.
struct Sight {
    reached: Reached,
    /// Bytes in a second, and seconds that are left; none before they can be told.
    rate: Option<u64>,
    left: Option<u64>,
}

impl Sight {
    fn percent(&self) -> u64 {
        let all = self.reached.all.max(1);
        (u128::from(self.reached.done.min(all)) * 100 / u128::from(all)) as u64
    }

    fn bar(&self) -> String {
        let filled = (self.percent() * BAR_WIDTH / 100) as usize;
        format!("[{}{}] ", "#".repeat(filled), " ".repeat(BAR_WIDTH as usize - filled))
    }

    fn line(&self) -> String {
        let mut line = format!("{} {} %, {}", self.reached.step.name(), self.percent(), bytes(self.reached.bytes));
        if let Some(rate) = self.rate {
            line += &format!(", {}/s", bytes(rate));
        }
        if let Some(left) = self.left {
            line += &format!(", {} left", time(left));
        }
        line
    }

    fn json(&self) -> Value {
        let number = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        let mut progress = value!({
            "bytes": (number(self.reached.bytes)),
            "percent": (number(self.percent())),
            "step": (self.reached.step.name()),
        });
        if let Some(rate) = self.rate {
            progress.set(&["bytesPerSecond"], number(rate));
        }
        if let Some(left) = self.left {
            progress.set(&["secondsLeft"], number(left));
        }
        value!({"progress": progress})
    }
}

/// A size that people can read.
fn bytes(count: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    let mut size = count as f64;
    let mut unit = "bytes";
    for larger in UNITS {
        if size < 1024.0 {
            break;
        }
        (size, unit) = (size / 1024.0, larger);
    }
    if unit == "bytes" { format!("{count} bytes") } else { format!("{size:.1} {unit}") }
}

fn time(seconds: u64) -> String {
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{} min {} s", seconds / 60, seconds % 60),
        _ => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pace_is_that_of_the_present_step() {
        let start = Instant::now();
        let mut pace = ProgressPace::default();
        let reading = |done, bytes| Reached { step: Step::Records, done, all: 100, bytes };
        for (seconds, reached, line, percent) in [
            (0, reading(10, 1_000), "reading 10 %, 1000 bytes", 10),
            (1, reading(10, 1_000), "reading 10 %, 1000 bytes", 10),
            (2, reading(30, 5_242_880), "reading 30 %, 5.0 MiB, 2.5 MiB/s, 7 s left", 30),
            (4, reading(100, 5_242_880), "reading 100 %, 5.0 MiB, 1.2 MiB/s, 0 s left", 100),
            (5, Reached { step: Step::Copying, done: 1, all: 4_000, bytes: 9 }, "writing 0 %, 9 bytes", 0),
            (
                7,
                Reached { step: Step::Copying, done: 2, all: 4_000, bytes: 29 },
                "writing 0 %, 29 bytes, 10 bytes/s, 2 h 13 min left",
                0,
            ),
            // The same step once more, for another file.
            (8, Reached { step: Step::Copying, done: 1, all: 2, bytes: 9 }, "writing 50 %, 9 bytes", 50),
            (
                9,
                Reached { step: Step::Copying, done: 3, all: 2, bytes: 9 },
                "writing 100 %, 9 bytes, 0 bytes/s, 0 s left",
                100,
            ),
        ] {
            let sight = pace.look(reached, start + Duration::from_secs(seconds));
            assert_eq!((sight.line().as_str(), sight.percent()), (line, percent), "after {seconds} s");
        }
    }

    #[test]
    fn what_is_shown() {
        let reached = Reached { step: Step::Pages, done: 50, all: 100, bytes: 50 };
        let sight = Sight { reached, rate: Some(25), left: Some(62) };
        assert_eq!(sight.bar(), "[###############               ] ");
        assert_eq!(sight.line(), "checking 50 %, 50 bytes, 25 bytes/s, 1 min 2 s left");
        let want = r#"{"progress":{"bytes":50,"bytesPerSecond":25,"percent":50,"secondsLeft":62,"step":"checking"}}"#;
        assert_eq!(json(&sight.json()), want);
        let nothing = Sight { reached: Reached::default(), rate: None, left: None };
        assert_eq!(json(&nothing.json()), r#"{"progress":{"bytes":0,"percent":0,"step":"waiting"}}"#);
    }
}
