//! Parses query strings.

use http::Uri;

/// The decoded parameters of a query string, in order. As Go's URL.Query, it leaves out those with a broken escape or a semicolon.
pub fn query(uri: &Uri) -> Vec<(String, String)> {
    let Some(text) = uri.query() else { return Vec::new() };
    let decode = |part: &str| request::unescape(&part.replace('+', " "));
    text.split('&')
        .filter(|pair| !pair.is_empty() && !pair.contains(';'))
        .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
        .filter_map(|(key, value)| Some((decode(key)?, decode(value)?)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_decode() {
        let uri: Uri = "/x?a=b%3Dc&d=&e&labelSelector=x+in+(y)&bad=%zz&worse=%+1&a;b=c".parse().unwrap();
        let got = query(&uri);
        let want = [("a", "b=c"), ("d", ""), ("e", ""), ("labelSelector", "x in (y)")];
        assert_eq!(got, want.map(|(k, v)| (k.to_string(), v.to_string())));
    }
}
