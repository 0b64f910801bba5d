//! Expressions of policies and webhooks, which must compile when they are written.

use std::collections::BTreeSet;

use cel::Mode;
use cel::environment::PREVIOUS;
use cel::policy::{Compiled, Refusal};
use object::{Cursor, Errors, Value};

/// The expressions that the stored object has already. They may use everything; new ones only what the version before
/// understands too, so that it can read them after a rollback.
#[derive(Clone, Default)]
pub struct Stored<'a>(BTreeSet<&'a str>);

impl<'a> Stored<'a> {
    /// The expressions at a path inside of each item of a list.
    pub fn of(items: &'a [Value], path: &[&str]) -> Stored<'a> {
        Stored(items.iter().map(|item| item.str_at(path)).filter(|text| !text.is_empty()).collect())
    }

    pub fn and(mut self, other: Stored<'a>) -> Stored<'a> {
        self.0.extend(other.0);
        self
    }

    pub fn mode(&self, text: &str) -> Mode {
        if self.0.contains(text) { Mode::Stored } else { Mode::New(PREVIOUS) }
    }
}

/// Reports an expression that does not compile. `shown` is the text that the error quotes.
pub fn report(field: &Cursor, shown: &str, compiled: Result<Compiled, Refusal>, errors: &mut Errors) {
    match compiled {
        Ok(_) => {}
        Err(Refusal::Invalid(why)) => field.invalid_as(errors, shown, why),
        Err(Refusal::Internal(why)) => errors.internal(field.path(), why),
    }
}
