//! Numbers as Go reads them, and what it says about texts that are none.

use std::num::IntErrorKind;

use crate::quote;

/// `strconv.ParseUint` in base ten: digits only, no sign.
pub fn parse_uint(text: &str) -> Result<u64, String> {
    let why = match text.parse::<u64>() {
        Ok(number) if !text.starts_with('+') => return Ok(number),
        Err(error) if *error.kind() == IntErrorKind::PosOverflow && !text.starts_with('+') => "value out of range",
        _ => "invalid syntax",
    };
    Err(format!("strconv.ParseUint: parsing {}: {why}", quote(text)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_numbers() {
        for (text, want) in [
            ("0", Ok(0)),
            ("18446744073709551615", Ok(u64::MAX)),
            ("", Err(r#"strconv.ParseUint: parsing "": invalid syntax"#)),
            ("abc", Err(r#"strconv.ParseUint: parsing "abc": invalid syntax"#)),
            ("+1", Err(r#"strconv.ParseUint: parsing "+1": invalid syntax"#)),
            ("-1", Err(r#"strconv.ParseUint: parsing "-1": invalid syntax"#)),
            ("18446744073709551616", Err(r#"strconv.ParseUint: parsing "18446744073709551616": value out of range"#)),
        ] {
            assert_eq!(parse_uint(text), want.map_err(String::from), "{text}");
        }
    }
}
