//! The characters of a document, one by one, with their place.

use super::Problem;

/// How much upstream's reader takes in at a time. What is wrong with a character shows once its chunk is needed, so a
/// mistake further up in the document is reported first.
const CHUNK: usize = 512;

/// A place in the document, counted from zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Mark {
    pub index: usize,
    pub line: usize,
    pub column: usize,
}

pub(super) struct Input {
    chars: Vec<char>,
    /// What is wrong with the first character that is not in `chars`.
    broken: Option<&'static str>,
    /// Whether that character has been read.
    hit: bool,
    pub mark: Mark,
}

impl Input {
    pub fn new(bytes: &[u8]) -> Input {
        let (chars, broken) = match bytes {
            [] => (vec!['\n'], None),
            [0xff, 0xfe, ..] => chunked(bytes, 2, |rest| utf16(rest, u16::from_le_bytes)),
            [0xfe, 0xff, ..] => chunked(bytes, 2, |rest| utf16(rest, u16::from_be_bytes)),
            [0xef, 0xbb, 0xbf, ..] => chunked(bytes, 3, utf8),
            _ => chunked(bytes, 0, utf8),
        };
        Input { chars, broken, hit: false, mark: Mark::default() }
    }

    /// The character `ahead` of the current one; NUL behind the end, as no document can contain it.
    #[inline]
    pub fn at(&mut self, ahead: usize) -> char {
        match self.chars.get(self.mark.index + ahead) {
            Some(&c) => c,
            None => {
                self.hit |= self.broken.is_some();
                '\0'
            }
        }
    }

    #[inline]
    pub fn peek(&mut self) -> char {
        self.at(0)
    }

    /// Looks as far ahead as upstream does before it decides anything; a character that is none shows up that early.
    pub fn look_ahead(&mut self) {
        self.at(3);
    }

    /// Fails if a character had to be looked at that is none.
    pub fn check(&self) -> Result<(), Problem> {
        match self.broken {
            Some(message) if self.hit => Err(Problem { message: message.into(), line: None }),
            _ => Ok(()),
        }
    }

    /// Passes over a character that is no line break.
    #[inline]
    pub fn skip(&mut self) {
        self.mark.index += 1;
        self.mark.column += 1;
    }

    /// Takes a character that is no line break.
    #[inline]
    pub fn read(&mut self, out: &mut String) {
        out.push(self.peek());
        self.skip();
    }

    /// Passes over a line break, if there is one.
    pub fn skip_line(&mut self) {
        let mut ignored = String::new();
        self.read_line(&mut ignored);
    }

    /// Takes a line break; all of them become `\n`, but for the two that are characters of their own.
    pub fn read_line(&mut self, out: &mut String) {
        let (c, width) = match (self.peek(), self.at(1)) {
            ('\r', '\n') => ('\n', 2),
            ('\r' | '\n' | '\u{85}', _) => ('\n', 1),
            (c @ ('\u{2028}' | '\u{2029}'), _) => (c, 1),
            _ => return,
        };
        out.push(c);
        self.mark.index += width;
        self.mark.column = 0;
        self.mark.line += 1;
    }

    /// Whether a document marker stands here, `---` or `...`.
    pub fn at_document_marker(&mut self) -> bool {
        self.mark.column == 0
            && matches!(self.peek(), '-' | '.')
            && self.at(1) == self.peek()
            && self.at(2) == self.peek()
            && is_blank_or_end(self.at(3))
    }
}

pub(super) fn is_blank(c: char) -> bool {
    c == ' ' || c == '\t'
}

pub(super) fn is_break(c: char) -> bool {
    matches!(c, '\r' | '\n' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

pub(super) fn is_break_or_end(c: char) -> bool {
    c == '\0' || is_break(c)
}

pub(super) fn is_blank_or_end(c: char) -> bool {
    is_blank(c) || is_break_or_end(c)
}

pub(super) fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == '-'
}

/// Why no character could be decoded.
enum Stuck {
    /// There may be more in the next chunk; at the end of the input the message tells what is missing.
    Incomplete(&'static str),
    Broken(&'static str),
}

/// Decodes chunk by chunk. A chunk with something wrong in it is not there at all.
fn chunked(
    bytes: &[u8],
    start: usize,
    decode: impl Fn(&[u8]) -> Result<(char, usize), Stuck>,
) -> (Vec<char>, Option<&'static str>) {
    let mut chars = Vec::with_capacity(bytes.len());
    let (mut at, mut chunk_start) = (start, 0);
    while at < bytes.len() {
        let end = bytes.len().min(chunk_start + CHUNK);
        let complete = chars.len();
        while at < end {
            match decode(&bytes[at..end]) {
                Ok((c, _)) if !is_allowed(c) => {
                    chars.truncate(complete);
                    return (chars, Some("control characters are not allowed"));
                }
                Ok((c, width)) => {
                    chars.push(c);
                    at += width;
                }
                Err(Stuck::Incomplete(_)) if end < bytes.len() => break,
                // What is missing is only missed when it is asked for.
                Err(Stuck::Incomplete(message)) => return (chars, Some(message)),
                Err(Stuck::Broken(message)) => {
                    chars.truncate(complete);
                    return (chars, Some(message));
                }
            }
        }
        chunk_start = at;
    }
    (chars, None)
}

fn is_allowed(c: char) -> bool {
    matches!(c, '\t' | '\n' | '\r' | ' '..='~' | '\u{85}' | '\u{a0}'..='\u{d7ff}' | '\u{e000}'..='\u{fffd}' | '\u{10000}'..)
}

fn utf8(bytes: &[u8]) -> Result<(char, usize), Stuck> {
    let first = bytes[0];
    let (width, bits) = match first {
        0..=0x7f => return Ok((char::from(first), 1)),
        0xc0..=0xdf => (2, first & 0x1f),
        0xe0..=0xef => (3, first & 0x0f),
        0xf0..=0xf7 => (4, first & 0x07),
        _ => return Err(Stuck::Broken("invalid leading UTF-8 octet")),
    };
    let Some(rest) = bytes.get(1..width) else { return Err(Stuck::Incomplete("incomplete UTF-8 octet sequence")) };
    let mut code = u32::from(bits);
    for &byte in rest {
        if byte & 0xc0 != 0x80 {
            return Err(Stuck::Broken("invalid trailing UTF-8 octet"));
        }
        code = code << 6 | u32::from(byte & 0x3f);
    }
    let shortest = [0, 0, 0x80, 0x800, 0x1_0000][width];
    if code < shortest {
        return Err(Stuck::Broken("invalid length of a UTF-8 sequence"));
    }
    char::from_u32(code).map(|c| (c, width)).ok_or(Stuck::Broken("invalid Unicode character"))
}

fn utf16(bytes: &[u8], unit: impl Fn([u8; 2]) -> u16) -> Result<(char, usize), Stuck> {
    let at = |offset: usize| bytes.get(offset..offset + 2).map(|pair| unit([pair[0], pair[1]]));
    let first = at(0).ok_or(Stuck::Incomplete("incomplete UTF-16 character"))?;
    match first {
        0xdc00..=0xdfff => Err(Stuck::Broken("unexpected low surrogate area")),
        0xd800..=0xdbff => {
            let second = at(2).ok_or(Stuck::Incomplete("incomplete UTF-16 surrogate pair"))?;
            match char::decode_utf16([first, second]).next() {
                Some(Ok(c)) => Ok((c, 4)),
                _ => Err(Stuck::Broken("expected low surrogate area")),
            }
        }
        _ => char::from_u32(u32::from(first)).map(|c| (c, 2)).ok_or(Stuck::Broken("invalid Unicode character")),
    }
}
