//! Mail addresses, as Go's `mail.ParseAddress` takes them.

/// One address: `a@b.c`, `Name <a@b.c>`, `"Any Name" <a@b.c>`, comments in parentheses.
pub fn is_email(text: &str) -> bool {
    let mut reader = Reader { rest: text };
    reader.address() && reader.blank() && reader.rest.is_empty()
}

struct Reader<'a> {
    rest: &'a str,
}

impl Reader<'_> {
    fn address(&mut self) -> bool {
        let start = self.rest;
        if self.spec() && self.peek() != Some('<') {
            return true;
        }
        self.rest = start;
        self.display_name() && self.angle()
    }

    /// `<a@b.c>`.
    fn angle(&mut self) -> bool {
        self.blank() && self.skip('<') && self.spec() && self.skip('>')
    }

    /// `local@domain`.
    fn spec(&mut self) -> bool {
        self.blank() && self.local() && self.blank() && self.skip('@') && self.domain() && self.blank()
    }

    fn local(&mut self) -> bool {
        match self.peek() {
            Some('"') => self.quoted(true),
            _ => self.dot_atom(),
        }
    }

    fn domain(&mut self) -> bool {
        self.blank();
        if self.skip('[') {
            return match self.rest.split_once(']') {
                Some((literal, rest)) => {
                    self.rest = rest;
                    let address = literal.strip_prefix("IPv6:").unwrap_or(literal);
                    address.parse::<std::net::IpAddr>().is_ok()
                }
                None => false,
            };
        }
        self.dot_atom()
    }

    /// Words, quoted or not, before an angle.
    fn display_name(&mut self) -> bool {
        loop {
            if !self.blank() {
                return false;
            }
            match self.peek() {
                Some('<') => return true,
                Some('"') if self.quoted(false) => {}
                Some(c) if is_atom_character(c) || c == '.' => {
                    self.take_while(|c| is_atom_character(c) || c == '.');
                }
                _ => return false,
            }
        }
    }

    /// Atoms with single dots between them.
    fn dot_atom(&mut self) -> bool {
        let atom = self.take_while(|c| is_atom_character(c) || c == '.');
        !atom.is_empty() && !atom.starts_with('.') && !atom.ends_with('.') && !atom.contains("..")
    }

    fn quoted(&mut self, must_hold: bool) -> bool {
        self.skip('"');
        let mut length = 0;
        while let Some(c) = self.next() {
            match c {
                '"' => return length > 0 || !must_hold,
                '\\' => match self.next() {
                    Some(c) if is_visible(c) || matches!(c, ' ' | '\t') => length += 1,
                    _ => return false,
                },
                c if is_visible(c) || matches!(c, ' ' | '\t') => length += 1,
                _ => return false,
            }
        }
        false
    }

    /// White space and comments; false where a comment does not end.
    fn blank(&mut self) -> bool {
        loop {
            self.take_while(|c| matches!(c, ' ' | '\t' | '\r' | '\n'));
            if self.peek() != Some('(') {
                return true;
            }
            let mut depth = 0;
            loop {
                match self.next() {
                    Some('(') => depth += 1,
                    Some(')') => depth -= 1,
                    Some('\\') => {
                        self.next();
                    }
                    Some(_) => {}
                    None => return false,
                }
                if depth == 0 {
                    break;
                }
            }
        }
    }

    fn peek(&self) -> Option<char> {
        self.rest.chars().next()
    }

    fn next(&mut self) -> Option<char> {
        let c = self.peek()?;
        self.rest = &self.rest[c.len_utf8()..];
        Some(c)
    }

    fn skip(&mut self, c: char) -> bool {
        let found = self.peek() == Some(c);
        if found {
            self.next();
        }
        found
    }

    fn take_while(&mut self, mut take: impl FnMut(char) -> bool) -> &str {
        let end = self.rest.find(|c| !take(c)).unwrap_or(self.rest.len());
        let (taken, rest) = self.rest.split_at(end);
        self.rest = rest;
        taken
    }
}

fn is_atom_character(c: char) -> bool {
    is_visible(c) && !r#"()<>[]:;@\,.""#.contains(c)
}

fn is_visible(c: char) -> bool {
    !c.is_ascii() || c.is_ascii_graphic()
}
