//! What can be had of a device that several claims may share, and in which portions.

use object::quantity::Quantity;
use object::{Cursor, Errors};

use crate::common::checks::{Checks, IS_NEGATIVE, NOT_POSITIVE};

const OPTIONS_MAX: usize = 10;
const TOO_LARGE: &str = "must not be larger than 9223372036854775807";

/// Checks a capacity of a device; `shared` says that claims may share the device.
pub fn validate(capacity: &Cursor, shared: bool, errors: &mut Errors) {
    let policy = capacity.field("requestPolicy");
    if !policy.is_set() {
        return;
    }
    if !shared {
        return policy.forbidden(errors, "allowMultipleAllocations must be true");
    }
    let (default, values, range) = (policy.field("default"), policy.field("validValues"), policy.field("validRange"));
    let max = capacity.field("value").quantity();
    match (!values.is_empty(), range.is_set()) {
        (true, true) => policy.forbidden(
            errors,
            r#"exactly one policy can be specified, cannot specify "validValues" and "validRange" at the same time"#,
        ),
        (true, false) if !default.is_set() => default.required(errors, "required when validValues is defined"),
        (true, false) => validate_values(&values, &default.quantity(), &max, errors),
        (false, true) if !default.is_set() => default.required(errors, "required when validRange is defined"),
        (false, true) => validate_range(&range, default.quantity(), &max, errors),
        (false, false) => {}
    }
}

fn validate_values(values: &Cursor, default: &Quantity, max: &Quantity, errors: &mut Errors) {
    let options: Vec<Quantity> = values.each().map(|value| value.quantity()).collect();
    for (i, pair) in options.windows(2).enumerate() {
        if let [first, second] = pair
            && first > second
        {
            let shown = second.to_string();
            values.index(i + 1).invalid_as(errors, shown, "values must be sorted in ascending order");
        }
    }
    let mut found = false;
    if options.len() > OPTIONS_MAX {
        errors.too_many(values.path(), options.len(), OPTIONS_MAX);
    } else {
        for (value, option) in values.each().zip(&options).filter(|(_, option)| *option > max) {
            let detail = format!("option is larger than capacity value: {max}");
            value.invalid_as(errors, option.to_string(), detail);
        }
        found = options.contains(default);
        for (i, value) in values.each().enumerate() {
            let option = value.quantity();
            if options.iter().take(i).any(|other| *other == option) {
                errors.duplicate(value.path(), plain(&option));
            }
        }
    }
    if !found {
        let detail = "default value is not valid according to the requestPolicy";
        values.invalid_as(errors, default.to_string(), detail);
    }
}

/// A quantity as a plain number.
fn plain(quantity: &Quantity) -> String {
    let milli = quantity.milli_value();
    if milli % 1000 == 0 || quantity.as_i64().is_some() {
        return quantity.value().to_string();
    }
    let text = format!("{}.{:03}", milli / 1000, (milli % 1000).abs());
    text.trim_end_matches('0').to_string()
}

/// The bounds of a range, and the default portion.
struct Bounds<'a> {
    range: &'a Cursor<'a>,
    default: Quantity,
    min: Quantity,
    max: Option<Quantity>,
    step: Option<Quantity>,
}

impl Bounds<'_> {
    fn all(&self) -> [(&'static str, Option<&Quantity>); 4] {
        let (max, step) = (self.max.as_ref(), self.step.as_ref());
        [("default", Some(&self.default)), ("min", Some(&self.min)), ("max", max), ("step", step)]
    }
}

fn validate_range(range: &Cursor, default: Quantity, capacity: &Quantity, errors: &mut Errors) {
    let at = |name: &'static str| range.field(name);
    if !at("min").is_set() {
        return at("min").required(errors, "required when validRange is defined");
    }
    let given = |name: &'static str| at(name).is_set().then(|| at(name).quantity());
    let bounds = Bounds { range, default, min: at("min").quantity(), max: given("max"), step: given("step") };
    let (default, min) = (&bounds.default, &bounds.min);
    let mut bad =
        |name: &'static str, shown: &Quantity, detail: String| at(name).invalid_as(errors, shown.to_string(), detail);
    if min > capacity {
        bad("min", min, format!("min is larger than capacity value: {capacity}"));
    }
    if default < min {
        bad("default", default, format!("default is less than min: {min}"));
    }
    if let Some(max) = &bounds.max {
        if min > max {
            bad("max", min, format!("min is larger than max: {max}"));
        }
        if max > capacity {
            bad("max", max, format!("max is larger than capacity value: {capacity}"));
        }
        if default > max {
            bad("default", default, format!("default is more than max: {max}"));
        }
    }
    let fractional = bounds.all().iter().any(|(_, quantity)| quantity.is_some_and(is_fractional));
    if fractional && !fits(&bounds, errors, in_thousandths) {
        return;
    }
    validate_step(&bounds, capacity, fractional, errors);
}

fn validate_step(bounds: &Bounds, capacity: &Quantity, fractional: bool, errors: &mut Errors) {
    let Some(step) = &bounds.step else { return };
    let at = bounds.range.field("step");
    if step.signum() <= 0 {
        return at.invalid_as(errors, step.to_string(), NOT_POSITIVE);
    }
    let mut first = bounds.min.clone();
    first.add(step);
    if first > *capacity {
        let detail = format!("one step {first} is larger than capacity value: {capacity}");
        at.invalid_as(errors, step.to_string(), detail);
    }
    if !fractional && !fits(bounds, errors, in_whole_numbers) {
        return;
    }
    let number = |quantity: &Quantity| i128::from(if fractional { quantity.milli_value() } else { quantity.value() });
    for value in [Some(&bounds.default), bounds.max.as_ref()].into_iter().flatten() {
        if number(step) != 0 && (number(value) - number(&bounds.min)) % number(step) != 0 {
            let detail = format!("value is not a multiple of a given step ({step}) from ({})", bounds.min);
            at.invalid_as(errors, value.to_string(), detail);
        }
    }
}

/// Reports every bound that `problem` finds something wrong with; says whether there is none.
fn fits(bounds: &Bounds, errors: &mut Errors, problem: impl Fn(&Quantity) -> Option<&'static str>) -> bool {
    let before = errors.len();
    for (name, quantity) in bounds.all() {
        if let Some((quantity, detail)) = quantity.and_then(|quantity| Some((quantity, problem(quantity)?))) {
            bounds.range.field(name).invalid_as(errors, quantity.to_string(), detail);
        }
    }
    errors.len() == before
}

fn in_thousandths(quantity: &Quantity) -> Option<&'static str> {
    let exact = Quantity::from_milli(quantity.milli_value(), quantity.format()) == *quantity;
    (!exact).then_some("value cannot be represented as a milli value")
}

fn in_whole_numbers(quantity: &Quantity) -> Option<&'static str> {
    let largest = Quantity::new(i64::MAX, quantity.format());
    match quantity.signum() {
        ..0 => Some(IS_NEGATIVE),
        _ => (*quantity > largest).then_some(TOO_LARGE),
    }
}

fn is_fractional(quantity: &Quantity) -> bool {
    Quantity::new(quantity.value(), quantity.format()) != *quantity
        && Quantity::new(i64::MAX, quantity.format()) >= *quantity
}
