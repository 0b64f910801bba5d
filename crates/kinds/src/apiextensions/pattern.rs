//! What Go says about a regular expression that is none.

use object::{Cursor, Errors};
use schema::Pattern;

use crate::common::checks::Checks;

/// Checks the `pattern` of a schema.
pub fn validate(pattern: &Cursor, errors: &mut Errors) {
    let text = pattern.str();
    if !text.is_empty() && Pattern::new(text).matches("").is_none() {
        let why = format!("error parsing regexp: {}", problem(text));
        pattern.bad(errors, format!("must be a valid regular expression, but isn't: {why}"));
    }
}

/// The first problem that a reader from left to right finds; the commonest ones by Go's names.
fn problem(pattern: &str) -> String {
    let mut open = 0_usize;
    // What a repetition would repeat is missing at the start, after `(` and after `|`; it cannot be a repetition itself.
    let (mut nothing, mut repeated) = (true, false);
    let mut rest = pattern;
    while let Some(c) = rest.chars().next() {
        let after = rest.get(c.len_utf8()..).unwrap_or("");
        let mut next = after;
        match c {
            '\\' => match after.chars().next() {
                None => return "trailing backslash at end of expression: ``".to_string(),
                Some(escaped) => next = after.get(escaped.len_utf8()..).unwrap_or(""),
            },
            '[' => match class_end(after) {
                Some(end) => next = end,
                None => return format!("missing closing ]: `{rest}`"),
            },
            '(' => open += 1,
            ')' if open == 0 => return format!("unexpected ): `{pattern}`"),
            ')' => open -= 1,
            '*' | '+' | '?' if nothing => return format!("missing argument to repetition operator: `{c}`"),
            '*' | '+' if repeated => return format!("invalid nested repetition operator: `{c}{c}`"),
            _ => {}
        }
        nothing = matches!(c, '(' | '|');
        repeated = matches!(c, '*' | '+');
        rest = next;
    }
    if open > 0 {
        format!("missing closing ): `{pattern}`")
    } else {
        format!("invalid or unsupported Perl syntax: `{pattern}`")
    }
}

/// What follows a class of characters whose `[` has been read.
fn class_end(text: &str) -> Option<&str> {
    let text = text.strip_prefix('^').unwrap_or(text);
    let mut characters = text.char_indices();
    let mut first = true;
    while let Some((at, c)) = characters.next() {
        match c {
            ']' if !first => return text.get(at + 1..),
            '\\' => {
                characters.next();
            }
            _ => {}
        }
        first = false;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn problems_go_by_gos_names() {
        for (pattern, want) in [
            ("*", "missing argument to repetition operator: `*`"),
            ("a|+", "missing argument to repetition operator: `+`"),
            ("a**", "invalid nested repetition operator: `**`"),
            ("(a", "missing closing ): `(a`"),
            ("a)", "unexpected ): `a)`"),
            ("x[a", "missing closing ]: `[a`"),
            ("a\\", "trailing backslash at end of expression: ``"),
        ] {
            assert_eq!(problem(pattern), want);
        }
    }
}
