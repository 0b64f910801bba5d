//! Field errors: what a rule found wrong, where, in upstream's words.

use std::collections::HashSet;
use std::fmt;

use crate::{Path, Value, quote};

/// Bytes of text that the errors of one object may have together. Later errors are dropped: some rules show a whole list
/// in the error about each of its items, which would grow with the square of the list.
const TEXT_BYTES_MAX: usize = 256 * 1024;

/// Every error found so far. Rules only add to it; nothing stops at the first.
#[derive(Debug, Default, Clone, PartialEq)]
pub struct Errors {
    list: Vec<FieldError>,
    text_bytes: usize,
    /// What validation found but tolerates: clients are warned about it.
    warnings: Vec<String>,
}

/// One thing wrong with one field.
#[derive(Debug, Clone, PartialEq)]
pub struct FieldError {
    /// The kind of the error, which is the reason of its cause.
    pub kind: ErrorType,
    /// The path as text; what upstream calls `Field`.
    pub field: String,
    /// The value, as the message shows it.
    pub bad_value: BadValue,
    /// The rest of the message.
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
    /// The value names something that does not exist.
    NotFound,
    /// A value is missing.
    Required,
    /// The value is there twice.
    Duplicate,
    /// The value breaks a rule.
    Invalid,
    /// The value is none of those that can be used.
    NotSupported,
    /// The value is not allowed here.
    Forbidden,
    /// The value is too long.
    TooLong,
    /// There are too many items.
    TooMany,
    /// There are too few items.
    TooFew,
    /// The server could not check the value.
    Internal,
    /// The value has the wrong type.
    TypeInvalid,
    /// The value is too short.
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
    /// An error about the value at a path.
    pub fn new(kind: ErrorType, path: &Path, bad_value: impl Into<BadValue>, detail: impl Into<String>) -> FieldError {
        FieldError { kind, field: path.to_string(), bad_value: bad_value.into(), detail: detail.into() }
    }

    /// About how many bytes the message has.
    fn text_bytes(&self) -> usize {
        let shown = match &self.bad_value {
            BadValue::Omitted => 0,
            BadValue::Value(value) => weight(value),
            BadValue::Raw(text) => text.len(),
        };
        self.field.len() + shown + self.detail.len() + self.kind.title().len()
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

/// About how many bytes a value has as JSON.
fn weight(value: &Value) -> usize {
    const EACH: usize = 4;
    match value {
        Value::String(text) => text.len() + EACH,
        Value::List(items) => items.iter().map(weight).sum::<usize>() + EACH,
        Value::Map(map) => map.iter().map(|(key, value)| key.len() + EACH + weight(value)).sum::<usize>() + EACH,
        Value::Raw(raw) => raw.text().len(),
        Value::Null | Value::Bool(_) | Value::Int(_) | Value::Float(_) => EACH,
    }
}

impl Errors {
    /// No errors.
    pub fn new() -> Errors {
        Errors::default()
    }

    /// Adds an error.
    pub fn push(&mut self, error: FieldError) {
        if !self.is_full() {
            self.text_bytes += error.text_bytes();
            self.list.push(error);
        }
    }

    fn add(&mut self, kind: ErrorType, path: &Path, bad_value: impl Into<BadValue>, detail: impl Into<String>) {
        if !self.is_full() {
            self.push(FieldError::new(kind, path, bad_value, detail));
        }
    }

    /// Adds the errors and warnings of another list.
    pub fn extend(&mut self, other: Errors) {
        self.warnings.extend(other.warnings);
        other.list.into_iter().for_each(|error| self.push(error));
    }

    /// Tells clients about something that is wrong and tolerated.
    pub fn warn(&mut self, warnings: impl IntoIterator<Item = String>) {
        self.warnings.extend(warnings);
    }

    /// Removes the warnings and returns them.
    pub fn take_warnings(&mut self) -> Vec<String> {
        std::mem::take(&mut self.warnings)
    }

    /// Whether further errors are dropped, so that making them can be saved.
    pub fn is_full(&self) -> bool {
        self.text_bytes >= TEXT_BYTES_MAX
    }

    /// Each error once, the first time it occurs, as upstream's declarative validation leaves them behind.
    pub fn dedup(&mut self) {
        let mut seen: HashSet<String> = HashSet::with_capacity(self.list.len());
        self.list.retain(|error| seen.insert(error.to_string()));
    }

    /// How many errors there are.
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// Whether there are no errors.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// The errors in the order they were found in.
    pub fn iter(&self) -> impl Iterator<Item = &FieldError> {
        self.list.iter()
    }

    /// Adds [`ErrorType::Invalid`].
    pub fn invalid(&mut self, path: &Path, value: impl Into<BadValue>, detail: impl Into<String>) {
        self.add(ErrorType::Invalid, path, value, detail);
    }

    /// Adds [`ErrorType::Required`].
    pub fn required(&mut self, path: &Path, detail: impl Into<String>) {
        self.add(ErrorType::Required, path, BadValue::Omitted, detail);
    }

    /// Adds [`ErrorType::Forbidden`].
    pub fn forbidden(&mut self, path: &Path, detail: impl Into<String>) {
        self.add(ErrorType::Forbidden, path, BadValue::Omitted, detail);
    }

    /// Adds [`ErrorType::Duplicate`].
    pub fn duplicate(&mut self, path: &Path, value: impl Into<BadValue>) {
        self.add(ErrorType::Duplicate, path, value, "");
    }

    /// Adds [`ErrorType::NotFound`].
    pub fn not_found(&mut self, path: &Path, value: impl Into<BadValue>) {
        self.add(ErrorType::NotFound, path, value, "");
    }

    /// Adds [`ErrorType::Internal`].
    pub fn internal(&mut self, path: &Path, detail: impl Into<String>) {
        self.add(ErrorType::Internal, path, BadValue::Omitted, detail);
    }

    /// `supported` is printed in the order given; upstream sorts it in most places.
    pub fn not_supported(&mut self, path: &Path, value: impl Into<BadValue>, supported: &[&str]) {
        let quoted: Vec<String> = supported.iter().map(|s| quote(s)).collect();
        let detail = if quoted.is_empty() { String::new() } else { format!("supported values: {}", quoted.join(", ")) };
        self.add(ErrorType::NotSupported, path, value, detail);
    }

    /// Adds that a text has more bytes than `max_bytes`.
    pub fn too_long(&mut self, path: &Path, max_bytes: usize) {
        let unit = if max_bytes == 1 { "byte" } else { "bytes" };
        let detail = format!("may not be more than {max_bytes} {unit}");
        self.add(ErrorType::TooLong, path, BadValue::Omitted, detail);
    }

    /// Adds that a text has more characters than `max`.
    pub fn too_long_characters(&mut self, path: &Path, max: usize) {
        let unit = if max == 1 { "character" } else { "characters" };
        let detail = format!("may not be more than {max} {unit}");
        self.add(ErrorType::TooLong, path, BadValue::Omitted, detail);
    }

    /// Adds that there are more items than `max`.
    pub fn too_many(&mut self, path: &Path, actual: usize, max: usize) {
        let unit = if max == 1 { "item" } else { "items" };
        let detail = format!("must have at most {max} {unit}");
        self.add(ErrorType::TooMany, path, actual, detail);
    }

    /// All messages as upstream's `ToAggregate` joins them: repeated ones once, a single one bare, several in brackets.
    pub fn aggregate(&self) -> String {
        aggregate(self.list.iter().map(ToString::to_string))
    }
}

/// Messages as upstream joins several errors: repeated ones once, a single one bare, several in brackets.
pub fn aggregate(messages: impl IntoIterator<Item = String>) -> String {
    let mut seen = HashSet::new();
    let distinct: Vec<String> = messages.into_iter().filter(|message| seen.insert(message.clone())).collect();
    match distinct.as_slice() {
        [only] => only.clone(),
        several => format!("[{}]", several.join(", ")),
    }
}

impl IntoIterator for Errors {
    type Item = FieldError;
    type IntoIter = std::vec::IntoIter<FieldError>;

    fn into_iter(self) -> Self::IntoIter {
        self.list.into_iter()
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

    /// Rules that show the whole list for every item make no more text than an object of ordinary size could.
    #[test]
    fn text_is_bounded() {
        let list = Value::List((0..10_000).map(|i| Value::from(format!("item-{i}"))).collect());
        let path = Path::of("spec.list");
        let list = crate::Cursor::new(&list, path);
        let mut errors = Errors::new();
        for _ in 0..10_000 {
            list.invalid(&mut errors, "no");
        }
        assert!(errors.is_full() && errors.len() < 20, "{}", errors.len());
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
