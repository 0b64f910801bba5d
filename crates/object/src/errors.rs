//! Field errors: what a rule found wrong, where, in upstream's words.

use std::fmt;

use crate::{Path, Value, quote};

/// Every error found so far. Rules only add to it; nothing stops at the first.
#[derive(Debug, Default, Clone, PartialEq)]
pub struct Errors(Vec<FieldError>);

/// One thing wrong with one field.
#[derive(Debug, Clone, PartialEq)]
pub struct FieldError {
    pub kind: ErrorType,
    /// The path as text; what upstream calls `Field`.
    pub field: String,
    pub bad_value: BadValue,
    pub detail: String,
}

/// The offending value, as the message shows it.
#[derive(Debug, Clone, PartialEq)]
pub enum BadValue {
    /// The message has no value in it.
    Omitted,
    /// A value from the object; strings are quoted, everything else is printed as JSON.
    Value(Value),
    /// Text that stands in the message as it is.
    Raw(String),
}

impl BadValue {
    /// A value that upstream holds in a struct of its own, and shows as JSON even if it is a string.
    pub fn json(value: &Value) -> BadValue {
        BadValue::Raw(crate::value::compact(value))
    }
}

/// Why a field is wrong; the names are the reasons of a Status cause.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorType {
    NotFound,
    Required,
    Duplicate,
    Invalid,
    NotSupported,
    Forbidden,
    TooLong,
    TooMany,
    TooFew,
    Internal,
    TypeInvalid,
    TooShort,
}

impl ErrorType {
    /// The reason of a Status cause.
    pub fn reason(self) -> &'static str {
        match self {
            ErrorType::NotFound => "FieldValueNotFound",
            ErrorType::Required => "FieldValueRequired",
            ErrorType::Duplicate => "FieldValueDuplicate",
            ErrorType::Invalid => "FieldValueInvalid",
            ErrorType::NotSupported => "FieldValueNotSupported",
            ErrorType::Forbidden => "FieldValueForbidden",
            ErrorType::TooLong => "FieldValueTooLong",
            ErrorType::TooMany => "FieldValueTooMany",
            ErrorType::TooFew => "FieldValueTooFew",
            ErrorType::Internal => "InternalError",
            ErrorType::TypeInvalid => "FieldValueTypeInvalid",
            ErrorType::TooShort => "FieldValueTooShort",
        }
    }

    fn title(self) -> &'static str {
        match self {
            ErrorType::NotFound => "Not found",
            ErrorType::Required => "Required value",
            ErrorType::Duplicate => "Duplicate value",
            ErrorType::Invalid | ErrorType::TypeInvalid => "Invalid value",
            ErrorType::NotSupported => "Unsupported value",
            ErrorType::Forbidden => "Forbidden",
            ErrorType::TooLong => "Too long",
            ErrorType::TooMany => "Too many",
            ErrorType::TooFew => "Too few",
            ErrorType::Internal => "Internal error",
            ErrorType::TooShort => "Too short",
        }
    }

    fn shows_value(self) -> bool {
        use ErrorType::{Forbidden, Internal, Required, TooLong, TooShort};
        !matches!(self, Required | Forbidden | TooLong | TooShort | Internal)
    }
}

impl FieldError {
    pub fn new(kind: ErrorType, path: &Path, bad_value: impl Into<BadValue>, detail: impl Into<String>) -> FieldError {
        FieldError { kind, field: path.to_string(), bad_value: bad_value.into(), detail: detail.into() }
    }

    /// The message without the field name, as a Status cause carries it.
    pub fn body(&self) -> String {
        let mut body = self.kind.title().to_string();
        if self.kind.shows_value() {
            match &self.bad_value {
                BadValue::Omitted => {}
                BadValue::Value(value) => {
                    body.push_str(": ");
                    body.push_str(&render(value));
                }
                BadValue::Raw(text) => {
                    body.push_str(": ");
                    body.push_str(text);
                }
            }
        }
        if !self.detail.is_empty() {
            body.push_str(": ");
            body.push_str(&self.detail);
        }
        body
    }
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.body())
    }
}

impl<T: Into<Value>> From<T> for BadValue {
    fn from(value: T) -> BadValue {
        BadValue::Value(value.into())
    }
}

/// A bad value as it stands in a message: strings quoted as Go does, everything else as compact JSON.
fn render(value: &Value) -> String {
    match value {
        Value::String(s) => quote(s),
        other => crate::value::compact(other),
    }
}

impl Errors {
    pub fn new() -> Errors {
        Errors::default()
    }

    pub fn push(&mut self, error: FieldError) {
        self.0.push(error);
    }

    pub fn extend(&mut self, other: Errors) {
        self.0.extend(other.0);
    }

    /// Each error once, the first time it occurs, as upstream's declarative validation leaves them behind.
    pub fn dedup(&mut self) {
        let mut seen: Vec<String> = Vec::with_capacity(self.0.len());
        self.0.retain(|error| {
            let message = error.to_string();
            let new = !seen.contains(&message);
            if new {
                seen.push(message);
            }
            new
        });
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn iter(&self) -> impl Iterator<Item = &FieldError> {
        self.0.iter()
    }

    pub fn invalid(&mut self, path: &Path, value: impl Into<BadValue>, detail: impl Into<String>) {
        self.push(FieldError::new(ErrorType::Invalid, path, value, detail));
    }

    pub fn type_invalid(&mut self, path: &Path, value: impl Into<BadValue>, detail: impl Into<String>) {
        self.push(FieldError::new(ErrorType::TypeInvalid, path, value, detail));
    }

    pub fn required(&mut self, path: &Path, detail: impl Into<String>) {
        self.push(FieldError::new(ErrorType::Required, path, BadValue::Omitted, detail));
    }

    pub fn forbidden(&mut self, path: &Path, detail: impl Into<String>) {
        self.push(FieldError::new(ErrorType::Forbidden, path, BadValue::Omitted, detail));
    }

    pub fn duplicate(&mut self, path: &Path, value: impl Into<BadValue>) {
        self.push(FieldError::new(ErrorType::Duplicate, path, value, ""));
    }

    pub fn not_found(&mut self, path: &Path, value: impl Into<BadValue>) {
        self.push(FieldError::new(ErrorType::NotFound, path, value, ""));
    }

    pub fn internal(&mut self, path: &Path, detail: impl Into<String>) {
        self.push(FieldError::new(ErrorType::Internal, path, BadValue::Omitted, detail));
    }

    /// `supported` is printed in the order given; upstream sorts it in most places.
    pub fn not_supported(&mut self, path: &Path, value: impl Into<BadValue>, supported: &[&str]) {
        let quoted: Vec<String> = supported.iter().map(|s| quote(s)).collect();
        let detail = if quoted.is_empty() { String::new() } else { format!("supported values: {}", quoted.join(", ")) };
        self.push(FieldError::new(ErrorType::NotSupported, path, value, detail));
    }

    pub fn too_long(&mut self, path: &Path, max_bytes: usize) {
        let unit = if max_bytes == 1 { "byte" } else { "bytes" };
        let detail = format!("may not be more than {max_bytes} {unit}");
        self.push(FieldError::new(ErrorType::TooLong, path, BadValue::Omitted, detail));
    }

    pub fn too_long_characters(&mut self, path: &Path, max: usize) {
        let unit = if max == 1 { "character" } else { "characters" };
        let detail = format!("may not be more than {max} {unit}");
        self.push(FieldError::new(ErrorType::TooLong, path, BadValue::Omitted, detail));
    }

    pub fn too_short(&mut self, path: &Path, min: usize) {
        let unit = if min == 1 { "character" } else { "characters" };
        let detail = format!("must be at least {min} {unit}");
        self.push(FieldError::new(ErrorType::TooShort, path, BadValue::Omitted, detail));
    }

    pub fn too_many(&mut self, path: &Path, actual: usize, max: usize) {
        let unit = if max == 1 { "item" } else { "items" };
        let detail = format!("must have at most {max} {unit}");
        self.push(FieldError::new(ErrorType::TooMany, path, actual, detail));
    }

    pub fn too_few(&mut self, path: &Path, actual: usize, min: usize) {
        let unit = if min == 1 { "item" } else { "items" };
        let detail = format!("must have at least {min} {unit}");
        self.push(FieldError::new(ErrorType::TooFew, path, actual, detail));
    }

    /// All messages as upstream's `ToAggregate` joins them: repeated ones once, a single one bare, several in brackets.
    pub fn aggregate(&self) -> String {
        let mut messages: Vec<String> = Vec::with_capacity(self.0.len());
        for error in &self.0 {
            let message = error.to_string();
            if !messages.contains(&message) {
                messages.push(message);
            }
        }
        match messages.as_slice() {
            [only] => only.clone(),
            several => format!("[{}]", several.join(", ")),
        }
    }
}

impl IntoIterator for Errors {
    type Item = FieldError;
    type IntoIter = std::vec::IntoIter<FieldError>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_upstreams() {
        let path = Path::of("spec.x");
        let mut errors = Errors::new();
        errors.invalid(&path, "a b", "no spaces");
        errors.invalid(&path, -1, "must be positive");
        errors.invalid(&path, value!({"app": "api"}), "mismatch");
        errors.required(&path, "");
        errors.not_supported(&path, "Z", &["A", "B"]);
        errors.too_long(&path, 1);
        errors.too_many(&path, 3, 2);
        errors.duplicate(&path, "x");
        errors.forbidden(&path, "may not change");
        let got: Vec<String> = errors.iter().map(ToString::to_string).collect();
        assert_eq!(
            got,
            [
                r#"spec.x: Invalid value: "a b": no spaces"#,
                "spec.x: Invalid value: -1: must be positive",
                r#"spec.x: Invalid value: {"app":"api"}: mismatch"#,
                "spec.x: Required value",
                r#"spec.x: Unsupported value: "Z": supported values: "A", "B""#,
                "spec.x: Too long: may not be more than 1 byte",
                "spec.x: Too many: 3: must have at most 2 items",
                r#"spec.x: Duplicate value: "x""#,
                "spec.x: Forbidden: may not change",
            ]
        );
    }

    #[test]
    fn aggregates_drop_repeats() {
        let mut errors = Errors::new();
        errors.required(&Path::of("a"), "x");
        assert_eq!(errors.aggregate(), "a: Required value: x");
        errors.required(&Path::of("a"), "x");
        errors.required(&Path::of("b"), "");
        assert_eq!(errors.aggregate(), "[a: Required value: x, b: Required value]");
    }
}
