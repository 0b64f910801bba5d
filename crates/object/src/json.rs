//! Strings as Go's JSON encoder writes them.

use crate::scan::Bytes;

/// What JSON is written to.
pub trait JsonOut {
    /// Takes a piece of text.
    fn text(&mut self, text: &str);

    /// Appends a text that has nothing to escape, in quotes.
    fn quoted(&mut self, text: &str);
}

impl JsonOut for Vec<u8> {
    fn text(&mut self, text: &str) {
        self.extend_from_slice(text.as_bytes());
    }

    fn quoted(&mut self, text: &str) {
        self.reserve(text.len() + 2);
        self.push(b'"');
        self.extend_from_slice(text.as_bytes());
        self.push(b'"');
    }
}

impl JsonOut for String {
    fn text(&mut self, text: &str) {
        self.push_str(text);
    }

    fn quoted(&mut self, text: &str) {
        self.reserve(text.len() + 2);
        self.push('"');
        self.push_str(text);
        self.push('"');
    }
}

/// Appends a string in quotes, with Go's escapes: those that JSON needs, those that keep it safe inside HTML, and the two
/// line separators that JavaScript cannot read.
pub fn write_json_string(text: &str, out: &mut impl JsonOut) {
    write(text, &SPECIALS, out);
}

/// The same without the escapes that only HTML and JavaScript need.
pub fn write_json_string_for_no_html(text: &str, out: &mut impl JsonOut) {
    write(text, &JSON_SPECIALS, out);
}

/// The string in quotes; see [`write_json_string`].
pub fn json_string(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    write_json_string(text, &mut out);
    out
}

/// What stands between the quotes; see [`write_json_string`].
pub fn write_json_text(text: &str, out: &mut impl JsonOut) {
    write_between_quotes(text, &SPECIALS, out);
}

/// Whether a string is written as it is between its quotes; see [`write_json_string`].
pub fn is_plain_json(text: &str) -> bool {
    SPECIALS.first_in(text.as_bytes(), 0) == text.len()
}

fn write<const N: usize>(text: &str, specials: &Bytes<N>, out: &mut impl JsonOut) {
    if specials.first_in(text.as_bytes(), 0) == text.len() {
        return out.quoted(text);
    }
    out.text("\"");
    write_between_quotes(text, specials, out);
    out.text("\"");
}

fn write_between_quotes<const N: usize>(text: &str, specials: &Bytes<N>, out: &mut impl JsonOut) {
    let bytes = text.as_bytes();
    let mut from = 0;
    let mut next = 0;
    loop {
        let at = specials.first_in(bytes, next);
        let (escape, length) = match bytes.get(at) {
            None => return out.text(&text[from..]),
            Some(0xe2) => match bytes.get(at + 1..at + 3) {
                Some([0x80, 0xa8]) => ("\\u2028", 3),
                Some([0x80, 0xa9]) => ("\\u2029", 3),
                _ => {
                    next = at + 1;
                    continue;
                }
            },
            Some(byte) => (ESCAPES[*byte as usize & 127], 1),
        };
        out.text(&text[from..at]);
        out.text(escape);
        from = at + length;
        next = from;
    }
}

/// Bytes that are not written as they are. The first byte of the line separators needs a second look.
const SPECIALS: Bytes<6> = Bytes::new(0x20, *b"\"\\<>&\xe2");

/// Those that JSON itself escapes: control characters, quotes and backslashes.
pub const JSON_SPECIALS: Bytes<2> = Bytes::new(0x20, *b"\"\\");

/// The escapes of ASCII characters that have one.
static ESCAPES: [&str; 128] = {
    const CONTROLS: [&str; 32] = [
        "\\u0000", "\\u0001", "\\u0002", "\\u0003", "\\u0004", "\\u0005", "\\u0006", "\\u0007", "\\b", "\\t", "\\n",
        "\\u000b", "\\f", "\\r", "\\u000e", "\\u000f", "\\u0010", "\\u0011", "\\u0012", "\\u0013", "\\u0014",
        "\\u0015", "\\u0016", "\\u0017", "\\u0018", "\\u0019", "\\u001a", "\\u001b", "\\u001c", "\\u001d", "\\u001e",
        "\\u001f",
    ];
    let mut escapes = [""; 128];
    let mut byte = 0;
    while byte < CONTROLS.len() {
        escapes[byte] = CONTROLS[byte];
        byte += 1;
    }
    escapes[b'"' as usize] = "\\\"";
    escapes[b'\\' as usize] = "\\\\";
    escapes[b'<' as usize] = "\\u003c";
    escapes[b'>' as usize] = "\\u003e";
    escapes[b'&' as usize] = "\\u0026";
    escapes
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_are_escaped_as_go_does() {
        for (text, escaped, outside_html) in [
            ("", r#""""#, r#""""#),
            ("plain", r#""plain""#, r#""plain""#),
            ("a\"b\\c", r#""a\"b\\c""#, r#""a\"b\\c""#),
            (
                "\n\r\t\u{8}\u{c}\u{1}\u{1f}\u{7f}",
                "\"\\n\\r\\t\\b\\f\\u0001\\u001f\u{7f}\"",
                "\"\\n\\r\\t\\b\\f\\u0001\\u001f\u{7f}\"",
            ),
            ("<&>", r#""\u003c\u0026\u003e""#, r#""<&>""#),
            ("é\u{2028}€\u{2029}…", "\"é\\u2028€\\u2029…\"", "\"é\u{2028}€\u{2029}…\""),
        ] {
            assert_eq!(json_string(text), escaped);
            let mut bytes = Vec::new();
            write_json_string_for_no_html(text, &mut bytes);
            assert_eq!(String::from_utf8(bytes).unwrap(), outside_html);
        }
    }
}
