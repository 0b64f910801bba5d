//! [`Client::get`]: fetches a document, as Go's HTTP client does it.

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, StatusCode, Uri, header};
use object::quote;
use tokio::time::Instant;

use crate::client::{Client, body, read};
use crate::{CallError, Error};

/// How many redirects are followed.
const REDIRECTS_MAX: usize = 10;

/// A response with its whole body.
#[derive(Clone, Debug)]
pub struct Fetched {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl Client {
    /// Fetches a document of at most `bytes_max` bytes before the deadline. Redirects are followed; the bearer token is only sent
    /// to the host that it is meant for.
    pub async fn get(
        &self,
        url: &str,
        token: Option<&str>,
        deadline: Instant,
        bytes_max: usize,
    ) -> Result<Fetched, CallError> {
        let failed = |url: &str, error| CallError::Transport { operation: "Get", url: quote(url), error };
        let first: Uri = parse(url).map_err(|error| failed(url, error))?;
        let mut target = first.clone();
        for _ in 0..=REDIRECTS_MAX {
            let shown = target.to_string();
            let token = token.filter(|_| target.host() == first.host());
            let sent = tokio::time::timeout_at(deadline, self.fetch(target.clone(), token)).await;
            let response = sent.map_err(|_| failed(&shown, Error::Deadline))?.map_err(|error| failed(&shown, error))?;
            let (head, incoming) = response.into_parts();
            if let Some(next) = redirected(head.status, &head.headers) {
                target = resolve(&target, next).map_err(|error| failed(next, error))?;
                continue;
            }
            let read = tokio::time::timeout_at(deadline, read(incoming, bytes_max)).await;
            let body = read.map_err(|_| failed(&shown, Error::Deadline))?.map_err(|error| failed(&shown, error))?;
            return Ok(Fetched { status: head.status, headers: head.headers, body });
        }
        let error = Error::Exchange(format!("stopped after {REDIRECTS_MAX} redirects"));
        Err(failed(&target.to_string(), error))
    }

    async fn fetch(&self, target: Uri, token: Option<&str>) -> Result<http::Response<hyper::body::Incoming>, Error> {
        let mut request =
            http::Request::get(target).body(body(Bytes::new())).map_err(|error| Error::Settings(error.to_string()))?;
        if let Some(token) = token {
            let value = HeaderValue::from_str(&format!("Bearer {token}"));
            let mut value = value.map_err(|_| Error::Settings("net/http: invalid header field value".into()))?;
            value.set_sensitive(true);
            request.headers_mut().insert(header::AUTHORIZATION, value);
        }
        self.send(request).await
    }
}

fn parse(url: &str) -> Result<Uri, Error> {
    url.parse().map_err(|error: http::uri::InvalidUri| Error::Settings(error.to_string()))
}

fn redirected(status: StatusCode, headers: &HeaderMap) -> Option<&str> {
    let follows = matches!(status.as_u16(), 301 | 302 | 303 | 307 | 308);
    headers.get(header::LOCATION)?.to_str().ok().filter(|_| follows)
}

/// Where a redirect leads: to another URL, or to another path of the same server.
fn resolve(from: &Uri, location: &str) -> Result<Uri, Error> {
    if location.contains("://") {
        return parse(location);
    }
    let base = from.path().rsplit_once('/').map_or("", |(base, _)| base);
    let path = if location.starts_with('/') { location.to_string() } else { format!("{base}/{location}") };
    let (scheme, authority) =
        (from.scheme_str().unwrap_or("https"), from.authority().map_or("", |known| known.as_str()));
    let built = Uri::builder().scheme(scheme).authority(authority).path_and_query(path).build();
    built.map_err(|error| Error::Settings(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redirects_are_resolved() {
        let from: Uri = "https://a:1/x/y?q".parse().unwrap();
        for (location, want) in [("https://b/z", "https://b/z"), ("/z?w", "https://a:1/z?w"), ("z", "https://a:1/x/z")]
        {
            assert_eq!(resolve(&from, location).unwrap().to_string(), want);
        }
    }
}
