//! Names of fields that are no identifiers of CEL, as expressions write them: `a-b` is `a__dash__b`.

use std::borrow::Cow;

/// Words that the grammar keeps for itself.
const RESERVED: [&str; 21] = [
    "true",
    "false",
    "null",
    "in",
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
];

/// Whether the grammar keeps the word for itself, so that it is no name of a variable.
pub fn is_reserved(name: &str) -> bool {
    RESERVED.contains(&name)
}

/// The identifier for a field; none where the name has characters that cannot be escaped.
pub fn escape(name: &str) -> Option<Cow<'_, str>> {
    if name.is_empty() || name.as_bytes()[0].is_ascii_digit() {
        return None;
    }
    if is_reserved(name) {
        return Some(Cow::Owned(format!("__{name}__")));
    }
    let plain = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
    if name.bytes().all(plain) && !name.contains("__") {
        return Some(Cow::Borrowed(name));
    }
    let mut escaped = String::with_capacity(name.len() + 16);
    let mut rest = name;
    while let Some(c) = rest.chars().next() {
        let (word, used) = match c {
            '_' if rest.starts_with("__") => ("__underscores__", 2),
            '.' => ("__dot__", 1),
            '-' => ("__dash__", 1),
            '/' => ("__slash__", 1),
            c if c.is_ascii() && plain(c as u8) => (&rest[..1], 1),
            _ => return None,
        };
        escaped.push_str(word);
        rest = &rest[used..];
    }
    Some(Cow::Owned(escaped))
}

/// The name of the field that an identifier stands for; none where it has escapes that do not exist.
pub fn unescape(identifier: &str) -> Option<Cow<'_, str>> {
    if !identifier.contains("__") {
        return Some(Cow::Borrowed(identifier));
    }
    let mut name = String::with_capacity(identifier.len());
    let mut rest = identifier;
    while let Some(start) = rest.find("__") {
        // An escape is two underscores, at least one other character and two underscores.
        let contents = &rest[start + 2..];
        let end = contents.find('_').unwrap_or(contents.len());
        if end == 0 || !contents[end..].starts_with("__") {
            // Of three or more underscores only the last two can begin an escape.
            let step = if end == 0 { start + 1 } else { start + 2 + end };
            name.push_str(&rest[..step]);
            rest = &rest[step..];
            continue;
        }
        name.push_str(&rest[..start]);
        match &contents[..end] {
            "underscores" => name.push_str("__"),
            "dot" => name.push('.'),
            "dash" => name.push('-'),
            "slash" => name.push('/'),
            word if is_reserved(word) && word.len() + 4 == identifier.len() => name.push_str(word),
            _ => return None,
        }
        rest = &contents[end + 2..];
    }
    name.push_str(rest);
    Some(Cow::Owned(name))
}

#[cfg(test)]
mod tests {
    use super::{escape, unescape};

    #[test]
    fn names_and_identifiers() {
        for (name, identifier) in [
            ("a", Some("a")),
            ("a-b", Some("a__dash__b")),
            ("a.b/c", Some("a__dot__b__slash__c")),
            ("a__b", Some("a__underscores__b")),
            ("a___b", Some("a__underscores___b")),
            ("namespace", Some("__namespace__")),
            ("_", Some("_")),
            ("", None),
            ("0a", None),
            ("é", None),
        ] {
            assert_eq!(escape(name).as_deref(), identifier, "{name:?}");
            if let Some(identifier) = identifier {
                assert_eq!(unescape(identifier).as_deref(), Some(name), "{identifier:?}");
            }
        }
        for (identifier, name) in
            [("__x__", None), ("a__if__", None), ("__dot__dot__", Some(".dot__")), ("a___", Some("a___"))]
        {
            assert_eq!(unescape(identifier).as_deref(), name, "{identifier:?}");
        }
    }
}
