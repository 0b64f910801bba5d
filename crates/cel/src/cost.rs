//! What evaluations cost, and what they will cost at most.

mod actual;
mod estimate;
mod kubernetes;

use crate::types::Type;

pub(crate) use actual::{EQUALITY, actual};
pub(crate) use estimate::estimate;

/// The cost of looking at one character.
pub const STRING_TRAVERSAL: f64 = 0.1;
/// The cost of one character of a regular expression.
pub const REGEX_LENGTH: f64 = 0.25;
pub(crate) const LIST_CREATE: u64 = 10;
pub(crate) const MAP_CREATE: u64 = 30;
pub(crate) const STRUCT_CREATE: u64 = 40;

/// At least and at most so many items, entries, code points or bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    pub min: u64,
    pub max: u64,
}

/// What a call will cost, and how large its result will be where that can be told.
#[derive(Clone, Copy, Debug)]
pub struct CallEstimate {
    pub cost: Range,
    pub result_size: Option<Range>,
}

/// An argument of a call whose cost is estimated.
#[derive(Debug)]
pub struct CallNode<'e> {
    pub ty: &'e Type,
    /// The size, where the expression itself or the schema tells it.
    pub size: Option<Range>,
    /// The value of an integer literal.
    pub literal: Option<i64>,
    /// The size of the items of a list, where the schema tells it.
    pub item_size: Option<Range>,
}

impl Range {
    pub const UNKNOWN: Range = Range { min: 0, max: u64::MAX };

    pub const fn fixed(n: u64) -> Range {
        Range { min: n, max: n }
    }

    pub const fn new(min: u64, max: u64) -> Range {
        Range { min, max }
    }

    /// The sum, which stops at the largest number.
    pub fn plus(self, other: Range) -> Range {
        Range { min: self.min.saturating_add(other.min), max: self.max.saturating_add(other.max) }
    }

    pub fn times(self, other: Range) -> Range {
        Range { min: self.min.saturating_mul(other.min), max: self.max.saturating_mul(other.max) }
    }

    /// Multiplies by a factor and rounds up.
    pub fn scaled(self, factor: f64) -> Range {
        Range { min: scale(self.min, factor), max: scale(self.max, factor) }
    }

    /// The least range that has both.
    pub fn union(self, other: Range) -> Range {
        Range { min: self.min.min(other.min), max: self.max.max(other.max) }
    }
}

/// The least integer that is not less; the largest one for what is beyond. Faster than the one for any float.
pub(crate) fn ceil(n: f64) -> u64 {
    let whole = n as u64;
    if (whole as f64) < n { whole.saturating_add(1) } else { whole }
}

fn scale(n: u64, factor: f64) -> u64 {
    ceil(n as f64 * factor)
}

impl CallEstimate {
    /// An estimate without a size of the result.
    pub const fn of(cost: Range) -> CallEstimate {
        CallEstimate { cost, result_size: None }
    }
}

impl CallNode<'_> {
    pub fn size_or_unknown(&self) -> Range {
        self.size.unwrap_or(Range::UNKNOWN)
    }
}

/// The cost of reading a selector of some length: every other character may begin a requirement.
pub(crate) fn selector(length: Range) -> Range {
    const REQUIREMENTS_PER_CHARACTER: f64 = 0.5;
    let requirements = length.scaled(REQUIREMENTS_PER_CHARACTER).scaled((LIST_CREATE + STRUCT_CREATE) as f64);
    Range::fixed(LIST_CREATE).plus(length.scaled(STRING_TRAVERSAL)).plus(requirements)
}
