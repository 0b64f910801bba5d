//! Cookies of requests: finding one by its name, and removing it from what is passed on.

use http::{HeaderMap, HeaderValue, header};

/// The value of a cookie; None if it is not there, or there more than once: a second one may have been planted.
pub fn find<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a [u8]> {
    let mut found = pairs(headers).filter_map(|pair| value(pair, name));
    let first = found.next()?;
    found.next().is_none().then_some(first)
}

/// Whether there is a cookie of this name, or more than one.
pub fn is_sent(headers: &HeaderMap, name: &str) -> bool {
    pairs(headers).any(|pair| value(pair, name).is_some())
}

/// Removes a cookie and leaves the others.
pub fn strip(headers: &mut HeaderMap, name: &str) {
    if !is_sent(headers, name) {
        return;
    }
    let others: Vec<&[u8]> = pairs(headers).filter(|pair| value(pair, name).is_none()).collect();
    match HeaderValue::from_bytes(&others.join(&b"; "[..])) {
        Ok(cookies) if !others.is_empty() => drop(headers.insert(header::COOKIE, cookies)),
        _ => drop(headers.remove(header::COOKIE)),
    }
}

/// Removes an answer's settings of a cookie and leaves those of others.
pub fn strip_settings(headers: &mut HeaderMap, name: &str) {
    let settings: Vec<HeaderValue> = headers.get_all(header::SET_COOKIE).iter().cloned().collect();
    headers.remove(header::SET_COOKIE);
    for setting in settings.into_iter().filter(|setting| value(setting.as_bytes().trim_ascii(), name).is_none()) {
        headers.append(header::SET_COOKIE, setting);
    }
}

/// As bytes: a header that is not text all over may hold the cookie, too.
fn pairs(headers: &HeaderMap) -> impl Iterator<Item = &[u8]> {
    let values = headers.get_all(header::COOKIE).iter().map(HeaderValue::as_bytes);
    values.flat_map(|value| value.split(|byte| *byte == b';')).map(<[u8]>::trim_ascii).filter(|pair| !pair.is_empty())
}

fn value<'a>(pair: &'a [u8], name: &str) -> Option<&'a [u8]> {
    let at = pair.iter().position(|byte| *byte == b'=')?;
    let (key, value) = (pair.get(..at)?, pair.get(at + 1..)?);
    (key.trim_ascii() == name.as_bytes()).then(|| value.trim_ascii())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cookie_is_found_and_removed_and_others_stay() {
        for (cookies, want, left) in [
            (&["s=1"][..], Some("1"), &[][..]),
            (&["a=b; s=1; c=d"], Some("1"), &["a=b; c=d"]),
            (&["a=b", "s=1"], Some("1"), &["a=b"]),
            (&["s=1; s=2"], None, &[]),
            (&["s=1", "a=b;s=2"], None, &["a=b"]),
            (&["xs=1; s"], None, &["xs=1; s"]),
            (&["s=a=b"], Some("a=b"), &[]),
            (&["s =1"], Some("1"), &[]),
            (&[], None, &[]),
        ] {
            let mut headers = HeaderMap::new();
            for cookie in cookies {
                headers.append(header::COOKIE, HeaderValue::from_static(cookie));
            }
            assert_eq!(find(&headers, "s"), want.map(str::as_bytes), "{cookies:?}");
            strip(&mut headers, "s");
            let rest: Vec<&str> = headers.get_all(header::COOKIE).iter().map(|value| value.to_str().unwrap()).collect();
            assert_eq!(rest, left, "{cookies:?}");
        }
    }

    #[test]
    fn a_cookie_is_removed_among_bytes_that_are_not_text() {
        let mut headers = HeaderMap::new();
        headers.insert(header::COOKIE, HeaderValue::from_bytes(b"a=\xff; s=1").unwrap());
        strip(&mut headers, "s");
        assert_eq!(headers[header::COOKIE].as_bytes(), b"a=\xff");
    }
}
