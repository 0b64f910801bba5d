//! Instants: [`Time`] (whole seconds) and [`MicroTime`] (microseconds) as the API writes them, and the [`Clock`] that
//! tells what time it is.

mod parse;

use std::fmt;
use std::sync::Mutex;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::duration::Duration;
pub use parse::ParseError;

const NANOS_PER_SECOND: i128 = 1_000_000_000;
const SECONDS_PER_DAY: i64 = 86_400;

/// An instant in UTC: seconds since the Unix epoch, and the nanoseconds that count forward from there. The same two
/// numbers are what protobuf carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp {
    /// Seconds since 1970.
    pub secs: i64,
    /// Less than a second's worth.
    pub nanos: u32,
}

/// metav1.Time: prints as `2006-01-02T15:04:05Z`, whatever fraction it holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(pub Timestamp);

/// metav1.MicroTime: prints as `2006-01-02T15:04:05.000000Z`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MicroTime(pub Timestamp);

/// Where the current time comes from, so that tests and replays can set it.
pub trait Clock: Send + Sync {
    /// The time.
    fn now(&self) -> Timestamp;
}

/// The machine's clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

/// A clock that stands still until it is told otherwise.
#[derive(Debug)]
pub struct ManualClock(Mutex<Timestamp>);

impl Timestamp {
    /// The instant upstream calls zero, year 1: a time that was never set, written as null.
    pub const ZERO: Timestamp = Timestamp { secs: -62_135_596_800, nanos: 0 };

    /// A time so many seconds and nanoseconds after 1970 began.
    pub fn new(secs: i64, nanos: u32) -> Timestamp {
        Timestamp { secs, nanos }
    }

    /// Whether it is the time that Go prints as null.
    pub fn is_zero(self) -> bool {
        self == Timestamp::ZERO
    }

    /// How much later `self` is than `earlier`, at most about 292 years either way, as Go's `Time.Sub` has it.
    pub fn since(self, earlier: Timestamp) -> Duration {
        let nanos = self.total_nanos() - earlier.total_nanos();
        Duration(nanos.clamp(i64::MIN.into(), i64::MAX.into()) as i64)
    }

    /// `self` moved by a duration; stays at the ends of what the seconds can hold.
    pub fn plus(self, duration: Duration) -> Timestamp {
        let nanos = self.total_nanos() + i128::from(duration.0);
        let secs = nanos.div_euclid(NANOS_PER_SECOND).clamp(i64::MIN.into(), i64::MAX.into());
        Timestamp { secs: secs as i64, nanos: nanos.rem_euclid(NANOS_PER_SECOND) as u32 }
    }

    /// The same instant without the part below a second, which is all that [`Time`] writes.
    pub fn truncate_to_seconds(self) -> Timestamp {
        Timestamp { nanos: 0, ..self }
    }

    /// The same instant without the part below a microsecond, which is all that [`MicroTime`] writes.
    pub fn truncate_to_micros(self) -> Timestamp {
        Timestamp { nanos: self.nanos / 1000 * 1000, ..self }
    }

    fn total_nanos(self) -> i128 {
        i128::from(self.secs) * NANOS_PER_SECOND + i128::from(self.nanos)
    }

    /// `2006-01-02T15:04:05`, which both forms begin with.
    fn write_date_time(self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let days = self.secs.div_euclid(SECONDS_PER_DAY);
        let second = self.secs.rem_euclid(SECONDS_PER_DAY);
        let (year, month, day) = civil_date(days);
        // Only decoded protobuf can hold such years; Go prints the sign in front of four digits.
        let sign = if year < 0 { "-" } else { "" };
        let year = year.unsigned_abs();
        if year > 9999 {
            let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
            return write!(f, "{sign}{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}");
        }
        // Every write prints several times, so the digits are put in place by hand.
        let mut text = *b"0000-00-00T00:00:00";
        for (at, number) in [
            (0, year / 100),
            (2, year % 100),
            (5, month.unsigned_abs()),
            (8, day.unsigned_abs()),
            (11, second.unsigned_abs() / 3600),
            (14, second.unsigned_abs() / 60 % 60),
            (17, second.unsigned_abs() % 60),
        ] {
            text[at] += (number / 10) as u8;
            text[at + 1] += (number % 10) as u8;
        }
        f.write_str(sign)?;
        f.write_str(std::str::from_utf8(&text).unwrap_or_default())
    }
}

impl Time {
    /// Reads what Go's `time.Parse(time.RFC3339, …)` reads, with its error messages. A fraction is kept, not printed.
    pub fn parse(text: &str) -> Result<Time, ParseError> {
        parse::rfc3339(text).map(Time)
    }
}

impl Timestamp {
    /// Reads what Go's `time.Parse("2006-01-02", …)` reads: midnight in UTC.
    pub fn parse_date(text: &str) -> Result<Timestamp, ParseError> {
        parse::date(text)
    }

    /// Reads what Go's `time.Parse("2006-01-02T15:04:05", …)` reads, in UTC.
    pub fn parse_local(text: &str) -> Result<Timestamp, ParseError> {
        parse::local(text)
    }
}

impl MicroTime {
    /// Reads what Go's `time.Parse` reads with six digits of fraction required, with its error messages.
    pub fn parse(text: &str) -> Result<MicroTime, ParseError> {
        parse::rfc3339_micro(text).map(MicroTime)
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.write_date_time(f)?;
        f.write_str("Z")
    }
}

impl fmt::Display for MicroTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.write_date_time(f)?;
        write!(f, ".{:06}Z", self.0.nanos / 1000)
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        // The one place that asks the machine: everything else is handed a Clock.
        #[allow(clippy::disallowed_methods)]
        let now = SystemTime::now();
        match now.duration_since(UNIX_EPOCH) {
            Ok(since) => Timestamp::new(since.as_secs().min(i64::MAX as u64) as i64, since.subsec_nanos()),
            Err(before) => {
                let nanos = before.duration().as_nanos().min(i64::MAX as u128) as i64;
                Timestamp::new(0, 0).plus(Duration(-nanos))
            }
        }
    }
}

impl ManualClock {
    /// A clock that shows this time.
    pub fn new(now: Timestamp) -> ManualClock {
        ManualClock(Mutex::new(now))
    }

    /// Sets the time.
    pub fn set(&self, now: Timestamp) {
        *self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = now;
    }

    /// Moves the time forward.
    pub fn advance(&self, by: Duration) {
        let mut now = self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        *now = now.plus(by);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        *self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// Days since the epoch as year, month and day of the Gregorian calendar. Counting in eras of 400 years that start in
/// March puts the leap day last, so that no month needs a special case.
pub fn civil_date(days: i64) -> (i64, i64, i64) {
    const DAYS_PER_ERA: i64 = 146_097;
    let days = days + 719_468;
    let era = days.div_euclid(DAYS_PER_ERA);
    let day_of_era = days.rem_euclid(DAYS_PER_ERA);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let march_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * march_month + 2) / 5 + 1;
    let month = if march_month < 10 { march_month + 3 } else { march_month - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

/// The inverse of [`civil_date`].
pub fn days_of_date(year: i64, month: i64, day: i64) -> i64 {
    let year = year - i64::from(month <= 2);
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let march_month = if month > 2 { month - 3 } else { month + 9 };
    let day_of_year = (153 * march_month + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

#[cfg(test)]
mod tests;
