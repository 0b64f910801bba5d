//! The number in a quantity: a mantissa times a power of ten.

use std::cmp::Ordering;

use num_bigint::{BigInt, Sign};
use num_traits::{Euclid, Signed, Zero};

/// Two numbers whose powers of ten are further apart than this are not added digit by digit: the smaller vanishes. A
/// sum of `1e1000000000` and `1` would otherwise fill the memory.
const EXPONENT_GAP_MAX: i64 = 20_000;

#[derive(Debug, Clone)]
pub(super) enum Amount {
    Small {
        mantissa: i64,
        exponent: i32,
    },
    /// What does not fit, or was written with a fraction of a binary unit.
    Large {
        mantissa: BigInt,
        exponent: i32,
    },
}

pub(super) fn power_of_ten(exponent: u32) -> BigInt {
    BigInt::from(10).pow(exponent)
}

impl Amount {
    pub fn large(mantissa: BigInt, exponent: i64) -> Amount {
        Amount::Large { mantissa, exponent: exponent.clamp(i32::MIN.into(), i32::MAX.into()) as i32 }
    }

    pub fn signum(&self) -> i32 {
        match self {
            Amount::Small { mantissa, .. } => mantissa.signum() as i32,
            Amount::Large { mantissa, .. } => match mantissa.sign() {
                Sign::Minus => -1,
                Sign::NoSign => 0,
                Sign::Plus => 1,
            },
        }
    }

    pub fn negated(&self) -> Amount {
        match self {
            Amount::Small { mantissa, exponent } => match mantissa.checked_neg() {
                Some(mantissa) => Amount::Small { mantissa, exponent: *exponent },
                None => Amount::Large { mantissa: -BigInt::from(*mantissa), exponent: *exponent },
            },
            Amount::Large { mantissa, exponent } => Amount::Large { mantissa: -mantissa, exponent: *exponent },
        }
    }

    pub fn plus(&self, other: &Amount) -> Amount {
        if let (Amount::Small { mantissa: a, exponent: e }, Amount::Small { mantissa: b, exponent: f }) = (self, other)
            && let Some(sum) = small_sum((*a, *e), (*b, *f))
        {
            return sum;
        }
        let (a, e) = self.parts();
        let (b, f) = other.parts();
        let lower = e.min(f);
        if e.max(f) - lower > EXPONENT_GAP_MAX {
            let keep_a = b.is_zero() || (!a.is_zero() && magnitude_order(&a, e) > magnitude_order(&b, f));
            let (mantissa, exponent) = if keep_a { (a, e) } else { (b, f) };
            return Amount::large(mantissa, exponent);
        }
        let sum = a * power_of_ten((e - lower) as u32) + b * power_of_ten((f - lower) as u32);
        Amount::large(sum, lower)
    }

    pub fn compare(&self, other: &Amount) -> Ordering {
        if let (Amount::Small { mantissa: a, exponent: e }, Amount::Small { mantissa: b, exponent: f }) = (self, other)
            && e == f
        {
            return a.cmp(b);
        }
        let sign = self.signum();
        if sign != other.signum() || sign == 0 {
            return sign.cmp(&other.signum());
        }
        let (a, e) = self.parts();
        let (b, f) = other.parts();
        // Numbers of different length are told apart by it; only then are powers of ten few enough to write out.
        let by_magnitude = magnitude_order(&a, e).cmp(&magnitude_order(&b, f)).then_with(|| {
            let lower = e.min(f);
            let a = a.magnitude() * power_of_ten((e - lower) as u32).magnitude();
            let b = b.magnitude() * power_of_ten((f - lower) as u32).magnitude();
            a.cmp(&b)
        });
        if sign < 0 { by_magnitude.reverse() } else { by_magnitude }
    }

    /// Whether binary units have anything to divide.
    pub fn reaches_1024(&self) -> bool {
        let limit = |mantissa| Amount::Small { mantissa, exponent: 0 };
        self.compare(&limit(1024)).is_ge() || self.compare(&limit(-1024)).is_le()
    }

    /// The digits and the power of ten, a multiple of three and as large as it can be.
    pub fn base_1000(&self) -> (String, i32) {
        let (mut digits, mut exponent) = match self {
            Amount::Small { mantissa, exponent } => (mantissa.to_string(), *exponent),
            Amount::Large { mantissa, exponent } => (mantissa.to_string(), *exponent),
        };
        let significant = digits.trim_end_matches('0').len();
        exponent = exponent.wrapping_add((digits.len() - significant) as i32);
        digits.truncate(significant);
        let excess = exponent.rem_euclid(3);
        digits.push_str(&"00"[..excess as usize]);
        (digits, exponent.wrapping_sub(excess))
    }

    /// The digits and the power of 1024, as large as it can be; nothing for a number with a fraction.
    pub fn base_1024(&self) -> Option<(String, u64)> {
        let (mantissa, exponent) = self.parts();
        let integer = match exponent {
            0 => mantissa,
            1..=EXPONENT_GAP_MAX => mantissa * power_of_ten(exponent as u32),
            ..0 => {
                let digits = u32::try_from(-exponent).ok()?;
                let (quotient, remainder) = mantissa.div_rem_euclid(&power_of_ten(digits));
                Some(quotient).filter(|_| remainder.is_zero())?
            }
            _ => return None,
        };
        let power = integer.trailing_zeros()? / 10;
        Some(((integer >> (power * 10)).to_string(), power))
    }

    pub fn as_i64(&self) -> Option<i64> {
        match self {
            Amount::Small { mantissa, exponent: 0.. } => scaled_up(*mantissa, self.parts().1),
            _ => None,
        }
    }

    pub fn scaled_value(&self, scale: i32) -> i64 {
        match self {
            Amount::Small { mantissa, exponent } => {
                let shift = i64::from(*exponent) - i64::from(scale);
                if shift >= 0 { scaled_up_or_wrapped(*mantissa, shift) } else { scaled_down(*mantissa, -shift) }
            }
            Amount::Large { mantissa, exponent } => {
                large_scaled_value(mantissa, i64::from(*exponent) - i64::from(scale))
            }
        }
    }

    /// Without what is finer than this power of ten, rounded away from zero; None where nothing is.
    pub fn rounded_up(&self, scale: i32) -> Option<Amount> {
        let (mantissa, exponent) = self.parts();
        let shift = u32::try_from(i64::from(scale) - exponent).ok().filter(|shift| *shift > 0)?;
        let divisor = power_of_ten(shift.min(EXPONENT_GAP_MAX as u32));
        if (&mantissa % &divisor).is_zero() {
            return None;
        }
        let rounded = &mantissa / &divisor + mantissa.signum();
        Some(match i64::try_from(&rounded) {
            Ok(mantissa) => Amount::Small { mantissa, exponent: scale },
            Err(_) => Amount::large(rounded, i64::from(scale)),
        })
    }

    pub fn as_approximate_f64(&self) -> f64 {
        let (mantissa, exponent) = match self {
            Amount::Small { mantissa, exponent } => (*mantissa as f64, *exponent),
            // By way of the digits, which round to the nearest float and to an infinity beyond the last one.
            Amount::Large { mantissa, exponent } => (mantissa.to_string().parse().unwrap_or(f64::NAN), *exponent),
        };
        if exponent == 0 { mantissa } else { mantissa * pow10(exponent) }
    }

    fn parts(&self) -> (BigInt, i64) {
        match self {
            Amount::Small { mantissa, exponent } => (BigInt::from(*mantissa), i64::from(*exponent)),
            Amount::Large { mantissa, exponent } => (mantissa.clone(), i64::from(*exponent)),
        }
    }
}

fn small_sum((a, e): (i64, i32), (b, f): (i64, i32)) -> Option<Amount> {
    if b == 0 {
        return Some(Amount::Small { mantissa: a, exponent: e });
    }
    if a == 0 {
        return Some(Amount::Small { mantissa: b, exponent: f });
    }
    let lower = e.min(f);
    let a = scaled_up(a, i64::from(e) - i64::from(lower))?;
    let b = scaled_up(b, i64::from(f) - i64::from(lower))?;
    Some(Amount::Small { mantissa: a.checked_add(b)?, exponent: lower })
}

/// How many digits stand before the point; less than one when the number starts behind it.
fn magnitude_order(mantissa: &BigInt, exponent: i64) -> i64 {
    mantissa.magnitude().to_string().len() as i64 + exponent
}

fn scaled_up(mantissa: i64, shift: i64) -> Option<i64> {
    if mantissa == 0 {
        return Some(0);
    }
    mantissa.checked_mul(10i64.checked_pow(u32::try_from(shift).ok()?)?)
}

/// What upstream returns when the product does not fit, which its callers do not ask about: the lower bits for the common
/// units, zero for the others.
fn scaled_up_or_wrapped(mantissa: i64, shift: i64) -> i64 {
    let wrapped = || match shift {
        1 | 2 | 3 | 6 | 9 if mantissa != i64::MIN => mantissa.wrapping_mul(10i64.pow(shift as u32)),
        _ => 0,
    };
    scaled_up(mantissa, shift).unwrap_or_else(wrapped)
}

/// Divides by a power of ten and rounds away from zero.
fn scaled_down(mantissa: i64, shift: i64) -> i64 {
    match u32::try_from(shift).ok().and_then(|shift| 10i64.checked_pow(shift)) {
        Some(divisor) => mantissa / divisor + if mantissa % divisor == 0 { 0 } else { mantissa.signum() },
        None => mantissa.signum(),
    }
}

/// `mantissa × 10^shift` as upstream computes it for large numbers: the lower 64 bits where it does not fit, and one more
/// than the quotient for every remainder, which for negative numbers is not always rounding up.
fn large_scaled_value(mantissa: &BigInt, shift: i64) -> i64 {
    let down = match shift {
        0 => return low_bits(mantissa),
        1..=18 => return low_bits(mantissa).wrapping_mul(10i64.pow(shift as u32)),
        // Go's conversion of a float that is too large for an integer.
        19..=EXPONENT_GAP_MAX => return low_bits(mantissa).wrapping_mul(i64::MIN),
        // Upstream would have written out the zeros, and the lower bits are zero.
        _ if shift > 0 => return 0,
        _ => u32::try_from(-shift).unwrap_or(u32::MAX),
    };
    if down < 19 && *mantissa < BigInt::from(i64::MAX) {
        let (mantissa, divisor) = (low_bits(mantissa), 10i64.pow(down));
        return mantissa / divisor + i64::from(mantissa % divisor != 0);
    }
    if i64::from(down) > EXPONENT_GAP_MAX {
        return i64::from(!mantissa.is_zero());
    }
    let (quotient, remainder) = mantissa.div_rem_euclid(&power_of_ten(down));
    low_bits(&quotient).wrapping_add(i64::from(!remainder.is_zero()))
}

/// The lower 64 bits of the magnitude, with the sign.
fn low_bits(number: &BigInt) -> i64 {
    let magnitude = number.magnitude().iter_u64_digits().next().unwrap_or(0) as i64;
    if number.sign() == Sign::Minus { magnitude.wrapping_neg() } else { magnitude }
}

/// A power of ten as a float, put together from two as Go's `math.Pow10` does, for the same last bit.
fn pow10(exponent: i32) -> f64 {
    match exponent {
        0..=308 => nearest_power(exponent / 32 * 32) * nearest_power(exponent % 32),
        -323..0 => nearest_power(exponent / 32 * 32) / nearest_power(-exponent % 32),
        309.. => f64::INFINITY,
        _ => 0.0,
    }
}

/// The float nearest to a power of ten.
fn nearest_power(exponent: i32) -> f64 {
    format!("1e{exponent}").parse().expect("a power of ten is a number")
}
