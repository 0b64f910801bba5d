//! Numbers: what Go makes of a literal, and how Go prints a float.

use object::Value;

/// A literal without a place to fit into: an integer where it is written as one and fits, a float otherwise. `None` for
/// what even a float cannot hold.
pub(super) fn untyped(text: &str) -> Option<Value> {
    if !text.contains('.')
        && let Ok(int) = text.parse()
    {
        return Some(Value::Int(int));
    }
    float(text).map(Value::Float)
}

pub(super) fn float(text: &str) -> Option<f64> {
    text.parse().ok().filter(|float: &f64| float.is_finite())
}

/// Prints a float as Go's encoder does: the shortest digits that read back the same, with an exponent only for the very
/// small and the very large.
pub(crate) fn write_float(float: f64, out: &mut Vec<u8>) {
    let magnitude = float.abs();
    if magnitude != 0.0 && !(1e-6..1e21).contains(&magnitude) {
        let text = format!("{float:e}");
        let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        out.extend_from_slice(digits.as_bytes());
        out.push(b'e');
        if !exponent.starts_with('-') {
            out.push(b'+');
        }
        out.extend_from_slice(exponent.as_bytes());
    } else {
        out.extend_from_slice(float.to_string().as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_print_as_in_go() {
        for (float, want) in [
            (0.0, "0"),
            (-0.0, "-0"),
            (1.0, "1"),
            (-1.5, "-1.5"),
            (0.1 + 0.2, "0.30000000000000004"),
            (1e-6, "0.000001"),
            (9.99e-7, "9.99e-7"),
            (1.5e-10, "1.5e-10"),
            (1e20, "100000000000000000000"),
            (1e21, "1e+21"),
            (1.7976931348623157e308, "1.7976931348623157e+308"),
            (5e-324, "5e-324"),
            (123456789.125, "123456789.125"),
        ] {
            let mut out = Vec::new();
            write_float(float, &mut out);
            assert_eq!(String::from_utf8(out).unwrap(), want);
        }
    }

    #[test]
    fn literals_become_integers_where_they_fit() {
        for (text, want) in [
            ("0", Some(Value::Int(0))),
            ("-0", Some(Value::Int(0))),
            ("9223372036854775807", Some(Value::Int(i64::MAX))),
            ("9223372036854775808", Some(Value::Float(2f64.powi(63)))),
            ("1.0", Some(Value::Float(1.0))),
            ("1e3", Some(Value::Float(1000.0))),
            ("1e400", None),
        ] {
            assert_eq!(untyped(text), want, "{text}");
        }
    }
}
