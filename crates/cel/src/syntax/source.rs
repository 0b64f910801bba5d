//! Where errors are, and how they are shown.

use std::fmt;

/// No more errors than this are shown.
const MAX_ERRORS: usize = 100;
/// Longer lines are not shown with an error.
const MAX_SNIPPET_BYTES: usize = 16_384;

/// Errors of one expression.
#[derive(Debug)]
pub struct Errors<'s> {
    source: &'s str,
    errors: Vec<Located>,
    count: usize,
}

#[derive(Debug, Clone)]
struct Located {
    /// The byte offset; none for errors of the expression as a whole.
    offset: Option<u32>,
    message: String,
}

impl<'s> Errors<'s> {
    pub fn new(source: &'s str) -> Errors<'s> {
        Errors { source, errors: Vec::new(), count: 0 }
    }

    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    pub fn len(&self) -> usize {
        self.count
    }

    /// Forgets errors after the first `count`, but for syntax errors.
    pub fn keep_syntax_errors(&mut self, count: usize) {
        let (mut at, all) = (0, self.errors.len());
        self.errors.retain(|error| {
            at += 1;
            at <= count || error.message.starts_with("Syntax error: ")
        });
        self.count -= all - self.errors.len();
    }

    /// An error at a byte offset.
    pub fn at(&mut self, offset: u32, message: impl Into<String>) {
        self.add(Some(offset), message.into());
    }

    /// An error of the expression as a whole.
    pub fn whole(&mut self, message: impl Into<String>) {
        self.add(None, message.into());
    }

    fn add(&mut self, offset: Option<u32>, message: String) {
        self.count += 1;
        if self.errors.len() < MAX_ERRORS {
            self.errors.push(Located { offset, message });
        }
    }

    /// The line from 1 and the column from 0, in code points; where an empty expression has its only error is outside of
    /// it.
    fn position(&self, offset: Option<u32>) -> (i64, i64) {
        let Some(offset) = offset else { return (-1, -1) };
        if self.source.is_empty() {
            return (1, -1);
        }
        let before = self.source.get(..offset as usize).unwrap_or(self.source);
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        let line = before.bytes().filter(|b| *b == b'\n').count() as i64 + 1;
        (line, before[line_start..].chars().count() as i64)
    }

    fn line(&self, number: i64) -> Option<&str> {
        let index = usize::try_from(number).ok()?.checked_sub(1)?;
        self.source.split('\n').nth(index).filter(|_| !self.source.is_empty())
    }

    fn show(&self, error: &Located, out: &mut String) {
        let (line, column) = self.position(error.offset);
        out.push_str(&format!("ERROR: <input>:{line}:{}: {}", column + 1, error.message));
        let Some(snippet) = self.line(line).filter(|snippet| snippet.len() <= MAX_SNIPPET_BYTES) else { return };
        out.push_str("\n | ");
        out.extend(snippet.chars().map(|c| if c == '\t' { ' ' } else { c }));
        out.push_str("\n | ");
        let mut chars = snippet.chars();
        let before = chars.by_ref().take(usize::try_from(column).unwrap_or(0));
        out.extend(before.map(|c| if c.is_ascii() { '.' } else { '\u{ff0e}' }));
        out.push(if chars.next().is_none_or(|c| c.is_ascii()) { '^' } else { '\u{ff3e}' });
    }
}

impl fmt::Display for Errors<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut errors = self.errors.clone();
        errors.sort_by_key(|error| error.offset.map_or(-1, i64::from));
        let mut out = String::new();
        for (i, error) in errors.iter().enumerate() {
            if i > 0 {
                out.push('\n');
            }
            self.show(error, &mut out);
        }
        if self.count > MAX_ERRORS {
            out.push_str(&format!("\n{} more errors were truncated", self.count - MAX_ERRORS));
        }
        f.write_str(&out)
    }
}
