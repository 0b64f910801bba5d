//! Reading a quantity.

use std::borrow::Cow;

use num_bigint::BigInt;

use super::amount::{Amount, power_of_ten};
use super::suffix::{self, Format, Unit};
use super::{ParseError, Quantity, scale};

/// As many decimal digits always fit an `i64`.
const I64_DIGITS: i32 = 18;

/// More digits than this are refused: turning digits into a number takes time with the square of their count.
const DIGITS_MAX: usize = 10_000;

/// Zeros are written out behind the digits up to so many; beyond, the power of ten is kept.
const EXPANDED_ZEROS_MAX: i64 = 4_096;

pub(super) fn quantity(text: &str) -> Result<Quantity, ParseError> {
    if text.is_empty() {
        return Err(ParseError::Format);
    }
    let parts = QuantityParts::split(text)?;
    let (unit, format) = suffix::interpret(parts.suffix).ok_or(ParseError::Suffix)?;
    match small(&parts, unit, format) {
        Some((amount, canonical)) => Ok(Quantity { amount, format, text: canonical.then(|| text.into()) }),
        None => large(&parts, unit, format),
    }
}

/// A quantity's text in pieces. Upstream takes no offence at a missing number: `Ki` is zero.
struct QuantityParts<'a> {
    negative: bool,
    /// The digits before the point, without leading zeros.
    whole: &'a str,
    /// The digits behind the point.
    fraction: &'a str,
    suffix: &'a str,
    /// Whether any digit was there at all.
    has_digits: bool,
}

impl QuantityParts<'_> {
    fn split(text: &str) -> Result<QuantityParts<'_>, ParseError> {
        let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
        let (digits, mut rest) = split_digits(unsigned);
        let mut fraction = "";
        if let Some(after_point) = rest.strip_prefix('.') {
            (fraction, rest) = split_digits(after_point);
        }
        let after_letters = rest.trim_start_matches(['e', 'E', 'i', 'n', 'u', 'm', 'k', 'K', 'M', 'G', 'T', 'P']);
        let after_sign = after_letters.strip_prefix(['+', '-']).unwrap_or(after_letters);
        if !after_sign.bytes().all(|b| b.is_ascii_digit()) {
            return Err(ParseError::Format);
        }
        let stripped = digits.trim_start_matches('0');
        Ok(QuantityParts {
            negative: text.starts_with('-'),
            whole: if stripped.is_empty() { "0" } else { stripped },
            fraction,
            suffix: rest,
            has_digits: !digits.is_empty() || !fraction.is_empty(),
        })
    }

    fn digits(&self) -> Cow<'_, str> {
        match self.fraction {
            "" => Cow::Borrowed(self.whole),
            fraction => Cow::Owned([self.whole, fraction].concat()),
        }
    }
}

fn split_digits(text: &str) -> (&str, &str) {
    text.split_at(text.bytes().take_while(|b| b.is_ascii_digit()).count())
}

/// A number that fits a small mantissa, and whether its text is as good as canonical.
fn small(parts: &QuantityParts<'_>, unit: Unit, format: Format) -> Option<(Amount, bool)> {
    let (whole, fraction) = (parts.whole.len(), parts.fraction.len());
    if whole.saturating_add(fraction) > I64_DIGITS as usize {
        return None;
    }
    let (factor, exponent) = match unit {
        Unit::PowerOfTen(exponent) => (1, exponent.wrapping_sub(fraction as i32)),
        Unit::PowerOfTwo(power) => {
            // 2^10 has three digits, and fifteen in all are safe.
            let digits = whole as i32 + power as i32 * 3 / 10 + 1;
            if fraction > 0 || digits > 15 {
                return None;
            }
            (1i64 << power, 0)
        }
    };
    if exponent < scale::NANO {
        return None;
    }
    let digits = parts.digits();
    let number: i64 = digits.parse().ok()?;
    let product = number.checked_mul(factor)?;
    let canonical = match format {
        Format::BinarySi => number & 7 != 0,
        Format::DecimalSi | Format::DecimalExponent => {
            exponent % 3 == 0 && !digits.ends_with("000") && !digits.starts_with('0')
        }
    };
    let mantissa = if parts.negative { -product } else { product };
    Some((Amount::Small { mantissa, exponent }, canonical))
}

fn large(parts: &QuantityParts<'_>, unit: Unit, mut format: Format) -> Result<Quantity, ParseError> {
    if !parts.has_digits {
        return Err(ParseError::Numeric);
    }
    let digits = parts.digits();
    let significant = digits.trim_start_matches('0').trim_end_matches('0');
    if significant.is_empty() {
        let power = if let Unit::PowerOfTen(power) = unit { i64::from(power) } else { 0 };
        let amount = Amount::large(BigInt::ZERO, power - parts.fraction.len() as i64);
        return Ok(Quantity { amount, format, text: None });
    }
    if significant.len() > DIGITS_MAX {
        return Err(ParseError::Numeric);
    }
    let dropped_zeros = digits.len() - digits.trim_end_matches('0').len();
    let mut mantissa: BigInt = significant.parse().map_err(|_| ParseError::Numeric)?;
    let mut exponent = dropped_zeros as i64 - parts.fraction.len() as i64;
    match unit {
        Unit::PowerOfTen(power) => exponent += i64::from(power),
        Unit::PowerOfTwo(power) => mantissa <<= power,
    }
    (mantissa, exponent) = to_nano(mantissa, exponent);

    if format == Format::BinarySi {
        let one = Amount::Small { mantissa: 1, exponent: 0 };
        let most = Amount::Small { mantissa: i64::MAX, exponent: 0 };
        let amount = Amount::large(mantissa.clone(), exponent);
        if amount.compare(&most).is_gt() {
            (mantissa, exponent) = (BigInt::from(i64::MAX), 0);
        } else if amount.compare(&one).is_lt() {
            format = Format::DecimalSi;
        }
    }
    if parts.negative {
        mantissa = -mantissa;
    }
    Ok(Quantity { amount: Amount::large(mantissa, exponent), format, text: None })
}

/// A positive number in billionths, rounded up. One with very many zeros keeps them as a power of ten.
fn to_nano(mantissa: BigInt, exponent: i64) -> (BigInt, i64) {
    let shift = exponent - i64::from(scale::NANO);
    if shift > EXPANDED_ZEROS_MAX {
        return (mantissa, exponent);
    }
    if shift >= 0 {
        return (mantissa * power_of_ten(shift as u32), i64::from(scale::NANO));
    }
    // A shift past every digit, of which a factor of 2^60 adds nineteen, leaves next to nothing: one billionth.
    let divisor = if shift.unsigned_abs() > DIGITS_MAX as u64 + 32 { None } else { Some(power_of_ten(-shift as u32)) };
    let rounded = match divisor {
        Some(divisor) => (mantissa + &divisor - 1) / divisor,
        None => BigInt::from(1),
    };
    (rounded, i64::from(scale::NANO))
}
