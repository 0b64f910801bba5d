//! Small checks of one field that rules everywhere share, as methods of [`Cursor`].

use object::names::NameRule;
use object::quantity::Quantity;
use object::{BadValue, Cursor, Errors, FieldError, Path, Value};

pub const IS_NEGATIVE: &str = "must be greater than or equal to 0";
pub const NOT_POSITIVE: &str = "must be greater than zero";
pub const IMMUTABLE: &str = "field is immutable";

/// Checks of one field. Strings that are missing are the empty string, as they are to upstream.
pub trait Checks {
    /// `Invalid value: "<this string>": detail`.
    fn bad(&self, errors: &mut Errors, detail: impl Into<String>);

    /// One [`Checks::bad`] for each thing the rule finds wrong with this string.
    fn check(&self, errors: &mut Errors, rule: fn(&str) -> Vec<String>);

    /// As [`Checks::check`], for the rules that names of objects follow.
    fn check_name(&self, errors: &mut Errors, rule: NameRule);

    /// Reports a required value if this string is empty; says whether it is not.
    fn require(&self, errors: &mut Errors) -> bool;

    /// The string must be there and one of `supported`.
    fn require_one_of(&self, errors: &mut Errors, supported: &[&str]);

    /// The string, if there is one, must be one of `supported`.
    fn optional_one_of(&self, errors: &mut Errors, supported: &[&str]);

    /// A number that is there must be in the range.
    fn in_range(&self, errors: &mut Errors, min: i64, max: i64);

    /// The quantity in this field; one that is missing is zero.
    fn quantity(&self) -> Quantity;

    fn not_found_because(&self, errors: &mut Errors, detail: impl Into<String>);
}

impl Checks for Cursor<'_> {
    fn bad(&self, errors: &mut Errors, detail: impl Into<String>) {
        errors.invalid(self.path(), self.str(), detail);
    }

    fn check(&self, errors: &mut Errors, rule: fn(&str) -> Vec<String>) {
        report(errors, self.path(), self.str(), rule(self.str()));
    }

    fn check_name(&self, errors: &mut Errors, rule: NameRule) {
        report(errors, self.path(), self.str(), rule(self.str(), false));
    }

    fn require(&self, errors: &mut Errors) -> bool {
        let present = !self.str().is_empty();
        if !present {
            self.required(errors, "");
        }
        present
    }

    fn require_one_of(&self, errors: &mut Errors, supported: &[&str]) {
        if self.require(errors) {
            self.one_of(errors, supported);
        }
    }

    fn optional_one_of(&self, errors: &mut Errors, supported: &[&str]) {
        if self.is_set() {
            self.one_of(errors, supported);
        }
    }

    fn in_range(&self, errors: &mut Errors, min: i64, max: i64) {
        if let Some(value) = self.opt_int() {
            self.invalid_each(errors, object::names::in_range(value, min, max));
        }
    }

    fn quantity(&self) -> Quantity {
        quantity(self.value())
    }

    fn not_found_because(&self, errors: &mut Errors, detail: impl Into<String>) {
        errors.push(FieldError::new(object::ErrorType::NotFound, self.path(), self.str(), detail));
    }
}

/// One `Invalid value` at `path` for each message.
pub fn report(errors: &mut Errors, path: &Path, shown: &str, messages: Vec<String>) {
    for message in messages {
        errors.invalid(path, shown, message);
    }
}

/// The quantity a value holds; anything that is none is zero, as an unset quantity is to upstream.
pub fn quantity(value: &Value) -> Quantity {
    match value {
        Value::String(text) => Quantity::parse(text).unwrap_or_default(),
        Value::Int(number) => Quantity::new(*number, object::quantity::Format::DecimalSi),
        _ => Quantity::zero(),
    }
}

/// A field that an update may not change.
pub fn immutable(new: &Cursor, old: &Cursor, errors: &mut Errors) {
    if !same(new.value(), old.value()) {
        let shown = BadValue::Value(new.value().clone());
        errors.invalid(new.path(), shown, IMMUTABLE);
    }
}

/// As [`immutable`], for a string without a pointer: one that is missing is shown as the empty string.
pub fn immutable_text(new: &Cursor, old: &Cursor, errors: &mut Errors) {
    if new.str() != old.str() {
        errors.invalid(new.path(), new.str(), IMMUTABLE);
    }
}

/// Whether two maps of strings are the same: a missing one is like an empty one.
pub fn same_map(a: &Value, b: &Value) -> bool {
    a == b || (a.is_empty() && b.is_empty())
}

/// Whether two values are the same to upstream's semantic comparison: missing, null, zero and empty are alike.
///
/// It is exact for fields without pointers to zero values; those few (`false` or `0` behind a pointer) are told apart
/// from missing, because an explicit `false` is a difference there and nowhere else can one be written.
pub fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Map(a), Value::Map(b)) => {
            a.iter().all(|(key, value)| same(value, b.get(key).unwrap_or(&Value::Null)))
                && b.iter().all(|(key, value)| a.contains_key(key) || same(value, &Value::Null))
        }
        (Value::List(a), Value::List(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b)),
        (Value::Null, Value::Map(map)) | (Value::Map(map), Value::Null) => map.is_empty(),
        (Value::Null, Value::List(list)) | (Value::List(list), Value::Null) => list.is_empty(),
        (Value::Null, Value::String(text)) | (Value::String(text), Value::Null) => text.is_empty(),
        (a, b) => a == b,
    }
}
