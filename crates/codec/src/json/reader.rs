//! [`Reader`]: tokens out of text, fast, and without words for what is wrong.

use std::borrow::Cow;

use object::JSON_SPECIALS;

use super::Stop;
use super::check::GO_MAX_DEPTH;

pub(super) struct Reader<'a> {
    text: &'a str,
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    pub fn new(text: &'a str) -> Reader<'a> {
        Reader { text, bytes: text.as_bytes(), at: 0 }
    }

    /// The offset of the next byte.
    pub fn offset(&self) -> usize {
        self.at
    }

    /// The text from `start` up to where the reader is.
    pub fn since(&self, start: usize) -> &'a str {
        &self.text[start..self.at]
    }

    /// The next byte that is no space, without taking it. At the end of the input it is 0, which begins nothing.
    #[inline]
    pub fn peek(&mut self) -> u8 {
        loop {
            match self.bytes.get(self.at) {
                Some(b' ' | b'\n' | b'\t' | b'\r') => self.at += 1,
                Some(&byte) => return byte,
                None => return 0,
            }
        }
    }

    /// Takes the byte that was peeked at.
    #[inline]
    pub fn bump(&mut self) {
        self.at += 1;
    }

    /// Takes `byte`, after spaces, or fails.
    #[inline]
    pub fn expect(&mut self, byte: u8) -> Result<(), Stop> {
        if self.peek() != byte {
            return Err(Stop::Syntax);
        }
        self.at += 1;
        Ok(())
    }

    /// Nothing but spaces may be left.
    pub fn end(&mut self) -> Result<(), Stop> {
        self.peek();
        if self.at < self.bytes.len() { Err(Stop::Syntax) } else { Ok(()) }
    }

    /// Takes `true`, `false` or `null`.
    #[inline]
    pub fn word(&mut self, word: &str) -> Result<(), Stop> {
        if !self.bytes[self.at..].starts_with(word.as_bytes()) {
            return Err(Stop::Syntax);
        }
        self.at += word.len();
        Ok(())
    }

    /// Inside a map that was just opened or whose last value was just read: whether a key follows. `first` tells the two
    /// apart and is cleared.
    #[inline]
    pub fn next_key(&mut self, first: &mut bool) -> Result<bool, Stop> {
        match self.peek() {
            b'}' => {
                self.at += 1;
                return Ok(false);
            }
            b',' if !*first => {
                self.at += 1;
                self.peek();
            }
            _ if *first => {}
            _ => return Err(Stop::Syntax),
        }
        *first = false;
        if self.bytes.get(self.at) == Some(&b'"') { Ok(true) } else { Err(Stop::Syntax) }
    }

    /// The same for a list: whether an item follows.
    #[inline]
    pub fn next_item(&mut self, first: &mut bool) -> Result<bool, Stop> {
        match self.peek() {
            b']' => {
                self.at += 1;
                return Ok(false);
            }
            b',' if !*first => {
                self.at += 1;
                if self.peek() == b']' {
                    return Err(Stop::Syntax);
                }
            }
            _ if *first => {}
            _ => return Err(Stop::Syntax),
        }
        *first = false;
        Ok(true)
    }

    /// A key and the colon behind it.
    #[inline]
    pub fn key(&mut self) -> Result<Cow<'a, str>, Stop> {
        let key = self.string()?;
        self.expect(b':')?;
        Ok(key)
    }

    /// A string; the reader stands at its opening quote.
    #[inline]
    pub fn string(&mut self) -> Result<Cow<'a, str>, Stop> {
        let start = self.at + 1;
        // The plain part of the string ends here.
        let end = JSON_SPECIALS.first_in(self.bytes, start);
        if self.bytes.get(end) == Some(&b'"') {
            self.at = end + 1;
            return Ok(Cow::Borrowed(&self.text[start..end]));
        }
        self.escaped_string(start, end).map(Cow::Owned)
    }

    /// A string with escapes in it, of which `start..end` is the part before the first one.
    #[cold]
    fn escaped_string(&mut self, start: usize, end: usize) -> Result<String, Stop> {
        let mut out = String::with_capacity(end - start + 32);
        let (mut from, mut to) = (start, end);
        loop {
            out.push_str(&self.text[from..to]);
            match self.bytes.get(to) {
                Some(b'"') => {
                    self.at = to + 1;
                    return Ok(out);
                }
                Some(b'\\') => {
                    let (c, next) = self.escape(to + 1)?;
                    out.push(c);
                    from = next;
                    to = JSON_SPECIALS.first_in(self.bytes, next);
                }
                _ => return Err(Stop::Syntax),
            }
        }
    }

    /// The character an escape stands for, and where it ends; `at` is behind the backslash.
    fn escape(&self, at: usize) -> Result<(char, usize), Stop> {
        let c = match self.bytes.get(at).ok_or(Stop::Syntax)? {
            b'"' => '"',
            b'\\' => '\\',
            b'/' => '/',
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => return self.unicode_escape(at + 1),
            _ => return Err(Stop::Syntax),
        };
        Ok((c, at + 1))
    }

    /// Half a surrogate pair without its other half is U+FFFD, as in Go.
    fn unicode_escape(&self, at: usize) -> Result<(char, usize), Stop> {
        let high = self.hex4(at).ok_or(Stop::Syntax)?;
        if let Some(c) = char::from_u32(high) {
            return Ok((c, at + 4));
        }
        if (0xd800..0xdc00).contains(&high)
            && self.bytes[at + 4..].starts_with(b"\\u")
            && let Some(low) = self.hex4(at + 6).filter(|low| (0xdc00..0xe000).contains(low))
        {
            let code = 0x1_0000 + ((high - 0xd800) << 10) + (low - 0xdc00);
            return Ok((char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER), at + 10));
        }
        Ok((char::REPLACEMENT_CHARACTER, at + 4))
    }

    fn hex4(&self, at: usize) -> Option<u32> {
        let digits = self.bytes.get(at..at + 4)?;
        digits.iter().try_fold(0, |code, &digit| Some(code << 4 | char::from(digit).to_digit(16)?))
    }

    /// A number's text; the reader stands at its first byte.
    #[inline]
    pub fn number(&mut self) -> Result<&'a str, Stop> {
        let start = self.at;
        if self.bytes.get(self.at) == Some(&b'-') {
            self.at += 1;
        }
        match self.bytes.get(self.at) {
            Some(b'0') => self.at += 1,
            Some(b'1'..=b'9') => self.digits(),
            _ => return Err(Stop::Syntax),
        }
        if self.bytes.get(self.at) == Some(&b'.') {
            self.at += 1;
            self.one_digit()?;
        }
        if matches!(self.bytes.get(self.at), Some(b'e' | b'E')) {
            self.at += 1;
            if matches!(self.bytes.get(self.at), Some(b'+' | b'-')) {
                self.at += 1;
            }
            self.one_digit()?;
        }
        Ok(&self.text[start..self.at])
    }

    fn one_digit(&mut self) -> Result<(), Stop> {
        let start = self.at;
        self.digits();
        if self.at == start { Err(Stop::Syntax) } else { Ok(()) }
    }

    #[inline]
    fn digits(&mut self) {
        while matches!(self.bytes.get(self.at), Some(b'0'..=b'9')) {
            self.at += 1;
        }
    }

    /// Passes over a value, checking its syntax only; `depth` is how many maps and lists are open around it. Keeps its
    /// own stack, so it can follow nesting as deep as Go does.
    pub fn skip(&mut self, depth: usize) -> Result<(), Stop> {
        self.skip_within(depth, GO_MAX_DEPTH)
    }

    /// Passes over a value that may be no deeper than this.
    pub fn skip_within(&mut self, depth: usize, deepest: usize) -> Result<(), Stop> {
        // For each map or list that is open, whether it is a map.
        let mut open: Vec<bool> = Vec::new();
        let mut first = false;
        loop {
            match self.peek() {
                opening @ (b'{' | b'[') => {
                    self.at += 1;
                    open.push(opening == b'{');
                    first = true;
                    if depth + open.len() > GO_MAX_DEPTH {
                        return Err(Stop::Syntax);
                    }
                    if depth + open.len() > deepest {
                        return Err(Stop::TooDeep);
                    }
                }
                _ => self.skip_scalar()?,
            }
            loop {
                let Some(&in_map) = open.last() else { return Ok(()) };
                let more = if in_map { self.next_key(&mut first)? } else { self.next_item(&mut first)? };
                if more {
                    if in_map {
                        self.key()?;
                    }
                    break;
                }
                open.pop();
                first = false;
            }
        }
    }

    fn skip_scalar(&mut self) -> Result<(), Stop> {
        match self.peek() {
            b'"' => self.string().map(drop),
            b't' => self.word("true"),
            b'f' => self.word("false"),
            b'n' => self.word("null"),
            _ => self.number().map(drop),
        }
    }
}
