//! Quantities: exact decimal numbers with a unit, `100m`, `1.5Gi`, `12e6`.
//!
//! A number is a mantissa and a power of ten. Nearly every quantity fits an `i64` mantissa; only what does not goes
//! through big integers. Upstream draws the same line, and what it prints and how its conversions overflow depend on
//! which side of it a number is, so the line is kept where upstream has it.

mod amount;
mod parse;
mod suffix;

use std::cmp::Ordering;
use std::fmt;

use compact_str::CompactString;

use amount::Amount;
pub use suffix::Format;

/// A number, the family of units it is printed in, and its text when that needs no rewriting.
///
/// Two quantities are equal when their numbers are: `1` equals `1000m`.
#[derive(Debug, Clone)]
pub struct Quantity {
    amount: Amount,
    format: Format,
    /// What was parsed, where upstream prints it back unchanged (`1.500` for one, and `+1`). Arithmetic drops it.
    text: Option<CompactString>,
}

/// Why a text is no quantity, in upstream's words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ParseError {
    /// It is not written as a quantity.
    #[error("quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'")]
    Format,
    /// Its number cannot be read.
    #[error("unable to parse numeric part of quantity")]
    Numeric,
    /// Its suffix is unknown.
    #[error("unable to parse quantity's suffix")]
    Suffix,
}

/// The power of ten of a unit, for [`Quantity::scaled_value`].
pub mod scale {
    /// Billionths.
    pub const NANO: i32 = -9;
    /// Millionths.
    pub const MICRO: i32 = -6;
    /// Thousandths.
    pub const MILLI: i32 = -3;
    /// Ones.
    pub const UNIT: i32 = 0;
    /// Thousands.
    pub const KILO: i32 = 3;
    /// Millions.
    pub const MEGA: i32 = 6;
    /// Billions.
    pub const GIGA: i32 = 9;
}

impl Quantity {
    /// `value` as it is: `Quantity::new(1024, Format::BinarySi)` is `1Ki`.
    pub fn new(value: i64, format: Format) -> Quantity {
        Quantity { amount: Amount::Small { mantissa: value, exponent: 0 }, format, text: None }
    }

    /// So many thousandths.
    pub fn from_milli(value: i64, format: Format) -> Quantity {
        Quantity { amount: Amount::Small { mantissa: value, exponent: scale::MILLI }, format, text: None }
    }

    /// Nothing.
    pub fn zero() -> Quantity {
        Quantity::new(0, Format::DecimalSi)
    }

    /// Reads a quantity. Digits beyond a billionth are rounded up, away from zero.
    pub fn parse(text: &str) -> Result<Quantity, ParseError> {
        parse::quantity(text)
    }

    /// Reads a quantity from JSON: the inside of a string, where blanks around it do not matter, or a bare number as it
    /// was written.
    pub fn parse_json(text: &str) -> Result<Quantity, ParseError> {
        Quantity::parse(text.trim())
    }

    /// The amount in thousandths, rounded away from zero, if it has a finer fraction.
    pub fn rounded_to_milli(&self) -> Option<Quantity> {
        let amount = self.amount.rounded_up(scale::MILLI)?;
        Some(Quantity { amount, format: self.format, text: None })
    }

    /// How it is printed.
    pub fn format(&self) -> Format {
        self.format
    }

    /// Whether it is nothing.
    pub fn is_zero(&self) -> bool {
        self.amount.signum() == 0
    }

    /// -1, 0 or 1.
    pub fn signum(&self) -> i32 {
        self.amount.signum()
    }

    /// The number of whole units, a fraction rounded up. As upstream's, it is zero or wraps around when it does not fit.
    pub fn value(&self) -> i64 {
        self.scaled_value(scale::UNIT)
    }

    /// The number of thousandths, as [`Quantity::value`].
    pub fn milli_value(&self) -> i64 {
        self.scaled_value(scale::MILLI)
    }

    /// The number of units of ten to the power of `scale`, as [`Quantity::value`].
    pub fn scaled_value(&self, scale: i32) -> i64 {
        self.amount.scaled_value(scale)
    }

    /// The number, if upstream keeps it as an integer that fits. `1.0` is not kept as one, and neither is `1Ei`.
    pub fn as_i64(&self) -> Option<i64> {
        self.amount.as_i64()
    }

    /// The nearest floating-point number, or one beside it.
    pub fn as_approximate_f64(&self) -> f64 {
        self.amount.as_approximate_f64()
    }

    /// Adds in place; a zero takes on the format of what is added.
    pub fn add(&mut self, other: &Quantity) {
        self.combine(&other.amount, other.format);
    }

    /// Subtracts in place; a zero takes on the format of what is subtracted.
    pub fn sub(&mut self, other: &Quantity) {
        self.combine(&other.amount.negated(), other.format);
    }

    fn combine(&mut self, other: &Amount, format: Format) {
        if self.is_zero() {
            self.format = format;
        }
        self.amount = self.amount.plus(other);
        self.text = None;
    }

    /// Changes the sign in place.
    pub fn negate(&mut self) {
        self.amount = self.amount.negated();
        self.text = None;
    }

    /// The number with the largest unit that leaves no fraction.
    fn write_canonical(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_zero() {
            return f.write_str("0");
        }
        if let Format::BinarySi = self.format
            && self.amount.reaches_1024()
            && let Some((digits, power)) = self.amount.base_1024()
        {
            return write!(f, "{digits}{}", suffix::binary(power));
        }
        // A binary quantity that would need a fraction, or has nothing to divide, is printed in decimal.
        let (digits, exponent) = self.amount.base_1000();
        match self.format {
            Format::DecimalExponent if exponent == 0 => write!(f, "{digits}"),
            Format::DecimalExponent => write!(f, "{digits}e{exponent}"),
            Format::DecimalSi | Format::BinarySi => write!(f, "{digits}{}", suffix::decimal(exponent)),
        }
    }
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.text {
            Some(text) => f.write_str(text),
            None => self.write_canonical(f),
        }
    }
}

impl Default for Quantity {
    fn default() -> Quantity {
        Quantity::zero()
    }
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Quantity) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Quantity {}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Quantity) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Quantity {
    fn cmp(&self, other: &Quantity) -> Ordering {
        self.amount.compare(&other.amount)
    }
}

#[cfg(test)]
mod tests;
