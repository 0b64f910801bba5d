//! [`Cursor`]: a value together with where it is, so that a rule can report an error without spelling the path.
//!
//! ```
//! use object::{Cursor, Errors, value};
//! let pod = value!({"spec": {"containers": [{"name": ""}]}});
//! let mut errors = Errors::new();
//! for container in Cursor::root(&pod).field("spec").field("containers").each() {
//!     let name = container.field("name");
//!     if name.str().is_empty() {
//!         name.required(&mut errors, "");
//!     }
//! }
//! assert_eq!(errors.aggregate(), "spec.containers[0].name: Required value");
//! ```

use crate::value::NULL;
use crate::{BadValue, Errors, Path, Value};

/// A value (null where the field is missing) and its path.
#[derive(Clone, Debug)]
pub struct Cursor<'a> {
    value: &'a Value,
    path: Path,
}

impl<'a> Cursor<'a> {
    pub fn root(value: &'a Value) -> Cursor<'a> {
        Cursor { value, path: Path::root() }
    }

    /// A cursor on `value` that reports errors at `path`.
    pub fn new(value: &'a Value, path: Path) -> Cursor<'a> {
        Cursor { value, path }
    }

    pub fn value(&self) -> &'a Value {
        self.value
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn field(&self, name: &str) -> Cursor<'a> {
        Cursor { value: self.value.field(name), path: self.path.field(name) }
    }

    /// The descendant along `names`.
    pub fn at(&self, names: &[&str]) -> Cursor<'a> {
        names.iter().fold(self.clone(), |cursor, name| cursor.field(name))
    }

    /// The entry `key` of a map, whose path is printed with brackets.
    pub fn key(&self, key: &str) -> Cursor<'a> {
        Cursor { value: self.value.field(key), path: self.path.key(key) }
    }

    pub fn index(&self, index: usize) -> Cursor<'a> {
        let value = self.value.as_list().and_then(|list| list.get(index)).unwrap_or(&NULL);
        Cursor { value, path: self.path.index(index) }
    }

    /// The items of a list; none if it is anything else.
    pub fn each(&self) -> impl ExactSizeIterator<Item = Cursor<'a>> + use<'a> {
        let path = self.path.clone();
        let items = self.value.as_list().unwrap_or(&[]);
        items.iter().enumerate().map(move |(i, value)| Cursor { value, path: path.index(i) })
    }

    /// The entries of a map in key order; none if it is anything else.
    pub fn entries(&self) -> impl Iterator<Item = (&'a str, Cursor<'a>)> + use<'a> {
        let path = self.path.clone();
        let entries = self.value.as_map().map_or(&[][..], |map| map.entries());
        entries.iter().map(move |(key, value)| (key.as_str(), Cursor { value, path: path.key(key) }))
    }

    /// How many items or entries there are.
    pub fn len(&self) -> usize {
        match self.value {
            Value::List(list) => list.len(),
            Value::Map(map) => map.len(),
            _ => 0,
        }
    }

    /// Present and not null: what a non-nil pointer is to upstream.
    pub fn is_set(&self) -> bool {
        !self.value.is_null()
    }

    /// Missing, null or the zero value of its type.
    pub fn is_empty(&self) -> bool {
        self.value.is_empty()
    }

    /// The string, "" if missing.
    pub fn str(&self) -> &'a str {
        self.value.as_str().unwrap_or("")
    }

    pub fn opt_str(&self) -> Option<&'a str> {
        self.value.as_str()
    }

    /// The integer, 0 if missing.
    pub fn int(&self) -> i64 {
        self.value.as_int().unwrap_or(0)
    }

    pub fn opt_int(&self) -> Option<i64> {
        self.value.as_int()
    }

    /// The boolean, false if missing.
    pub fn bool(&self) -> bool {
        self.value.as_bool().unwrap_or(false)
    }

    pub fn opt_bool(&self) -> Option<bool> {
        self.value.as_bool()
    }

    /// The strings of a list of strings.
    pub fn strs(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        self.value.as_list().unwrap_or(&[]).iter().filter_map(Value::as_str)
    }

    // Reporting. Each takes the errors to add to, so that a rule reads as a sentence about its field.

    /// `Invalid value: <this value>: detail`.
    pub fn invalid(&self, errors: &mut Errors, detail: impl Into<String>) {
        if !errors.is_full() {
            errors.invalid(&self.path, self.value.clone(), detail);
        }
    }

    /// `Invalid value` showing something other than this value.
    pub fn invalid_as(&self, errors: &mut Errors, shown: impl Into<BadValue>, detail: impl Into<String>) {
        errors.invalid(&self.path, shown, detail);
    }

    /// One `Invalid value` for each message, as name checks return them.
    pub fn invalid_each<S: Into<String>>(&self, errors: &mut Errors, messages: impl IntoIterator<Item = S>) {
        for message in messages {
            self.invalid(errors, message);
        }
    }

    pub fn required(&self, errors: &mut Errors, detail: impl Into<String>) {
        errors.required(&self.path, detail);
    }

    pub fn forbidden(&self, errors: &mut Errors, detail: impl Into<String>) {
        errors.forbidden(&self.path, detail);
    }

    pub fn duplicate(&self, errors: &mut Errors) {
        if !errors.is_full() {
            errors.duplicate(&self.path, self.value.clone());
        }
    }

    pub fn not_found(&self, errors: &mut Errors) {
        if !errors.is_full() {
            errors.not_found(&self.path, self.value.clone());
        }
    }

    pub fn not_supported(&self, errors: &mut Errors, supported: &[&str]) {
        // A missing string is the empty string to upstream.
        let shown = if self.value.is_null() { Value::from("") } else { self.value.clone() };
        errors.not_supported(&self.path, shown, supported);
    }

    /// Reports an unsupported value unless this string is one of `supported`.
    pub fn one_of(&self, errors: &mut Errors, supported: &[&str]) -> bool {
        let ok = supported.contains(&self.str());
        if !ok {
            self.not_supported(errors, supported);
        }
        ok
    }

    /// Reports a required value unless this is set and not empty.
    pub fn must_be_set(&self, errors: &mut Errors, detail: &str) -> bool {
        let ok = !self.is_empty();
        if !ok {
            self.required(errors, detail);
        }
        ok
    }

    /// Reports `must be greater than or equal to 0` for a negative number.
    pub fn non_negative(&self, errors: &mut Errors) {
        if self.int() < 0 {
            self.invalid(errors, "must be greater than or equal to 0");
        }
    }
}
