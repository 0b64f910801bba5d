//! The units of quantities.

/// The family of units a quantity is printed in: the one it was written with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Format {
    /// `12e6`
    DecimalExponent,
    /// `12Mi`
    BinarySi,
    /// `12M`
    DecimalSi,
}

/// What a suffix multiplies by.
#[derive(Clone, Copy)]
pub(super) enum Unit {
    PowerOfTen(i32),
    PowerOfTwo(u32),
}

const DECIMAL: [(&str, i32); 10] =
    [("n", -9), ("u", -6), ("m", -3), ("", 0), ("k", 3), ("M", 6), ("G", 9), ("T", 12), ("P", 15), ("E", 18)];

const BINARY: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];

/// The suffix for a power of ten. Beyond `E` there is none, and upstream prints the digits without any: what it stores
/// for 1e21 written in full reads `1`.
pub(super) fn decimal(exponent: i32) -> &'static str {
    DECIMAL.iter().find(|(_, power)| *power == exponent).map_or("", |(suffix, _)| suffix)
}

/// The suffix for a power of 1024; none beyond `Ei`, as with [`decimal`].
pub(super) fn binary(power: u64) -> &'static str {
    usize::try_from(power).ok().and_then(|power| BINARY.get(power)).copied().unwrap_or("")
}

pub(super) fn interpret(suffix: &str) -> Option<(Unit, Format)> {
    if let Some((_, power)) = DECIMAL.iter().find(|(text, _)| *text == suffix) {
        return Some((Unit::PowerOfTen(*power), Format::DecimalSi));
    }
    if let Some(power) = BINARY.iter().position(|text| *text == suffix) {
        return Some((Unit::PowerOfTwo(power as u32 * 10), Format::BinarySi));
    }
    let exponent: i64 = suffix.strip_prefix(['e', 'E'])?.parse().ok()?;
    // Upstream keeps the lower half of an exponent that is too large.
    Some((Unit::PowerOfTen(exponent as i32), Format::DecimalExponent))
}
