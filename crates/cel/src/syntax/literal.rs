//! Literals: numbers, and strings without their quotes and escapes.

use std::borrow::Cow;

/// An integer literal without its sign.
pub fn int(text: &str, negative: bool) -> Option<i64> {
    let (digits, radix) = radix(text);
    let magnitude = i128::from_str_radix(digits, radix).ok()?;
    i64::try_from(if negative { -magnitude } else { magnitude }).ok()
}

/// An unsigned literal with its suffix.
pub fn uint(text: &str) -> Option<u64> {
    let (digits, radix) = radix(&text[..text.len() - 1]);
    u64::from_str_radix(digits, radix).ok()
}

fn radix(text: &str) -> (&str, u32) {
    match text.strip_prefix("0x") {
        Some(digits) => (digits, 16),
        None => (text, 10),
    }
}

/// A floating point literal; none where it is too large.
pub fn double(text: &str, negative: bool) -> Option<f64> {
    let magnitude: f64 = text.parse().ok()?;
    magnitude.is_finite().then_some(if negative { -magnitude } else { magnitude })
}

const BAD_STRING: &str = "unable to unescape string";
const BAD_CODE_POINT: &str = "invalid unicode code point";

/// The contents of a string literal.
pub fn string(token: &str) -> Result<Cow<'_, str>, &'static str> {
    let (contents, raw) = contents(token);
    if raw || !contents.contains('\\') {
        return Ok(contents);
    }
    let mut out = String::with_capacity(contents.len());
    unescape(&contents, false, |unit| match unit {
        Unit::Char(c) => out.push(c),
        // Not reached: only literals of bytes have bytes.
        Unit::Byte(b) => out.push(char::from(b)),
    })?;
    Ok(Cow::Owned(out))
}

/// The contents of a literal of bytes, whose prefix is removed already.
pub fn bytes(token: &str) -> Result<Vec<u8>, &'static str> {
    let (contents, raw) = contents(token);
    if raw || !contents.contains('\\') {
        return Ok(contents.as_bytes().to_vec());
    }
    let mut out = Vec::with_capacity(contents.len());
    unescape(&contents, true, |unit| match unit {
        Unit::Char(c) => out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
        Unit::Byte(b) => out.push(b),
    })?;
    Ok(out)
}

/// What is between the quotes, with line ends as `\n`, and whether escapes mean themselves.
fn contents(token: &str) -> (Cow<'_, str>, bool) {
    let raw = token.starts_with(['r', 'R']);
    let quoted = if raw { &token[1..] } else { token };
    let is_long = quoted.len() >= 6 && (quoted.starts_with("'''") || quoted.starts_with("\"\"\""));
    let quote = if is_long { 3 } else { 1 };
    let inner = &quoted[quote..quoted.len() - quote];
    let normal =
        if inner.contains('\r') { Cow::Owned(inner.replace("\r\n", "\n").replace('\r', "\n")) } else { inner.into() };
    (normal, raw)
}

enum Unit {
    Char(char),
    Byte(u8),
}

fn unescape(contents: &str, is_bytes: bool, mut emit: impl FnMut(Unit)) -> Result<(), &'static str> {
    let mut chars = contents.chars();
    while let Some(c) = chars.next() {
        if c != '\\' {
            emit(Unit::Char(c));
            continue;
        }
        let kind = chars.next().ok_or(BAD_STRING)?;
        let (digits, radix, first) = match kind {
            'a' => {
                emit(Unit::Char('\u{7}'));
                continue;
            }
            'b' => {
                emit(Unit::Char('\u{8}'));
                continue;
            }
            'f' => {
                emit(Unit::Char('\u{c}'));
                continue;
            }
            'v' => {
                emit(Unit::Char('\u{b}'));
                continue;
            }
            'n' => {
                emit(Unit::Char('\n'));
                continue;
            }
            'r' => {
                emit(Unit::Char('\r'));
                continue;
            }
            't' => {
                emit(Unit::Char('\t'));
                continue;
            }
            '\\' | '\'' | '"' | '`' | '?' => {
                emit(Unit::Char(kind));
                continue;
            }
            'x' | 'X' => (2, 16, 0),
            'u' if !is_bytes => (4, 16, 0),
            'U' if !is_bytes => (8, 16, 0),
            '0'..='3' => (2, 8, kind as u32 - '0' as u32),
            _ => return Err(BAD_STRING),
        };
        let mut code = first;
        for _ in 0..digits {
            let digit = chars.next().and_then(|c| c.to_digit(radix)).ok_or(BAD_STRING)?;
            code = code.wrapping_mul(radix) + digit;
        }
        emit(match is_bytes {
            true => Unit::Byte(code as u8),
            false => Unit::Char(char::from_u32(code).ok_or(BAD_CODE_POINT)?),
        });
    }
    Ok(())
}
