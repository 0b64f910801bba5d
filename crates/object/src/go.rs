//! What upstream's messages have of Go: quoted strings (`%q`), names of types (`%T`), and the escapes of its URLs.

use std::borrow::Cow;
use std::fmt::Write;

use crate::Value;

/// How much of a text that a client chose is logged.
pub const SHOWN_BYTES: usize = 4096;

/// The beginning of a text that a client chose, as much as is logged of it.
pub fn shown(text: &str) -> Cow<'_, str> {
    match text.len() > SHOWN_BYTES {
        true => Cow::Owned(format!("{}...", &text[..text.floor_char_boundary(SHOWN_BYTES)])),
        false => Cow::Borrowed(text),
    }
}

/// `s` in double quotes, escaped as Go's `strconv.Quote` does it.
pub fn quote(s: &str) -> String {
    let mut out = String::with_capacity(s.len() + 2);
    out.push('"');
    for c in s.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\u{7}' => out.push_str("\\a"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{b}' => out.push_str("\\v"),
            c if is_print(c) => out.push(c),
            c if (c as u32) < 0x80 => push_escape(&mut out, 'x', c, 2),
            c if (c as u32) < 0x1_0000 => push_escape(&mut out, 'u', c, 4),
            c => push_escape(&mut out, 'U', c, 8),
        }
    }
    out.push('"');
    out
}

/// The same of bytes that may be no UTF-8: what is none is written as `\xff`.
pub fn quote_bytes(bytes: &[u8]) -> String {
    let mut out = String::from("\"");
    for chunk in bytes.utf8_chunks() {
        let valid = quote(chunk.valid());
        out.push_str(valid.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or_default());
        for byte in chunk.invalid() {
            out.push_str(&format!("\\x{byte:02x}"));
        }
    }
    out + "\""
}

/// The type that Go's decoder gives a JSON value, as `%T` prints it.
pub fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Int(_) => "int64",
        Value::Float(_) => "float64",
        Value::Raw(raw) if raw.type_name() == "number" => match raw.text().trim().parse::<i64>() {
            Ok(_) => "int64",
            Err(_) => "float64",
        },
        other => match other.type_name() {
            "null" => "<nil>",
            "array" => "[]interface {}",
            "object" => "map[string]interface {}",
            scalar => scalar,
        },
    }
}

/// Writes a text percent-encoded: every byte that is not plain becomes `%XX`.
pub fn percent_encode(text: &str, is_plain: impl Fn(u8) -> bool, out: &mut String) {
    for byte in text.bytes() {
        if is_plain(byte) {
            out.push(char::from(byte));
        } else {
            write!(out, "%{byte:02X}").expect("writing to a string cannot fail");
        }
    }
}

/// Whether a byte stands for itself wherever it is in a URL.
pub fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte)
}

/// Writes a text as Go's `url.QueryEscape` does: spaces become plus signs.
pub fn query_escape(text: &str, out: &mut String) {
    for (at, word) in text.split(' ').enumerate() {
        if at > 0 {
            out.push('+');
        }
        percent_encode(word, is_unreserved, out);
    }
}

fn push_escape(out: &mut String, kind: char, c: char, width: usize) {
    write!(out, "\\{kind}{:0width$x}", c as u32).expect("writing to a string cannot fail");
}

/// Go's `unicode.IsPrint`: letters, marks, numbers, punctuation, symbols and the ASCII space.
pub fn is_print(c: char) -> bool {
    if c.is_ascii() {
        return (' '..='~').contains(&c);
    }
    // The standard library knows the same set but shows it only when it escapes: behind another character, marks stand
    // as they are and everything that cannot be printed takes more than one.
    let mut text = String::from("a");
    text.push(c);
    text.escape_debug().count() == 2
}

#[cfg(test)]
mod tests {
    use super::quote;

    #[test]
    fn quotes_as_go_does() {
        for (input, want) in [
            ("plain", r#""plain""#),
            ("a\"b\\c", r#""a\"b\\c""#),
            ("tab\tnl\n", r#""tab\tnl\n""#),
            ("\u{1}\u{7f}", r#""\x01\x7f""#),
            ("é世", r#""é世""#),
            ("\u{feff}\u{a0}", r#""\ufeff\u00a0""#),
            ("\u{10ffff}", r#""\U0010ffff""#),
            ("e\u{301}", "\"e\u{301}\""),
            ("\u{378}\u{e001}\u{2028}", r#""\u0378\ue001\u2028""#),
        ] {
            assert_eq!(quote(input), want);
        }
    }
}
