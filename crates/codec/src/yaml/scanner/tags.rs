//! Directives, tags, anchors and aliases.

use super::super::Problem;
use super::super::input::{Mark, is_blank, is_blank_or_end, is_break_or_end, is_word};
use super::{Kind, Scanner, Token};

impl Scanner {
    pub(super) fn scan_directive(&mut self) -> Result<Token, Problem> {
        let start = self.input.mark;
        self.input.skip();
        let mut name = String::new();
        while is_word(self.input.peek()) {
            self.input.read(&mut name);
        }
        if name.is_empty() {
            return Err(self.problem(start, "could not find expected directive name"));
        }
        if !is_blank_or_end(self.input.peek()) {
            return Err(self.problem(start, "found unexpected non-alphabetical character"));
        }
        let kind = match name.as_str() {
            "YAML" => self.scan_version(start)?,
            "TAG" => self.scan_tag_directive(start)?,
            _ => return Err(self.problem(start, "found unknown directive name")),
        };
        let end = self.input.mark;
        self.skip_blanks();
        if self.input.peek() == '#' {
            while !is_break_or_end(self.input.peek()) {
                self.input.skip();
            }
        }
        if !is_break_or_end(self.input.peek()) {
            return Err(self.problem(start, "did not find expected comment or line break"));
        }
        self.input.skip_line();
        Ok(Token { kind, start, end })
    }

    fn skip_blanks(&mut self) {
        while is_blank(self.input.peek()) {
            self.input.skip();
        }
    }

    fn scan_version(&mut self, start: Mark) -> Result<Kind, Problem> {
        self.skip_blanks();
        let major = self.scan_version_number(start)?;
        if self.input.peek() != '.' {
            return Err(self.problem(start, "did not find expected digit or '.' character"));
        }
        self.input.skip();
        let minor = self.scan_version_number(start)?;
        Ok(Kind::Version(major, minor))
    }

    fn scan_version_number(&mut self, start: Mark) -> Result<u8, Problem> {
        let (mut value, mut length) = (0, 0);
        while let Some(digit) = self.input.peek().to_digit(10) {
            length += 1;
            if length > 2 {
                return Err(self.problem(start, "found extremely long version number"));
            }
            value = value * 10 + digit as u8;
            self.input.skip();
        }
        if length == 0 {
            return Err(self.problem(start, "did not find expected version number"));
        }
        Ok(value)
    }

    fn scan_tag_directive(&mut self, start: Mark) -> Result<Kind, Problem> {
        self.skip_blanks();
        let handle = self.scan_tag_handle(true, start)?;
        if !is_blank(self.input.peek()) {
            return Err(self.problem(start, "did not find expected whitespace"));
        }
        self.skip_blanks();
        let prefix = self.scan_tag_uri("", start)?;
        if !is_blank_or_end(self.input.peek()) {
            return Err(self.problem(start, "did not find expected whitespace or line break"));
        }
        Ok(Kind::TagDirective { handle, prefix })
    }

    pub(super) fn scan_anchor(&mut self, alias: bool) -> Result<Token, Problem> {
        let start = self.input.mark;
        self.input.skip();
        let mut name = String::new();
        while is_word(self.input.peek()) {
            self.input.read(&mut name);
        }
        let end = self.input.mark;
        let c = self.input.peek();
        let ends_well = is_blank_or_end(c) || matches!(c, '?' | ':' | ',' | ']' | '}' | '%' | '@' | '`');
        if name.is_empty() || !ends_well {
            return Err(self.problem(start, "did not find expected alphabetic or numeric character"));
        }
        Ok(Token { kind: if alias { Kind::Alias(name) } else { Kind::Anchor(name) }, start, end })
    }

    pub(super) fn scan_tag(&mut self) -> Result<Token, Problem> {
        let start = self.input.mark;
        let (mut handle, mut suffix) = (String::new(), String::new());
        if self.input.at(1) == '<' {
            self.input.skip();
            self.input.skip();
            suffix = self.scan_tag_uri("", start)?;
            if self.input.peek() != '>' {
                return Err(self.problem(start, "did not find the expected '>'"));
            }
            self.input.skip();
        } else {
            let head = self.scan_tag_handle(false, start)?;
            if head.len() > 1 && head.ends_with('!') {
                suffix = self.scan_tag_uri("", start)?;
                handle = head;
            } else {
                suffix.push_str(&self.scan_tag_uri(&head, start)?);
                handle.push('!');
                // A lone exclamation mark is a tag of its own.
                if suffix.is_empty() {
                    std::mem::swap(&mut handle, &mut suffix);
                }
            }
        }
        if !is_blank_or_end(self.input.peek()) {
            return Err(self.problem(start, "did not find expected whitespace or line break"));
        }
        Ok(Token { kind: Kind::Tag { handle, suffix }, start, end: self.input.mark })
    }

    fn scan_tag_handle(&mut self, directive: bool, start: Mark) -> Result<String, Problem> {
        let mut handle = String::new();
        if self.input.peek() != '!' {
            return Err(self.problem(start, "did not find expected '!'"));
        }
        self.input.read(&mut handle);
        while is_word(self.input.peek()) {
            self.input.read(&mut handle);
        }
        if self.input.peek() == '!' {
            self.input.read(&mut handle);
        } else if directive && handle != "!" {
            return Err(self.problem(start, "did not find expected '!'"));
        }
        Ok(handle)
    }

    /// A tag's URI; `head` is what was taken for a handle and turned out to be its beginning.
    fn scan_tag_uri(&mut self, head: &str, start: Mark) -> Result<String, Problem> {
        let mut uri: Vec<u8> = head.strip_prefix('!').unwrap_or(head).into();
        let mut found = !head.is_empty();
        loop {
            match self.input.peek() {
                '%' => self.scan_uri_escape(start, &mut uri)?,
                c if is_word(c) || ";/?:@&=+$,.!~*'()[]".contains(c) => {
                    uri.push(c as u8);
                    self.input.skip();
                }
                _ => break,
            }
            found = true;
        }
        if !found {
            return Err(self.problem(start, "did not find expected tag URI"));
        }
        Ok(crate::text::lossy(&uri).into_owned())
    }

    /// One percent-encoded character, which may take several octets.
    fn scan_uri_escape(&mut self, start: Mark, uri: &mut Vec<u8>) -> Result<(), Problem> {
        let mut left = None;
        while left != Some(0) {
            let digits = (self.input.at(1).to_digit(16), self.input.at(2).to_digit(16));
            let ('%', (Some(high), Some(low))) = (self.input.peek(), digits) else {
                return Err(self.problem(start, "did not find URI escaped octet"));
            };
            let octet = (high << 4 | low) as u8;
            left = match (left, octet) {
                (None, 0..=0x7f) => Some(0),
                (None, 0xc0..=0xdf) => Some(1),
                (None, 0xe0..=0xef) => Some(2),
                (None, 0xf0..=0xf7) => Some(3),
                (None, _) => return Err(self.problem(start, "found an incorrect leading UTF-8 octet")),
                (Some(left), 0x80..=0xbf) => Some(left - 1),
                (Some(_), _) => return Err(self.problem(start, "found an incorrect trailing UTF-8 octet")),
            };
            uri.push(octet);
            (0..3).for_each(|_| self.input.skip());
        }
        Ok(())
    }
}
