//! Instants and spans of time as CEL and OpenAPI formats read them.

use object::Timestamp;
use object::duration::Duration;
use object::timestamp::{ParseError, Time as Rfc3339};

const NANOS_PER_DAY: i64 = 24 * 3600 * 1_000_000_000;

/// An instant and the offset from UTC in which it was written, which only its text shows.
#[derive(Clone, Copy, Debug)]
pub struct Time {
    pub instant: Timestamp,
    /// Seconds east of UTC.
    pub offset: i32,
}

impl Time {
    pub fn utc(instant: Timestamp) -> Time {
        Time { instant, offset: 0 }
    }

    /// Reads RFC 3339 with Go's errors.
    pub fn parse(text: &str) -> Result<Time, ParseError> {
        Rfc3339::parse(text).map(|time| Time { instant: time.0, offset: offset(text) })
    }

    /// Reads a value of format `date`: `2006-01-02`.
    pub fn parse_date(text: &str) -> Result<Time, String> {
        let parsed = if text.len() == 10 { Rfc3339::parse(&format!("{text}T00:00:00Z")).ok() } else { None };
        match parsed {
            Some(time) => Ok(Time::utc(time.0)),
            None => Err(format!("parsing time {text:?} as \"2006-01-02\": cannot parse {text:?} as \"2006\"")),
        }
    }

    /// Reads a value of format `date-time`, which may lack a zone. An empty one is the epoch.
    pub fn parse_date_time(text: &str) -> Result<Time, ParseError> {
        if text.is_empty() {
            return Ok(Time::utc(Timestamp::new(0, 0)));
        }
        Time::parse(text).or_else(|error| Time::parse(&format!("{text}Z")).map_err(|_| error))
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
