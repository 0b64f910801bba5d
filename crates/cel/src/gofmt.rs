//! Numbers as Go writes and reads them.

/// `%g`: the shortest digits that read back as the same number, with an exponent where that is long.
pub fn shortest(d: f64) -> String {
    if let Some(special) = special(d) {
        return special.to_string();
    }
    let (negative, digits, exponent) = decimal(d);
    let sign = if negative { "-" } else { "" };
    if !(-4..6).contains(&exponent) {
        return format!("{sign}{}", scientific(&digits, exponent));
    }
    format!("{sign}{}", plain(&digits, exponent))
}

/// Infinities and not-a-number.
fn special(d: f64) -> Option<&'static str> {
    match d {
        _ if d.is_nan() => Some("NaN"),
        f64::INFINITY => Some("+Inf"),
        f64::NEG_INFINITY => Some("-Inf"),
        _ => None,
    }
}

/// Sign, shortest digits and decimal exponent: `d.ddd × 10^exponent`.
fn decimal(d: f64) -> (bool, String, i32) {
    let text = format!("{:e}", d.abs());
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let digits: String = mantissa.chars().filter(|c| *c != '.').collect();
    (d.is_sign_negative(), digits, exponent.parse().unwrap_or(0))
}

fn scientific(digits: &str, exponent: i32) -> String {
    let (first, rest) = digits.split_at(1);
    let point = if rest.is_empty() { "" } else { "." };
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{first}{point}{rest}e{sign}{:02}", exponent.abs())
}

fn plain(digits: &str, exponent: i32) -> String {
    if exponent < 0 {
        return format!("0.{}{digits}", "0".repeat((-exponent - 1) as usize));
    }
    let whole = exponent as usize + 1;
    if digits.len() <= whole {
        return format!("{digits}{}", "0".repeat(whole - digits.len()));
    }
    format!("{}.{}", &digits[..whole], &digits[whole..])
}

/// `strconv.FormatFloat(d, 'f', -1, 64)`.
pub fn fixed(d: f64) -> String {
    if let Some(special) = special(d) {
        return special.to_string();
    }
    let (negative, digits, exponent) = decimal(d);
    format!("{}{}", if negative { "-" } else { "" }, plain(&digits, exponent))
}

/// A duration in seconds: `3.5s`.
pub fn duration_seconds(nanos: i64) -> String {
    let (whole, rest) = (nanos / 1_000_000_000, nanos % 1_000_000_000);
    // In this order of operations Go's result has the same last digit.
    fixed(whole as f64 + rest as f64 / 1e9) + "s"
}

/// What Go's `strconv.ParseFloat` reads; none for what is out of range.
pub fn parse_float(text: &str) -> Option<f64> {
    if text.contains('_') {
        return if separates_digits(text) { parse_float(&text.replace('_', "")) } else { None };
    }
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    match unsigned.to_ascii_lowercase().as_str() {
        "inf" | "infinity" => return Some(if text.starts_with('-') { f64::NEG_INFINITY } else { f64::INFINITY }),
        "nan" if unsigned == text => return Some(f64::NAN),
        _ => {}
    }
    if let Some(hex) = unsigned.strip_prefix("0x").or_else(|| unsigned.strip_prefix("0X")) {
        let magnitude = parse_hex(hex)?;
        return Some(if text.starts_with('-') { -magnitude } else { magnitude }).filter(|d| d.is_finite());
    }
    let allowed = |c: u8| c.is_ascii_digit() || matches!(c, b'.' | b'e' | b'E' | b'+' | b'-');
    if !unsigned.bytes().all(allowed) || !unsigned.bytes().any(|c| c.is_ascii_digit()) {
        return None;
    }
    text.parse::<f64>().ok().filter(|d| d.is_finite())
}

/// Whether every underscore is between two digits, or between the prefix of a hexadecimal number and a digit.
fn separates_digits(text: &str) -> bool {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text).to_ascii_lowercase();
    let (digits, is_hex) = unsigned.strip_prefix("0x").map_or((unsigned.as_str(), false), |hex| (hex, true));
    let is_digit = |c: Option<char>| c.is_some_and(|c| c.is_ascii_digit() || is_hex && c.is_ascii_hexdigit());
    let separates = |at: usize| {
        let before = digits[..at].chars().next_back();
        (is_digit(before) || is_hex && at == 0) && is_digit(digits[at + 1..].chars().next())
    };
    digits.match_indices('_').all(|(at, _)| separates(at))
}

/// A hexadecimal mantissa and a binary exponent, which must be there: `1.8p3`.
fn parse_hex(text: &str) -> Option<f64> {
    let (mantissa, exponent) = text.split_once(['p', 'P'])?;
    let exponent: i32 = exponent.parse().ok()?;
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let mut value = 0.0_f64;
    let mut scale = 0;
    for (i, c) in whole.chars().chain(fraction.chars()).enumerate() {
        value = value * 16.0 + f64::from(c.to_digit(16)?);
        scale += if i >= whole.len() { 4 } else { 0 };
    }
    Some(value * 2.0_f64.powi(exponent.saturating_sub(scale)))
}

#[cfg(test)]
mod tests {
    use super::{duration_seconds, parse_float, shortest};

    #[test]
    fn numbers_are_written_as_go_writes_them() {
        for (d, text) in [
            (0.0, "0"),
            (-0.0, "-0"),
            (1.0, "1"),
            (1.5, "1.5"),
            (100_000.0, "100000"),
            (1_000_000.0, "1e+06"),
            (123_456_789.0, "1.23456789e+08"),
            (0.0001, "0.0001"),
            (0.00001, "1e-05"),
            (1e21, "1e+21"),
            (f64::INFINITY, "+Inf"),
            (f64::NAN, "NaN"),
        ] {
            assert_eq!(shortest(d), text);
        }
        assert_eq!(duration_seconds(1_500_000_000), "1.5s");
        assert_eq!(duration_seconds(-1), "-0.000000001s");
    }

    #[test]
    fn numbers_are_read_as_go_reads_them() {
        for (text, want) in [
            ("1", Some(1.0)),
            (".5", Some(0.5)),
            ("1.", Some(1.0)),
            ("1e3", Some(1000.0)),
            ("0x1p-2", Some(0.25)),
            ("-Inf", Some(f64::NEG_INFINITY)),
            ("1_000", Some(1000.0)),
            ("0x_1_0p0", Some(16.0)),
            ("1e1_0", Some(1e10)),
            ("1__0", None),
            ("_1", None),
            ("1_", None),
            ("1_.5", None),
            ("1e400", None),
            ("", None),
            (" 1", None),
            ("e", None),
        ] {
            assert_eq!(parse_float(text), want, "{text:?}");
        }
    }
}
