//! Text to tokens: the longest token at each place; what begins no token is an error and is passed over.

use super::source::Errors;
use super::tokens::Tok;

#[derive(Clone, Copy, Debug)]
pub struct Token {
    pub tok: Tok,
    pub start: u32,
    pub end: u32,
}

/// The tokens of an expression, the last of them the end; errors are reported up to the limit.
pub struct Lexed {
    pub tokens: Vec<Token>,
    /// The parts of the text that belong to no token.
    pub skipped: Vec<(u32, u32)>,
}

/// After so many syntax errors the parser gives up.
pub const MAX_REPORTS: usize = 100;

/// Reads all tokens. Returns nothing if there were too many errors.
pub fn lex(text: &str, errors: &mut Errors<'_>) -> Option<Lexed> {
    let bytes = text.as_bytes();
    let mut lexed = Lexed { tokens: Vec::with_capacity(text.len() / 3 + 2), skipped: Vec::new() };
    let mut at = 0;
    while at < bytes.len() {
        if let Some(length) = blank(&bytes[at..]) {
            at += length;
            continue;
        }
        match token(&bytes[at..]) {
            Ok((tok, length)) => {
                lexed.tokens.push(Token { tok, start: at as u32, end: (at + length) as u32 });
                at += length;
            }
            Err(length) => {
                // The character at which no token could go on is part of the error.
                let end = next_char(text, at + length);
                if errors.len() >= MAX_REPORTS {
                    errors.at(at as u32, format!("Syntax error: More than {MAX_REPORTS} syntax errors"));
                    return None;
                }
                errors.at(at as u32, format!("Syntax error: token recognition error at: '{}'", &text[at..end]));
                lexed.skipped.push((at as u32, end as u32));
                at = end;
            }
        }
    }
    let end = text.len() as u32;
    lexed.tokens.push(Token { tok: Tok::Eof, start: end, end });
    Some(lexed)
}

/// The end of the character at a byte offset.
fn next_char(text: &str, at: usize) -> usize {
    text[at..].chars().next().map_or(at, |c| at + c.len_utf8())
}

/// The length of white space or of a comment.
fn blank(bytes: &[u8]) -> Option<usize> {
    match bytes {
        [b'/', b'/', rest @ ..] => Some(2 + rest.iter().position(|b| *b == b'\n').unwrap_or(rest.len())),
        _ => {
            let length = bytes.iter().take_while(|b| matches!(b, b'\t' | b' ' | b'\r' | b'\n' | 0x0c)).count();
            (length > 0).then_some(length)
        }
    }
}

/// The longest token and its length, or how far a token could be read before it failed.
fn token(bytes: &[u8]) -> Result<(Tok, usize), usize> {
    let two = |tok: Tok| Ok((tok, 2));
    let one = |tok: Tok| Ok((tok, 1));
    match bytes {
        [b'=', b'=', ..] => two(Tok::Equals),
        [b'!', b'=', ..] => two(Tok::NotEquals),
        [b'<', b'=', ..] => two(Tok::LessEquals),
        [b'>', b'=', ..] => two(Tok::GreaterEquals),
        [b'&', b'&', ..] => two(Tok::And),
        [b'|', b'|', ..] => two(Tok::Or),
        [b'=' | b'&' | b'|', ..] => Err(1),
        [b'<', ..] => one(Tok::Less),
        [b'>', ..] => one(Tok::Greater),
        [b'!', ..] => one(Tok::Exclam),
        [b'[', ..] => one(Tok::LBracket),
        [b']', ..] => one(Tok::RBracket),
        [b'{', ..] => one(Tok::LBrace),
        [b'}', ..] => one(Tok::RBrace),
        [b'(', ..] => one(Tok::LParen),
        [b')', ..] => one(Tok::RParen),
        [b',', ..] => one(Tok::Comma),
        [b'-', ..] => one(Tok::Minus),
        [b'?', ..] => one(Tok::Question),
        [b':', ..] => one(Tok::Colon),
        [b'+', ..] => one(Tok::Plus),
        [b'*', ..] => one(Tok::Star),
        [b'/', ..] => one(Tok::Slash),
        [b'%', ..] => one(Tok::Percent),
        [b'.', b'0'..=b'9', ..] | [b'0'..=b'9', ..] => Ok(number(bytes)),
        [b'.', ..] => one(Tok::Dot),
        [b'"' | b'\'', ..] => string(bytes, false).map(|length| (Tok::String, length)),
        [b'`', ..] => escaped_identifier(bytes),
        [b'A'..=b'Z' | b'a'..=b'z' | b'_', ..] => Ok(word(bytes)),
        _ => Err(0),
    }
}

fn digits(bytes: &[u8]) -> usize {
    bytes.iter().take_while(|b| b.is_ascii_digit()).count()
}

fn number(bytes: &[u8]) -> (Tok, usize) {
    let suffixed = |length: usize| match bytes.get(length) {
        Some(b'u' | b'U') => (Tok::Uint, length + 1),
        _ => (Tok::Int, length),
    };
    if let [b'0', b'x', rest @ ..] = bytes {
        let length = rest.iter().take_while(|b| b.is_ascii_hexdigit()).count();
        if length > 0 {
            return suffixed(2 + length);
        }
    }
    let whole = digits(bytes);
    let mut length = whole;
    let mut is_float = false;
    if bytes.get(length) == Some(&b'.') {
        let fraction = digits(&bytes[length + 1..]);
        if fraction > 0 {
            is_float = true;
            length += 1 + fraction;
        }
    }
    if let Some(b'e' | b'E') = bytes.get(length) {
        let sign = usize::from(matches!(bytes.get(length + 1), Some(b'+' | b'-')));
        let exponent = digits(&bytes[length + 1 + sign..]);
        if exponent > 0 {
            is_float = true;
            length += 1 + sign + exponent;
        }
    }
    if is_float { (Tok::Float, length) } else { suffixed(length) }
}

/// An identifier, a keyword, or a string with a prefix.
fn word(bytes: &[u8]) -> (Tok, usize) {
    let quoted = |prefix: usize, raw: bool, tok: Tok| match bytes.get(prefix) {
        Some(b'"' | b'\'') => string(&bytes[prefix..], raw).ok().map(|length| (tok, prefix + length)),
        _ => None,
    };
    let prefixed = match bytes {
        [b'r' | b'R', ..] => quoted(1, true, Tok::String),
        [b'b' | b'B', b'r' | b'R', ..] => quoted(2, true, Tok::Bytes),
        [b'b' | b'B', ..] => quoted(1, false, Tok::Bytes),
        _ => None,
    };
    if let Some(token) = prefixed {
        return token;
    }
    let length = bytes.iter().take_while(|b| b.is_ascii_alphanumeric() || **b == b'_').count();
    let tok = match &bytes[..length] {
        b"in" => Tok::In,
        b"true" => Tok::True,
        b"false" => Tok::False,
        b"null" => Tok::Null,
        _ => Tok::Ident,
    };
    (tok, length)
}

fn escaped_identifier(bytes: &[u8]) -> Result<(Tok, usize), usize> {
    let allowed = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'-' | b'/' | b' ');
    let length = bytes[1..].iter().take_while(|b| allowed(b)).count();
    match bytes.get(1 + length) {
        Some(b'`') if length > 0 => Ok((Tok::EscIdent, length + 2)),
        _ => Err(1 + length),
    }
}

/// The length of the string at the start, or how far it could be read.
fn string(bytes: &[u8], raw: bool) -> Result<usize, usize> {
    let quote = bytes[0];
    if bytes[1..].starts_with(&[quote, quote]) {
        // Three quotes that nothing ends are an empty string and the start of another one.
        return Ok(long_string(bytes, quote, raw).unwrap_or(2));
    }
    let mut at = 1;
    while let Some(&byte) = bytes.get(at) {
        match byte {
            b if b == quote => return Ok(at + 1),
            b'\n' | b'\r' => return Err(at),
            b'\\' if !raw => at += escape(&bytes[at..]).map_err(|read| at + read)?,
            _ => at += 1,
        }
    }
    Err(at)
}

/// The length of a string in three quotes.
fn long_string(bytes: &[u8], quote: u8, raw: bool) -> Option<usize> {
    let mut at = 3;
    while at < bytes.len() {
        if bytes[at..].starts_with(&[quote; 3]) {
            return Some(at + 3);
        }
        at += match bytes[at] {
            b'\\' if !raw => escape(&bytes[at..]).ok()?,
            _ => 1,
        };
    }
    None
}

/// The length of an escape sequence, or how far it could be read.
fn escape(bytes: &[u8]) -> Result<usize, usize> {
    let hex = |count: usize| {
        let found = bytes[2..].iter().take(count).take_while(|b| b.is_ascii_hexdigit()).count();
        if found == count { Ok(2 + count) } else { Err(2 + found) }
    };
    match bytes.get(1) {
        Some(b'a' | b'b' | b'f' | b'n' | b'r' | b't' | b'v' | b'"' | b'\'' | b'\\' | b'?' | b'`') => Ok(2),
        Some(b'x' | b'X') => hex(2),
        Some(b'u') => hex(4),
        Some(b'U') => hex(8),
        Some(b'0'..=b'3') => {
            let found = bytes[2..].iter().take(2).take_while(|b| (b'0'..=b'7').contains(b)).count();
            if found == 2 { Ok(4) } else { Err(2 + found) }
        }
        _ => Err(1),
    }
}
