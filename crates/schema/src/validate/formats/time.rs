//! Formats of time.

/// `2006-01-02`, on a day that was.
pub fn is_date(text: &str) -> bool {
    let parts: Vec<&str> = text.split('-').collect();
    let [year, month, day] = parts[..] else { return false };
    let number = |text: &str, length: usize| {
        (text.len() == length && text.bytes().all(|b| b.is_ascii_digit())).then(|| text.parse::<u32>().ok()).flatten()
    };
    let (Some(year), Some(month), Some(day)) = (number(year, 4), number(month, 2), number(day, 2)) else {
        return false;
    };
    let leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let days = match month {
        1 | 3 | 5 | 7 | 8 | 10 | 12 => 31,
        4 | 6 | 9 | 11 => 30,
        2 if leap => 29,
        2 => 28,
        _ => return false,
    };
    (1..=days).contains(&day)
}

/// `2006-01-02T15:04:05.999Z`, in either case; any one character may stand for the point.
pub fn is_date_time(text: &str) -> bool {
    let lower = text.to_lowercase();
    let mut parts = lower.split('t');
    let (Some(date), Some(time)) = (parts.next(), parts.next()) else { return false };
    is_date(date) && is_time(time)
}

fn is_time(text: &str) -> bool {
    let bytes = text.as_bytes();
    let digits = |at: usize| bytes.get(at..at + 2).filter(|d| d.iter().all(u8::is_ascii_digit));
    let (Some(hour), Some(minute), Some(second)) = (digits(0), digits(3), digits(6)) else { return false };
    if bytes[2] != b':' || bytes[5] != b':' || hour > b"23" || minute > b"59" || second > b"59" {
        return false;
    }
    let rest = &text[8..];
    let Some(zone) = rest.find(['z', '+', '-']) else { return false };
    // A sign may itself stand where the point should be, so the zone is looked for from the end as well.
    [zone, rest.rfind(['z', '+', '-']).unwrap_or(zone)].into_iter().any(|at| {
        let (fraction, zone) = rest.split_at(at);
        is_fraction(fraction) && is_zone(zone)
    })
}

fn is_fraction(text: &str) -> bool {
    let mut chars = text.chars();
    text.is_empty()
        || (chars.next().is_some_and(|c| c != '\n') && !chars.as_str().is_empty() && chars.all(|c| c.is_ascii_digit()))
}

fn is_zone(text: &str) -> bool {
    if text == "z" {
        return true;
    }
    let bytes = text.as_bytes();
    bytes.len() == 6
        && matches!(bytes[0], b'+' | b'-')
        && bytes[3] == b':'
        && [1, 2, 4, 5].into_iter().all(|at| bytes[at].is_ascii_digit())
}

/// Units with their long names; of the last one anything that begins so will do.
const UNITS: [&[&str]; 8] = [
    &["ns", "nano"],
    &["us", "µs", "micro"],
    &["ms", "milli"],
    &["s", "sec"],
    &["m", "min"],
    &["h", "hr", "hour"],
    &["d", "day"],
    &["w", "wk", "week"],
];

/// A number and a unit somewhere in the text, as Scala writes durations: `5 minutes`, `1 day`.
pub fn is_wordy_duration(text: &str) -> bool {
    let mut rest = text;
    let mut found = false;
    while let Some(at) = rest.find(|c: char| c.is_ascii_digit()) {
        let from_number = &rest[at..];
        let digits = from_number.find(|c: char| !c.is_ascii_digit()).unwrap_or(from_number.len());
        let after = from_number[digits..].trim_start_matches(['\t', '\n', '\u{c}', '\r', ' ']);
        let unit_end = after.find(|c: char| !(c.is_ascii_alphabetic() || c == 'µ')).unwrap_or(after.len());
        if unit_end > 0 {
            if from_number[..digits].parse::<i64>().is_err() {
                return false;
            }
            found |= is_unit(&after[..unit_end].to_lowercase());
        }
        rest = &after[unit_end..];
    }
    found
}

fn is_unit(unit: &str) -> bool {
    UNITS.iter().any(|names| {
        let (last, short) = names.split_last().map_or(("", &[][..]), |(last, short)| (*last, short));
        unit.starts_with(last) || short.contains(&unit)
    })
}
