//! Bracket expressions: `[a-z]`, `[^[:alpha:]\d]`.

use std::sync::Arc;

use regex_syntax::hir::{ClassUnicode, ClassUnicodeRange};

use super::{ErrorKind, Parser, Problem};
use crate::class;
use crate::node::Kind;
use crate::unicode;

impl<'p> Parser<'p> {
    pub(super) fn brackets(&mut self) -> Result<(), Problem<'p>> {
        let start = self.rest;
        self.rest = &start[1..];
        let negated = self.rest.starts_with('^');
        if negated {
            self.rest = &self.rest[1..];
        }
        // Ranges that were written out, and those of classes by name, which are folded already.
        let mut written: Vec<ClassUnicodeRange> = Vec::new();
        let mut named: Vec<ClassUnicodeRange> = Vec::new();
        let mut first = true;
        while first || !self.rest.starts_with(']') {
            first = false;
            if let Some(class) = self.posix_class()? {
                named.extend(class.ranges());
            } else if let Some(class) = self.class_escape()? {
                named.extend(class.ranges());
            } else {
                written.extend(self.range(start)?);
            }
        }
        self.rest = &self.rest[1..];
        let mut class = ClassUnicode::new(written);
        if self.flags.fold {
            class = unicode::fold(class);
        }
        if !named.is_empty() {
            class.union(&ClassUnicode::new(named));
        }
        if negated {
            class.negate();
        }
        self.push(Kind::Class(Arc::new(class)))
    }

    /// Reads `[:alpha:]`; none if there is no such thing here.
    fn posix_class(&mut self) -> Result<Option<ClassUnicode>, Problem<'p>> {
        let Some(after) = self.rest.strip_prefix("[:") else { return Ok(None) };
        let Some(end) = after.find(":]") else { return Ok(None) };
        let Some(named) = class::posix(&after[..end]) else {
            return Err(Problem::Part(ErrorKind::InvalidRange, &self.rest[..end + 4]));
        };
        self.rest = &after[end + 2..];
        Ok(Some(named.class(self.flags.fold)))
    }

    /// Reads one character or a range; `class` is the bracket expression from its start.
    fn range(&mut self, class: &'p str) -> Result<Option<ClassUnicodeRange>, Problem<'p>> {
        let start = self.rest;
        let low = self.class_character(class)?;
        let mut high = low;
        let bytes = self.rest.as_bytes();
        if bytes.len() >= 2 && bytes[0] == b'-' && bytes[1] != b']' {
            self.rest = &self.rest[1..];
            high = self.class_character(class)?;
            if high < low {
                return Err(Problem::Part(ErrorKind::InvalidRange, self.since(start)));
            }
        }
        Ok(class::range(low, high))
    }

    fn class_character(&mut self, class: &'p str) -> Result<u32, Problem<'p>> {
        let Some(c) = self.rest.chars().next() else {
            return Err(Problem::Part(ErrorKind::MissingBracket, class));
        };
        if c == '\\' {
            return self.character_escape();
        }
        self.rest = &self.rest[c.len_utf8()..];
        Ok(u32::from(c))
    }
}
