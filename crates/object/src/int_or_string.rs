//! A number or a string, as ports and rollout limits are written: `80`, `http`, `25%`.

use std::fmt;
use std::num::IntErrorKind;

use crate::{names, quote};

/// An integer or a text, such as a port and its name.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum IntOrString {
    /// An integer.
    Int(i32),
    /// A text.
    String(String),
}

impl IntOrString {
    /// A number when the text is one that fits, a string otherwise.
    pub fn parse(text: &str) -> IntOrString {
        text.parse().map_or_else(|_| IntOrString::String(text.to_string()), IntOrString::Int)
    }

    /// The number, or a string's reading as one: 0 when it is none, the nearest end of the range when it is too large.
    pub fn int_value(&self) -> i64 {
        match self {
            IntOrString::Int(value) => i64::from(*value),
            IntOrString::String(text) => match atoi(text) {
                Ok(value) => value,
                Err(NumError::Syntax) => 0,
                Err(NumError::Range { nearest }) => nearest,
            },
        }
    }

    /// The number in front of the `%`, for a well-formed percentage.
    pub fn percent(&self) -> Option<i64> {
        match self {
            IntOrString::String(text) if names::percent(text).is_empty() => {
                Some(IntOrString::String(text.trim_end_matches('%').to_string()).int_value())
            }
            _ => None,
        }
    }

    /// The number itself, or the percentage of `total`. A string that is no percentage is an error, with upstream's text.
    pub fn scaled_value(&self, total: i64, round_up: bool) -> Result<i64, String> {
        let text = match self {
            IntOrString::Int(value) => return Ok(i64::from(*value)),
            IntOrString::String(text) => text,
        };
        let Some(number) = text.strip_suffix('%') else {
            return Err("invalid value for IntOrString: invalid type: string is not a percentage".to_string());
        };
        let percent = atoi(number).map_err(|error| {
            let (value, number) = (quote(text), quote(number));
            format!("invalid value for IntOrString: invalid value {value}: strconv.Atoi: parsing {number}: {error}")
        })?;
        let share = percent as f64 * total as f64 / 100.0;
        Ok(if round_up { share.ceil() } else { share.floor() } as i64)
    }
}

impl fmt::Display for IntOrString {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            IntOrString::Int(value) => value.fmt(f),
            IntOrString::String(text) => text.fmt(f),
        }
    }
}

/// Why Go's `strconv.Atoi` refuses a text.
enum NumError {
    Syntax,
    Range { nearest: i64 },
}

impl fmt::Display for NumError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            NumError::Syntax => "invalid syntax",
            NumError::Range { .. } => "value out of range",
        })
    }
}

fn atoi(text: &str) -> Result<i64, NumError> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    if !digits.starts_with(|c: char| c.is_ascii_digit()) {
        return Err(NumError::Syntax);
    }
    let nearest = if text.starts_with('-') { i64::MIN } else { i64::MAX };
    // Go reads 64 bits without a sign first, and what goes wrong first counts: too many digits or a letter behind them.
    match digits.parse::<u64>() {
        Err(error) if *error.kind() == IntErrorKind::InvalidDigit => Err(NumError::Syntax),
        _ => text.parse().map_err(|_| NumError::Range { nearest }),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn string(text: &str) -> IntOrString {
        IntOrString::String(text.to_string())
    }

    #[test]
    fn texts_become_numbers_when_they_fit() {
        let cases = [
            ("80", IntOrString::Int(80)),
            ("-1", IntOrString::Int(-1)),
            ("+7", IntOrString::Int(7)),
            ("2147483647", IntOrString::Int(i32::MAX)),
            ("2147483648", string("2147483648")),
            ("http", string("http")),
            ("", string("")),
            ("10%", string("10%")),
        ];
        for (text, want) in cases {
            assert_eq!(IntOrString::parse(text), want);
        }
    }

    #[test]
    fn strings_have_int_values_and_percents() {
        let cases = [
            (IntOrString::Int(5), 5, None),
            (string("5"), 5, None),
            (string("http"), 0, None),
            (string("99999999999999999999"), i64::MAX, None),
            (string("-99999999999999999999"), i64::MIN, None),
            (string("25%"), 0, Some(25)),
            (string("99999999999999999999%"), i64::MAX, Some(i64::MAX)),
            (string("-25%"), 0, None),
            (string("25%%"), 0, None),
            (string("9999999999999999999a"), 0, None),
            (string("99999999999999999999a"), i64::MAX, None),
            (string("++5"), 0, None),
        ];
        for (value, int, percent) in cases {
            assert_eq!((value.int_value(), value.percent()), (int, percent), "{value}");
        }
    }

    #[test]
    fn percentages_scale() {
        let not_percent = "invalid value for IntOrString: invalid type: string is not a percentage";
        let cases = [
            (IntOrString::Int(123), 0, true, Ok(123)),
            (string("90%"), 100, true, Ok(90)),
            (string("95%"), 10, true, Ok(10)),
            (string("95%"), 10, false, Ok(9)),
            (string("-5%"), 10, false, Ok(-1)),
            (string("-5%"), 10, true, Ok(0)),
            (string("17"), 10, true, Err(not_percent)),
            (string(""), 10, true, Err(not_percent)),
            (
                string("%"),
                10,
                true,
                Err(r#"invalid value for IntOrString: invalid value "%": strconv.Atoi: parsing "": invalid syntax"#),
            ),
            (
                string("1a%"),
                10,
                true,
                Err(
                    r#"invalid value for IntOrString: invalid value "1a%": strconv.Atoi: parsing "1a": invalid syntax"#,
                ),
            ),
            (
                string("9999999999999999999%"),
                10,
                true,
                Err(
                    r#"invalid value for IntOrString: invalid value "9999999999999999999%": strconv.Atoi: parsing "9999999999999999999": value out of range"#,
                ),
            ),
        ];
        for (value, total, up, want) in cases {
            assert_eq!(value.scaled_value(total, up), want.map_err(str::to_string), "{value} of {total}");
        }
    }

    proptest! {
        #[test]
        fn printing_and_parsing_agree(number: i32) {
            prop_assert_eq!(IntOrString::parse(&IntOrString::Int(number).to_string()), IntOrString::Int(number));
        }
    }
}
