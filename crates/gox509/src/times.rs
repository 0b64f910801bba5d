//! [`Time`]: when a certificate is valid, to the second.

use time::format_description::well_known::Rfc3339;
use time::{Date, OffsetDateTime};

use crate::der::{GENERALIZED_TIME, Reader, UTC_TIME};

/// A time in a certificate, with the offset it was written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Time {
    /// Since the epoch.
    pub seconds: i64,
    offset_minutes: i32,
}

impl Time {
    pub fn at(seconds: i64) -> Time {
        Time { seconds, offset_minutes: 0 }
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Time, &'static str> {
        if reader.next_is(UTC_TIME) {
            reader.take(UTC_TIME).and_then(|text| utc(text.rest())).ok_or("x509: malformed UTCTime")
        } else if reader.next_is(GENERALIZED_TIME) {
            let text = reader.take(GENERALIZED_TIME);
            text.and_then(|text| generalized(text.rest())).ok_or("x509: malformed GeneralizedTime")
        } else {
            Err("x509: unsupported time format")
        }
    }
}

impl std::fmt::Display for Time {
    /// As Go prints it for RFC 3339, in the zone it was written in.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let local = self.seconds.saturating_add(i64::from(self.offset_minutes) * 60);
        let local = OffsetDateTime::from_unix_timestamp(local).unwrap_or(OffsetDateTime::UNIX_EPOCH);
        let shown = local.format(&Rfc3339).unwrap_or_default();
        if self.offset_minutes == 0 {
            return f.write_str(&shown);
        }
        let (sign, minutes) = (if self.offset_minutes < 0 { '-' } else { '+' }, self.offset_minutes.abs());
        write!(f, "{}{sign}{:02}:{:02}", shown.trim_end_matches('Z'), minutes / 60, minutes % 60)
    }
}

/// `YYMMDDhhmm[ss]` and a zone.
fn utc(text: &[u8]) -> Option<Time> {
    let (year, rest) = number(text, 2)?;
    // Two digits as Go's formats mean them; what is then beyond 2049 is of the century before.
    let year = if year >= 69 { 1900 + year } else { 2000 + year };
    let year = if year >= 2050 { year - 100 } else { year };
    clock(year, rest, true)
}

/// `YYYYMMDDhhmmss` and a zone.
fn generalized(text: &[u8]) -> Option<Time> {
    let (year, rest) = number(text, 4)?;
    clock(year, rest, false)
}

fn clock(year: i32, text: &[u8], may_lack_seconds: bool) -> Option<Time> {
    let (month, text) = number(text, 2)?;
    let (day, text) = number(text, 2)?;
    let (hour, text) = number(text, 2)?;
    let (minute, text) = number(text, 2)?;
    let (second, text) = match number(text, 2) {
        Some(found) => found,
        None if may_lack_seconds => (0, text),
        None => return None,
    };
    let offset_minutes = zone(text)?;
    let month = time::Month::try_from(u8::try_from(month).ok()?).ok()?;
    let date = Date::from_calendar_date(year, month, u8::try_from(day).ok()?).ok()?;
    let part = |number: i32| u8::try_from(number).ok();
    let local = date.with_hms(part(hour)?, part(minute)?, part(second)?).ok()?.assume_utc();
    Some(Time { seconds: local.unix_timestamp() - i64::from(offset_minutes) * 60, offset_minutes })
}

/// `Z`, or how far from it: a zone that is the same as `Z` must be written so.
fn zone(text: &[u8]) -> Option<i32> {
    let (sign, rest) = match text {
        [b'Z'] => return Some(0),
        [b'+', rest @ ..] => (1, rest),
        [b'-', rest @ ..] => (-1, rest),
        _ => return None,
    };
    let (hours, rest) = number(rest, 2)?;
    let (minutes, rest) = number(rest, 2)?;
    let total = hours * 60 + minutes;
    (rest.is_empty() && hours <= 24 && minutes < 60 && total != 0).then_some(sign * total)
}

fn number(text: &[u8], digits: usize) -> Option<(i32, &[u8])> {
    let (number, rest) = text.split_at_checked(digits)?;
    let value = number
        .iter()
        .try_fold(0i32, |value, byte| byte.is_ascii_digit().then(|| value * 10 + i32::from(byte - b'0')))?;
    Some((value, rest))
}
