//! Reporting what the name rules find where the kind of error differs from rule to rule.

use object::names::Problem;
use object::{Cursor, Errors};

/// Reports each problem at the field.
pub fn report(field: &Cursor, problems: Vec<Problem>, errors: &mut Errors) {
    for problem in problems {
        match problem {
            Problem::Required => field.required(errors, ""),
            Problem::Invalid { value, detail } => field.invalid_as(errors, value, detail),
            Problem::TooLong { max_bytes } => errors.too_long(field.path(), max_bytes),
        }
    }
}
