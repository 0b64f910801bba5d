//! The formats that schemas can ask for.

mod address;
mod code;
mod net;
mod time;

use object::duration;

/// Formats of strings, without dashes: `date-time` and `datetime` are one.
const STRINGS: [&str; 26] = [
    "bsonobjectid",
    "uri",
    "email",
    "hostname",
    "ipv4",
    "ipv6",
    "cidr",
    "mac",
    "uuid",
    "uuid3",
    "uuid4",
    "uuid5",
    "isbn",
    "isbn10",
    "isbn13",
    "creditcard",
    "ssn",
    "hexcolor",
    "rgbcolor",
    "byte",
    "password",
    "date",
    "duration",
    "datetime",
    "k8sshortname",
    "k8slongname",
];

/// Whether a format means something for values of this OpenAPI type ("" for several or none).
pub fn is_known_format(kind: &str, format: &str) -> bool {
    match kind {
        _ if format.is_empty() => false,
        "" | "string" => STRINGS.contains(&normalised(format).as_str()),
        "integer" => matches!(format, "int32" | "int64"),
        "number" => matches!(format, "float" | "double"),
        _ => false,
    }
}

/// Whether a text has the format; none where the format is not one of strings.
pub fn check(format: &str, text: &str) -> Option<bool> {
    if format.is_empty() {
        return None;
    }
    Some(match normalised(format).as_str() {
        "bsonobjectid" => text.len() == 24 && text.bytes().all(|b| b.is_ascii_hexdigit()),
        "uri" => net::is_request_uri(text),
        "email" => address::is_email(text),
        "hostname" => net::is_hostname(text),
        "ipv4" => net::is_ipv4(text),
        "ipv6" => net::is_ipv6(text),
        "cidr" => net::is_cidr(text),
        "mac" => net::is_mac(text),
        "uuid" => code::is_uuid(text, None),
        "uuid3" => code::is_uuid(text, Some('3')),
        "uuid4" => code::is_uuid(text, Some('4')),
        "uuid5" => code::is_uuid(text, Some('5')),
        "isbn" => code::is_isbn10(text) || code::is_isbn13(text),
        "isbn10" => code::is_isbn10(text),
        "isbn13" => code::is_isbn13(text),
        "creditcard" => code::is_credit_card(text),
        "ssn" => code::is_ssn(text),
        "hexcolor" => code::is_hex_color(text),
        "rgbcolor" => code::is_rgb_color(text),
        "byte" => code::is_base64(text),
        "password" => true,
        "date" => time::is_date(text),
        "duration" => duration::Duration::parse(text).is_ok() || time::is_wordy_duration(text),
        "datetime" => time::is_date_time(text),
        "k8sshortname" => is_short_name(text),
        "k8slongname" => text.len() <= 253 && text.split('.').all(is_name_part),
        _ => return None,
    })
}

fn normalised(format: &str) -> String {
    format.replace('-', "")
}

fn is_short_name(text: &str) -> bool {
    text.len() <= 63 && is_name_part(text)
}

fn is_name_part(text: &str) -> bool {
    let inner = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let bytes = text.as_bytes();
    bytes.iter().all(|&b| inner(b) || b == b'-')
        && bytes.first().is_some_and(|&b| inner(b))
        && bytes.last().is_some_and(|&b| inner(b))
}

#[cfg(test)]
mod tests;
