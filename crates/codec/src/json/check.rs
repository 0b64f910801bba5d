//! What is wrong with a document, in the words of Go's scanner.
//!
//! This runs only after the fast reader has failed. It keeps its own stack, so nesting costs no recursion.

use object::quote;

/// Where Go's scanner gives up.
pub(super) const GO_MAX_DEPTH: usize = 10_000;

const END_OF_INPUT: &str = "unexpected end of JSON input";

/// The first syntax error of `bytes`, or `None` for a well-formed document.
pub(super) fn syntax_error(bytes: &[u8]) -> Option<String> {
    let mut check = SyntaxCheck { bytes, at: 0, open: Vec::new() };
    check.document().err()
}

struct SyntaxCheck<'a> {
    bytes: &'a [u8],
    at: usize,
    /// For each map or list that is open, whether it is a map.
    open: Vec<bool>,
}

type SyntaxChecked = Result<(), String>;

/// What comes next.
enum Want {
    Value,
    /// A value, or the end of a list that was just opened.
    ValueOrEnd,
    Key,
    /// A key, or the end of a map that was just opened.
    KeyOrEnd,
    /// A comma or the end of whatever is open.
    Separator,
}

impl SyntaxCheck<'_> {
    fn document(&mut self) -> SyntaxChecked {
        let mut want = Want::Value;
        loop {
            if matches!(want, Want::Separator) && self.open.is_empty() {
                break;
            }
            let byte = self.next_visible()?;
            want = match (want, byte) {
                (Want::ValueOrEnd, b']') | (Want::KeyOrEnd, b'}') => self.close(),
                (Want::Value | Want::ValueOrEnd, byte) => self.value(byte)?,
                (Want::Key | Want::KeyOrEnd, byte) => self.key(byte)?,
                (Want::Separator, byte) => self.separator(byte)?,
            };
        }
        match self.next_visible() {
            Ok(byte) => unexpected(byte, "after top-level value"),
            Err(_) => Ok(()),
        }
    }

    /// A value that begins with `byte`; maps and lists are only opened.
    fn value(&mut self, byte: u8) -> Result<Want, String> {
        match byte {
            b'{' => {
                self.push(byte, true)?;
                return Ok(Want::KeyOrEnd);
            }
            b'[' => {
                self.push(byte, false)?;
                return Ok(Want::ValueOrEnd);
            }
            b'"' => self.string()?,
            b'-' | b'0'..=b'9' => self.number(byte)?,
            b't' => self.literal("true")?,
            b'f' => self.literal("false")?,
            b'n' => self.literal("null")?,
            _ => unexpected(byte, "looking for beginning of value")?,
        }
        Ok(Want::Separator)
    }

    /// A key that begins with `byte`, and its colon.
    fn key(&mut self, byte: u8) -> Result<Want, String> {
        if byte != b'"' {
            unexpected(byte, "looking for beginning of object key string")?;
        }
        self.string()?;
        match self.next_visible()? {
            b':' => {}
            other => unexpected(other, "after object key")?,
        }
        Ok(Want::Value)
    }

    fn separator(&mut self, byte: u8) -> Result<Want, String> {
        let in_map = self.open.last() == Some(&true);
        match (byte, in_map) {
            (b',', true) => return Ok(Want::Key),
            (b',', false) => return Ok(Want::Value),
            (b'}', true) | (b']', false) => {}
            (_, true) => unexpected(byte, "after object key:value pair")?,
            (_, false) => unexpected(byte, "after array element")?,
        }
        Ok(self.close())
    }

    fn close(&mut self) -> Want {
        self.open.pop();
        Want::Separator
    }

    fn push(&mut self, byte: u8, is_map: bool) -> SyntaxChecked {
        self.open.push(is_map);
        if self.open.len() > GO_MAX_DEPTH { unexpected(byte, "exceeded max depth") } else { Ok(()) }
    }

    /// The rest of a string, after its opening quote.
    fn string(&mut self) -> SyntaxChecked {
        loop {
            match self.next().ok_or(END_OF_INPUT)? {
                b'"' => return Ok(()),
                b'\\' => self.escape()?,
                byte if byte < 0x20 => return unexpected(byte, "in string literal"),
                _ => {}
            }
        }
    }

    fn escape(&mut self) -> SyntaxChecked {
        match self.next_or_space() {
            b'b' | b'f' | b'n' | b'r' | b't' | b'\\' | b'/' | b'"' => Ok(()),
            b'u' => {
                for _ in 0..4 {
                    let byte = self.next_or_space();
                    if !byte.is_ascii_hexdigit() {
                        return unexpected(byte, "in \\u hexadecimal character escape");
                    }
                }
                Ok(())
            }
            byte => unexpected(byte, "in string escape code"),
        }
    }

    /// The rest of a number; the byte after it is left unread.
    fn number(&mut self, first: u8) -> SyntaxChecked {
        let first = match first {
            b'-' => self.digit("in numeric literal")?,
            digit => digit,
        };
        if first != b'0' {
            self.digits();
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.digit("after decimal point in numeric literal")?;
            self.digits();
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.at += 1;
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.at += 1;
            }
            self.digit("in exponent of numeric literal")?;
            self.digits();
        }
        Ok(())
    }

    fn digit(&mut self, context: &str) -> Result<u8, String> {
        match self.next_or_space() {
            byte @ b'0'..=b'9' => Ok(byte),
            byte => unexpected(byte, context).map(|()| byte),
        }
    }

    fn digits(&mut self) {
        while self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            self.at += 1;
        }
    }

    /// The rest of `true`, `false` or `null`, after its first letter.
    fn literal(&mut self, word: &str) -> SyntaxChecked {
        for want in word.bytes().skip(1) {
            let byte = self.next_or_space();
            if byte != want {
                return unexpected(byte, &format!("in literal {word} (expecting '{}')", want as char));
            }
        }
        Ok(())
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn next(&mut self) -> Option<u8> {
        let byte = self.peek();
        self.at += usize::from(byte.is_some());
        byte
    }

    /// Go's scanner is fed one space at the end of the input, to make it finish what it is in the middle of.
    fn next_or_space(&mut self) -> u8 {
        self.next().unwrap_or(b' ')
    }

    fn next_visible(&mut self) -> Result<u8, String> {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\r' | b'\n')) {
            self.at += 1;
        }
        self.next().ok_or_else(|| END_OF_INPUT.to_string())
    }
}

fn unexpected(byte: u8, context: &str) -> SyntaxChecked {
    Err(format!("invalid character {} {context}", quote_byte(byte)))
}

/// A byte as Go shows it in single quotes; bytes beyond ASCII are shown as the Latin-1 character of the same number.
fn quote_byte(byte: u8) -> String {
    match byte {
        b'\'' => r"'\''".into(),
        b'"' => r#"'"'"#.into(),
        _ => {
            let quoted = quote(&char::from(byte).to_string());
            format!("'{}'", &quoted[1..quoted.len() - 1])
        }
    }
}
