//! What a plain scalar means in YAML 1.1, as upstream reads it.

use super::Problem;

/// A scalar that has been given a meaning.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Scalar {
    Null,
    Bool(bool),
    Int(i64),
    /// An integer that only fits without a sign.
    Uint(u64),
    Float(f64),
    Text(String),
    /// Text that looks like a time; it stays text, but has to be quoted.
    Timestamp(String),
}

impl Scalar {
    fn tag(&self) -> &'static str {
        match self {
            Scalar::Null => "!!null",
            Scalar::Bool(_) => "!!bool",
            Scalar::Int(_) | Scalar::Uint(_) => "!!int",
            Scalar::Float(_) => "!!float",
            Scalar::Text(_) => "!!str",
            Scalar::Timestamp(_) => "!!timestamp",
        }
    }
}

const LONG_TAG: &str = "tag:yaml.org,2002:";

/// Gives a scalar with that tag ("" for none) its meaning. Tags upstream does not know leave it text.
pub(super) fn resolve(tag: &str, text: &str) -> Result<Scalar, Problem> {
    let short = match tag.strip_prefix(LONG_TAG) {
        Some(name @ ("str" | "bool" | "int" | "float" | "null" | "timestamp")) => format!("!!{name}"),
        _ if tag.is_empty() => String::new(),
        _ => return Ok(Scalar::Text(text.into())),
    };
    let found = match short.as_str() {
        "!!str" => return Ok(Scalar::Text(text.into())),
        "" | "!!timestamp" => untagged(text, true),
        _ => untagged(text, false),
    };
    match found {
        found if short.is_empty() || found.tag() == short => Ok(found),
        Scalar::Int(int) if short == "!!float" => Ok(Scalar::Float(int as f64)),
        found => Err(Problem::plain(format!("cannot decode {} `{text}` as a {short}", found.tag()))),
    }
}

/// Whether text has to be quoted to be read back as text.
pub(super) fn needs_quotes(text: &str) -> bool {
    !matches!(untagged(text, true), Scalar::Text(_)) || is_base_60(text)
}

fn untagged(text: &str, timestamps: bool) -> Scalar {
    let plain_text = || Scalar::Text(text.into());
    match text {
        "y" | "Y" | "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => Scalar::Bool(true),
        "n" | "N" | "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => Scalar::Bool(false),
        "" | "~" | "null" | "Null" | "NULL" => Scalar::Null,
        ".nan" | ".NaN" | ".NAN" => Scalar::Float(f64::NAN),
        ".inf" | ".Inf" | ".INF" | "+.inf" | "+.Inf" | "+.INF" => Scalar::Float(f64::INFINITY),
        "-.inf" | "-.Inf" | "-.INF" => Scalar::Float(f64::NEG_INFINITY),
        _ => match text.as_bytes()[0] {
            b'.' => float(text).map_or_else(plain_text, Scalar::Float),
            b'+' | b'-' | b'0'..=b'9' => {
                if timestamps && is_timestamp(text) {
                    return Scalar::Timestamp(text.into());
                }
                number(&text.replace('_', "")).unwrap_or_else(plain_text)
            }
            _ => plain_text(),
        },
    }
}

fn number(text: &str) -> Option<Scalar> {
    let (negative, digits) = match text.as_bytes().first() {
        Some(b'-') => (true, &text[1..]),
        Some(b'+') => (false, &text[1..]),
        _ => (false, text),
    };
    if let Some(magnitude) = magnitude(digits) {
        let int = if negative { 0i64.checked_sub_unsigned(magnitude) } else { i64::try_from(magnitude).ok() };
        if let Some(int) = int {
            return Some(Scalar::Int(int));
        }
        if digits.len() == text.len() {
            return Some(Scalar::Uint(magnitude));
        }
    }
    float(text).map(Scalar::Float)
}

/// An unsigned integer with Go's prefixes; a leading zero means octal.
fn magnitude(digits: &str) -> Option<u64> {
    let (base, rest) = match digits.as_bytes() {
        [b'0', b'x' | b'X', ..] => (16, &digits[2..]),
        [b'0', b'o' | b'O', ..] => (8, &digits[2..]),
        [b'0', b'b' | b'B', ..] => (2, &digits[2..]),
        [b'0', _, ..] => (8, &digits[1..]),
        _ => (10, digits),
    };
    let is_digit = |byte: u8| char::from(byte).is_digit(base);
    if rest.is_empty() || !rest.bytes().all(is_digit) {
        return None;
    }
    u64::from_str_radix(rest, base).ok()
}

/// A decimal float with a sign, digits on at least one side of the point, and an exponent, if it is not too large.
fn float(text: &str) -> Option<f64> {
    let bytes = text.as_bytes();
    let digits = |at: usize| bytes[at..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    let mut at = usize::from(matches!(bytes.first(), Some(b'+' | b'-')));
    let whole = digits(at);
    at += whole;
    if bytes.get(at) == Some(&b'.') {
        let fraction = digits(at + 1);
        if whole + fraction == 0 {
            return None;
        }
        at += 1 + fraction;
    } else if whole == 0 {
        return None;
    }
    if matches!(bytes.get(at), Some(b'e' | b'E')) {
        at += 1 + usize::from(matches!(bytes.get(at + 1), Some(b'+' | b'-')));
        let exponent = digits(at);
        if exponent == 0 {
            return None;
        }
        at += exponent;
    }
    if at != bytes.len() {
        return None;
    }
    text.parse().ok().filter(|float: &f64| float.is_finite())
}

/// Whether Go's `time.Parse` takes the text in one of the forms YAML has for times.
fn is_timestamp(text: &str) -> bool {
    let bytes = text.as_bytes();
    if bytes.len() < 5 || !bytes[..4].iter().all(u8::is_ascii_digit) || bytes[4] != b'-' {
        return false;
    }
    let mut rest = &bytes[5..];
    let Some((month, day)) = month_and_day(&mut rest) else { return false };
    let year: u32 = text[..4].parse().unwrap_or(0);
    if day > days_in(month, year) {
        return false;
    }
    match rest.first() {
        None => true,
        Some(b'T' | b't') => time(&rest[1..]).is_some_and(is_zone),
        Some(b' ') => {
            // A blank in the layout stands for any number of them, or none.
            let blanks = rest.iter().take_while(|&&byte| byte == b' ').count();
            time(&rest[blanks..]).is_some_and(<[u8]>::is_empty)
        }
        Some(_) => false,
    }
}

fn month_and_day(rest: &mut &[u8]) -> Option<(u32, u32)> {
    let month = small(rest, 1..=12)?;
    expect(rest, b"-")?;
    Some((month, small(rest, 1..=31)?))
}

fn days_in(month: u32, year: u32) -> u32 {
    match month {
        2 if year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400)) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// `15:4:5` with an optional fraction; what follows is returned.
fn time(mut rest: &[u8]) -> Option<&[u8]> {
    small(&mut rest, 0..=23)?;
    expect(&mut rest, b":")?;
    small(&mut rest, 0..=59)?;
    expect(&mut rest, b":")?;
    small(&mut rest, 0..=59)?;
    if let [b'.' | b',', b'0'..=b'9', ..] = rest {
        let digits = rest[1..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        rest = &rest[1 + digits..];
    }
    Some(rest)
}

fn is_zone(rest: &[u8]) -> bool {
    match rest {
        b"Z" => true,
        [b'+' | b'-', h1, h2, b':', m1, m2] if [h1, h2, m1, m2].iter().all(|byte| byte.is_ascii_digit()) => {
            let pair = |a: u8, b: u8| (a - b'0') * 10 + (b - b'0');
            pair(*h1, *h2) <= 24 && pair(*m1, *m2) < 60
        }
        _ => false,
    }
}

/// A number of one or two digits.
fn small(rest: &mut &[u8], range: std::ops::RangeInclusive<u32>) -> Option<u32> {
    let digits = rest.iter().take(2).take_while(|byte| byte.is_ascii_digit()).count();
    let (number, behind) = rest.split_at(digits);
    *rest = behind;
    let value = number.iter().fold(0, |value, digit| value * 10 + u32::from(digit - b'0'));
    (digits > 0 && range.contains(&value)).then_some(value)
}

fn expect(rest: &mut &[u8], prefix: &[u8]) -> Option<()> {
    *rest = rest.strip_prefix(prefix)?;
    Some(())
}

/// Numbers like `1:30`, which other YAML readers take for base 60.
fn is_base_60(text: &str) -> bool {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let (number, fraction) = unsigned.split_once('.').unwrap_or((unsigned, ""));
    let mut parts = number.split(':');
    let first = parts.next().unwrap_or("");
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'_');
    let sixtieth = |text: &str| match text.as_bytes() {
        [digit] => digit.is_ascii_digit(),
        [tens, digit] => (b'0'..=b'5').contains(tens) && digit.is_ascii_digit(),
        _ => false,
    };
    first.starts_with(|c: char| c.is_ascii_digit())
        && digits(first)
        && number.contains(':')
        && parts.all(sixtieth)
        && digits(fraction)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_scalars_mean_what_they_mean_in_yaml_1_1() {
        let text = |text: &str| Scalar::Text(text.into());
        let time = |text: &str| Scalar::Timestamp(text.into());
        for (input, want) in [
            ("yes", Scalar::Bool(true)),
            ("Off", Scalar::Bool(false)),
            ("yEs", text("yEs")),
            ("~", Scalar::Null),
            ("", Scalar::Null),
            ("12", Scalar::Int(12)),
            ("-0x1F", Scalar::Int(-31)),
            ("010", Scalar::Int(8)),
            ("0o17", Scalar::Int(15)),
            ("0b101", Scalar::Int(5)),
            ("08", Scalar::Float(8.0)),
            ("1_000", Scalar::Int(1000)),
            ("+1", Scalar::Int(1)),
            ("-9223372036854775808", Scalar::Int(i64::MIN)),
            ("9223372036854775808", Scalar::Uint(1 << 63)),
            ("18446744073709551616", Scalar::Float(18446744073709551616.0)),
            ("1.5", Scalar::Float(1.5)),
            ("1.", Scalar::Float(1.0)),
            (".5", Scalar::Float(0.5)),
            ("1e3", Scalar::Float(1000.0)),
            ("1e400", text("1e400")),
            (".", text(".")),
            ("-", text("-")),
            ("1.2.3", text("1.2.3")),
            ("1:30", text("1:30")),
            (".inf", Scalar::Float(f64::INFINITY)),
            ("2020-01-01", time("2020-01-01")),
            ("2020-1-1T1:2:3Z", time("2020-1-1T1:2:3Z")),
            ("2020-02-30", text("2020-02-30")),
            ("2020-01-01 10:00:00.5", time("2020-01-01 10:00:00.5")),
            ("2020-01-01T10:00:00+02:00", time("2020-01-01T10:00:00+02:00")),
            ("2020-01-01 10:00", text("2020-01-01 10:00")),
            ("0x", text("0x")),
        ] {
            assert_eq!(resolve("", input).unwrap(), want, "{input:?}");
        }
    }

    #[test]
    fn tags_are_believed_or_refused() {
        let tag = |name: &str| format!("{LONG_TAG}{name}");
        assert_eq!(resolve(&tag("str"), "1").unwrap(), Scalar::Text("1".into()));
        assert_eq!(resolve(&tag("float"), "1").unwrap(), Scalar::Float(1.0));
        assert_eq!(resolve("!custom", "1").unwrap(), Scalar::Text("1".into()));
        let error = resolve(&tag("int"), "x").unwrap_err();
        assert_eq!(error.message, "cannot decode !!str `x` as a !!int");
    }
}
