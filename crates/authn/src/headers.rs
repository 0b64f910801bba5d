//! Headers that name a user. One that cannot be read is an error: dropping it would leave another identity in force.

use http::HeaderMap;

/// A header that names a user, a group or a credential and is not UTF-8.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the header {0} is not valid UTF-8")]
pub struct Unreadable(String);

/// All values of a header, in order.
pub fn texts<'a>(headers: &'a HeaderMap, name: &str) -> Result<Vec<&'a str>, Unreadable> {
    let values = headers.get_all(name).iter();
    values.map(|value| std::str::from_utf8(value.as_bytes()).map_err(|_| Unreadable(canonical(name)))).collect()
}

/// The key of an extra value, from a header's name such as `impersonate-extra-acme.io%2fproject`: header names cannot hold every
/// key, so keys are percent-encoded in them. A broken escape leaves the key as it is.
pub fn extra_key(name: &str, prefix: &str) -> Result<String, Unreadable> {
    let encoded = name.get(prefix.len()..).unwrap_or("");
    match unescape(encoded) {
        Some(bytes) => String::from_utf8(bytes).map_err(|_| Unreadable(canonical(name))),
        None => Ok(encoded.to_string()),
    }
}

fn unescape(text: &str) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        let mut digit = || char::from(bytes.next()?).to_digit(16);
        out.push(if byte == b'%' { u8::try_from(digit()? * 16 + digit()?).ok()? } else { byte });
    }
    Some(out)
}

/// A header's name as Go writes it: `Impersonate-User`.
fn canonical(name: &str) -> String {
    let words = name.split('-').map(|word| {
        let (first, rest) = word.split_at(word.len().min(1));
        first.to_uppercase() + rest
    });
    words.collect::<Vec<_>>().join("-")
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn extra_keys_are_unescaped() {
        for (name, want) in [
            ("x-acme.io%2fproject", Ok("acme.io/project")),
            ("x-%41", Ok("A")),
            ("x-%4", Ok("%4")),
            ("x-%zz", Ok("%zz")),
            ("x-", Ok("")),
            ("x-%ff", Err("the header X-%ff is not valid UTF-8")),
        ] {
            let got = extra_key(name, "x-").map_err(|error| error.to_string());
            assert_eq!(got, want.map(str::to_string).map_err(str::to_string), "{name}");
        }
    }

    #[test]
    fn values_are_utf8() {
        let mut headers = HeaderMap::new();
        headers.append("remote-user", HeaderValue::from_bytes("jürgen".as_bytes()).unwrap());
        assert_eq!(texts(&headers, "remote-user"), Ok(vec!["jürgen"]));
        headers.append("remote-user", HeaderValue::from_bytes(b"j\xfcrgen").unwrap());
        assert_eq!(texts(&headers, "remote-user"), Err(Unreadable("Remote-User".into())));
    }
}
