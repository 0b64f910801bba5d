//! Numbers of pods that may be given as a share of all of them: `3` or `25%`.

use object::int_or_string::IntOrString;
use object::{BadValue, Cursor, Errors, Value, names};

/// A number must not be negative, a string must be a percentage.
pub fn validate(amount: &Cursor, errors: &mut Errors) {
    match amount.value() {
        Value::String(text) => {
            for message in names::percent(text) {
                // Upstream shows a struct here, and structs as JSON.
                amount.invalid_as(errors, BadValue::json(amount.value()), message);
            }
        }
        _ => amount.non_negative(errors),
    }
}

/// A percentage of more than everything makes no sense.
pub fn at_most_everything(amount: &Cursor, errors: &mut Errors) {
    if read(amount).percent().is_some_and(|percent| percent > 100) {
        amount.invalid(errors, "must not be greater than 100%");
    }
}

/// Whether this is none at all: `0` or `0%`. So is a string that is neither a number nor a percentage.
pub fn is_zero(amount: &Cursor) -> bool {
    let amount = read(amount);
    amount.percent().unwrap_or_else(|| amount.int_value()) == 0
}

fn read(amount: &Cursor) -> IntOrString {
    match amount.value() {
        Value::String(text) => IntOrString::String(text.to_string()),
        other => {
            let number = other.as_int().unwrap_or(0);
            IntOrString::Int(number.clamp(i64::from(i32::MIN), i64::from(i32::MAX)) as i32)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_numbers_or_percentages() {
        let not_percent = "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or \
                           '93%', regex used for validation is '[0-9]+%')";
        let cases: [(Value, bool, &str); 9] = [
            (Value::from(3), false, "[]"),
            (Value::from(0), true, "[]"),
            (Value::from(-1), false, "x: Invalid value: -1: must be greater than or equal to 0"),
            (Value::from("0%"), true, "[]"),
            (Value::from("100%"), false, "[]"),
            (Value::from("101%"), false, r#"x: Invalid value: "101%": must not be greater than 100%"#),
            (Value::from("many"), true, &format!(r#"x: Invalid value: "many": {not_percent}"#)),
            (Value::from("<%"), true, &format!(r#"x: Invalid value: "\u003c%": {not_percent}"#)),
            (Value::Null, true, "[]"),
        ];
        for (value, zero, want) in cases {
            let (amount, mut errors) = (Cursor::new(&value, object::Path::of("x")), Errors::new());
            validate(&amount, &mut errors);
            at_most_everything(&amount, &mut errors);
            assert_eq!((is_zero(&amount), errors.aggregate().as_str()), (zero, want), "{value:?}");
        }
    }
}
