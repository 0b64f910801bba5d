//! [`Notes`]: what strict decoding complains about and lenient decoding passes over.

use std::fmt;

use hashbrown::HashSet;
use object::quote;

/// Upstream stops counting here, so that a hostile document cannot make an endless answer.
const MAX_NOTES: usize = 100;

/// Bytes of paths that are written out to be noted, repetitions included. A document can repeat one field at a deep place
/// as often as it likes, and every repetition would cost as much as its path is long.
const MAX_PATH_BYTES: usize = 1024 * 1024;

/// The unknown and duplicate fields met while decoding, in the order they were met.
///
/// A lenient caller passes [`Notes::ignore`] and pays nothing; a strict or warning one passes [`Notes::collect`].
#[derive(Debug, Default)]
pub struct Notes {
    collecting: bool,
    messages: Vec<String>,
    /// The same messages, once there are any.
    seen: HashSet<String>,
    path_bytes: usize,
}

impl Notes {
    /// Drops unknown and duplicate fields silently.
    pub fn ignore() -> Notes {
        Notes::default()
    }

    /// Keeps a note of every unknown and duplicate field.
    pub fn collect() -> Notes {
        Notes { collecting: true, ..Notes::default() }
    }

    /// Whether there is nothing to complain about.
    pub fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    /// Each complaint on its own, the text of one warning: `unknown field "spec.foo"`.
    pub fn messages(&self) -> &[String] {
        &self.messages
    }

    /// The error of a strict decoder, if there is anything to complain about.
    pub fn strict_error(&self) -> Option<String> {
        (!self.messages.is_empty()).then(|| format!("strict decoding error: {}", self.messages.join(", ")))
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
        if self.collecting && self.messages.len() < MAX_NOTES {
            self.messages.push(message);
        }
    }

    fn add(&mut self, what: &str, path: &dyn fmt::Display) {
        if !self.collecting || self.messages.len() >= MAX_NOTES || self.path_bytes > MAX_PATH_BYTES {
            return;
        }
        let path = path.to_string();
        self.path_bytes += path.len();
        let message = format!("{what} {}", quote(&path));
        if self.seen.insert(message.clone()) {
            self.messages.push(message);
        }
    }
}
