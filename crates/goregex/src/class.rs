//! Character classes that Go names: Perl's `\d`, POSIX' `[:alpha:]`, and ranges that are written out.

use regex_syntax::hir::{ClassUnicode, ClassUnicodeRange};

/// A named class and whether it is negated.
pub struct NamedClass {
    pub ranges: &'static [(char, char)],
    pub negated: bool,
}

/// The class of the letter after a backslash.
pub fn perl(letter: char) -> Option<NamedClass> {
    let ranges: &[(char, char)] = match letter.to_ascii_lowercase() {
        'd' => &[('0', '9')],
        's' => &[('\t', '\n'), ('\x0c', '\r'), (' ', ' ')],
        'w' => &[('0', '9'), ('A', 'Z'), ('_', '_'), ('a', 'z')],
        _ => return None,
    };
    Some(NamedClass { ranges, negated: letter.is_ascii_uppercase() })
}

/// The class of a POSIX name, which may begin with `^`.
pub fn posix(name: &str) -> Option<NamedClass> {
    let (name, negated) = name.strip_prefix('^').map_or((name, false), |name| (name, true));
    let ranges: &[(char, char)] = match name {
        "alnum" => &[('0', '9'), ('A', 'Z'), ('a', 'z')],
        "alpha" => &[('A', 'Z'), ('a', 'z')],
        "ascii" => &[('\0', '\x7f')],
        "blank" => &[('\t', '\t'), (' ', ' ')],
        "cntrl" => &[('\0', '\x1f'), ('\x7f', '\x7f')],
        "digit" => &[('0', '9')],
        "graph" => &[('!', '~')],
        "lower" => &[('a', 'z')],
        "print" => &[(' ', '~')],
        "punct" => &[('!', '/'), (':', '@'), ('[', '`'), ('{', '~')],
        "space" => &[('\t', '\r'), (' ', ' ')],
        "upper" => &[('A', 'Z')],
        "word" => &[('0', '9'), ('A', 'Z'), ('_', '_'), ('a', 'z')],
        "xdigit" => &[('0', '9'), ('A', 'F'), ('a', 'f')],
        _ => return None,
    };
    Some(NamedClass { ranges, negated })
}

impl NamedClass {
    pub fn class(&self, fold: bool) -> ClassUnicode {
        let mut class = ClassUnicode::new(self.ranges.iter().map(|(low, high)| ClassUnicodeRange::new(*low, *high)));
        if fold {
            class = crate::unicode::fold(class);
        }
        if self.negated {
            class.negate();
        }
        class
    }
}

/// The characters between two code points; surrogates are none, and no text contains them.
pub fn range(low: u32, high: u32) -> Option<ClassUnicodeRange> {
    let low = char::from_u32(low).unwrap_or('\u{e000}');
    let high = char::from_u32(high).unwrap_or('\u{d7ff}');
    (low <= high).then(|| ClassUnicodeRange::new(low, high))
}
