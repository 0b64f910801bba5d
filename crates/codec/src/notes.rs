//! [`Notes`]: what strict decoding complains about and lenient decoding passes over.

use std::fmt;

use object::quote;

/// Upstream stops counting here, so that a hostile document cannot make an endless answer.
const MAX_NOTES: usize = 100;

/// The unknown and duplicate fields met while decoding, in the order they were met.
///
/// A lenient caller passes [`Notes::ignore`] and pays nothing; a strict or warning one passes [`Notes::collect`].
#[derive(Debug, Default)]
pub struct Notes {
    collecting: bool,
    seen: Vec<String>,
}

impl Notes {
    /// Drops unknown and duplicate fields silently.
    pub fn ignore() -> Notes {
        Notes::default()
    }

    /// Keeps a note of every unknown and duplicate field.
    pub fn collect() -> Notes {
        Notes { collecting: true, seen: Vec::new() }
    }

    pub fn is_empty(&self) -> bool {
        self.seen.is_empty()
    }

    /// Each complaint on its own, the text of one warning: `unknown field "spec.foo"`.
    pub fn messages(&self) -> &[String] {
        &self.seen
    }

    /// The error of a strict decoder, if there is anything to complain about.
    pub fn strict_error(&self) -> Option<String> {
        (!self.seen.is_empty()).then(|| format!("strict decoding error: {}", self.seen.join(", ")))
    }

    pub(crate) fn wanted(&self) -> bool {
        self.collecting
    }

    pub(crate) fn unknown(&mut self, path: impl fmt::Display) {
        self.add("unknown field", &path);
    }

    pub(crate) fn duplicate(&mut self, path: impl fmt::Display) {
        self.add("duplicate field", &path);
    }

    /// A complaint in other words, such as the YAML reader's about keys set twice.
    pub(crate) fn other(&mut self, message: String) {
        if self.collecting && self.seen.len() < MAX_NOTES {
            self.seen.push(message);
        }
    }

    fn add(&mut self, what: &str, path: &dyn fmt::Display) {
        if !self.collecting || self.seen.len() >= MAX_NOTES {
            return;
        }
        let message = format!("{what} {}", quote(&path.to_string()));
        if !self.seen.contains(&message) {
            self.seen.push(message);
        }
    }
}
