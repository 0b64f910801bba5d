//! `--cors-allowed-origins`: which web pages' scripts may send requests to the server.

use http::{HeaderMap, HeaderValue, header};
use regex::Regex;

/// The allowed origins, as regular expressions.
#[derive(Clone, Debug, Default)]
pub struct Cors {
    origins: Vec<Regex>,
}

const METHODS: HeaderValue = HeaderValue::from_static("POST, GET, OPTIONS, PUT, DELETE, PATCH");
const HEADERS: HeaderValue = HeaderValue::from_static(
    "Content-Type, Content-Length, Accept-Encoding, X-CSRF-Token, Authorization, X-Requested-With, If-Modified-Since",
);

impl Cors {
    pub fn new(patterns: &[String]) -> Result<Cors, String> {
        let origins = patterns.iter().map(|pattern| {
            // Without anchors an expression would also allow longer host names that contain a match.
            let anchored = pattern.starts_with('^') || pattern.contains("//");
            let bounded = pattern.ends_with('$') || pattern.ends_with("(:|$)") || pattern.ends_with(':');
            if pattern.is_empty() || !(anchored && bounded) {
                tracing::warn!(pattern, "--cors-allowed-origins: the pattern does not pin a whole host name");
            }
            Regex::new(pattern).map_err(|error| format!("Invalid CORS allowed origin {pattern:?}: {error}"))
        });
        Ok(Cors { origins: origins.collect::<Result<_, _>>()? })
    }

    /// The CORS headers of the response; None if the request's origin is not allowed.
    pub fn allow(&self, request: &HeaderMap) -> Option<HeaderMap> {
        if self.origins.is_empty() {
            return None;
        }
        let origin = request.get(header::ORIGIN)?;
        let text = origin.to_str().ok().filter(|text| !text.is_empty())?;
        self.origins.iter().any(|pattern| pattern.is_match(text)).then(|| {
            let mut headers = HeaderMap::new();
            headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin.clone());
            headers.insert(header::ACCESS_CONTROL_ALLOW_METHODS, METHODS);
            headers.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, HEADERS);
            headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static("Date"));
            headers.insert(header::ACCESS_CONTROL_ALLOW_CREDENTIALS, HeaderValue::from_static("true"));
            headers
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_known_origins_are_let_in() {
        let cors = Cors::new(&["//example\\.com(:|$)".to_string()]).unwrap();
        let ask = |origin: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::ORIGIN, HeaderValue::from_static(origin));
            cors.allow(&headers).map(|headers| headers[header::ACCESS_CONTROL_ALLOW_ORIGIN].clone())
        };
        assert_eq!(ask("https://example.com").unwrap(), "https://example.com");
        assert_eq!(ask("https://example.com:8443").unwrap(), "https://example.com:8443");
        assert_eq!(ask("https://example.com.evil"), None);
        assert_eq!(cors.allow(&HeaderMap::new()), None);
        assert!(Cors::new(&["(".to_string()]).is_err());
    }
}
