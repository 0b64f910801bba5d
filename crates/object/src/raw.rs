//! [`Raw`]: JSON that is kept as it was written.
//!
//! A few fields hold whatever their owner put there (a controller's revision, a driver's parameters), and upstream never
//! looks inside: the order of keys and the spelling of numbers stay, and two texts that differ in either are not equal.

use std::borrow::Cow;

use crate::scan::Bytes;
use crate::value::{HEX_ESCAPED, write_hex_escape};

/// The text of one JSON value, which its constructor's caller has checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Raw(Box<str>);

/// Spaces, which are the only bytes of JSON below '!', and what is not safe inside HTML. 0xe2 begins two separators.
const SPECIALS: Bytes<4> = Bytes::new(b'!', *b"<>&\xe2");

impl Raw {
    /// JSON that the caller has checked.
    pub fn new(text: impl Into<Box<str>>) -> Raw {
        Raw(text.into())
    }

    /// The text as it came, with its spaces.
    pub fn text(&self) -> &str {
        &self.0
    }

    /// The JSON name of its type.
    pub fn type_name(&self) -> &'static str {
        match self.0.trim_start().as_bytes().first() {
            Some(b'{') => "object",
            Some(b'[') => "array",
            Some(b'"') => "string",
            Some(b't' | b'f') => "bool",
            Some(b'n') => "null",
            _ => "number",
        }
    }

    /// Whether it is an object.
    pub fn is_object(&self) -> bool {
        self.type_name() == "object"
    }

    /// The text as Go prints it inside of other JSON: without spaces, and safe inside HTML.
    pub fn compact(&self) -> Cow<'_, str> {
        if SPECIALS.first_in(self.0.as_bytes(), 0) == self.0.len() {
            return Cow::Borrowed(&self.0);
        }
        let mut out = String::with_capacity(self.0.len());
        let mut in_string = false;
        let mut escaped = false;
        for c in self.0.chars() {
            match c {
                ' ' | '\t' | '\r' | '\n' if !in_string => continue,
                c if HEX_ESCAPED.contains(&c) => write_hex_escape(c, &mut out),
                c => out.push(c),
            }
            in_string ^= c == '"' && !escaped;
            escaped = in_string && c == '\\' && !escaped;
        }
        Cow::Owned(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_printed_without_spaces_and_safe_inside_html() {
        for (text, want) in [
            (r#"{"b": 1.50, "a": [1, 2]}"#, r#"{"b":1.50,"a":[1,2]}"#),
            (" [ ] ", "[]"),
            (r#"{"a \" b": "\\", "c": "<&> \u0041"}"#, r#"{"a \" b":"\\","c":"\u003c\u0026\u003e \u0041"}"#),
            ("\"\u{2028}\"", r#""\u2028""#),
        ] {
            assert_eq!(Raw::new(text).compact(), want);
        }
    }

    #[test]
    fn order_and_spelling_count() {
        assert_ne!(Raw::new(r#"{"a":1,"b":2}"#), Raw::new(r#"{"b":2,"a":1}"#));
        assert_ne!(Raw::new("1.0"), Raw::new("1"));
    }

    #[test]
    fn types_are_told_by_the_first_byte() {
        for (text, want) in [(" {}", "object"), ("[]", "array"), ("true", "bool"), ("null", "null"), ("-1", "number")] {
            assert_eq!(Raw::new(text).type_name(), want);
        }
    }
}
