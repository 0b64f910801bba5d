//! What Go says about a regular expression that is none.

use object::{Cursor, Errors};
use schema::Pattern;

use crate::common::checks::Checks;

/// Checks the `pattern` of a schema.
pub fn validate(pattern: &Cursor, errors: &mut Errors) {
    let text = pattern.str();
    if text.is_empty() {
        return;
    }
    if let Some(problem) = Pattern::new(text).problem() {
        pattern.bad(errors, format!("must be a valid regular expression, but isn't: {problem}"));
    }
}
