//! What follows a backslash.

use std::sync::Arc;

use regex_syntax::hir::{ClassUnicode, Look};

use super::{ErrorKind, Parser, Problem};
use crate::node::Kind;
use crate::{class, unicode};

impl<'p> Parser<'p> {
    /// Reads a backslash outside of brackets.
    pub(super) fn backslash(&mut self) -> Result<(), Problem<'p>> {
        let look = match self.rest.as_bytes().get(1) {
            Some(b'A') => Look::Start,
            Some(b'z') => Look::End,
            Some(b'b') => Look::WordAscii,
            Some(b'B') => Look::WordAsciiNegate,
            Some(b'C') => return Err(Problem::Part(ErrorKind::InvalidEscape, &self.rest[..2])),
            Some(b'Q') => return self.quoted(),
            _ => {
                if let Some(class) = self.class_escape()? {
                    return self.push(Kind::Class(Arc::new(class)));
                }
                let c = self.character_escape()?;
                return self.code_point(c);
            }
        };
        self.rest = &self.rest[2..];
        self.push(Kind::Look(look))
    }

    /// A literal by its number; a surrogate is in no text, so it never matches.
    fn code_point(&mut self, c: u32) -> Result<(), Problem<'p>> {
        match char::from_u32(c) {
            Some(c) => self.literal(c),
            None => self.push(Kind::Class(Arc::new(ClassUnicode::empty()))),
        }
    }

    /// Reads `\Q…\E`, where every character stands for itself.
    fn quoted(&mut self) -> Result<(), Problem<'p>> {
        let text = &self.rest[2..];
        let (quoted, rest) = text.split_once("\\E").unwrap_or((text, ""));
        self.rest = rest;
        quoted.chars().try_for_each(|c| self.literal(c))
    }

    /// Reads an escape that stands for a class: `\d`, `\pN`, `\p{Greek}`; none if there is no such escape here.
    pub(super) fn class_escape(&mut self) -> Result<Option<ClassUnicode>, Problem<'p>> {
        let mut letters = self.rest.chars();
        if letters.next() != Some('\\') {
            return Ok(None);
        }
        match letters.next() {
            Some(letter @ ('p' | 'P')) => self.unicode_class(letter == 'P').map(Some),
            Some(letter) => {
                let Some(named) = class::perl(letter) else { return Ok(None) };
                self.rest = letters.as_str();
                Ok(Some(named.class(self.flags.fold)))
            }
            None => Ok(None),
        }
    }

    fn unicode_class(&mut self, negated: bool) -> Result<ClassUnicode, Problem<'p>> {
        let start = self.rest;
        let after = &start[2..];
        let name = if after.starts_with('{') {
            let Some(end) = after.find('}') else {
                return Err(Problem::Part(ErrorKind::InvalidRange, start));
            };
            self.rest = &after[end + 1..];
            &after[1..end]
        } else {
            let end = after.chars().next().map_or(0, char::len_utf8);
            self.rest = &after[end..];
            &after[..end]
        };
        let (name, negated) = name.strip_prefix('^').map_or((name, negated), |name| (name, !negated));
        let Some(mut class) = unicode::class(name, self.flags.fold) else {
            return Err(Problem::Part(ErrorKind::InvalidRange, self.since(start)));
        };
        if negated {
            class.negate();
        }
        Ok(class)
    }

    /// Reads an escape that stands for one character, and returns its number.
    pub(super) fn character_escape(&mut self) -> Result<u32, Problem<'p>> {
        let start = self.rest;
        let mut letters = start[1..].chars();
        let Some(c) = letters.next() else {
            return Err(Problem::Part(ErrorKind::TrailingBackslash, ""));
        };
        self.rest = letters.as_str();
        let found = match c {
            '0' => Some(self.octal(0)),
            '1'..='7' if self.rest.starts_with(|c| ('0'..='7').contains(&c)) => Some(self.octal(u32::from(c) - 48)),
            'x' => self.hexadecimal(),
            'a' => Some(0x07),
            'f' => Some(0x0c),
            'n' => Some(0x0a),
            'r' => Some(0x0d),
            't' => Some(0x09),
            'v' => Some(0x0b),
            _ if c.is_ascii() && !c.is_ascii_alphanumeric() => Some(u32::from(c)),
            _ => None,
        };
        found.ok_or(Problem::Part(ErrorKind::InvalidEscape, self.since(start)))
    }

    /// Reads up to two more octal digits.
    fn octal(&mut self, first: u32) -> u32 {
        let mut value = first;
        for _ in 0..2 {
            let Some(digit) = self.rest.chars().next().and_then(|c| c.to_digit(8)) else { break };
            value = value * 8 + digit;
            self.rest = &self.rest[1..];
        }
        value
    }

    /// Reads the two digits of `\x41`, or any number of them in braces.
    fn hexadecimal(&mut self) -> Option<u32> {
        let first = self.take()?;
        if first != '{' {
            let second = self.take()?;
            return Some(first.to_digit(16)? * 16 + second.to_digit(16)?);
        }
        let mut value = None;
        loop {
            let c = self.take()?;
            if c == '}' {
                return value;
            }
            let next = value.unwrap_or(0) * 16 + c.to_digit(16)?;
            if next > u32::from(char::MAX) {
                return None;
            }
            value = Some(next);
        }
    }

    fn take(&mut self) -> Option<char> {
        let c = self.rest.chars().next()?;
        self.rest = &self.rest[c.len_utf8()..];
        Some(c)
    }
}
