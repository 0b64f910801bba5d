//! Regular expressions as Go reads them.
//!
//! Patterns in schemas are written for Go's regexp package. Rust's regex crate has the same engine and nearly the same
//! syntax; what differs is rewritten here, so that a pattern means what its author meant.

use std::fmt;
use std::sync::{Arc, OnceLock};

use object::Str;
use regex::Regex;

/// A `pattern` of a schema, compiled when first used.
#[derive(Clone)]
pub struct Pattern {
    source: Str,
    compiled: Arc<OnceLock<Option<Regex>>>,
}

impl Pattern {
    pub fn new(source: impl Into<Str>) -> Pattern {
        Pattern { source: source.into(), compiled: Arc::default() }
    }

    /// The pattern as it was written.
    pub fn as_str(&self) -> &str {
        &self.source
    }

    /// Whether some part of `text` matches; none for a pattern that is no regular expression.
    pub fn matches(&self, text: &str) -> Option<bool> {
        let compiled = self.compiled.get_or_init(|| Regex::new(&translate(&self.source)).ok());
        compiled.as_ref().map(|regex| regex.is_match(text))
    }
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Pattern) -> bool {
        self.source == other.source
    }
}

impl fmt::Debug for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pattern({:?})", self.source)
    }
}

/// Rewrites Go's syntax into Rust's: `\d`, `\s`, `\w` and `\b` are about ASCII, `\<` and `\>` are plain characters, `\Q…\E`
/// quotes, a `{` that starts no repetition is itself, and inside of brackets only what Go knows there is special.
pub(crate) fn translate(pattern: &str) -> String {
    let mut out = String::with_capacity(pattern.len() + 16);
    let mut rest = pattern;
    while let Some(c) = rest.chars().next() {
        let after = &rest[c.len_utf8()..];
        rest = match c {
            '\\' => escape(after, false, &mut out),
            '[' => class(after, &mut out),
            '{' if !is_repetition(after) => {
                out.push_str("\\{");
                after
            }
            _ => {
                out.push(c);
                after
            }
        };
    }
    out
}

/// What follows a backslash; returns what is left.
fn escape<'a>(rest: &'a str, in_class: bool, out: &mut String) -> &'a str {
    let Some(c) = rest.chars().next() else {
        out.push('\\');
        return rest;
    };
    let after = &rest[c.len_utf8()..];
    match c {
        'd' => out.push_str("[0-9]"),
        'D' => out.push_str("[^0-9]"),
        's' => out.push_str("[\\t\\n\\f\\r ]"),
        'S' => out.push_str("[^\\t\\n\\f\\r ]"),
        'w' => out.push_str("[0-9A-Za-z_]"),
        'W' => out.push_str("[^0-9A-Za-z_]"),
        'b' if !in_class => out.push_str("(?-u:\\b)"),
        'B' if !in_class => out.push_str("(?-u:\\B)"),
        '<' | '>' => out.push(c),
        'Q' if !in_class => {
            let (quoted, after) = after.split_once("\\E").unwrap_or((after, ""));
            out.push_str(&regex::escape(quoted));
            return after;
        }
        // `\p{Greek}`, `\x{10FFFF}`: the braces belong to the escape.
        'p' | 'P' | 'x' if after.starts_with('{') => {
            let end = after.find('}').map_or(after.len(), |at| at + 1);
            out.push('\\');
            out.push(c);
            out.push_str(&after[..end]);
            return &after[end..];
        }
        _ => {
            out.push('\\');
            out.push(c);
        }
    }
    after
}

/// A bracket expression; returns what is left behind it.
fn class<'a>(mut rest: &'a str, out: &mut String) -> &'a str {
    out.push('[');
    if let Some(after) = rest.strip_prefix('^') {
        out.push('^');
        rest = after;
    }
    // A closing bracket right at the start is itself.
    if let Some(after) = rest.strip_prefix(']') {
        out.push_str("\\]");
        rest = after;
    }
    while let Some(c) = rest.chars().next() {
        let after = &rest[c.len_utf8()..];
        rest = match c {
            ']' => {
                out.push(']');
                return after;
            }
            '\\' => escape(after, true, out),
            '[' if after.starts_with(':') => match after.find(":]") {
                Some(end) => {
                    out.push('[');
                    out.push_str(&after[..end + 2]);
                    &after[end + 2..]
                }
                None => {
                    out.push_str("\\[");
                    after
                }
            },
            // In Rust these would be nested classes and set operations.
            '[' | '&' | '~' => {
                out.push('\\');
                out.push(c);
                after
            }
            '-' if after.starts_with('-') => {
                out.push_str("-\\-");
                &after[1..]
            }
            _ => {
                out.push(c);
                after
            }
        };
    }
    rest
}

/// Whether what follows a brace makes it a repetition: `3}`, `3,}`, `3,5}`.
fn is_repetition(rest: &str) -> bool {
    let Some((counts, _)) = rest.split_once('}') else { return false };
    let (low, high) = counts.split_once(',').unwrap_or((counts, ""));
    let digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    !low.is_empty() && digits(low) && digits(high)
}

#[cfg(test)]
mod tests {
    use super::Pattern;

    #[test]
    fn means_what_go_means() {
        for (pattern, text, want) in [
            ("^[a-z]+$", "abc", Some(true)),
            ("^[a-z]+$", "abC", Some(false)),
            (r"^\d$", "٣", Some(false)),
            (r"^\w+$", "é", Some(false)),
            (r"^[\w-]+$", "a-b_c", Some(true)),
            (r"^[^\d]$", "5", Some(false)),
            (r"\bcat\b", "écat", Some(true)),
            (r"^a{,2}$", "a{,2}", Some(true)),
            (r"^a{2}$", "aa", Some(true)),
            (r"^{x}$", "{x}", Some(true)),
            (r"^[[a]$", "[", Some(true)),
            (r"^[a&&b]+$", "a&b", Some(true)),
            (r"^[]a]+$", "]a", Some(true)),
            (r"^[[:alpha:]_]+$", "ab_", Some(true)),
            (r"^[+--]$", ",", Some(true)),
            (r"^\Qa.b\E$", "axb", Some(false)),
            (r"^\<b\>$", "<b>", Some(true)),
            (r"^(?P<x>.)$", "日", Some(true)),
            (r"^\p{Greek}+$", "λ", Some(true)),
            ("(", "", None),
            ("[a", "", None),
            (r"a\", "", None),
        ] {
            assert_eq!(Pattern::new(pattern).matches(text), want, "{pattern:?} on {text:?}");
        }
    }
}
