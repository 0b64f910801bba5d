//! Documents that are JSON, which is what most clients send where YAML is asked for.
//!
//! JSON is YAML, but not all of it means the same to both readers. Where it does, the JSON reader is many times faster.

use object::Value;

use crate::{Notes, json};

/// Longer keys are not always keys in YAML; the limit is 1,024 characters.
const KEY_MAX: usize = 1000;
/// Any integer with fewer digits fits 64 bits.
const DIGITS_MAX: usize = 18;

/// The document, if it is JSON that YAML reads in the same way.
pub(super) fn read(bytes: &[u8]) -> Option<Value> {
    if bytes.first() != Some(&b'{') || !is_plain(bytes) {
        return None;
    }
    let mut notes = Notes::collect();
    let value = json::decode(bytes, None, &mut notes).ok()?;
    // The YAML reader has its own words for keys that come twice.
    notes.is_empty().then_some(value)
}

/// Whether everything that could make a difference is absent from a text that is JSON, if it is.
fn is_plain(bytes: &[u8]) -> bool {
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        at += match byte {
            b'"' => match string(&bytes[at..]) {
                Some(length) => length,
                None => return false,
            },
            b'-' | b'0'..=b'9' => match integer(&bytes[at..]) {
                Some(length) => length,
                None => return false,
            },
            b'{' | b'}' | b'[' | b']' | b',' | b':' | b' ' | b'\n' | b'a'..=b'z' => 1,
            _ => return false,
        };
    }
    true
}

/// The length of a string of printable ASCII, with escapes that both know.
fn string(bytes: &[u8]) -> Option<usize> {
    let mut at = 1;
    loop {
        match bytes.get(at)? {
            b'"' => break,
            b'\\' => {
                at += match bytes.get(at + 1)? {
                    b'"' | b'\\' | b'n' | b't' | b'r' | b'b' | b'f' => 2,
                    b'u' if !is_surrogate(bytes.get(at + 2..at + 6)?) => 6,
                    _ => return None,
                }
            }
            b' '..=b'~' => at += 1,
            _ => return None,
        }
    }
    let length = at + 1;
    let is_key = || bytes[length..].iter().find(|byte| !matches!(byte, b' ' | b'\n')) == Some(&b':');
    let may_be_key = length <= KEY_MAX && &bytes[..length] != b"\"<<\"";
    (may_be_key || !is_key()).then_some(length)
}

/// Half of a character, in hexadecimal.
fn is_surrogate(digits: &[u8]) -> bool {
    digits[0].eq_ignore_ascii_case(&b'd') && !matches!(digits[1], b'0'..=b'7')
}

/// The length of an integer that both read as one.
fn integer(bytes: &[u8]) -> Option<usize> {
    let sign = usize::from(bytes[0] == b'-');
    let digits = bytes[sign..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    let is_float = matches!(bytes.get(sign + digits), Some(b'.' | b'e' | b'E'));
    let is_negative_zero = sign == 1 && bytes[sign..].first() == Some(&b'0');
    (digits <= DIGITS_MAX && !is_float && !is_negative_zero).then_some(sign + digits.max(1))
}
