//! Parts of timestamps, in UTC or a named zone, and of durations.

use crate::arena::Arena;
use crate::error::{Error, Outcome};
use crate::time::{Civil, Time};
use crate::val::Val;
use crate::zone;

/// The date and time of a timestamp in the zone that the second argument names, or in UTC.
fn civil<'a>(args: &[Val<'a>], arena: &'a Arena) -> Outcome<'a, Civil> {
    match *args {
        [Val::Timestamp(time)] => Ok(time.civil(0)),
        [Val::Timestamp(time), Val::String(zone)] => Ok(time.civil(offset(zone, time, arena)?)),
        _ => Err(Error::NO_SUCH_OVERLOAD),
    }
}

/// Seconds east of UTC in a zone: `02:00`, `-03:30`, `Europe/Paris`.
fn offset<'a>(zone: &str, time: Time, arena: &'a Arena) -> Outcome<'a, i64> {
    let Some((hours, minutes)) = zone.split_once(':') else {
        return zone::offset(zone, time.instant.secs).map_err(|error| arena.error(format_args!("{error}")));
    };
    let number = |text: &str| {
        text.parse::<i64>()
            .map_err(|_| arena.error(format_args!("strconv.Atoi: parsing {}: invalid syntax", object::quote(text))))
    };
    let (hours, minutes) = (number(hours)?, number(minutes)?);
    let total = if zone.starts_with('-') {
        hours.wrapping_mul(60).wrapping_sub(minutes)
    } else {
        hours.wrapping_mul(60).wrapping_add(minutes)
    };
    Ok(total.wrapping_mul(60))
}

pub fn full_year<'a>(args: &[Val<'a>], arena: &'a Arena) -> Outcome<'a> {
    civil(args, arena).map(|civil| Val::Int(civil.year))
}

pub fn month<'a>(args: &[Val<'a>], arena: &'a Arena) -> Outcome<'a> {
    civil(args, arena).map(|civil| Val::Int(civil.month - 1))
}

pub fn day_of_year<'a>(args: &[Val<'a>], arena: &'a Arena) -> Outcome<'a> {
    civil(args, arena).map(|civil| Val::Int(civil.day_of_year - 1))
}

pub fn day_of_month<'a>(args: &[Val<'a>], arena: &'a Arena) -> Outcome<'a> {
    civil(args, arena).map(|civil| Val::Int(civil.day - 1))
}

pub fn date<'a>(args: &[Val<'a>], arena: &'a Arena) -> Outcome<'a> {
    civil(args, arena).map(|civil| Val::Int(civil.day))
}

pub fn day_of_week<'a>(args: &[Val<'a>], arena: &'a Arena) -> Outcome<'a> {
    civil(args, arena).map(|civil| Val::Int(civil.day_of_week))
}

pub fn hours<'a>(args: &[Val<'a>], arena: &'a Arena) -> Outcome<'a> {
    match *args {
        [Val::Duration(nanos)] => Ok(Val::Int(nanos / 3_600_000_000_000)),
        _ => civil(args, arena).map(|civil| Val::Int(civil.second_of_day / 3600)),
    }
}

pub fn minutes<'a>(args: &[Val<'a>], arena: &'a Arena) -> Outcome<'a> {
    match *args {
        [Val::Duration(nanos)] => Ok(Val::Int(nanos / 60_000_000_000)),
        _ => civil(args, arena).map(|civil| Val::Int(civil.second_of_day / 60 % 60)),
    }
}

pub fn seconds<'a>(args: &[Val<'a>], arena: &'a Arena) -> Outcome<'a> {
    match *args {
        [Val::Duration(nanos)] => Ok(Val::Int(nanos / 1_000_000_000)),
        _ => civil(args, arena).map(|civil| Val::Int(civil.second_of_day % 60)),
    }
}

pub fn milliseconds<'a>(args: &[Val<'a>], arena: &'a Arena) -> Outcome<'a> {
    match *args {
        [Val::Duration(nanos)] => Ok(Val::Int(nanos / 1_000_000)),
        _ => civil(args, arena).map(|civil| Val::Int(civil.nanos / 1_000_000)),
    }
}
