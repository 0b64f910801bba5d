//! Floats as Go's `%g` prints them.

/// Prints a finite float; `shortest` is it in plain decimal notation with the fewest digits that read back the same.
pub(super) fn go_float(float: f64, shortest: String) -> String {
    if float == 0.0 {
        return if float.is_sign_negative() { "-0".into() } else { "0".into() };
    }
    let digits: String = shortest.chars().filter(char::is_ascii_digit).collect();
    let digits = digits.trim_start_matches('0').trim_end_matches('0');
    let unsigned = shortest.trim_start_matches('-');
    let (whole, fraction) = unsigned.split_once('.').unwrap_or((unsigned, ""));
    // The power of ten of the first digit.
    let exponent = match whole.trim_start_matches('0').len() {
        0 => -1 - fraction.bytes().take_while(|&byte| byte == b'0').count() as i64,
        length => length as i64 - 1,
    };
    if (-4..EXPONENT_FROM).contains(&exponent) {
        return shortest;
    }
    let (first, rest) = digits.split_at(digits.len().min(1));
    let sign = if float < 0.0 { "-" } else { "" };
    let point = if rest.is_empty() { "" } else { "." };
    let exponent_sign = if exponent < 0 { '-' } else { '+' };
    format!("{sign}{first}{point}{rest}e{exponent_sign}{:02}", exponent.abs())
}

/// The power of ten from which on Go writes an exponent.
const EXPONENT_FROM: i64 = 6;

#[cfg(test)]
mod tests {
    use super::go_float;

    #[test]
    fn prints_as_go_does() {
        for (float, want) in [
            (1.5, "1.5"),
            (-0.25, "-0.25"),
            (100000.5, "100000.5"),
            (1234567.5, "1.2345675e+06"),
            (1e20, "1e+20"),
            (1e21, "1e+21"),
            (0.0001, "0.0001"),
            (0.00001, "1e-05"),
            (1.25e-7, "1.25e-07"),
            (1e100, "1e+100"),
            (-3e300, "-3e+300"),
        ] {
            assert_eq!(go_float(float, float.to_string()), want);
        }
    }
}
