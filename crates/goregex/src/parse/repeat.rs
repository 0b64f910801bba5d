//! Repetition operators: `*`, `+`, `?` and `{n,m}`.

use super::{ErrorKind, Parser, Problem};
use crate::node::{Kind, Repeat};

/// Largest count of a repetition, and of nested ones multiplied.
const REPEAT_MAX: u32 = 1000;

/// The counts in braces; a number too large to matter is none.
struct Counts<'p> {
    min: Option<u32>,
    max: Option<u32>,
    unbounded: bool,
    rest: &'p str,
}

impl<'p> Parser<'p> {
    /// Reads a repetition operator; returns the text from it on, or none for a brace that is a literal.
    pub(super) fn repetition(&mut self, c: char, last: Option<&'p str>) -> Result<Option<&'p str>, Problem<'p>> {
        let start = self.rest;
        let (min, max, counted) = match c {
            '*' => (0, None, false),
            '+' => (1, None, false),
            '?' => (0, Some(1), false),
            _ => match counts(start) {
                None => {
                    self.rest = &start[1..];
                    self.literal('{')?;
                    return Ok(None);
                }
                Some(counts) => {
                    self.rest = counts.rest;
                    let problem = Problem::Part(ErrorKind::InvalidRepeatCount, self.since(start));
                    let Some((min, max)) = counts.valid() else { return Err(problem) };
                    (min, max, true)
                }
            },
        };
        if !counted {
            self.rest = &start[1..];
        }
        self.repeat(min, max, counted, start, last)?;
        Ok(Some(start))
    }

    /// Replaces the last part by its repetition.
    fn repeat(
        &mut self,
        min: u32,
        max: Option<u32>,
        counted: bool,
        start: &'p str,
        last: Option<&'p str>,
    ) -> Result<(), Problem<'p>> {
        let mut greedy = !self.flags.lazy;
        if let Some(rest) = self.rest.strip_prefix('?') {
            self.rest = rest;
            greedy = !greedy;
        }
        if let Some(last) = last {
            return Err(Problem::Part(ErrorKind::InvalidRepeat, self.since(last)));
        }
        let Some(sub) = self.stack.pop() else {
            return Err(Problem::Part(ErrorKind::MissingRepeatArgument, self.since(start)));
        };
        let sub = Box::new(sub);
        let repeats = self.stack.replace(Kind::Repeat(Repeat { min, max, greedy, counted, sub }))?;
        if counted && (min >= 2 || max.is_some_and(|max| max >= 2)) && repeats > REPEAT_MAX {
            return Err(Problem::Part(ErrorKind::InvalidRepeatCount, self.since(start)));
        }
        Ok(())
    }
}

impl Counts<'_> {
    fn valid(&self) -> Option<(u32, Option<u32>)> {
        let min = self.min.filter(|min| *min <= REPEAT_MAX)?;
        if self.unbounded {
            return Some((min, None));
        }
        let max = self.max.filter(|max| *max <= REPEAT_MAX && min <= *max)?;
        Some((min, Some(max)))
    }
}

/// Reads `{n}`, `{n,}` or `{n,m}`; none if the brace starts no repetition.
fn counts(text: &str) -> Option<Counts<'_>> {
    let (min, rest) = number(text.strip_prefix('{')?)?;
    let Some(after) = rest.strip_prefix(',') else {
        return Some(Counts { min, max: min, unbounded: false, rest: rest.strip_prefix('}')? });
    };
    if let Some(rest) = after.strip_prefix('}') {
        return Some(Counts { min, max: None, unbounded: true, rest });
    }
    let (max, rest) = number(after)?;
    Some(Counts { min, max, unbounded: false, rest: rest.strip_prefix('}')? })
}

/// Reads decimal digits without leading zeros; the number is none if it is far too large.
fn number(text: &str) -> Option<(Option<u32>, &str)> {
    let end = text.bytes().position(|b| !b.is_ascii_digit()).unwrap_or(text.len());
    let (digits, rest) = text.split_at(end);
    if digits.is_empty() || (digits.len() > 1 && digits.starts_with('0')) {
        return None;
    }
    Some((digits.parse().ok(), rest))
}
