//! Unicode classes and case folding as Go has them: version 15.0 of the standard, while `regex-syntax` knows a later one.

use std::sync::OnceLock;

use regex_syntax::hir::{Class, ClassUnicode, ClassUnicodeRange, HirKind};

/// General categories by their short names.
const CATEGORIES: [&str; 37] = [
    "C", "Cc", "Cf", "Cn", "Co", "Cs", "L", "Ll", "Lm", "Lo", "Lt", "Lu", "M", "Mc", "Me", "Mn", "N", "Nd", "Nl", "No",
    "P", "Pc", "Pd", "Pe", "Pf", "Pi", "Po", "Ps", "S", "Sc", "Sk", "Sm", "So", "Z", "Zl", "Zp", "Zs",
];

/// Scripts that Go finds. Go's lookup removes underscores and capitals from the name it is asked for but not from the names it
/// knows, so scripts of several words, like Old_Italic, are never found.
const SCRIPTS: &str = "Adlam Ahom Arabic Armenian Avestan Balinese Bamum Batak Bengali Bhaiksuki Bopomofo Brahmi Braille \
    Buginese Buhid Carian Chakma Cham Cherokee Chorasmian Common Coptic Cuneiform Cypriot Cyrillic Deseret Devanagari Dogra \
    Duployan Elbasan Elymaic Ethiopic Georgian Glagolitic Gothic Grantha Greek Gujarati Gurmukhi Han Hangul Hanunoo Hatran \
    Hebrew Hiragana Inherited Javanese Kaithi Kannada Katakana Kawi Kharoshthi Khmer Khojki Khudawadi Lao Latin Lepcha Limbu \
    Lisu Lycian Lydian Mahajani Makasar Malayalam Mandaic Manichaean Marchen Medefaidrin Miao Modi Mongolian Mro Multani \
    Myanmar Nabataean Nandinagari Newa Nko Nushu Ogham Oriya Osage Osmanya Palmyrene Phoenician Rejang Runic Samaritan \
    Saurashtra Sharada Shavian Siddham Sinhala Sogdian Soyombo Sundanese Syriac Tagalog Tagbanwa Takri Tamil Tangsa Tangut \
    Telugu Thaana Thai Tibetan Tifinagh Tirhuta Toto Ugaritic Vai Vithkuqi Wancho Yezidi Yi";

/// Long names of categories, without underscores.
const ALIASES: [(&str, &str); 39] = [
    ("Closepunctuation", "Pe"),
    ("Combiningmark", "M"),
    ("Connectorpunctuation", "Pc"),
    ("Control", "Cc"),
    ("Currencysymbol", "Sc"),
    ("Dashpunctuation", "Pd"),
    ("Decimalnumber", "Nd"),
    ("Enclosingmark", "Me"),
    ("Finalpunctuation", "Pf"),
    ("Format", "Cf"),
    ("Initialpunctuation", "Pi"),
    ("Letter", "L"),
    ("Letternumber", "Nl"),
    ("Lineseparator", "Zl"),
    ("Lowercaseletter", "Ll"),
    ("Mark", "M"),
    ("Mathsymbol", "Sm"),
    ("Modifierletter", "Lm"),
    ("Modifiersymbol", "Sk"),
    ("Nonspacingmark", "Mn"),
    ("Number", "N"),
    ("Openpunctuation", "Ps"),
    ("Other", "C"),
    ("Otherletter", "Lo"),
    ("Othernumber", "No"),
    ("Otherpunctuation", "Po"),
    ("Othersymbol", "So"),
    ("Paragraphseparator", "Zp"),
    ("Privateuse", "Co"),
    ("Punctuation", "P"),
    ("Separator", "Z"),
    ("Spaceseparator", "Zs"),
    ("Spacingmark", "Mc"),
    ("Surrogate", "Cs"),
    ("Symbol", "S"),
    ("Titlecaseletter", "Lt"),
    ("Unassigned", "Cn"),
    ("Uppercaseletter", "Lu"),
    ("Cntrl", "Cc"),
];

/// The class that `\p{name}` stands for; none for a name that Go does not know.
pub fn class(name: &str, fold: bool) -> Option<ClassUnicode> {
    let name = canonical(name);
    let mut class = match name.as_str() {
        "Any" => return property("any"),
        "Assigned" => return category("Cn").map(negated),
        "Ascii" => property("ascii")?,
        // Go does not fold this one.
        "Lc" | "Casedletter" => return category("LC"),
        "Digit" => category("Nd")?,
        "Punct" => category("P")?,
        _ if CATEGORIES.contains(&name.as_str()) => category(&name)?,
        _ if SCRIPTS.split(' ').any(|script| script == name) => assigned(property(&format!("sc={name}"))?),
        _ => category(ALIASES.iter().find(|(alias, _)| *alias == name)?.1)?,
    };
    if fold {
        class = self::fold(class);
    }
    Some(class)
}

/// The name with its first letter in upper case, the others in lower case, without underscores, hyphens and spaces.
fn canonical(name: &str) -> String {
    let mut letters = name.chars().filter(|c| !matches!(c, '_' | '-' | ' '));
    let first = letters.next().map(|c| c.to_ascii_uppercase());
    first.into_iter().chain(letters.map(|c| c.to_ascii_lowercase())).collect()
}

fn category(name: &str) -> Option<ClassUnicode> {
    if name == "LC" {
        let mut class = category("Lu")?;
        class.union(&category("Ll")?);
        class.union(&category("Lt")?);
        return Some(class);
    }
    // No character of a Rust string is a surrogate.
    let class = if name == "Cs" { ClassUnicode::empty() } else { property(&format!("gc={name}"))? };
    let mut class = assigned(class);
    // AHOM CONSONANT SIGN MEDIAL RA became a spacing mark after version 15.0.
    let moved = ClassUnicode::new([ClassUnicodeRange::new('\u{1171e}', '\u{1171e}')]);
    match name {
        "C" | "Cn" => class.union(&negated(known().clone())),
        "Mc" => class.difference(&moved),
        "Mn" => class.union(&moved),
        _ => {}
    }
    Some(class)
}

/// A class by the name that `regex-syntax` has for it.
fn property(name: &str) -> Option<ClassUnicode> {
    let hir = regex_syntax::parse(&format!("\\p{{{name}}}")).ok()?;
    match hir.into_kind() {
        HirKind::Class(Class::Unicode(class)) => Some(class),
        HirKind::Class(Class::Bytes(bytes)) => {
            let range = |range: &regex_syntax::hir::ClassBytesRange| {
                ClassUnicodeRange::new(char::from(range.start()), char::from(range.end()))
            };
            Some(ClassUnicode::new(bytes.iter().map(range)))
        }
        // A class of one character.
        HirKind::Literal(literal) => {
            let characters = std::str::from_utf8(&literal.0).ok()?.chars();
            Some(ClassUnicode::new(characters.map(|c| ClassUnicodeRange::new(c, c))))
        }
        _ => None,
    }
}

/// The part of a class that Unicode 15.0 knows.
fn assigned(mut class: ClassUnicode) -> ClassUnicode {
    class.intersect(known());
    class
}

/// The code points that Unicode 15.0 assigns.
fn known() -> &'static ClassUnicode {
    static KNOWN: OnceLock<ClassUnicode> = OnceLock::new();
    KNOWN.get_or_init(|| property("age=15.0").unwrap_or_else(ClassUnicode::empty))
}

fn negated(mut class: ClassUnicode) -> ClassUnicode {
    class.negate();
    class
}

/// The class with every character that equals one of its own when case is ignored.
pub fn fold(class: ClassUnicode) -> ClassUnicode {
    let mut folded = class.clone();
    if folded.try_case_fold_simple().is_err() {
        return class;
    }
    let mut folded = assigned(folded);
    folded.union(&class);
    folded
}

/// The character in every case.
pub fn fold_character(c: char) -> ClassUnicode {
    let range = |c| ClassUnicodeRange::new(c, c);
    if !c.is_ascii() {
        return fold(ClassUnicode::new([range(c)]));
    }
    // The Kelvin sign and the long s fold to ASCII letters.
    let other = match c.to_ascii_lowercase() {
        'k' => Some('\u{212a}'),
        's' => Some('\u{17f}'),
        _ => None,
    };
    let ascii = [c.to_ascii_uppercase(), c.to_ascii_lowercase()];
    ClassUnicode::new(ascii.into_iter().chain(other).map(range))
}
