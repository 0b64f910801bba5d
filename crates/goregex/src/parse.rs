//! The parser of Go's syntax, from left to right over a stack of finished parts.

mod error;

mod brackets;
mod escape;
mod group;
mod repeat;
mod stack;

use regex_syntax::hir::Look;

pub use error::{Error, ErrorKind};

use crate::node::{Kind, Node};
use stack::Stack;

/// What the flags in `(?imsU)` say at some place of the pattern.
#[derive(Clone, Copy, Default)]
struct Flags {
    fold: bool,
    multi_line: bool,
    dot_newline: bool,
    lazy: bool,
}

struct Parser<'p> {
    /// What has not been read yet.
    rest: &'p str,
    flags: Flags,
    stack: Stack,
}

/// The pattern's syntax tree, and how many code points its literals and classes list.
pub(crate) fn parse(pattern: &str) -> Result<(Node, usize), Error> {
    let mut parser = Parser { rest: pattern, flags: Flags::default(), stack: Stack::default() };
    parser.run().map_err(|problem| problem.error(pattern))
}

/// Whether Go accepts the pattern; compiles nothing.
pub fn check(pattern: &str) -> Result<(), Error> {
    parse(pattern).map(|_| ())
}

/// A problem with a part of the pattern, or with the whole.
enum Problem<'p> {
    Part(ErrorKind, &'p str),
    Whole(ErrorKind),
}

impl Problem<'_> {
    fn error(self, pattern: &str) -> Error {
        match self {
            Problem::Part(kind, part) => Error::new(kind, part),
            Problem::Whole(kind) => Error::new(kind, pattern),
        }
    }
}

impl<'p> Parser<'p> {
    fn run(&mut self) -> Result<(Node, usize), Problem<'p>> {
        // The previous repetition operator and all that follows it, if what was just read is one.
        let mut last_repeat: Option<&'p str> = None;
        while let Some(c) = self.rest.chars().next() {
            last_repeat = match c {
                '*' | '+' | '?' | '{' => self.repetition(c, last_repeat)?,
                _ => {
                    self.item(c)?;
                    None
                }
            };
        }
        self.stack.close()?;
        let runes = self.stack.runes();
        match self.stack.finish() {
            Some(node) => Ok((node, runes)),
            None => Err(Problem::Whole(ErrorKind::MissingParenthesis)),
        }
    }

    /// Reads one part that is no repetition operator.
    fn item(&mut self, c: char) -> Result<(), Problem<'p>> {
        match c {
            '(' => return self.open(),
            ')' => {
                self.rest = &self.rest[1..];
                return self.close();
            }
            '[' => return self.brackets(),
            '\\' => return self.backslash(),
            '|' => {
                self.rest = &self.rest[1..];
                return self.stack.bar();
            }
            _ => {}
        }
        self.rest = &self.rest[c.len_utf8()..];
        let multi_line = self.flags.multi_line;
        match c {
            '^' => self.push(Kind::Look(if multi_line { Look::StartLF } else { Look::Start })),
            '$' => self.push(Kind::Look(if multi_line { Look::EndLF } else { Look::End })),
            '.' if self.flags.dot_newline => self.push(Kind::Any),
            '.' => self.push(Kind::AnyExceptNewline),
            _ => self.literal(c),
        }
    }

    fn push(&mut self, kind: Kind) -> Result<(), Problem<'p>> {
        self.stack.push(kind)
    }

    fn literal(&mut self, c: char) -> Result<(), Problem<'p>> {
        self.stack.literal(c, self.flags.fold)
    }

    /// The text between an earlier place and where the parser is now.
    fn since(&self, start: &'p str) -> &'p str {
        &start[..start.len() - self.rest.len()]
    }
}
