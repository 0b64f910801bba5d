//! Formats that are codes: identifiers, checksummed numbers, colours, base64.

/// Hexadecimal digits in groups of 8, 4, 4, 4 and 12, with or without dashes; of one version if asked.
pub fn is_uuid(text: &str, version: Option<char>) -> bool {
    let mut rest = text;
    let mut digits = String::with_capacity(32);
    for (at, length) in [8, 4, 4, 4, 12].into_iter().enumerate() {
        if at > 0 {
            rest = rest.strip_prefix('-').unwrap_or(rest);
        }
        let Some((group, after)) = rest.split_at_checked(length) else { return false };
        if !group.bytes().all(|b| b.is_ascii_hexdigit()) {
            return false;
        }
        digits.push_str(group);
        rest = after;
    }
    let variant = digits.as_bytes()[16].to_ascii_lowercase();
    rest.is_empty()
        && version.is_none_or(|version| {
            digits[12..13].starts_with(version) && (version == '3' || matches!(variant, b'8' | b'9' | b'a' | b'b'))
        })
}

pub fn is_isbn10(text: &str) -> bool {
    let text = without_separators(text);
    if text.len() != 10 {
        return false;
    }
    let mut sum = 0;
    for (at, b) in text.bytes().enumerate() {
        let digit = match b {
            b'0'..=b'9' => u32::from(b - b'0'),
            b'X' if at == 9 => 10,
            _ => return false,
        };
        sum += (at as u32 + 1) * digit;
    }
    sum % 11 == 0
}

pub fn is_isbn13(text: &str) -> bool {
    let text = without_separators(text);
    if text.len() != 13 || !text.bytes().all(|b| b.is_ascii_digit()) {
        return false;
    }
    let weighted = text.bytes().enumerate().map(|(at, b)| u32::from(b - b'0') * if at % 2 == 0 { 1 } else { 3 });
    weighted.sum::<u32>() % 10 == 0
}

fn without_separators(text: &str) -> String {
    text.chars().filter(|c| !matches!(c, '-' | ' ' | '\t' | '\n' | '\r' | '\u{c}')).collect()
}

/// A number of one of the big issuers with a right checksum, whatever stands between the digits.
pub fn is_credit_card(text: &str) -> bool {
    let digits: Vec<u32> = text.bytes().filter(u8::is_ascii_digit).map(|b| u32::from(b - b'0')).collect();
    let starts = |low: u32, high: u32, length: usize| {
        let prefix = digits.iter().take(length).fold(0, |number, digit| number * 10 + digit);
        (low..=high).contains(&prefix)
    };
    let issued = match digits.len() {
        13 => starts(4, 4, 1),
        14 => starts(300, 305, 3) || starts(36, 36, 2) || starts(38, 38, 2),
        15 => starts(34, 34, 2) || starts(37, 37, 2) || starts(2131, 2131, 4) || starts(1800, 1800, 4),
        16 => starts(4, 4, 1) || starts(51, 55, 2) || starts(6011, 6011, 4) || starts(65, 65, 2) || starts(35, 35, 2),
        _ => false,
    };
    let sum: u32 = digits
        .iter()
        .rev()
        .enumerate()
        .map(|(at, &digit)| match (at % 2, digit * 2) {
            (0, _) => digit,
            (_, twice) if twice >= 10 => twice % 10 + 1,
            (_, twice) => twice,
        })
        .sum();
    issued && sum.is_multiple_of(10)
}

/// `123-45-6789`, also with spaces.
pub fn is_ssn(text: &str) -> bool {
    text.len() == 11
        && text.bytes().enumerate().all(|(at, b)| match at {
            3 | 6 => matches!(b, b'-' | b' '),
            _ => b.is_ascii_digit(),
        })
}

pub fn is_hex_color(text: &str) -> bool {
    let digits = text.strip_prefix('#').unwrap_or(text);
    matches!(digits.len(), 3 | 6) && digits.bytes().all(|b| b.is_ascii_hexdigit())
}

/// `rgb(1, 2, 3)`.
pub fn is_rgb_color(text: &str) -> bool {
    let Some(inner) = text.strip_prefix("rgb(").and_then(|rest| rest.strip_suffix(')')) else { return false };
    let parts: Vec<&str> = inner.split(',').collect();
    let space = |c: char| matches!(c, ' ' | '\t' | '\n' | '\r' | '\u{c}');
    let is_part = |part: &str| {
        let part = part.trim_matches(space);
        let plain = !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
        plain && (part == "0" || !part.starts_with('0')) && part.parse::<u8>().is_ok()
    };
    parts.len() == 3 && parts.into_iter().all(is_part)
}

/// Standard base64 with padding; upstream does not take the empty string.
pub fn is_base64(text: &str) -> bool {
    let digits = text.trim_end_matches('=');
    let padding = text.len() - digits.len();
    !text.is_empty()
        && text.len().is_multiple_of(4)
        && padding <= 2
        && digits.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'/'))
}
