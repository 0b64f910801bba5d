//! Go durations (`1h2m3.5s`), which the API carries as metav1.Duration, and the short ages that tables show.

use std::fmt;

const MICROSECOND: u64 = 1_000;
const MILLISECOND: u64 = 1_000_000;
const SECOND: u64 = 1_000_000_000;
const MINUTE: u64 = 60 * SECOND;
const HOUR: u64 = 60 * MINUTE;

/// The first magnitude that no longer fits; a negative duration may just reach it.
const LIMIT: u64 = 1 << 63;

/// Nanoseconds, as Go's `time.Duration`; protobuf carries the same number.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Duration(pub i64);

/// Why a text is not a duration, in Go's words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParseError(String);

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ParseError {}

impl Duration {
    /// No time.
    pub const ZERO: Duration = Duration(0);

    /// So many seconds.
    pub const fn from_secs(secs: i64) -> Duration {
        Duration(secs.saturating_mul(SECOND as i64))
    }

    /// Whole seconds, rounded towards zero.
    pub fn whole_seconds(self) -> i64 {
        self.0 / SECOND as i64
    }

    /// Reads what Go's `time.ParseDuration` reads: an optional sign, then numbers with units, or a bare `0`.
    pub fn parse(text: &str) -> Result<Duration, ParseError> {
        let error = |what: &str| ParseError(format!("time: {what} {}", quote_bytes(text.as_bytes())));
        let invalid = || error("invalid duration");

        let (negative, mut rest) = match text.as_bytes() {
            [b'-', rest @ ..] => (true, rest),
            [b'+', rest @ ..] => (false, rest),
            rest => (false, rest),
        };
        if rest == b"0" {
            return Ok(Duration::ZERO);
        }
        if rest.is_empty() {
            return Err(invalid());
        }
        let mut total: u64 = 0;
        while !rest.is_empty() {
            let (number, after) = Number::read(rest).ok_or_else(invalid)?;
            let unit_length = after.iter().take_while(|b| **b != b'.' && !b.is_ascii_digit()).count();
            let (unit, after) = after.split_at(unit_length);
            if unit.is_empty() {
                return Err(error("missing unit in duration"));
            }
            let scale =
                unit_nanos(unit).ok_or_else(|| error(&format!("unknown unit {} in duration", quote_bytes(unit))))?;
            let nanos = number.times(scale).ok_or_else(invalid)?;
            // Two halves of 2^64 add up to nothing here, as they do in Go.
            total = total.wrapping_add(nanos);
            if total > LIMIT {
                return Err(invalid());
            }
            rest = after;
        }
        match (negative, total) {
            (true, _) => Ok(Duration((total as i64).wrapping_neg())),
            (false, LIMIT) => Err(invalid()),
            (false, _) => Ok(Duration(total as i64)),
        }
    }

    /// The age a table shows, with two or three significant figures: `5s`, `3m20s`, `47h`, `4d`, `2y10d`.
    pub fn human(self) -> String {
        let seconds = self.whole_seconds();
        // A clock may be a little ahead of another; more than that is not an age.
        if seconds < -1 {
            return "<invalid>".to_string();
        }
        let seconds = seconds.max(0);
        let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
        let (years, day_of_year) = (days / 365, days % 365);
        if seconds < 120 {
            format!("{seconds}s")
        } else if minutes < 10 {
            two_parts(minutes, 'm', seconds % 60, 's')
        } else if minutes < 180 {
            format!("{minutes}m")
        } else if hours < 8 {
            two_parts(hours, 'h', minutes % 60, 'm')
        } else if hours < 48 {
            format!("{hours}h")
        } else if days < 8 {
            two_parts(days, 'd', hours % 24, 'h')
        } else if years < 2 {
            format!("{days}d")
        } else if years < 8 {
            two_parts(years, 'y', day_of_year, 'd')
        } else {
            format!("{years}y")
        }
    }

    /// An age in one unit only: `5s`, `3m`, `4d`.
    pub fn short_human(self) -> String {
        let seconds = self.whole_seconds();
        match seconds {
            ..-1 => "<invalid>".to_string(),
            -1 => "0s".to_string(),
            0..60 => format!("{seconds}s"),
            60..3_600 => format!("{}m", seconds / 60),
            3_600..86_400 => format!("{}h", seconds / 3600),
            86_400..31_536_000 => format!("{}d", seconds / 86_400),
            _ => format!("{}y", seconds / 31_536_000),
        }
    }
}

fn two_parts(large: i64, large_unit: char, small: i64, small_unit: char) -> String {
    if small == 0 { format!("{large}{large_unit}") } else { format!("{large}{large_unit}{small}{small_unit}") }
}

impl fmt::Display for Duration {
    /// As Go prints it: the largest unit that fits, no zero units in front, no trailing zeros behind the point.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nanos = self.0.unsigned_abs();
        if self.0 < 0 {
            f.write_str("-")?;
        }
        match nanos {
            0 => f.write_str("0s"),
            1..MICROSECOND => write!(f, "{nanos}ns"),
            MICROSECOND..MILLISECOND => write_fraction(f, nanos, MICROSECOND, 3, "µs"),
            MILLISECOND..SECOND => write_fraction(f, nanos, MILLISECOND, 6, "ms"),
            _ => {
                let (hours, minutes) = (nanos / HOUR, nanos / MINUTE % 60);
                if hours > 0 {
                    write!(f, "{hours}h")?;
                }
                if nanos >= MINUTE {
                    write!(f, "{minutes}m")?;
                }
                write_fraction(f, nanos % MINUTE, SECOND, 9, "s")
            }
        }
    }
}

fn write_fraction(f: &mut fmt::Formatter<'_>, nanos: u64, unit: u64, digits: usize, name: &str) -> fmt::Result {
    write!(f, "{}", nanos / unit)?;
    if !nanos.is_multiple_of(unit) {
        let fraction = format!("{:0digits$}", nanos % unit);
        write!(f, ".{}", fraction.trim_end_matches('0'))?;
    }
    f.write_str(name)
}

/// A number in front of a unit: `whole + fraction/scale`.
struct Number {
    whole: u64,
    fraction: u64,
    scale: f64,
}

impl Number {
    /// The number at the start of `text` and what follows it, or nothing when there is none or it is too large.
    fn read(text: &[u8]) -> Option<(Number, &[u8])> {
        let whole_length = text.iter().take_while(|b| b.is_ascii_digit()).count();
        let (digits, mut rest) = text.split_at(whole_length);
        let mut number = Number { whole: 0, fraction: 0, scale: 1.0 };
        for digit in digits {
            let larger = number.whole.checked_mul(10)?.checked_add(u64::from(digit - b'0'))?;
            number.whole = Some(larger).filter(|n| *n <= LIMIT)?;
        }
        let mut fraction_length = 0;
        if let [b'.', after @ ..] = rest {
            fraction_length = after.iter().take_while(|b| b.is_ascii_digit()).count();
            number.read_fraction(&after[..fraction_length]);
            rest = &after[fraction_length..];
        }
        (whole_length + fraction_length > 0).then_some((number, rest))
    }

    /// Digits that no longer fit add no precision and are passed over.
    fn read_fraction(&mut self, digits: &[u8]) {
        for digit in digits {
            if self.fraction > (LIMIT - 1) / 10 {
                return;
            }
            let longer = self.fraction * 10 + u64::from(digit - b'0');
            if longer > LIMIT {
                return;
            }
            self.fraction = longer;
            self.scale *= 10.0;
        }
    }

    fn times(&self, unit: u64) -> Option<u64> {
        if self.whole > LIMIT / unit {
            return None;
        }
        // Floating point, in this order of operations, gives the nanosecond that Go gives.
        let fraction = (self.fraction as f64 * (unit as f64 / self.scale)) as u64;
        Some(self.whole * unit + fraction).filter(|nanos| self.fraction == 0 || *nanos <= LIMIT)
    }
}

fn unit_nanos(unit: &[u8]) -> Option<u64> {
    // The micro sign and the Greek letter mu look alike; both are in use.
    const MICRO_SIGN: &[u8] = "\u{b5}s".as_bytes();
    const GREEK_MU: &[u8] = "\u{3bc}s".as_bytes();
    match unit {
        b"ns" => Some(1),
        b"us" | MICRO_SIGN | GREEK_MU => Some(MICROSECOND),
        b"ms" => Some(MILLISECOND),
        b"s" => Some(SECOND),
        b"m" => Some(MINUTE),
        b"h" => Some(HOUR),
        _ => None,
    }
}

/// Quoting as Go's `time` package does it in its errors: bytes beyond ASCII and control characters in hexadecimal.
pub(crate) fn quote_bytes(text: &[u8]) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for byte in text {
        match byte {
            b'"' | b'\\' => out.extend(['\\', char::from(*byte)]),
            b' '..0x80 => out.push(char::from(*byte)),
            _ => out.push_str(&format!("\\x{byte:02x}")),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests;
