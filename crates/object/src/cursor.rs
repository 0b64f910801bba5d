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

use std::cell::OnceCell;

use crate::value::NULL;
use crate::{BadValue, Errors, Path, Value};

/// A value (null where the field is missing) and its path.
#[derive(Clone, Debug)]
pub struct Cursor<'a> {
    value: &'a Value,
    /// The path of a value that this one is in.
    outer: Path,
    /// The way from there.
    steps: Steps<'a>,
    /// The path of this value. It is made when an error needs it, because most values have none.
    path: OnceCell<Path>,
}

/// A few steps; a path is made where there are more.
#[derive(Clone, Copy, Debug)]
struct Steps<'a> {
    few: [Step<'a>; 3],
    count: usize,
}

/// The way from a value to one inside of it.
#[derive(Clone, Copy, Debug)]
enum Step<'a> {
    Field(&'a str),
    Key(&'a str),
    Index(usize),
}

impl<'a> Steps<'a> {
    const NONE: Steps<'static> = Steps { few: [Step::Index(0); 3], count: 0 };

    fn is_full(&self) -> bool {
        self.count == self.few.len()
    }

    fn below(&self, path: &Path) -> Path {
        let step = |path: Path, step: &Step<'a>| match *step {
            Step::Field(name) => path.field(name),
            Step::Key(key) => path.key(key),
            Step::Index(index) => path.index(index),
        };
        self.few[..self.count].iter().fold(path.clone(), step)
    }
}

impl<'a> Cursor<'a> {
    /// A whole object.
    pub fn root(value: &'a Value) -> Cursor<'a> {
        Cursor::new(value, Path::root())
    }

    /// A cursor on `value` that reports errors at `path`.
    pub fn new(value: &'a Value, path: Path) -> Cursor<'a> {
        Cursor { value, outer: path, steps: Steps::NONE, path: OnceCell::new() }
    }

    /// The value.
    pub fn value(&self) -> &'a Value {
        self.value
    }

    /// The place of the value.
    pub fn path(&self) -> &Path {
        self.path.get_or_init(|| self.steps.below(&self.outer))
    }

    /// The same place with room for a step.
    fn open(&self) -> Cursor<'a> {
        if self.steps.is_full() { Cursor::new(self.value, self.path().clone()) } else { self.clone() }
    }

    /// A value inside of this one.
    #[inline]
    fn inside(&self, value: &'a Value, step: Step<'a>) -> Cursor<'a> {
        if self.steps.is_full() {
            return self.open().inside(value, step);
        }
        let mut inside = Cursor { value, outer: self.outer.clone(), steps: self.steps, path: OnceCell::new() };
        inside.steps.few[self.steps.count] = step;
        inside.steps.count += 1;
        inside
    }

    /// A field of the value.
    pub fn field(&self, name: &'a str) -> Cursor<'a> {
        self.inside(self.value.field(name), Step::Field(name))
    }

    /// The descendant along `names`.
    pub fn at(&self, names: &[&'a str]) -> Cursor<'a> {
        names.iter().fold(self.clone(), |cursor, name| cursor.field(name))
    }

    /// The entry `key` of a map, whose path is printed with brackets.
    pub fn key(&self, key: &'a str) -> Cursor<'a> {
        self.inside(self.value.field(key), Step::Key(key))
    }

    /// An item of the value.
    pub fn index(&self, index: usize) -> Cursor<'a> {
        let value = self.value.as_list().and_then(|list| list.get(index)).unwrap_or(&NULL);
        self.inside(value, Step::Index(index))
    }

    /// The items of a list; none if it is anything else.
    pub fn each(&self) -> impl ExactSizeIterator<Item = Cursor<'a>> + use<'a> {
        let (list, items) = (self.open(), self.value.as_list().unwrap_or(&[]));
        items.iter().enumerate().map(move |(i, value)| list.inside(value, Step::Index(i)))
    }

    /// The entries of a map in key order; none if it is anything else.
    pub fn entries(&self) -> impl Iterator<Item = (&'a str, Cursor<'a>)> + use<'a> {
        let (map, entries) = (self.open(), self.value.as_map().map_or(&[][..], |map| map.entries()));
        let entry = move |(key, value): &'a (crate::Str, Value)| (key.as_str(), map.inside(value, Step::Key(key)));
        entries.iter().map(entry)
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

    /// The text, if it is one.
    pub fn opt_str(&self) -> Option<&'a str> {
        self.value.as_str()
    }

    /// The integer, 0 if missing.
    pub fn int(&self) -> i64 {
        self.value.as_int().unwrap_or(0)
    }

    /// The integer, if it is one.
    pub fn opt_int(&self) -> Option<i64> {
        self.value.as_int()
    }

    /// The boolean, false if missing.
    pub fn bool(&self) -> bool {
        self.value.as_bool().unwrap_or(false)
    }

    /// The boolean, if it is one.
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
            errors.invalid(self.path(), self.value.clone(), detail);
        }
    }

    /// `Invalid value` showing something other than this value.
    pub fn invalid_as(&self, errors: &mut Errors, shown: impl Into<BadValue>, detail: impl Into<String>) {
        errors.invalid(self.path(), shown, detail);
    }

    /// One `Invalid value` for each message, as name checks return them.
    pub fn invalid_each<S: Into<String>>(&self, errors: &mut Errors, messages: impl IntoIterator<Item = S>) {
        for message in messages {
            self.invalid(errors, message);
        }
    }

    /// Adds that a value is required here.
    pub fn required(&self, errors: &mut Errors, detail: impl Into<String>) {
        errors.required(self.path(), detail);
    }

    /// Adds that the value is not allowed.
    pub fn forbidden(&self, errors: &mut Errors, detail: impl Into<String>) {
        errors.forbidden(self.path(), detail);
    }

    /// Adds that the value is there twice.
    pub fn duplicate(&self, errors: &mut Errors) {
        if !errors.is_full() {
            errors.duplicate(self.path(), self.value.clone());
        }
    }

    /// Adds that the value names something that does not exist.
    pub fn not_found(&self, errors: &mut Errors) {
        if !errors.is_full() {
            errors.not_found(self.path(), self.value.clone());
        }
    }

    /// Adds that the value is none of those that can be used.
    pub fn not_supported(&self, errors: &mut Errors, supported: &[&str]) {
        // A missing string is the empty string to upstream.
        let shown = if self.value.is_null() { Value::from("") } else { self.value.clone() };
        errors.not_supported(self.path(), shown, supported);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cursors_know_where_they_are() {
        let pod =
            value!({"metadata": {"labels": {"a.b/c": "d"}}, "spec": {"containers": [{"name": "x"}, {"name": "y"}]}});
        let root = Cursor::root(&pod);
        let containers = root.at(&["spec", "containers"]);
        let labels = root.field("metadata").field("labels");
        let (label, last) = (labels.entries().next().map(|(_, label)| label), containers.each().last());
        for (cursor, path, text) in [
            (root.clone(), "<nil>", ""),
            (containers.clone(), "spec.containers", ""),
            (containers.index(0).field("name"), "spec.containers[0].name", "x"),
            (containers.index(7).field("name"), "spec.containers[7].name", ""),
            (last.unwrap_or(root.clone()).field("name"), "spec.containers[1].name", "y"),
            (label.unwrap_or(root.clone()), "metadata.labels[a.b/c]", "d"),
            (labels.key("none"), "metadata.labels[none]", ""),
            (root.at(&[]), "<nil>", ""),
            (Cursor::new(&pod, Path::of("items")).field("spec"), "items.spec", ""),
        ] {
            assert_eq!((cursor.path().to_string().as_str(), cursor.str()), (path, text));
            // A copy is at the same place, whether the path was asked for before or not.
            assert_eq!(cursor.clone().field("more").path().to_string(), cursor.path().field("more").to_string());
        }
    }
}
