//! Parses query strings.

use http::Uri;

/// The decoded parameters of a query string, in order.
pub fn query(uri: &Uri) -> Vec<(String, String)> {
    let Some(text) = uri.query() else { return Vec::new() };
    let decode = |part: &str| percent_decode(&part.replace('+', " "));
    text.split('&')
        .filter(|pair| !pair.is_empty())
        .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
        .map(|(key, value)| (decode(key), decode(value)))
        .collect()
}

/// Percent-decodes; a broken escape is kept as it stands.
fn percent_decode(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let escaped = (bytes[at] == b'%')
            .then(|| bytes.get(at + 1..at + 3))
            .flatten()
            .and_then(|hex| std::str::from_utf8(hex).ok())
            .and_then(|hex| u8::from_str_radix(hex, 16).ok());
        match escaped {
            Some(byte) => {
                out.push(byte);
                at += 3;
            }
            None => {
                out.push(bytes[at]);
                at += 1;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_decode() {
        let uri: Uri = "/x?a=b%3Dc&d=&e&labelSelector=x+in+(y)&bad=%zz".parse().unwrap();
        let got = query(&uri);
        let want = [("a", "b=c"), ("d", ""), ("e", ""), ("labelSelector", "x in (y)"), ("bad", "%zz")];
        assert_eq!(got, want.map(|(k, v)| (k.to_string(), v.to_string())));
    }
}
