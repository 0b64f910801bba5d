//! Reading RFC 3339 as Go's `time.Parse` does: a layout is walked element by element, and the error names the element
//! and the rest of the text at which reading stopped.

use std::fmt;

use super::{SECONDS_PER_DAY, Timestamp, days_of_date};
use crate::duration::quote_bytes;

/// What is read, by the name of Go's layout.
#[derive(Clone, Copy, PartialEq, Eq)]
enum TimeLayout {
    Rfc3339,
    Micro,
    Date,
    Local,
}

impl TimeLayout {
    fn text(self) -> &'static str {
        match self {
            TimeLayout::Rfc3339 => "2006-01-02T15:04:05Z07:00",
            TimeLayout::Micro => "2006-01-02T15:04:05.000000Z07:00",
            TimeLayout::Date => "2006-01-02",
            TimeLayout::Local => "2006-01-02T15:04:05",
        }
    }
}

/// What stands before each element in the layout, and the element.
const DATE_TIME: [(&str, LayoutElement); 6] = [
    ("", LayoutElement::Year),
    ("-", LayoutElement::Month),
    ("-", LayoutElement::Day),
    ("T", LayoutElement::Hour),
    (":", LayoutElement::Minute),
    (":", LayoutElement::Second),
];

/// Why a text is not a time, in Go's words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParseError(String);

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ParseError {}

pub(super) fn rfc3339(text: &str) -> Result<Timestamp, ParseError> {
    read(text, TimeLayout::Rfc3339)
}

pub(super) fn rfc3339_micro(text: &str) -> Result<Timestamp, ParseError> {
    read(text, TimeLayout::Micro)
}

pub(super) fn date(text: &str) -> Result<Timestamp, ParseError> {
    read(text, TimeLayout::Date)
}

pub(super) fn local(text: &str) -> Result<Timestamp, ParseError> {
    read(text, TimeLayout::Local)
}

#[derive(Clone, Copy)]
enum LayoutElement {
    Year,
    Month,
    Day,
    Hour,
    Minute,
    Second,
    Micros,
    Zone,
}

impl LayoutElement {
    fn layout(self) -> &'static str {
        match self {
            LayoutElement::Year => "2006",
            LayoutElement::Month => "01",
            LayoutElement::Day => "02",
            LayoutElement::Hour => "15",
            LayoutElement::Minute => "04",
            LayoutElement::Second => "05",
            LayoutElement::Micros => ".000000",
            LayoutElement::Zone => "Z07:00",
        }
    }
}

/// Why an element could not be read.
enum Bad {
    Syntax,
    Range(&'static str),
}

/// The text not yet read, and what was found so far.
struct TimeReader<'a> {
    rest: &'a [u8],
    micros: bool,
    year: i64,
    month: i64,
    day: i64,
    second_of_day: i64,
    nanos: u32,
    zone_offset: i64,
}

fn read(text: &str, kind: TimeLayout) -> Result<Timestamp, ParseError> {
    let cannot = |rest: &[u8], element: &str| {
        let (text, layout) = (quote_bytes(text.as_bytes()), quote_bytes(kind.text().as_bytes()));
        let (rest, element) = (quote_bytes(rest), quote_bytes(element.as_bytes()));
        ParseError(format!("parsing time {text} as {layout}: cannot parse {rest} as {element}"))
    };
    let out_of_range =
        |what: &str| ParseError(format!("parsing time {}: {what} out of range", quote_bytes(text.as_bytes())));

    let micros = kind == TimeLayout::Micro;
    let mut reader = TimeReader {
        rest: text.as_bytes(),
        micros,
        year: 0,
        month: 1,
        day: 1,
        second_of_day: 0,
        nanos: 0,
        zone_offset: 0,
    };
    let fraction = micros.then_some(("", LayoutElement::Micros));
    let zone = matches!(kind, TimeLayout::Rfc3339 | TimeLayout::Micro).then_some(("", LayoutElement::Zone));
    let parts = if kind == TimeLayout::Date { &DATE_TIME[..3] } else { &DATE_TIME[..] };
    for (prefix, element) in parts.iter().copied().chain(fraction).chain(zone) {
        reader.rest = match reader.rest.strip_prefix(prefix.as_bytes()) {
            Some(rest) => rest,
            None => return Err(cannot(reader.rest, prefix)),
        };
        let before = reader.rest;
        match reader.element(element) {
            Ok(()) => {}
            Err(Bad::Range(what)) => return Err(out_of_range(what)),
            Err(Bad::Syntax) => return Err(cannot(before, element.layout())),
        }
    }
    if !reader.rest.is_empty() {
        let (text, rest) = (quote_bytes(text.as_bytes()), quote_bytes(reader.rest));
        return Err(ParseError(format!("parsing time {text}: extra text: {rest}")));
    }
    if reader.day < 1 || reader.day > days_in(reader.year, reader.month) {
        return Err(out_of_range("day"));
    }
    Ok(reader.timestamp())
}

impl TimeReader<'_> {
    fn element(&mut self, element: LayoutElement) -> Result<(), Bad> {
        match element {
            LayoutElement::Year => self.year = i64::from(self.year_digits()?),
            LayoutElement::Month => {
                self.month = self.number(true)?;
                if !(1..=12).contains(&self.month) {
                    return Err(Bad::Range("month"));
                }
            }
            LayoutElement::Day => self.day = self.number(true)?,
            LayoutElement::Hour => {
                // Go reads a lone digit here, and Kubernetes has always accepted it.
                let hour = self.number(false)?;
                self.second_of_day += below(hour, 24, "hour")? * 3600;
            }
            LayoutElement::Minute => {
                let minute = self.number(true)?;
                self.second_of_day += below(minute, 60, "minute")? * 60;
            }
            LayoutElement::Second => {
                let second = self.number(true)?;
                self.second_of_day += below(second, 60, "second")?;
                self.optional_fraction();
            }
            LayoutElement::Micros => self.required_micros()?,
            LayoutElement::Zone => self.zone()?,
        }
        Ok(())
    }

    fn timestamp(&self) -> Timestamp {
        let days = days_of_date(self.year, self.month, self.day);
        Timestamp { secs: days * SECONDS_PER_DAY + self.second_of_day - self.zone_offset, nanos: self.nanos }
    }

    fn year_digits(&mut self) -> Result<u32, Bad> {
        let (digits, rest) = self.rest.split_at_checked(4).ok_or(Bad::Syntax)?;
        if !digits.iter().all(u8::is_ascii_digit) {
            return Err(Bad::Syntax);
        }
        self.rest = rest;
        Ok(decimal(digits))
    }

    /// Two digits, or one where the layout does not insist.
    fn number(&mut self, two_digits: bool) -> Result<i64, Bad> {
        let (value, rest) = two_digit_number(self.rest, two_digits)?;
        self.rest = rest;
        Ok(value)
    }

    /// A fraction may follow the seconds although the layout has none; digits past the ninth are dropped.
    fn optional_fraction(&mut self) {
        if self.micros || !matches!(self.rest, [b'.' | b',', b'0'..=b'9', ..]) {
            return;
        }
        let digits = self.rest[1..].iter().take_while(|b| b.is_ascii_digit()).count();
        let (fraction, rest) = self.rest.split_at(1 + digits);
        let kept = &fraction[1..=digits.min(9)];
        self.nanos = decimal(kept) * 10u32.pow(9 - kept.len() as u32);
        self.rest = rest;
    }

    /// Exactly six digits after a point or comma. Go reads them as a signed number, so a sign counts as a digit.
    fn required_micros(&mut self) -> Result<(), Bad> {
        let (fraction, rest) = self.rest.split_at_checked(7).ok_or(Bad::Syntax)?;
        let [b'.' | b',', number @ ..] = fraction else { return Err(Bad::Syntax) };
        let (negative, digits) = match number {
            [b'-', digits @ ..] => (true, digits),
            [b'+', digits @ ..] => (false, digits),
            digits => (false, digits),
        };
        if !digits.iter().all(u8::is_ascii_digit) {
            return Err(Bad::Syntax);
        }
        let micros = decimal(digits);
        if negative && micros != 0 {
            return Err(Bad::Range("fractional second"));
        }
        self.nanos = micros * 1000;
        self.rest = rest;
        Ok(())
    }

    fn zone(&mut self) -> Result<(), Bad> {
        if let [b'Z', rest @ ..] = self.rest {
            self.rest = rest;
            return Ok(());
        }
        let [sign, h1, h2, b':', m1, m2, rest @ ..] = self.rest else { return Err(Bad::Syntax) };
        let hour = two_digit_number(&[*h1, *h2], true).map(|(value, _)| value);
        let minute = hour.as_ref().map_or(Ok(0), |_| two_digit_number(&[*m1, *m2], true).map(|(value, _)| value));
        // Go reports a part that is out of range before one that is no number, the later of two; 24 hours and 60
        // minutes pass.
        if matches!(minute, Ok(61..)) {
            return Err(Bad::Range("time zone offset minute"));
        }
        if matches!(hour, Ok(25..)) {
            return Err(Bad::Range("time zone offset hour"));
        }
        let offset = (hour? * 60 + minute?) * 60;
        self.zone_offset = match sign {
            b'+' => offset,
            b'-' => -offset,
            _ => return Err(Bad::Syntax),
        };
        self.rest = rest;
        Ok(())
    }
}

fn below(value: i64, limit: i64, what: &'static str) -> Result<i64, Bad> {
    if value < limit { Ok(value) } else { Err(Bad::Range(what)) }
}

fn two_digit_number(text: &[u8], two_digits: bool) -> Result<(i64, &[u8]), Bad> {
    match text {
        [a @ b'0'..=b'9', b @ b'0'..=b'9', rest @ ..] => Ok((i64::from(a - b'0') * 10 + i64::from(b - b'0'), rest)),
        [a @ b'0'..=b'9', rest @ ..] if !two_digits => Ok((i64::from(a - b'0'), rest)),
        _ => Err(Bad::Syntax),
    }
}

/// The value of at most nine ASCII digits.
fn decimal(digits: &[u8]) -> u32 {
    digits.iter().fold(0, |value, digit| value * 10 + u32::from(digit - b'0'))
}

fn days_in(year: i64, month: i64) -> i64 {
    match month {
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}
