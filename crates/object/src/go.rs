//! Go's string quoting (`%q`), which upstream's messages use everywhere.

use std::fmt::Write;

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
