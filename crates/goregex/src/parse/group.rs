//! Parentheses: captures, groups and flags.

use super::{ErrorKind, Flags, Parser, Problem};

impl<'p> Parser<'p> {
    /// Reads an opening parenthesis with what belongs to it.
    pub(super) fn open(&mut self) -> Result<(), Problem<'p>> {
        if !self.rest.starts_with("(?") {
            self.rest = &self.rest[1..];
            return self.stack.open(true, self.flags);
        }
        let bytes = self.rest.as_bytes();
        let name_at = if bytes.len() > 4 && self.rest.starts_with("(?P<") {
            4
        } else if bytes.len() > 3 && self.rest.starts_with("(?<") {
            3
        } else {
            return self.flags();
        };
        self.named(name_at)
    }

    /// Reads `(?P<name>` or `(?<name>`; the name begins at byte `name_at`.
    fn named(&mut self, name_at: usize) -> Result<(), Problem<'p>> {
        let text = self.rest;
        let Some(end) = text.find('>') else {
            return Err(Problem::Part(ErrorKind::InvalidNamedCapture, text));
        };
        let name = &text[name_at..end];
        if name.is_empty() || !name.bytes().all(|b| b == b'_' || b.is_ascii_alphanumeric()) {
            return Err(Problem::Part(ErrorKind::InvalidNamedCapture, &text[..=end]));
        }
        self.rest = &text[end + 1..];
        self.stack.open(true, self.flags)
    }

    /// Reads `(?flags)`, which changes the flags up to the end of the group, or `(?flags:`, which opens a group.
    fn flags(&mut self) -> Result<(), Problem<'p>> {
        let start = self.rest;
        let mut flags = self.flags;
        let (mut on, mut seen) = (true, false);
        let mut letters = start[2..].chars();
        while let Some(c) = letters.next() {
            self.rest = letters.as_str();
            match c {
                'i' => flags.fold = on,
                'm' => flags.multi_line = on,
                's' => flags.dot_newline = on,
                'U' => flags.lazy = on,
                '-' if on => on = false,
                ':' | ')' if on || seen => {
                    if c == ':' {
                        self.stack.open(false, self.flags)?;
                    }
                    self.flags = flags;
                    return Ok(());
                }
                _ => return Err(Problem::Part(ErrorKind::InvalidPerlSyntax, self.since(start))),
            }
            seen = c != '-';
        }
        Err(Problem::Part(ErrorKind::InvalidPerlSyntax, start))
    }

    /// Reads a closing parenthesis.
    pub(super) fn close(&mut self) -> Result<(), Problem<'p>> {
        self.stack.close()?;
        let flags: Option<Flags> = self.stack.leave()?;
        self.flags = flags.ok_or(Problem::Whole(ErrorKind::UnexpectedParenthesis))?;
        Ok(())
    }
}
