//! Instants and spans of time as CEL and OpenAPI formats read them.

use std::fmt;

use object::Timestamp;
use object::duration::Duration;
use object::timestamp::{ParseError, Time as Rfc3339};

const NANOS_PER_DAY: i64 = 24 * 3600 * 1_000_000_000;
const SECONDS_PER_DAY: i64 = 24 * 3600;
/// The first second of year 1.
pub const MIN_UNIX_SECONDS: i64 = -62_135_596_800;
/// The last second of year 9999.
pub const MAX_UNIX_SECONDS: i64 = 253_402_300_799;

/// An instant and the offset from UTC in which it was written, which only its text shows.
#[derive(Clone, Copy, Debug)]
pub struct Time {
    pub instant: Timestamp,
    /// Seconds east of UTC.
    pub offset: i32,
}

/// An instant in a time zone.
#[derive(Clone, Copy, Debug)]
pub struct Civil {
    pub year: i64,
    /// From 1.
    pub month: i64,
    /// From 1.
    pub day: i64,
    /// From 1.
    pub day_of_year: i64,
    /// From Sunday, which is 0.
    pub day_of_week: i64,
    pub second_of_day: i64,
    pub nanos: i64,
}

impl Time {
    pub fn utc(instant: Timestamp) -> Time {
        Time { instant, offset: 0 }
    }

    /// Reads RFC 3339 with Go's errors.
    pub fn parse(text: &str) -> Result<Time, ParseError> {
        Rfc3339::parse(text).map(|time| Time { instant: time.0, offset: offset(text) })
    }

    /// The date and time at so many seconds east of UTC.
    pub fn civil(self, offset: i64) -> Civil {
        let local = self.instant.secs.saturating_add(offset);
        let days = local.div_euclid(SECONDS_PER_DAY);
        let (year, month, day) = object::timestamp::civil_date(days);
        Civil {
            year,
            month,
            day,
            day_of_year: days - object::timestamp::days_of_date(year, 1, 1) + 1,
            day_of_week: (days + 4).rem_euclid(7),
            second_of_day: local.rem_euclid(SECONDS_PER_DAY),
            nanos: self.instant.nanos.into(),
        }
    }

    /// Reads a value of format `date`: `2006-01-02`.
    pub fn parse_date(text: &str) -> Result<Time, ParseError> {
        Timestamp::parse_date(text).map(Time::utc)
    }

    /// Reads a value of format `date-time`, which may lack a zone. An empty one is the epoch.
    pub fn parse_date_time(text: &str) -> Result<Time, ParseError> {
        if text.is_empty() {
            return Ok(Time::utc(Timestamp::new(0, 0)));
        }
        Time::parse(text).or_else(|_| Timestamp::parse_local(text).map(Time::utc))
    }
}

/// RFC 3339 with as many digits of the second as there are, in the offset in which it was written.
impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let civil = self.civil(self.offset.into());
        let (year, month, day, second) = (civil.year, civil.month, civil.day, civil.second_of_day);
        let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}")?;
        if civil.nanos > 0 {
            write!(f, ".{}", format!("{:09}", civil.nanos).trim_end_matches('0'))?;
        }
        if self.offset == 0 {
            return f.write_str("Z");
        }
        let minutes = self.offset.abs() / 60;
        let sign = if self.offset < 0 { '-' } else { '+' };
        write!(f, "{sign}{:02}:{:02}", minutes / 60, minutes % 60)
    }
}

/// The offset at the end of a valid RFC 3339 text, in seconds.
fn offset(text: &str) -> i32 {
    let Some(zone) = text.len().checked_sub(6).and_then(|at| text.get(at..)) else { return 0 };
    let part = |range: std::ops::Range<usize>| zone.get(range).and_then(|part| part.parse::<i32>().ok()).unwrap_or(0);
    let seconds = (part(1..3) * 60 + part(4..6)) * 60;
    match zone.as_bytes()[0] {
        b'+' => seconds,
        b'-' => -seconds,
        _ => 0,
    }
}

/// Reads a value of format `duration`: what Go reads, or numbers with spelled-out units (`3 days`).
pub fn parse_duration_format(text: &str) -> Result<i64, String> {
    if let Ok(duration) = Duration::parse(text) {
        return Ok(duration.0);
    }
    let mut total: i64 = 0;
    let mut found = false;
    let mut rest = text;
    while let Some(start) = rest.find(|c: char| c.is_ascii_digit()) {
        rest = &rest[start..];
        let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let (number, after) = rest.split_at(digits);
        let spaced = after.trim_start_matches([' ', '\t', '\n', '\r', '\x0c']);
        let letters = spaced.find(|c: char| !c.is_ascii_alphabetic() && c != 'µ').unwrap_or(spaced.len());
        if letters == 0 {
            rest = after;
            continue;
        }
        let factor: i64 = number
            .parse()
            .map_err(|_| format!("strconv.Atoi: parsing {}: value out of range", object::quote(number)))?;
        let unit = spaced[..letters].to_lowercase();
        for nanos in units(&unit) {
            found = true;
            total = total.wrapping_add(factor.wrapping_mul(nanos));
        }
        rest = &spaced[letters..];
    }
    if found { Ok(total) } else { Err(format!("unable to parse {text} as duration")) }
}

/// The units a word stands for. The last name of each may be continued: `sec`, `second`, `seconds`.
fn units(word: &str) -> impl Iterator<Item = i64> + '_ {
    const UNITS: [(&[&str], i64); 8] = [
        (&["ns", "nano"], 1),
        (&["us", "µs", "micro"], 1_000),
        (&["ms", "milli"], 1_000_000),
        (&["s", "sec"], 1_000_000_000),
        (&["m", "min"], 60_000_000_000),
        (&["h", "hr", "hour"], 3_600_000_000_000),
        (&["d", "day"], NANOS_PER_DAY),
        (&["w", "wk", "week"], 7 * NANOS_PER_DAY),
    ];
    UNITS.iter().flat_map(move |(names, nanos)| {
        let last = names.len() - 1;
        let matches = names
            .iter()
            .enumerate()
            .filter(move |(i, name)| word == **name || (*i == last && word.starts_with(**name)));
        matches.map(|_| *nanos)
    })
}
