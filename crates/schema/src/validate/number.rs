//! Bounds of numbers, with upstream's ways of comparing ints to bounds that are floats.

use object::Value;

use super::outcome::Outcome;
use super::place::Steps;
use crate::types::Rules;

/// The largest float up to which every whole number has a float of its own.
const MAX_WHOLE: f64 = 9_007_199_254_740_991.0;

pub fn check(path: Steps<'_>, types: &[&str], format: &str, rules: Option<&Rules>, value: &Value) -> Outcome {
    let mut outcome = Outcome::default();
    let only = if let [only] = types { only } else { "" };
    let range = NumberRange { path, kind: only, format };
    range.check(value, "Checked", &mut outcome);
    if let Some(rules) = rules {
        if let Some(factor) = rules.multiple_of {
            let fits = range.check(&Value::Float(factor), "MultipleOf", &mut outcome);
            multiple_of(path, value, factor, fits, &mut outcome);
        }
        let bounds = [
            (rules.minimum, "Minimum boundary", rules.exclusive_minimum, false),
            (rules.maximum, "Maximum boundary", rules.exclusive_maximum, true),
        ];
        for (bound, name, exclusive, upper) in bounds {
            let Some(bound) = bound else { continue };
            let fits = range.check(&Value::Float(bound), name, &mut outcome);
            compare(path, value, NumberBound { bound, exclusive, upper, fits }, &mut outcome);
        }
    }
    outcome.matches += 1;
    outcome
}

/// Whether a float is a whole number as far as JSON is concerned; differences below the precision of a float do not count.
pub fn is_whole(f: f64) -> bool {
    if !f.is_finite() || f.abs() > MAX_WHOLE {
        return false;
    }
    let nearest = f.trunc();
    f == nearest || (f - nearest).abs() / (f.abs() + nearest.abs()) < 1e-9
}

/// A float as Go's `%v` prints it: the shortest digits, with an exponent when it is below -4 or above 5.
pub fn go_number(f: f64) -> String {
    if f == 0.0 || !f.is_finite() {
        return f.to_string();
    }
    let scientific = format!("{f:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..6).contains(&exponent) {
        return f.to_string();
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.abs())
}

/// What a type and its format can hold.
struct NumberRange<'a> {
    path: Steps<'a>,
    kind: &'a str,
    format: &'a str,
}

impl NumberRange<'_> {
    /// Reports a number that the type cannot hold, `name` being what the number is.
    fn check(&self, value: &Value, name: &str, outcome: &mut Outcome) -> bool {
        let fits = match (self.kind, self.format) {
            ("integer", "int32") => as_int(value).is_some_and(|i| i32::try_from(i).is_ok()),
            ("integer", _) => as_int(value).is_some(),
            (_, "float") => value.as_float().is_some_and(|f| f.abs() <= f64::from(f32::MAX)),
            _ => true,
        };
        if !fits {
            let NumberRange { path, kind, format } = self;
            outcome.composite(match *format {
                "" => format!("{name} value must be of type {kind} (default format) in {path}"),
                format => format!("{name} value must be of type {kind} with format {format} in {path}"),
            });
        }
        fits
    }
}

/// The number as an int if its decimal text is one.
fn as_int(value: &Value) -> Option<i64> {
    match value {
        Value::Int(i) => Some(*i),
        Value::Float(f) => f.to_string().parse().ok(),
        _ => None,
    }
}

struct NumberBound {
    bound: f64,
    exclusive: bool,
    upper: bool,
    /// Whether the type can hold the bound; otherwise everything is compared as floats.
    fits: bool,
}

fn compare(path: Steps<'_>, value: &Value, rule: NumberBound, outcome: &mut Outcome) {
    let NumberBound { bound, exclusive, upper, fits } = rule;
    let words = match (upper, exclusive) {
        (true, false) => "should be less than or equal to",
        (true, true) => "should be less than",
        (false, false) => "should be greater than or equal to",
        (false, true) => "should be greater than",
    };
    let beyond = |order: std::cmp::Ordering| {
        let order = if upper { order } else { order.reverse() };
        order.is_gt() || (exclusive && order.is_eq())
    };
    match value {
        // Ints are compared as ints; the bound loses its fraction.
        Value::Int(i) if fits => {
            let bound = bound as i64;
            if beyond(i.cmp(&bound)) {
                outcome.invalid(path, value.clone(), format!("{words} {bound}"));
            }
        }
        _ => {
            let number = value.as_float().unwrap_or(0.0);
            if number.partial_cmp(&bound).is_some_and(beyond) {
                let shown = if fits { value.clone() } else { Value::Float(number) };
                outcome.invalid(path, shown, format!("{words} {}", go_number(bound)));
            }
        }
    }
}

fn multiple_of(path: Steps<'_>, value: &Value, factor: f64, fits: bool, outcome: &mut Outcome) {
    let must_be_positive = |factor: String| format!("factor MultipleOf declared for {path} must be positive: {factor}");
    match value {
        Value::Int(i) if fits => {
            let factor = factor as i64;
            if factor <= 0 {
                outcome.invalid_as_is(path, Value::Int(factor), must_be_positive(factor.to_string()));
            } else if i % factor != 0 {
                outcome.invalid(path, value.clone(), format!("should be a multiple of {factor}"));
            }
        }
        _ => {
            let number = value.as_float().unwrap_or(0.0);
            let times = if factor < 1.0 { 1.0 / factor * number } else { number / factor };
            if factor <= 0.0 {
                outcome.invalid_as_is(path, Value::Float(factor), must_be_positive(go_number(factor)));
            } else if !is_whole(times) {
                outcome.invalid(path, Value::Float(number), format!("should be a multiple of {}", go_number(factor)));
            }
        }
    }
}
