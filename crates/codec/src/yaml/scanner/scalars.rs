//! Scalars: plain, quoted, and in blocks.

use super::super::Problem;
use super::super::input::{is_blank, is_blank_or_end, is_break, is_break_or_end};
use super::{Kind, Scanner, Token};

/// Blanks and line breaks inside a scalar, which become a space, line breaks or nothing once it goes on.
#[derive(Default)]
struct Gap {
    /// Whether a line break was among them.
    broken: bool,
    blanks: String,
    first_break: String,
    more_breaks: String,
}

impl Gap {
    /// Appends what the gap amounts to, and starts a new one.
    fn close(&mut self, out: &mut String) {
        if !self.broken {
            out.push_str(&self.blanks);
        } else if !self.first_break.starts_with('\n') {
            out.push_str(&self.first_break);
            out.push_str(&self.more_breaks);
        } else if self.more_breaks.is_empty() {
            out.push(' ');
        } else {
            out.push_str(&self.more_breaks);
        }
        *self = Gap::default();
    }
}

impl Scanner {
    pub(super) fn scan_plain_scalar(&mut self) -> Result<Token, Problem> {
        let start = self.input.mark;
        let mut end = start;
        let indent = self.indent + 1;
        let mut text = String::new();
        let mut gap = Gap::default();
        loop {
            self.input.look_ahead();
            if self.input.at_document_marker() || self.input.peek() == '#' {
                break;
            }
            while !is_blank_or_end(self.input.peek()) {
                if self.ends_plain() {
                    break;
                }
                if gap.broken || !gap.blanks.is_empty() {
                    gap.close(&mut text);
                }
                self.input.read(&mut text);
                end = self.input.mark;
            }
            if !is_blank(self.input.peek()) && !is_break(self.input.peek()) {
                break;
            }
            while is_blank(self.input.peek()) || is_break(self.input.peek()) {
                let column = self.input.mark.column as isize;
                if gap.broken && column < indent && self.input.peek() == '\t' {
                    return Err(self.problem(start, "found a tab character that violates indentation"));
                }
                self.scan_gap(&mut gap);
            }
            if self.flow_level == 0 && (self.input.mark.column as isize) < indent {
                break;
            }
        }
        if gap.broken {
            self.key_allowed = true;
        }
        Ok(Token { kind: Kind::Scalar { text, plain: true }, start, end })
    }

    /// Whether a plain scalar ends at this character.
    fn ends_plain(&mut self) -> bool {
        match self.input.peek() {
            ':' => is_blank_or_end(self.input.at(1)),
            ',' | '?' | '[' | ']' | '{' | '}' => self.flow_level > 0,
            _ => false,
        }
    }

    /// One blank or line break more.
    fn scan_gap(&mut self, gap: &mut Gap) {
        match (is_blank(self.input.peek()), gap.broken) {
            (true, false) => self.input.read(&mut gap.blanks),
            (true, true) => self.input.skip(),
            (false, false) => {
                gap.blanks.clear();
                self.input.read_line(&mut gap.first_break);
                gap.broken = true;
            }
            (false, true) => self.input.read_line(&mut gap.more_breaks),
        }
    }

    pub(super) fn scan_flow_scalar(&mut self, single: bool) -> Result<Token, Problem> {
        let start = self.input.mark;
        let quote = if single { '\'' } else { '"' };
        self.input.skip();
        let mut text = String::new();
        loop {
            self.input.look_ahead();
            if self.input.at_document_marker() {
                return Err(self.problem(start, "found unexpected document indicator"));
            }
            if self.input.peek() == '\0' {
                return Err(self.problem(start, "found unexpected end of stream"));
            }
            let mut gap = Gap::default();
            while !is_blank_or_end(self.input.peek()) {
                match (self.input.peek(), self.input.at(1)) {
                    ('\'', '\'') if single => {
                        text.push('\'');
                        self.input.skip();
                        self.input.skip();
                    }
                    (c, _) if c == quote => break,
                    ('\\', next) if !single && is_break(next) => {
                        self.input.skip();
                        self.input.skip_line();
                        gap.broken = true;
                        break;
                    }
                    ('\\', _) if !single => {
                        let c = self.scan_escape(start)?;
                        text.push(c);
                    }
                    _ => self.input.read(&mut text),
                }
            }
            if self.input.peek() == quote {
                break;
            }
            while is_blank(self.input.peek()) || is_break(self.input.peek()) {
                self.scan_gap(&mut gap);
            }
            gap.close(&mut text);
        }
        self.input.skip();
        Ok(Token { kind: Kind::Scalar { text, plain: false }, start, end: self.input.mark })
    }

    fn scan_escape(&mut self, start: super::Mark) -> Result<char, Problem> {
        let (c, digits) = match self.input.at(1) {
            '0' => ('\0', 0),
            'a' => ('\u{7}', 0),
            'b' => ('\u{8}', 0),
            't' | '\t' => ('\t', 0),
            'n' => ('\n', 0),
            'v' => ('\u{b}', 0),
            'f' => ('\u{c}', 0),
            'r' => ('\r', 0),
            'e' => ('\u{1b}', 0),
            c @ (' ' | '"' | '\'' | '\\') => (c, 0),
            'N' => ('\u{85}', 0),
            '_' => ('\u{a0}', 0),
            'L' => ('\u{2028}', 0),
            'P' => ('\u{2029}', 0),
            'x' => ('\0', 2),
            'u' => ('\0', 4),
            'U' => ('\0', 8),
            _ => return Err(self.problem(start, "found unknown escape character")),
        };
        self.input.skip();
        self.input.skip();
        if digits == 0 {
            return Ok(c);
        }
        let mut code = 0u64;
        for ahead in 0..digits {
            match self.input.at(ahead).to_digit(16) {
                Some(digit) => code = code << 4 | u64::from(digit),
                None => return Err(self.problem(start, "did not find expected hexdecimal number")),
            }
        }
        let c = u32::try_from(code).ok().and_then(char::from_u32);
        let c = c.ok_or_else(|| self.problem(start, "found invalid Unicode character escape code"))?;
        (0..digits).for_each(|_| self.input.skip());
        Ok(c)
    }

    pub(super) fn scan_block_scalar(&mut self, literal: bool) -> Result<Token, Problem> {
        let start = self.input.mark;
        self.input.skip();
        let (keep, increment) = self.scan_block_header(start)?;
        let mut indent = match increment {
            0 => None,
            _ => Some(usize::try_from(self.indent.max(0)).unwrap_or(0) + increment),
        };
        let mut text = String::new();
        let (mut first_break, mut more_breaks) = (String::new(), String::new());
        let mut after_blank = false;
        let mut end = self.scan_block_breaks(&mut indent, &mut more_breaks, start)?;
        let column = indent.unwrap_or(1);
        while self.input.mark.column == column && self.input.peek() != '\0' {
            let blank = is_blank(self.input.peek());
            if !literal && first_break.starts_with('\n') && !after_blank && !blank {
                if more_breaks.is_empty() {
                    text.push(' ');
                }
            } else {
                text.push_str(&first_break);
            }
            first_break.clear();
            text.push_str(&more_breaks);
            more_breaks.clear();
            after_blank = blank;
            while !is_break_or_end(self.input.peek()) {
                self.input.read(&mut text);
            }
            self.input.read_line(&mut first_break);
            end = self.scan_block_breaks(&mut indent, &mut more_breaks, start)?;
        }
        if keep != Some(false) {
            text.push_str(&first_break);
        }
        if keep == Some(true) {
            text.push_str(&more_breaks);
        }
        Ok(Token { kind: Kind::Scalar { text, plain: false }, start, end })
    }

    /// What follows `|` or `>`: whether trailing line breaks are kept (`+`), stripped (`-`) or cut to one, and how far
    /// the content is indented, 0 for as far as it is.
    fn scan_block_header(&mut self, start: super::Mark) -> Result<(Option<bool>, usize), Problem> {
        let mut increment = 0;
        let chomping = |c: char| match c {
            '+' => Some(true),
            '-' => Some(false),
            _ => None,
        };
        let mut keep = chomping(self.input.peek());
        if keep.is_some() {
            self.input.skip();
        }
        if let Some(digit) = self.input.peek().to_digit(10) {
            if digit == 0 {
                return Err(self.problem(start, "found an indentation indicator equal to 0"));
            }
            increment = digit as usize;
            self.input.skip();
            if keep.is_none() {
                keep = chomping(self.input.peek());
                if keep.is_some() {
                    self.input.skip();
                }
            }
        }
        while is_blank(self.input.peek()) {
            self.input.skip();
        }
        if self.input.peek() == '#' {
            while !is_break_or_end(self.input.peek()) {
                self.input.skip();
            }
        }
        if !is_break_or_end(self.input.peek()) {
            return Err(self.problem(start, "did not find expected comment or line break"));
        }
        self.input.skip_line();
        Ok((keep, increment))
    }

    /// Indentation and empty lines in front of content; the first time they tell how far it is indented.
    fn scan_block_breaks(
        &mut self,
        indent: &mut Option<usize>,
        breaks: &mut String,
        start: super::Mark,
    ) -> Result<super::Mark, Problem> {
        let mut end = self.input.mark;
        let mut deepest = 0;
        loop {
            let within = |column: usize| indent.is_none_or(|indent| column < indent);
            while within(self.input.mark.column) && self.input.peek() == ' ' {
                self.input.skip();
            }
            deepest = deepest.max(self.input.mark.column);
            if within(self.input.mark.column) && self.input.peek() == '\t' {
                return Err(self.problem(start, "found a tab character where an indentation space is expected"));
            }
            if !is_break(self.input.peek()) {
                break;
            }
            self.input.read_line(breaks);
            end = self.input.mark;
        }
        if indent.is_none() {
            let least = usize::try_from(self.indent + 1).unwrap_or(0).max(1);
            *indent = Some(deepest.max(least));
        }
        Ok(end)
    }
}
