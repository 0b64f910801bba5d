//! What checks found: errors, and how much was right.

use object::{BadValue, ErrorType, Errors, FieldError, Path, Value};

use super::number::go_number;
use super::place::Steps;

/// The errors of a place and all below it. `matches` counts the checks that were made and passed, which decides between
/// alternatives that all fail.
#[derive(Default)]
pub struct Outcome {
    failures: Vec<FieldFailure>,
    pub matches: usize,
}

struct FieldFailure {
    error: FieldError,
    /// Upstream's own message. The same message is reported once.
    message: String,
}

impl Outcome {
    pub fn is_valid(&self) -> bool {
        self.failures.is_empty()
    }

    pub fn merge(&mut self, other: Outcome) {
        self.matches += other.matches;
        other.failures.into_iter().for_each(|failure| self.add(failure));
    }

    /// Merges the result of a check that applied, which counts as a match whatever came of it.
    pub fn matched(&mut self, other: Outcome) {
        self.merge(other);
        self.matches += 1;
    }

    /// Forgets the errors; what matched stays matched.
    pub fn forgive(&mut self) {
        self.failures.clear();
    }

    pub fn into_errors(self) -> Errors {
        let mut errors = Errors::new();
        self.failures.into_iter().for_each(|failure| errors.push(failure.error));
        errors
    }

    fn add(&mut self, failure: FieldFailure) {
        if !self.failures.iter().any(|known| known.message == failure.message) {
            self.failures.push(failure);
        }
    }

    fn push(&mut self, kind: ErrorType, path: &str, value: impl Into<BadValue>, detail: String, message: String) {
        self.add(FieldFailure { error: FieldError::new(kind, &field(path), value, detail), message });
    }

    /// An error about alternatives, which upstream does not place anywhere.
    pub fn composite(&mut self, message: String) {
        self.push(ErrorType::Invalid, "", "", message.clone(), message);
    }

    /// Text where another type or format was expected; `found` is the type, the format or the text itself.
    pub fn wrong_type(&mut self, path: Steps<'_>, expected: &str, found: &str) {
        let path = path.to_string();
        let message = format!("{path} in body must be of type {expected}: {}", object::quote(found));
        self.push(ErrorType::TypeInvalid, &path, found, message.clone(), message);
    }

    pub fn invalid(&mut self, path: Steps<'_>, value: Value, problem: String) {
        let path = path.to_string();
        let message = format!("{path} in body {problem}");
        self.push(ErrorType::Invalid, &path, bad(value), message.clone(), message);
    }

    /// The same where upstream does not begin with the path.
    pub fn invalid_as_is(&mut self, path: Steps<'_>, value: Value, message: String) {
        self.push(ErrorType::Invalid, &path.to_string(), bad(value), message.clone(), message);
    }

    pub fn required(&mut self, path: Steps<'_>, name: &str) {
        let path = format!("{path}.{name}");
        let message = format!("{path} in body is required");
        self.push(ErrorType::Required, &path, BadValue::Omitted, String::new(), message);
    }

    /// A property that `additionalProperties: false` does not let in.
    pub fn forbidden(&mut self, path: Steps<'_>, name: &str) {
        let path = path.to_string();
        let message = format!("{path}.{name} in body is a forbidden property");
        self.push(ErrorType::Invalid, &path, "", message.clone(), message);
    }

    pub fn not_supported(&mut self, path: Steps<'_>, value: &Value, allowed: &[Value]) {
        let allowed: Vec<String> = allowed.iter().map(allowed_text).collect();
        let message = format!("{path} in body should be one of {allowed:?}");
        let quoted: Vec<String> = allowed.iter().map(|text| object::quote(text)).collect();
        let detail = format!("supported values: {}", quoted.join(", "));
        self.push(ErrorType::NotSupported, &path.to_string(), bad(value.clone()), detail, message);
    }

    pub fn too_long(&mut self, path: Steps<'_>, max: u64) {
        let mut errors = Errors::new();
        errors.too_long(&field(&path.to_string()), usize::try_from(max).unwrap_or(usize::MAX));
        self.take(errors, format!("{path} in body should be at most {max} chars long"));
    }

    pub fn too_many(&mut self, path: Steps<'_>, actual: u64, max: u64, what: &str) {
        let mut errors = Errors::new();
        let size = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
        errors.too_many(&field(&path.to_string()), size(actual), size(max));
        self.take(errors, format!("{path} in body should have at most {max} {what}"));
    }

    fn take(&mut self, errors: Errors, message: String) {
        errors.into_iter().for_each(|error| self.add(FieldFailure { error, message: message.clone() }));
    }
}

/// The path as field errors show it: without a leading dot, and the root by its own name.
fn field(path: &str) -> Path {
    match path.strip_prefix('.').unwrap_or(path) {
        "" => Path::root(),
        path => Path::root().field(path),
    }
}

fn bad(value: Value) -> BadValue {
    match value {
        Value::Float(f) => BadValue::Raw(go_number(f)),
        other => BadValue::Value(other),
    }
}

/// An allowed value as the message lists it: strings as they are, everything else as JSON.
fn allowed_text(value: &Value) -> String {
    match value {
        Value::String(text) => text.to_string(),
        other => FieldError::new(ErrorType::Invalid, &Path::root(), other.clone(), "").body().replacen(
            "Invalid value: ",
            "",
            1,
        ),
    }
}
